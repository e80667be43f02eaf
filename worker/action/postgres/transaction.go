package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
	"github.com/oarlock-dev/oarlock/worker"
)

var (
	beginTask    = sql.Named("postgres/begin")
	readySettle  = sql.Named("postgres/settling")
	errNoOutcome = errors.New("the transaction has no outcome yet")
)

// Bounds of the end of a transaction.
const (
	rollbackTimeout = 5 * time.Second
	commitTimeout   = 30 * time.Second // or the statement timeout if that is longer, because deferred checks run then
	settleLock      = 5 * time.Second  // how long settling waits for a flush of the same run
	maxNameBytes    = 63               // longest application_name that Postgres keeps
)

// transaction is the transaction of a task.
type transaction struct {
	task    *worker.Task
	session *session
	life    *life // nil: the task does not settle
	tx      pgx.Tx
	options options
	backend backend // set when the transaction is about to settle
}

// backend identifies the server process of a transaction for another connection.
type backend struct {
	pid     int32
	started time.Time
}

// transact runs do in a transaction on a database, and commits. On the run's own database it first stores the outcome of the task,
// with the outputs that do returns. It waits for a connection of the budget. It rolls back on any error and on a panic. If the
// run's own database went away before anything was committed, transact returns a lostError.
func (a *Action) transact(ctx context.Context, task *worker.Task, d *database, o options, do func(context.Context, *transaction) (dagrun.JSON, error)) error {
	s, err := a.budget.take(ctx, d)
	if err != nil {
		if err = (&unbegunError{err}); d.name == Own && wentAway(err) {
			return &lostError{err}
		}
		return err
	}
	defer a.budget.give(s)
	s.listen(task.Stderr)
	t := &transaction{task: task, session: s, options: o.complete(d, task.Body)}
	if err = t.settles(ctx, a.life.Load()); err == nil {
		err = t.perform(ctx, do)
	}
	if own := d.name == Own || t.life != nil; own && s.conn.IsClosed() && wentAway(err) {
		return &lostError{err}
	}
	return err
}

// perform calls the task's Started, begins the transaction, calls do in it, and commits; the commit settles the task if t.life is
// set. It rolls back on any error and on a panic.
func (t *transaction) perform(ctx context.Context, do func(context.Context, *transaction) (dagrun.JSON, error)) error {
	t.task.Started()
	defer t.rollback()
	if err := t.begin(ctx); err != nil {
		return err
	}
	outputs, err := do(ctx, t)
	if err != nil {
		return err
	}
	return t.commit(ctx, outputs)
}

// settles decides whether the transaction stores the task's outcome, and sets t.life to l if it does. It asks the database. A
// read-only transaction does not: it may run again. Neither does a publish, nor any transaction while l is nil.
func (t *transaction) settles(ctx context.Context, l *life) error {
	if l == nil || t.task.Publish || t.options.tx.AccessMode == pgx.ReadOnly {
		return nil
	}
	own, err := l.owns(ctx, t.session, func(text string) { fmt.Fprintln(t.task.Stderr, text) })
	if own {
		t.life = l
	}
	return err
}

func (t *transaction) begin(ctx context.Context) (err error) {
	o := t.options
	if t.tx, err = t.session.conn.BeginTx(ctx, o.tx); err != nil {
		return err
	}
	_, err = t.tx.Exec(ctx, beginTask, nameOf(t.task), milliseconds(o.statement), milliseconds(o.lock))
	return err
}

// milliseconds returns a duration as the text of a setting, 1 at least; nil, for the server's default, if it is 0.
func milliseconds(d time.Duration) any {
	if d == 0 {
		return nil
	}
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}

// nameOf returns the application_name of a task in pg_stat_activity: run, step, item, attempt. It cuts the step and the item if the
// name is too long for Postgres.
func nameOf(task *worker.Task) string {
	step := task.Step
	if task.Item != "" {
		step += "/" + task.Item
	}
	run, attempt := "oarlock "+strconv.FormatInt(task.Run, 10)+" ", "#"+strconv.Itoa(task.Attempt)
	return run + step[:min(len(step), maxNameBytes-len(run)-len(attempt))] + attempt
}

// rollback rolls back if the transaction was not committed, and ignores errors. The caller need not know whether it was committed.
func (t *transaction) rollback() {
	if t.tx == nil || t.session.conn.IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackTimeout)
	defer cancel()
	_ = t.tx.Rollback(ctx) // a connection that cannot roll back is closed
}

// commit commits the transaction, and first stores the outcome of the task if the transaction settles. outputs are the outputs to
// store. If the reply of a settling COMMIT is lost, commit finds out by readBack whether it was done. Without settling, it returns
// a failure that says that nothing is known.
func (t *transaction) commit(ctx context.Context, outputs dagrun.JSON) error {
	if err := t.whole(); err != nil {
		return err
	}
	if err := t.task.CheckOutputs(outputs); err != nil {
		return tooMuch("%v", err)
	}
	if t.life != nil {
		if err := t.settle(ctx, outputs); err != nil {
			return err
		}
	}
	err := t.end(ctx)
	switch {
	case err == nil || pglink.Classify(err) != pglink.SessionLost:
		return err
	case t.options.tx.AccessMode == pgx.ReadOnly:
		return err // nothing was to be committed
	case t.life == nil:
		return &failure{kind: dagrun.KindSQL, reason: "the connection was lost during COMMIT, and it is unknown whether the database committed: " + plain(err)}
	}
	return t.readBack(ctx, err)
}

// end commits. It waits for commitTimeout, or for the statement timeout if that is longer, because a COMMIT without an answer
// blocks a worker that takes the run over.
func (t *transaction) end(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, max(commitTimeout, t.options.statement))
	defer cancel()
	return t.tx.Commit(ctx)
}

// whole returns an error if a commit would not store all that the task did: the connection is closed or busy, a statement failed,
// or the transaction was ended already.
func (t *transaction) whole() error {
	switch {
	case t.session.conn.IsClosed():
		return errors.New("the connection was closed")
	case t.session.conn.PgConn().IsBusy():
		return errors.New("the rows of a query were not read to the end: close the rows")
	case t.session.status() == idle:
		return &failure{kind: dagrun.KindSQL, reason: "the transaction was ended too early", permanent: true}
	case t.session.status() == isAborted:
		return errors.New("a statement failed, and its error was not returned: the transaction can only be rolled back")
	}
	return nil
}

// settle stores the outcome of the task in the transaction, and sets t.backend. It is the last step before COMMIT, because from
// here on the transaction blocks a worker that takes the run over.
func (t *transaction) settle(ctx context.Context, outputs dagrun.JSON) error {
	row := t.tx.QueryRow(ctx, readySettle, "oarlock/"+t.life.worker.String(), milliseconds(settleLock))
	if err := row.Scan(&t.backend.pid, &t.backend.started); err != nil {
		return fmt.Errorf("prepare to settle: %w", err)
	}
	return t.life.settler.SettleTx(ctx, t.tx, t.task.Settlement(outputs))
}
