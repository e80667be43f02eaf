package queue

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of what is counted for people, so that a look costs the same whatever there is.
const (
	MaxCounted  = 100_000 // runs of a DAG or a state
	MaxGlimpsed = 10_000  // queued runs of a lane, where somebody looks every second
)

var (
	statsEndedSQL   = sql.Named("queue/stats_ended")
	statsActiveSQL  = sql.Named("queue/stats_active")
	loadSQL         = sql.Named("queue/load")
	ratesSQL        = sql.Named("queue/rates")
	prunableRunsSQL = sql.Named("queue/prunable_runs")
	prunableRestSQL = sql.Named("queue/prunable_rest")
	pruneOverdueSQL = sql.Named("queue/prune_overdue")
)

// DAGStats are the runs of a DAG in numbers: those that have not ended, and those that ended since a moment.
type DAGStats struct {
	DAG                                                                      string
	Scheduled, Queued, Running, Waiting, Paused, Succeeded, Failed, Canceled int64
	Median, P95, Longest                                                     time.Duration // from start to end
}

// Ended counts those that have ended. MaxCounted of them are the newest, and older ones were not looked at.
func (s *DAGStats) Ended() int64 { return s.Succeeded + s.Failed + s.Canceled }

// Stats counts runs by DAG: of each at most MaxCounted that ended, the newest. For readers and workers.
func (s *Store) Stats(ctx context.Context, dag string, since time.Time) ([]DAGStats, error) {
	const op = "count runs"
	args := pgx.StrictNamedArgs{"dag": given(dag), "since": since, "most": MaxCounted}
	ended, err := list(ctx, s, statsEndedSQL, args, scanStats)
	if err != nil {
		return nil, said(op, err)
	}
	all := map[string]*DAGStats{}
	for i := range ended {
		all[ended[i].DAG] = &ended[i]
	}
	delete(args, "since")
	active, err := list(ctx, s, statsActiveSQL, args, pgx.RowToStructByPos[activeRuns])
	if err != nil {
		return nil, said(op, err)
	}
	for _, a := range active {
		if all[a.DAG] == nil {
			all[a.DAG] = &DAGStats{DAG: a.DAG}
		}
		a.addTo(all[a.DAG])
	}
	stats := make([]DAGStats, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		stats = append(stats, *all[name])
	}
	return stats, nil
}

type activeRuns struct {
	DAG, State string
	Runs       int64
}

func (a *activeRuns) addTo(s *DAGStats) {
	switch a.State {
	case "scheduled":
		s.Scheduled = a.Runs
	case "queued":
		s.Queued = a.Runs
	case "running":
		s.Running = a.Runs
	case "waiting":
		s.Waiting = a.Runs
	case "paused":
		s.Paused = a.Runs
	}
}

func scanStats(row pgx.CollectableRow) (s DAGStats, err error) {
	var ms [3]float64
	err = row.Scan(&s.DAG, &s.Succeeded, &s.Failed, &s.Canceled, &ms[0], &ms[1], &ms[2])
	s.Median, s.P95, s.Longest = milliseconds(ms[0]), milliseconds(ms[1]), milliseconds(ms[2])
	return s, err
}

func milliseconds(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }

// Glimpse is a database at a moment, for somebody who looks every second. Counts of queued runs stop at 10,000 a lane.
type Glimpse struct {
	Workers       []WorkerInfo
	Queues        []Queue
	Ended, Failed float64 // runs per second, over the last minute
}

// Glimpse looks at workers, queues and rates. For readers and workers.
func (s *Store) Glimpse(ctx context.Context) (g Glimpse, err error) {
	if g.Workers, err = s.Workers(ctx); err != nil {
		return g, err
	}
	args := pgx.StrictNamedArgs{"most": MaxGlimpsed}
	if g.Queues, err = list(ctx, s, loadSQL, args, scanQueue); err != nil {
		return g, said("list queues", err)
	}
	rates, err := one(ctx, s, ratesSQL, args, pgx.RowToStructByPos[rates])
	g.Ended, g.Failed = rates.Ended, rates.Failed
	return g, said("count runs", err)
}

type rates struct{ Ended, Failed float64 }

// Prunable says what a Prune would find.
type Prunable struct {
	Pruned

	DAGs []PrunableDAG
}

// PrunableDAG counts runs of a DAG that are past its retention: at most MaxCounted.
type PrunableDAG struct {
	DAG    string
	Runs   int64
	Oldest time.Time // when it ended
}

// PruneOverdue is for how long the run that is furthest past its retention in days should have been gone, 0 where none is.
// It is cheap enough to ask every few seconds. For readers and workers.
func (s *Store) PruneOverdue(ctx context.Context) (time.Duration, error) {
	late, err := list(ctx, s, pruneOverdueSQL, nil, func(row pgx.CollectableRow) (seconds float64, err error) {
		return seconds, row.Scan(nil, &seconds)
	})
	if err != nil || len(late) == 0 {
		return 0, said("find what is past its retention", err)
	}
	return time.Duration(late[0] * float64(time.Second)), nil
}

// Prunable counts what is past its retention, and deletes nothing. For readers and workers.
func (s *Store) Prunable(ctx context.Context) (p Prunable, err error) {
	const op = "count what is past its retention"
	args := pgx.StrictNamedArgs{"most": MaxCounted}
	p.DAGs, err = list(ctx, s, prunableRunsSQL, args, func(row pgx.CollectableRow) (d PrunableDAG, err error) {
		return d, row.Scan(&d.DAG, &d.Runs, (*zeronull.Timestamptz)(&d.Oldest))
	})
	if err != nil {
		return p, said(op, err)
	}
	p.Pruned, err = one(ctx, s, prunableRestSQL, args, func(row pgx.CollectableRow) (rest Pruned, err error) {
		return rest, row.Scan(&rest.Keys, &rest.LogDays, &rest.Workers)
	})
	for i := range p.DAGs {
		p.Runs += p.DAGs[i].Runs
	}
	return p, said(op, err)
}
