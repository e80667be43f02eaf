package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of what one sweep takes over. What is left is the next one's, or another worker's.
const (
	reapLimit     = 8               // workers
	releaseBatch  = 1000            // runs that one statement gives back or queues again
	requeueRounds = 20              // of as many runs, for one worker
	stubbornPause = 5 * time.Second // before another try at a worker whose connections do not end

	// With connections that hold fences of a lost worker: first for a moment, so that others do not wait.
	lockPatience, longLockPatience = "500ms", "2s"
)

var (
	limitWait   = sql.Named("queue/lock_timeout")
	loseWorker  = sql.Named("queue/lose")
	markLost    = sql.Named("queue/mark_lost")
	endWorker   = sql.Named("queue/end_worker")
	requeueRuns = sql.Named("queue/requeue")
	releaseAll  = sql.Without("queue/release", "some")
	releaseSome = sql.Without("queue/release", "all")
)

// takeOverAll queues the runs of workers that are dead, unless they are not: first of those whose fences are free.
func (w *sweeper) takeOverAll(ctx context.Context, workers map[uuid.UUID]*int64, swept *Swept) error {
	var errs []error
	var held []uuid.UUID // whose fences a connection holds
	ids := slices.SortedFunc(maps.Keys(workers), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	if ids = slices.DeleteFunc(ids, w.postponed); len(ids) > reapLimit {
		for _, id := range ids[reapLimit:] {
			w.x.silent(id, workers[id]) // the next sweep's
		}
		ids = ids[:reapLimit]
	}
	for _, id := range ids {
		lost, err := w.lose(ctx, id, workers[id], lockPatience)
		if isLockTimeout(err) {
			held = append(held, id)
			continue
		}
		errs = append(errs, w.tookOver(lost, workers[id] != nil, err, swept))
	}
	for _, id := range held {
		lost, err := w.loseHeld(ctx, id, workers[id])
		if isLockTimeout(err) {
			w.postpone(id)
		}
		errs = append(errs, w.tookOver(lost, workers[id] != nil, err, swept))
	}
	return errors.Join(errs...)
}

// tookOver takes in what came of one takeover. A worker that nobody watched, and that left nothing, is no news.
func (w *sweeper) tookOver(lost LostWorker, watched bool, err error, swept *Swept) error {
	switch {
	case errors.Is(err, errAlive):
		return nil
	case err != nil:
		return fmt.Errorf("take over from worker %s: %w", lost.ID, err)
	}
	if lost.Runs > 0 {
		w.x.doubt() // more than one statement takes, or that somebody holds
	}
	if watched || lost.Runs > 0 {
		swept.Lost, swept.Queued = append(swept.Lost, lost), swept.Queued+lost.Runs
	}
	return nil
}

// postpone leaves a worker to a later sweep: each try may wait for seconds.
func (w *sweeper) postpone(id uuid.UUID) {
	if w.stubborn == nil {
		w.stubborn = map[uuid.UUID]time.Duration{}
	}
	w.stubborn[id] = w.now()
}

// postponed reports whether a worker has to wait for a later sweep.
func (w *sweeper) postponed(id uuid.UUID) bool {
	since, ok := w.stubborn[id]
	if ok && w.now()-since >= stubbornPause {
		delete(w.stubborn, id)
		return false
	}
	return ok
}

// errAlive: the worker showed a sign of life in the last moment.
var errAlive = errors.New("the worker is alive")

// reap takes the fences and then the runs of a worker that is dead: its beat stood still at beat, or, without one, it is
// known to be dead or found to have no fence.
func (w *sweeper) reap(ctx context.Context, id uuid.UUID, beat *int64) (LostWorker, error) {
	lost, err := w.lose(ctx, id, beat, longLockPatience)
	if isLockTimeout(err) {
		return w.loseHeld(ctx, id, beat)
	}
	return lost, err
}

// loseHeld is for a worker one of whose connections holds a fence and does not come to an end: half a statement, then silence.
func (w *sweeper) loseHeld(ctx context.Context, id uuid.UUID, beat *int64) (LostWorker, error) {
	if err := w.endConnections(ctx, id, beat); err != nil {
		return LostWorker{ID: id}, err
	}
	return w.lose(ctx, id, nil, longLockPatience)
}

func isLockTimeout(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "55P03"
}

// lose is one transaction of two statements. The second has its own snapshot, taken when the worker's last claim had
// ended, one way or the other. It names the worker with an error, too.
func (w *sweeper) lose(ctx context.Context, id uuid.UUID, beat *int64, patience string) (lost LostWorker, err error) {
	lost.ID = id
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = w.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, limitWait, patience); err != nil {
				return err
			}
			var isLost bool
			args := pgx.StrictNamedArgs{"worker": id, "beat": beat, "by": w.replaces(id)}
			if err := tx.QueryRow(ctx, loseWorker, args).Scan(&isLost, &lost.Name); err != nil {
				return err
			}
			if !isLost && beat != nil {
				return errAlive
			}
			lost.Runs, err = requeue(ctx, tx, id)
			return err
		})
	})
	return lost, err
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
func (w *sweeper) replaces(id uuid.UUID) *uuid.UUID {
	if slices.Contains(w.worker.Replaces, id) {
		return &w.worker.ID
	}
	return nil
}

// endConnections marks a worker lost, so that it is decided, and then ends its connections.
func (w *sweeper) endConnections(ctx context.Context, id uuid.UUID, beat *int64) error {
	return w.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, markLost, pgx.StrictNamedArgs{"worker": id, "beat": beat, "by": w.replaces(id)})
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

// release queues claims of a worker again, a batch of them, and returns how many.
func release(ctx context.Context, q Querier, statement string, args pgx.StrictNamedArgs) (n int, err error) {
	var lanes, told int
	if err := q.QueryRow(ctx, statement, args).Scan(&n, &lanes, &told); err != nil {
		return 0, fmt.Errorf("release claims: %w", err)
	}
	return n, nil
}
