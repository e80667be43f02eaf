package queue

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

const (
	// Deadlines of calls whose context has none.
	askTimeout  = 30 * time.Second
	bulkTimeout = 5 * time.Minute

	// clockMargin is added to a time that was measured here and is then counted back on the database's clock.
	clockMargin = time.Second
)

// ask is one statement on its way to the server, for one of two purposes.
type ask func(context.Context, *pgxpool.Conn) error

// write sends what changes something. When the reply is lost, again finds out on another connection what became of it:
// no error means that it is done. Where sending it twice is harmless, again is the same as do, and waits in the server for
// the first copy, should that still be under way. What was never sent is not asked about.
func (s *Store) write(ctx context.Context, within time.Duration, do, again ask) error {
	ctx, cancel := bounded(ctx, within)
	defer cancel()
	w := writing{store: s, do: do, again: again}
	err := pglink.Do(ctx, w.send, w.settle)
	if w.answer != nil {
		return w.answer
	}
	return err
}

type writing struct {
	store     *Store
	do, again ask
	sent      bool
	answer    error // the server's, given when it was asked again
}

func (w *writing) send(ctx context.Context) error {
	w.sent = false
	return w.store.with(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return asActor(ctx, conn, func(ctx context.Context, conn *pgxpool.Conn) error {
			w.sent = true
			return w.do(ctx, conn)
		})
	})
}

// settle takes a refusal for an answer as final as success: the same question got it.
func (w *writing) settle(ctx context.Context) (done bool, err error) {
	if !w.sent {
		return false, nil
	}
	err = w.store.with(ctx, func(ctx context.Context, conn *pgxpool.Conn) error { return asActor(ctx, conn, w.again) })
	if pglink.Classify(err) == pglink.Permanent {
		w.answer = err
		return true, nil
	}
	return err == nil, err
}

// read sends what changes nothing, and may therefore be sent again.
func (s *Store) read(ctx context.Context, do ask) error {
	ctx, cancel := bounded(ctx, askTimeout)
	defer cancel()
	return pglink.Do(ctx, func(ctx context.Context) error { return s.with(ctx, do) },
		func(context.Context) (bool, error) { return false, nil })
}

func (s *Store) with(ctx context.Context, do ask) error {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return do(ctx, conn)
}

func bounded(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	if _, has := ctx.Deadline(); has {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, within)
}

// unknown is an again for what cannot be found out.
func unknown(hint string) ask {
	return func(context.Context, *pgxpool.Conn) error { return &UnknownError{hint} }
}

// UnknownError is ErrUnknown with what to do about it.
type UnknownError struct{ Hint string }

func (e *UnknownError) Error() string { return ErrUnknown.Error() + ": the reply was lost; " + e.Hint }

// Is makes errors.Is(err, ErrUnknown) work.
func (e *UnknownError) Is(target error) bool { return errors.Is(ErrUnknown, target) }
