package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/worker"
)

// TxFunc is an action as a Go function that gets a transaction on the run's own database. Its changes there become durable together
// with the outcome of the task, exactly once. An error, a snooze and a panic mean the same as in a worker.Func, and roll the
// transaction back. The attempt is lost if the function returns the error of a connection that broke: it should wrap errors of the
// transaction, not replace them. The function must not commit or roll back itself; it may use savepoints.
type TxFunc func(ctx context.Context, tx pgx.Tx, task *worker.Task) (worker.Outputs, error)

// Func returns an executor that calls f in a transaction. It uses the connection Own, with a role that must be able to settle:
// otherwise tasks fail as kind config, and f is not called.
func (a *Action) Func(f TxFunc) worker.Executor { return &txAction{a, f} }

type txAction struct {
	action *Action
	call   TxFunc
}

// Execute implements worker.Executor: it calls the function like a worker.Func, in a transaction that settles the task. A publish
// fails as kind config.
func (x *txAction) Execute(ctx context.Context, task *worker.Task) dagrun.Result {
	d, err := x.action.find(Own)
	if err != nil {
		return result(ctx, task, err)
	}
	if task.Publish {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: "a publish cannot commit together with the outcome of its step: use a worker.Func"}
	}
	var ours error // error outside of the function
	var outputs dagrun.JSON
	quiet := *task
	quiet.Started = func() {} // transact calls Started once it has a connection
	res := worker.Func(func(ctx context.Context, _ *worker.Task) (_ worker.Outputs, err error) {
		outputs, err, ours = x.inTx(ctx, task, d)
		return nil, cmp.Or(err, ours)
	}).Execute(ctx, &quiet)
	if ours != nil && !res.Permanent && res.SnoozeUntil == 0 {
		explain(task, ours)
		return result(ctx, task, ours)
	}
	if res.Kind == dagrun.KindNone {
		res.Outputs = outputs // the outputs that were settled
	}
	return res
}

// inTx calls the function in a transaction on d, which settles the task. theirs is the error of the function, ours any other error.
// Both are set if the function returned an error because the database went away. A connection that cannot settle is an error: then
// the function is not called.
func (x *txAction) inTx(ctx context.Context, task *worker.Task, d *database) (outputs dagrun.JSON, theirs, ours error) {
	ours = x.action.transact(ctx, task, d, options{}, func(ctx context.Context, t *transaction) (dagrun.JSON, error) {
		if t.life == nil {
			return "", &failure{kind: dagrun.KindConfig, reason: "connection " + Own + " does not lead to the run's own database, or its role has no right to settle tasks there"}
		}
		var out worker.Outputs
		if out, theirs = x.call(ctx, held{t.tx}, task); theirs != nil {
			return "", theirs
		}
		var err error
		outputs, err = marshal(out)
		return outputs, err
	})
	if _, lost := errors.AsType[*lostError](ours); theirs != nil && !lost {
		return "", theirs, nil
	}
	return outputs, theirs, ours
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

// held is a transaction that the function cannot end itself.
type held struct{ pgx.Tx }

func (held) Commit(context.Context) error {
	return errors.New("the transaction commits together with the task's outcome: return instead of calling Commit")
}

func (held) Rollback(context.Context) error {
	return errors.New("the transaction is rolled back when the function returns an error: return an error instead")
}
