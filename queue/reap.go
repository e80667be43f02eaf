package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of what one poll does for others. What is left is the next one's, or another worker's.
const (
	reapLimit     = 8    // workers
	requeueRounds = 20   // of releaseBatch runs, for one worker
	choreBatch    = 500  // runs woken or expired by one statement
	asideRounds   = 20   // of as many runs, put aside for one poll
	lockPatience  = "2s" // with connections of a worker that hold its fences
	logDaysAhead  = 3
	logDaysEvery  = time.Hour
	stubbornPause = 5 * time.Second // before another try at a worker whose connections do not end
)

var (
	makeLogDays  = sql.Named("queue/log_days")
	wakeDue      = sql.Named("queue/wake_due")
	expireQueued = sql.Named("queue/expire_queued")
	setAside     = sql.Named("queue/set_aside")
	limitWait    = sql.Named("queue/lock_timeout")
	loseWorker   = sql.Named("queue/lose")
	markLost     = sql.Named("queue/mark_lost")
	endWorker    = sql.Named("queue/end_worker")
	requeueRuns  = sql.Named("queue/requeue")
)

// chores are what somebody has to do now and then.
type chores struct {
	now     func() time.Duration
	logDays time.Duration // when partitions were last made
	done    bool          // at all
	aside   []int         // lanes whose heads are not clear yet

	stubborn map[uuid.UUID]time.Duration // lost workers whose fences could not be had, and when
}

// postpone leaves a worker to a later poll: each try may wait for seconds.
func (c *chores) postpone(id uuid.UUID) {
	if c.stubborn == nil {
		c.stubborn = map[uuid.UUID]time.Duration{}
	}
	c.stubborn[id] = c.now()
}

// postponed says whether a worker has to wait for a later poll.
func (c *chores) postponed(id uuid.UUID) bool {
	since, ok := c.stubborn[id]
	if ok && c.now()-since >= stubbornPause {
		delete(c.stubborn, id)
		return false
	}
	return ok
}

// lookAfter does what a poll found to be done for others.
func (s *Session) lookAfter(ctx context.Context, f *pollFacts, p *Polled) error {
	silent := s.peers.see(f.peers)
	errs := []error{s.putAway(ctx), s.doChores(ctx, f, p), s.learnKinds(ctx)} // the dead do not wait for them
	p.Shared = s.sharedLanes(func(peer) bool { return true })
	p.Open = s.sharedLanes(func(p peer) bool { return p.hungry })
	p.Rivals = s.rivals()
	for _, w := range silent[:min(len(silent), reapLimit)] {
		errs = append(errs, s.takeOver(ctx, w.id, &w.beat, p))
	}
	for _, id := range f.dead[:min(len(f.dead), reapLimit)] {
		errs = append(errs, s.takeOver(ctx, id, nil, p))
	}
	return errors.Join(errs...)
}

// takeOver queues the runs of a worker that is dead, unless it is not.
func (s *Session) takeOver(ctx context.Context, id uuid.UUID, beat *int64, p *Polled) error {
	if s.chores.postponed(id) {
		return nil
	}
	n, err := s.reap(ctx, id, beat)
	switch {
	case errors.Is(err, errAlive):
		return nil
	case isLockTimeout(err):
		s.chores.postpone(id)
	}
	if err != nil {
		return fmt.Errorf("take over from worker %s: %w", id, err)
	}
	if n > 0 {
		s.sweeps.doubt() // there may be more than one poll takes
	}
	if beat != nil || n > 0 {
		p.Lost, p.Queued = append(p.Lost, id), p.Queued+n
	}
	return nil
}

func (s *Session) doChores(ctx context.Context, f *pollFacts, p *Polled) error {
	return s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var n int
		if f.wakes {
			if err := conn.QueryRow(ctx, wakeDue, choreBatch).Scan(&n); err != nil {
				return fmt.Errorf("wake parked runs: %w", err)
			}
			p.Queued += n
		}
		if f.expires {
			if err := conn.QueryRow(ctx, expireQueued, choreBatch).Scan(&n); err != nil {
				return fmt.Errorf("end runs that waited too long: %w", err)
			}
		}
		if err := s.chores.clearHeads(ctx, conn, f.blocked); err != nil {
			return fmt.Errorf("put runs of paused DAGs aside: %w", err)
		}
		if now := s.chores.now(); !s.chores.done || now-s.chores.logDays >= logDaysEvery {
			if err := conn.QueryRow(ctx, makeLogDays, logDaysAhead).Scan(&n); err != nil {
				return fmt.Errorf("make room for logs: %w", err)
			}
			s.chores.logDays, s.chores.done = now, true
		}
		return nil
	})
}

// clearHeads puts aside what may not begin and stands at the heads of lanes, these and those that were not done with.
func (c *chores) clearHeads(ctx context.Context, conn *pgx.Conn, lanes []int) error {
	lanes = append(lanes, c.aside...)
	c.aside = nil
	if len(lanes) == 0 {
		return nil
	}
	for range asideRounds {
		var n int
		if err := conn.QueryRow(ctx, setAside, lanes, choreBatch).Scan(&n); err != nil || n == 0 {
			return err
		}
	}
	slices.Sort(lanes)
	c.aside = slices.Compact(lanes)
	return nil // the next poll goes on
}

// errAlive: the worker showed a sign of life in the last moment.
var errAlive = errors.New("the worker is alive")

// reap takes the fences and then the runs of a worker that is dead: its beat stood still at beat, or, without one, it is
// known to be dead or found to have no fence. It says how many runs it queued.
func (s *Session) reap(ctx context.Context, id uuid.UUID, beat *int64) (n int, err error) {
	n, err = s.lose(ctx, id, beat)
	if !isLockTimeout(err) {
		return n, err
	}
	// a connection of the worker holds a fence and does not come to an end: half a statement, then silence
	if err := s.endConnections(ctx, id, beat); err != nil {
		return 0, err
	}
	return s.lose(ctx, id, nil)
}

func isLockTimeout(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "55P03"
}

// lose is one transaction of two statements. The second has its own snapshot, taken when the worker's last claim had
// ended, one way or the other.
func (s *Session) lose(ctx context.Context, id uuid.UUID, beat *int64) (n int, err error) {
	err = s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, limitWait, lockPatience); err != nil {
				return err
			}
			var lost bool
			args := pgx.StrictNamedArgs{"worker": id, "beat": beat, "by": s.replaces(id)}
			if err := tx.QueryRow(ctx, loseWorker, args).Scan(&lost); err != nil {
				return err
			}
			if !lost && beat != nil {
				return errAlive
			}
			n, err = requeue(ctx, tx, id)
			return err
		})
	})
	return n, err
}

func requeue(ctx context.Context, tx pgx.Tx, id uuid.UUID) (n int, err error) {
	for range requeueRounds {
		var queued, lanes, told int
		args := pgx.StrictNamedArgs{"worker": id, "batch": releaseBatch}
		if err := tx.QueryRow(ctx, requeueRuns, args).Scan(&queued, &lanes, &told); err != nil {
			return n, err
		}
		n += queued
		if queued < releaseBatch {
			break
		}
	}
	return n, nil
}

// replaces is this worker's id if it replaces the other.
func (s *Session) replaces(id uuid.UUID) *uuid.UUID {
	if slices.Contains(s.worker.Replaces, id) {
		return &s.worker.ID
	}
	return nil
}

// endConnections marks a worker lost, so that it is decided, and then ends its connections.
func (s *Session) endConnections(ctx context.Context, id uuid.UUID, beat *int64) error {
	return s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, markLost, pgx.StrictNamedArgs{"worker": id, "beat": beat, "by": s.replaces(id)})
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 && beat != nil {
			return errAlive
		}
		var ended int
		return conn.QueryRow(ctx, endWorker, pgx.StrictNamedArgs{"worker": id}).Scan(&ended)
	})
}
