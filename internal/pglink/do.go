package pglink

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Limits of Do. All pauses together last about four seconds: a call survives a restart of the server, but does not wait for
// the end of an outage.
const (
	maxTries      = 8
	firstPause    = 20 * time.Millisecond
	longestPause  = 1500 * time.Millisecond
	verifyTimeout = 5 * time.Second // for a call without a deadline, or with one that has passed
	longestVerify = 5 * time.Minute
)

// ErrUnknown means that a write may or may not have happened: its reply was lost, and every attempt to read the row back
// failed. The caller must treat the write as possibly applied.
var ErrUnknown = errors.New("outcome unknown")

// Do runs a write and finds out whether it happened, even if its reply is lost.
//
// op does the write, in one statement or one transaction. Do tries op again, a few times and with growing pauses, if the
// write certainly has not happened. If the connection dies or the deadline passes during op, the outcome is unknown. Do then
// calls verify, which reads the write back by its natural key, on another connection, and reports whether it is there. Do
// returns nil if the write is there, ErrUnknown if reading back failed too, and any other error if the write is not there.
//
// verify must return false only once the first write can no longer take effect. Either op does nothing if its row exists
// already (ON CONFLICT DO NOTHING on the natural key), or verify has seen that the old backend is gone. verify has the time
// until the deadline of ctx, up to five minutes, because reading back may be as much work as the write. Do calls verify even
// after ctx has ended, and allows five more seconds then, so that a caller that gave up still learns the outcome.
func Do(ctx context.Context, op func(context.Context) error, verify func(context.Context) (done bool, err error)) error {
	w := write{op: op, verify: verify}
	_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, w.try(ctx) },
		backoff.WithBackOff(pauses()), backoff.WithMaxTries(maxTries))
	if err != nil && w.last != nil && !errors.Is(err, w.last) {
		return fmt.Errorf("%w: %w", err, w.last) // the context ended during a pause: add the error of the last try
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
	last    error // error of the last try, with the error of reading back
	cause   error // error of op alone
	replans int
	unsure  bool // an earlier try may have been applied
}

// try runs op once. If an earlier try may have been applied (w.unsure), it first reads the write back, and runs op only if the
// write is not there. If the reply of op itself is lost, it reads the write back at once. It returns nil once the write is done. It
// returns an error as it is if another try may help, and as a backoff.Permanent error if none can.
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

// settle calls verify, and returns whether the last try was applied. It then clears w.unsure. If verify fails, w.unsure stays set,
// and the error is ErrUnknown with both errors: permanent if verify cannot succeed later, else for another try.
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

// outlasting returns a context for reading back. It lasts as long as the deadline of ctx allows, but at least verifyTimeout and at
// most longestVerify. If ctx has no deadline or has ended, it lasts verifyTimeout. If ctx is canceled early, it goes on for
// verifyTimeout from then.
func outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	within := verifyTimeout
	if deadline, has := ctx.Deadline(); has && ctx.Err() == nil {
		within = min(max(time.Until(deadline), verifyTimeout), longestVerify)
	}
	return outliving(ctx, within, verifyTimeout)
}

// outliving returns a context that ends after most, counted from now. If ctx ends before, the new context ends once rest has passed
// since then. The caller must call the returned function.
func outliving(ctx context.Context, most, rest time.Duration) (context.Context, context.CancelFunc) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), most)
	listening := context.AfterFunc(ctx, func() { time.AfterFunc(rest, cancel) })
	return bounded, func() { listening(); cancel() }
}

// replan returns the error of a try that the server rolled back. It is err, which allows another try, but from the second 0A000 of
// a call of Do on it is permanent. After the first 0A000 the server makes a new plan in place of an outdated one; a feature that is
// missing stays missing.
func (w *write) replan(err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == "0A000" {
		if w.replans++; w.replans > 1 {
			return backoff.Permanent(err)
		}
	}
	return err
}
