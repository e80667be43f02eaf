package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
)

var (
	endBackend = sql.Named("postgres/end_backend")
	isSettled  = sql.Named("postgres/settled")
)

// Bounds of reading back.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
	tryTimeout   = 10 * time.Second // of one try, with its connect
	patience     = 10 * time.Second // after the task was asked to end
	lastPatience = time.Second      // after the task was told to end at once
)

// readBack finds out whether a COMMIT was done after its reply was lost. lost is the error of the COMMIT. It returns nil if it was
// done, a lostError if it was rolled back, queue.ErrLeaseLost if another driver has gone on with the run, and a permanent failure
// if it could not find out.
//
// It tries until it knows, and for a while even after the task was asked to end: if it reported a failure of a COMMIT that was
// done, a retry would have the effect a second time.
func (t *transaction) readBack(ctx context.Context, lost error) error {
	fmt.Fprintf(t.task.Stderr, "the reply of COMMIT was lost (%s): the worker checks whether the transaction committed\n", plain(lost))
	ctx, cancel := linger(ctx, t.task.Now)
	defer cancel()
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstPause, longestPause
	done, err := backoff.Retry(ctx, func() (bool, error) { return t.ask(ctx) }, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0))
	switch {
	case errors.Is(err, queue.ErrLeaseLost):
		return err
	case err != nil:
		return &failure{kind: dagrun.KindSQL, reason: "the connection broke during COMMIT: check whether the database has the changes before you retry the step", permanent: true}
	case !done:
		return &lostError{&failure{kind: dagrun.KindSQL, reason: "the connection was lost before COMMIT: the transaction was rolled back"}}
	}
	return nil
}

// linger returns a context that lives on after ctx has ended: for patience, or for lastPatience once now is closed as well. As long
// as ctx has not ended, now has no effect. The caller must call the function to end the context.
func linger(ctx context.Context, now <-chan struct{}) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(patience):
		case <-now:
			select {
			case <-time.After(lastPatience):
			case <-longer.Done():
			}
		case <-longer.Done():
		}
		cancel()
	})
	return longer, func() { stop(); cancel() }
}

// ask reads back once whether the COMMIT was done, on a new connection in place of the broken one. Without an error the answer is
// final: the backend of the COMMIT has ended, and no transaction that could still settle the task is open. It returns a permanent
// queue.ErrLeaseLost if another driver has gone on with the run. After any other error the caller may ask again.
func (t *transaction) ask(ctx context.Context) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	if err := t.session.again(ctx); err != nil {
		return false, err
	}
	var gone bool
	if err := t.session.conn.QueryRow(ctx, endBackend, outsideMode, t.backend.pid, t.backend.started).Scan(&gone); err != nil || !gone {
		return false, errors.Join(err, errNoOutcome)
	}
	s := t.task.Settlement("")
	var attempt int
	err = t.session.conn.QueryRow(ctx, isSettled, outsideMode, pgx.StrictNamedArgs{
		"run": s.Claim.Run, "step": s.Task.Step, "item": s.Task.Item, "alt": s.Task.Alt, "attempt": s.Attempt,
	}).Scan(&attempt, &done)
	if errors.Is(err, pgx.ErrNoRows) || err == nil && attempt != s.Attempt {
		return false, backoff.Permanent(queue.ErrLeaseLost) // another driver has gone on with the run
	}
	return done, err
}
