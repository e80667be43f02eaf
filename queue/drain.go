package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
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

// closeLimit bounds a Close whose context has no deadline: a database that is away may stay so.
const closeLimit = 20 * time.Second

// Close gives back what the worker still holds, takes it off the list of the living, and ends what the session opened.
// After an error others find out by themselves, within a TTL. Every further call answers as the first one did.
func (s *Session) Close(ctx context.Context) error {
	s.end.once.Do(func() {
		ctx, cancel := bounded(ctx, s.closeLimit)
		defer cancel()
		s.end.done = s.close(ctx)
	})
	return s.end.done
}

func (s *Session) close(ctx context.Context) error {
	wasLost := errors.Is(s.end.get(), ErrLeaseLost)
	var errs []error
	s.end.set(fmt.Errorf("session of worker %s: %w", s.worker.ID, ErrClosed))
	errs = append(errs, s.closeJournal(ctx))
	if !wasLost {
		errs = append(errs, s.leave(ctx))
	}
	s.held.forfeitAll()
	errs = append(errs, s.closeRest(ctx))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close the session of worker %s: %w", s.worker.ID, err)
	}
	return nil
}

// closeRest closes what is left at the same time. Looks, chores and sweeps under way are cut off.
func (s *Session) closeRest(ctx context.Context) error {
	s.lookout.conn.end()
	s.sweeper.conn.end()
	var closing sync.WaitGroup
	closing.Go(s.hearing.close)
	err := closeLinks(ctx, s.claimer.conn, s.lookout.conn, s.sweeper.conn, s.lease, s.reads, s.chunks)
	closing.Wait()
	return err
}

// closeJournal leaves half of the time to what follows: a database that takes no records may still let the session go.
func (s *Session) closeJournal(ctx context.Context) error {
	if deadline, some := ctx.Deadline(); some {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	return s.journal.close(ctx)
}

// leave ends the lease and gives back what is left, in one transaction: nobody is to find runs without a fence. The fences
// go in the first statement, so that the second sees everything that was claimed.
func (s *Session) leave(ctx context.Context) error {
	s.leaving.beat()
	defer s.leaving.rest()
	if err := take(ctx, s.claimer.polling); err != nil {
		return err
	}
	defer func() { s.claimer.polling <- struct{}{} }()
	err := s.claimer.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, leaveFleet, s.worker.ID); err != nil {
				return err
			}
			return s.releaseAll(ctx, tx)
		})
	})
	if err != nil {
		return fmt.Errorf("leave: %w", errors.Join(err, s.abandonFences(ctx, err)))
	}
	return nil
}

// abandonFences ends the lease alone, where the database refuses to queue runs: deleting takes no room on a disk that is full. The next
// worker that looks finds the runs without a fence, and queues them.
func (s *Session) abandonFences(ctx context.Context, refused error) error {
	if pglink.Classify(refused) != pglink.Degraded {
		return nil
	}
	return s.claimer.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, leaveFleet, s.worker.ID)
		return err
	})
}

func (s *Session) releaseAll(ctx context.Context, tx pgx.Tx) error {
	args := pgx.StrictNamedArgs{"worker": s.worker.ID, "batch": releaseBatch}
	for range requeueRounds {
		s.leaving.beat()
		n, err := release(ctx, tx, releaseAll, args)
		if err != nil || n < releaseBatch {
			return err
		}
	}
	return nil // the rest is for the others' next sweep
}
