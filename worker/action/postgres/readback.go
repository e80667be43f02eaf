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
	tryTimeout   = 10 * time.Second // of one try, connecting included
	patience     = 10 * time.Second // when the task is to end meanwhile
	lastPatience = time.Second      // when there is no time
)

// readBack finds out what became of a COMMIT whose reply was lost: nil, it is done. It asks until it knows, for a while
// also after the task was told to end: to say "failed" of what is done would be to do it twice.
func (t *transaction) readBack(ctx context.Context, lost error) error {
	fmt.Fprintf(t.task.Stderr, "the reply of COMMIT was lost (%s): reading back\n", plain(lost))
	ctx, cancel := linger(ctx, t.task.Now)
	defer cancel()
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = firstPause, longestPause
	done, err := backoff.Retry(ctx, func() (bool, error) { return t.ask(ctx) }, backoff.WithBackOff(pauses), backoff.WithMaxElapsedTime(0))
	switch {
	case errors.Is(err, queue.ErrLeaseLost):
		return err
	case err != nil:
		return &failure{kind: dagrun.KindSQL, reason: "nobody knows whether COMMIT was done: look before you retry the step", permanent: true}
	case !done:
		return &failure{kind: dagrun.KindSQL, reason: "the connection was lost before COMMIT: rolled back"}
	}
	return nil
}

// linger is a context that ends a while after ctx, and soon when there is no time for that.
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

// ask reads back once, on a new connection in the place of the one that broke. The answer is final: the backend that had
// the COMMIT is gone, or else the lock on the task waited for it.
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
		return false, backoff.Permanent(queue.ErrLeaseLost) // somebody else has gone on with the run
	}
	return done, err
}
