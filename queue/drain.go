package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var (
	drainWorker = sql.Named("queue/drain")
	leaveFleet  = sql.Named("queue/leave")
)

// Drain lets everybody know that this worker claims nothing more. What it holds goes on.
func (s *Session) Drain(ctx context.Context) error {
	if err := s.end.get(); err != nil {
		return err
	}
	err := s.lease.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, drainWorker, s.worker.ID)
		if err == nil && tag.RowsAffected() == 0 {
			return s.lost()
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	return nil
}

// Close gives back what the worker still holds, takes it off the list of the living, and ends what the session opened.
// After an error others find out by themselves, within a TTL. Every further call answers as the first one did.
func (s *Session) Close(ctx context.Context) error {
	s.end.once.Do(func() { s.end.done = s.close(ctx) })
	return s.end.done
}

func (s *Session) close(ctx context.Context) error {
	wasLost := errors.Is(s.end.get(), ErrLeaseLost)
	var errs []error
	s.end.set(fmt.Errorf("session of worker %s: %w", s.worker.ID, ErrClosed))
	if !wasLost {
		errs = append(errs, s.leave(ctx))
	}
	s.held.forfeitAll()
	for _, l := range []*link{s.claims, s.lease, s.chunks} {
		errs = append(errs, l.close(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the session of worker %s: %w", s.worker.ID, err)
	}
	return nil
}

// leave ends the lease first: from then on nothing is claimed or written, so what is given back then is all there is.
func (s *Session) leave(ctx context.Context) error {
	if err := take(s.polling, ctx.Done()); err != nil { // never given back
		return err
	}
	err := s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, leaveFleet, s.worker.ID)
		return err
	})
	if err != nil {
		return fmt.Errorf("leave: %w", err)
	}
	for range requeueRounds {
		n, err := s.release(ctx, nil)
		if err != nil || n < releaseBatch {
			return err
		}
	}
	return nil
}
