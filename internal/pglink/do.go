package pglink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Bounds of Do: about four seconds of waiting in all, so that a restart of the server is survived and an outage is not
// waited out.
const (
	maxTries      = 8
	firstPause    = 20 * time.Millisecond
	longestPause  = 1500 * time.Millisecond
	verifyTimeout = 5 * time.Second // of a call that has no deadline, or is over
	longestVerify = 5 * time.Minute
)

// ErrUnknown marks that nobody knows whether a write happened: its reply was lost, and so was every attempt to read
// back. Treat it as "maybe applied".
var ErrUnknown = errors.New("outcome unknown")

// Do runs a write and answers for its outcome, even when the reply is lost.
//
// op does the write, in one statement or one transaction. What is known not to have happened is tried again, a few
// times, with growing pauses. When the connection dies or the deadline passes in the middle, nobody told whether the
// write happened: verify reads it back by its natural key, on another connection, and says done or not. nil means
// that the write is there; ErrUnknown that even reading back failed; any other error that it is not.
//
// verify must answer "not done" only once the first copy can no longer land: because op does nothing when its row is
// there already (ON CONFLICT DO NOTHING on the natural key), or because the old backend is seen gone. It has as long as
// the deadline of ctx leaves, up to five minutes, since reading back may be as much work as the write. It is asked even
// when ctx has ended, and goes on for five seconds then, so that a caller who gave up still learns what happened.
func Do(ctx context.Context, op func(context.Context) error, verify func(context.Context) (done bool, err error)) error {
	w := write{op: op, verify: verify}
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, w.try(ctx) },
		backoff.WithBackOff(pauses()), backoff.WithMaxTries(maxTries))
	if err != nil && w.last != nil && !errors.Is(err, w.last) {
		return fmt.Errorf("%w: %w", err, w.last) // the context ended a pause: say what it was waiting for
	}
	return err
}

func pauses() *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.Multiplier, b.MaxInterval = firstPause, 2, longestPause
	return b
}

type write struct {
	op      func(context.Context) error
	verify  func(context.Context) (bool, error)
	last    error // why the last try failed, with what came of reading back
	cause   error // why op failed, without
	replans int
	unsure  bool // an earlier try may have landed
}

// try runs op once, or first settles what became of an earlier try. An error that backoff may retry is returned
// bare, any other as permanent.
func (w *write) try(ctx context.Context) error {
	if w.unsure {
		if done, err := w.settle(ctx); done || err != nil {
			return err
		}
	}
	err := w.op(ctx)
	w.last, w.cause = err, err
	switch Classify(err) {
	case OK:
		return nil
	case NotExecuted:
		return err
	case Aborted:
		return w.replan(err)
	case SessionLost:
		w.unsure = true
		if done, verr := w.settle(ctx); done || verr != nil {
			return verr
		}
		return err
	default:
		return backoff.Permanent(err)
	}
}

// settle reads back what became of the last try. It leaves unsure set while nobody knows.
func (w *write) settle(ctx context.Context) (done bool, err error) {
	bounded, cancel := outlasting(ctx)
	defer cancel()
	done, err = w.verify(bounded)
	if err == nil {
		w.unsure = false
		return done, nil
	}
	w.last = fmt.Errorf("%w: %w (reading back: %w)", ErrUnknown, w.cause, err)
	if c := Classify(err); c == Permanent || c == WrongNode {
		return false, backoff.Permanent(w.last)
	}
	return false, w.last
}

// outlasting is a context for reading back: it ends with the deadline of ctx, but not before verifyTimeout has passed,
// and that long after ctx was canceled.
func outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	within := verifyTimeout
	if deadline, has := ctx.Deadline(); has && ctx.Err() == nil {
		within = min(max(time.Until(deadline), verifyTimeout), longestVerify)
	}
	return outliving(ctx, within, verifyTimeout)
}

// outliving is a context that goes on for rest after the end of ctx, and for most in all.
func outliving(ctx context.Context, most, rest time.Duration) (context.Context, context.CancelFunc) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	listening := context.AfterFunc(ctx, func() { time.AfterFunc(rest, cancel) })
	return bounded, func() { listening(); cancel() }
}

// replan tries 0A000 once more: a cached plan is then made anew, a feature that is missing stays missing.
func (w *write) replan(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "0A000" {
		if w.replans++; w.replans > 1 {
			return backoff.Permanent(err)
		}
	}
	return err
}
