package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/sql"
)

// maxWorkers bounds a list for people.
const maxWorkers = 1000

var (
	workersSQL = sql.Named("queue/workers")
	drainSQL   = sql.Named("queue/drain_worker")
	scaleSQL   = sql.Named("queue/scale")
	pruneSQL   = sql.Named("queue/prune")
)

// Workers lists workers: those at work by name, then those that ended, the last one first. For readers and workers.
func (s *Store) Workers(ctx context.Context) ([]WorkerInfo, error) {
	workers, err := list(ctx, s, workersSQL, pgx.StrictNamedArgs{"rows": maxWorkers}, scanWorker)
	return workers, said("list workers", err)
}

// DrainWorker asks a worker, by name or id, to finish what it runs and to claim nothing more. It returns how many were asked:
// several may have one name. For administrators.
func (s *Store) DrainWorker(ctx context.Context, worker string) (int, error) {
	const op = "drain a worker"
	var asked int
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, drainSQL, pgx.StrictNamedArgs{"worker": worker}).Scan(&asked)
	}
	err := s.write(ctx, askTimeout, do, do)
	if err == nil && asked == 0 {
		err = fmt.Errorf("no worker %q is at work: %w", worker, ErrNotFound)
	}
	return asked, said(op, err)
}

// Scale tells an autoscaler about one queue, or about all for "". For readers and workers.
func (s *Store) Scale(ctx context.Context, queue string) (Scale, error) {
	hint, err := one(ctx, s, scaleSQL, pgx.StrictNamedArgs{"queue": given(queue)}, scanScale)
	return hint, said("scale", err)
}

// Prune deletes what is past its retention, at most batch runs: call it until Runs is 0. After a lost reply it counts only
// what was left to delete. For administrators and workers.
func (s *Store) Prune(ctx context.Context, batch int) (p Pruned, err error) {
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, pruneSQL, pgx.StrictNamedArgs{"batch": batch}).Scan(&p.Runs, &p.Keys, &p.LogDays, &p.Workers)
	}
	return p, said("prune", s.write(ctx, bulkTimeout, do, do))
}

func scanWorker(row pgx.CollectableRow) (w WorkerInfo, err error) {
	var ttlMS, ageMS int64
	var quiet bool
	var takeoverMS *int64
	err = row.Scan(&w.ID, &w.Name, &w.Host, &w.BootID, &w.PID, &w.Version, &w.Labels, &w.Queues, &w.Offers, &w.Slots, &w.Containment,
		&ttlMS, &w.State, &w.Desired, &w.Beat, &w.BeatAt, &ageMS, &w.Busy, &w.Waiting, &w.Unfit,
		(*zeronull.Timestamptz)(&w.UnfitSince), &w.Runs, &w.StartedAt, (*zeronull.Timestamptz)(&w.EndedAt),
		&quiet, &takeoverMS)
	if quiet {
		w.Quiet = newQuiet(takeoverMS)
	}
	if !w.EndedAt.IsZero() {
		w.Busy, w.Waiting, w.Runs, w.Unfit, w.UnfitSince = 0, 0, 0, "", time.Time{} // what it said last; others have taken that over
	}
	w.TTL, w.BeatAge = time.Duration(ttlMS)*time.Millisecond, time.Duration(ageMS)*time.Millisecond
	return w, err
}

// newQuiet takes in how many milliseconds others have taken over; nil: no worker is there that would.
func newQuiet(takeoverMS *int64) *Quiet {
	if takeoverMS == nil {
		return &Quiet{}
	}
	return &Quiet{HasWatcher: true, TakeoverIn: time.Duration(*takeoverMS) * time.Millisecond}
}

func scanScale(row pgx.CollectableRow) (h Scale, err error) {
	var oldestMS int64
	err = row.Scan(&h.Queued, &h.Claimed, &h.Workers, &h.Slots, &h.Busy, &h.Waiting, &h.Wanted, &oldestMS)
	h.Oldest = time.Duration(oldestMS) * time.Millisecond
	return h, err
}
