package postgres

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/worker"
)

// TxFunc is a Go function that is an action, and gets a transaction on the run's own database. What it does there becomes
// durable together with its outcome, exactly once. With an error, a snooze or a panic, which mean what they mean in a
// worker.Func, the transaction is rolled back. It must neither commit nor roll back itself; savepoints are its own.
type TxFunc func(ctx context.Context, tx pgx.Tx, task *worker.Task) (worker.Outputs, error)

// Func makes an executor of a function. It uses the connection that is called Own, whose role must be able to settle.
func (a *Action) Func(f TxFunc) worker.Executor { return &txAction{a, f} }

type txAction struct {
	action *Action
	call   TxFunc
}

// Execute calls the function as a worker.Func in a transaction.
func (x *txAction) Execute(ctx context.Context, task *worker.Task) dagrun.Result {
	d, err := x.action.find(Own)
	if err != nil {
		return result(ctx, task, err)
	}
	if task.Publish {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: "a publish cannot commit together with its outcome: use a worker.Func"}
	}
	var ours error // what went wrong outside of the function
	var outputs dagrun.JSON
	quiet := *task
	quiet.Started = func() {} // transact says it, once there is a connection
	res := worker.Func(func(ctx context.Context, _ *worker.Task) (_ worker.Outputs, err error) {
		outputs, err, ours = x.inTx(ctx, task, d)
		return nil, errors.Join(err, ours)
	}).Execute(ctx, &quiet)
	if ours != nil {
		explain(task, ours)
		return result(ctx, task, ours)
	}
	if res.Kind == dagrun.KindNone {
		res.Outputs = outputs // as they were settled
	}
	return res
}

// inTx tells the function's own error from others.
func (x *txAction) inTx(ctx context.Context, task *worker.Task, d *database) (outputs dagrun.JSON, theirs, ours error) {
	ours = x.action.transact(ctx, task, d, options{}, func(ctx context.Context, t *transaction) (dagrun.JSON, error) {
		if t.life == nil {
			return "", &failure{kind: dagrun.KindConfig, reason: "connection " + Own + " does not lead to the run's own database, or its role may not settle tasks there"}
		}
		var out worker.Outputs
		if out, theirs = x.call(ctx, held{t.tx}, task); theirs != nil {
			return "", theirs
		}
		var err error
		outputs, err = marshal(out)
		return outputs, err
	})
	if theirs != nil {
		return "", theirs, nil
	}
	return outputs, nil, ours
}

func marshal(out worker.Outputs) (dagrun.JSON, error) {
	if out == nil {
		return "", nil
	}
	text, err := json.Marshal(out)
	if err != nil {
		return "", tooMuch("outputs: %v", err)
	}
	return dagrun.JSON(text), nil
}

// held is a transaction that somebody else ends.
type held struct{ pgx.Tx }

func (held) Commit(context.Context) error {
	return errors.New("the transaction commits together with the task's outcome: return instead")
}

func (held) Rollback(context.Context) error {
	return errors.New("the transaction is rolled back when the function returns an error: return one instead")
}
