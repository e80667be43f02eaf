package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/sql"
)

// maxWorkers bounds a list that people read.
const maxWorkers = 1000

var (
	workersSQL = sql.Named("queue/workers")
	drainSQL   = sql.Named("queue/drain_worker")
	scaleSQL   = sql.Named("queue/scale")
	pruneSQL   = sql.Named("queue/prune")
)

// Workers lists at most 1,000 workers: running ones by name, then ended ones, the last to end first. For readers and workers.
func (s *Store) Workers(ctx context.Context) ([]WorkerInfo, error) {
	workers, err := list(ctx, s, workersSQL, pgx.StrictNamedArgs{"rows": maxWorkers}, scanWorker)
	return workers, wrapError("list workers", err)
}

// DrainWorker asks a worker, by name or id, to finish the runs it has and to claim nothing more. It does not wait for that. It
// returns how many workers it asked, because several may have the same name. If there is none at work, it returns ErrNotFound.
// For administrators.
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
	return asked, wrapError(op, err)
}

// Scale reads the numbers that an autoscaler needs about one queue, or about all queues if queue is "". For readers and workers.
func (s *Store) Scale(ctx context.Context, queue string) (Scale, error) {
	hint, err := one(ctx, s, scaleSQL, pgx.StrictNamedArgs{"queue": given(queue)}, scanScale)
	return hint, wrapError("scale", err)
}

// Prune deletes data past its retention: at most batch runs, and old keys, days of logs and workers. It returns how much it
// deleted. Call it until Runs is 0. After a lost reply it counts only the data that the repeat deleted. For administrators and
// workers.
func (s *Store) Prune(ctx context.Context, batch int) (p Pruned, err error) {
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, pruneSQL, pgx.StrictNamedArgs{"batch": batch}).Scan(&p.Runs, &p.Keys, &p.LogDays, &p.Workers)
	}
	return p, wrapError("prune", s.write(ctx, bulkTimeout, do, do))
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
		w.Busy, w.Waiting, w.Runs, w.Unfit, w.UnfitSince = 0, 0, 0, "", time.Time{} // stale values: other workers have taken over since
	}
	w.TTL, w.BeatAge = time.Duration(ttlMS)*time.Millisecond, time.Duration(ageMS)*time.Millisecond
	return w, err
}

// newQuiet returns the Quiet of a worker that another worker will take over from in takeoverMS milliseconds. nil means that no
// other worker watches this one.
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

var (
	queuesSQL        = sql.Named("queue/queues")
	queuesMissingSQL = sql.Named("queue/queues_missing")
	setQueueSQL      = sql.Named("queue/set_queue")
	obstaclesSQL     = sql.Named("queue/obstacles")
)

// Queues lists all queues by name. It counts the waiting runs, so it is meant for people. For readers and workers.
func (s *Store) Queues(ctx context.Context) ([]Queue, error) {
	queues, err := list(ctx, s, queuesSQL, nil, scanQueue)
	return queues, wrapError("list queues", err)
}

// MissingQueues returns the elements of names that no queue is called, sorted. For readers and workers.
func (s *Store) MissingQueues(ctx context.Context, names []string) ([]string, error) {
	missing, err := list(ctx, s, queuesMissingSQL, pgx.StrictNamedArgs{"queues": names}, pgx.RowTo[string])
	return missing, wrapError("list queues", err)
}

// Obstacles are reasons why a queued run does not start that a person may remove.
type Obstacles struct {
	QueuePaused bool     // the run's queue starts no runs
	DAGPaused   bool     // the run's DAG starts no runs
	QueueFull   int      // the max_running of the run's queue, if that many run; 0: fewer run
	DAGFull     bool     // the run's DAG has as many active runs as it may
	Unserved    bool     // there are live workers, but none of them serves the run's queue
	Labels      []string // NAME=VALUE: labels that the run's DAG wants and no live worker has
	Deserted    bool     // no live worker shows signs of life
}

// Obstacles reads why a queued run does not start. It returns ErrNotFound if there is no such run, or if the user is not allowed
// to see it. For readers and workers.
func (s *Store) Obstacles(ctx context.Context, run RunID) (Obstacles, error) {
	obstacles, err := one(ctx, s, obstaclesSQL, pgx.StrictNamedArgs{"run": run}, pgx.RowToStructByPos[Obstacles])
	return obstacles, wrapError("read what keeps a run", noSuchRun(run, err))
}

// SetQueue changes the fields of a queue that are not nil in c: it pauses or resumes the queue, and sets its limits. If the queue
// does not exist, SetQueue makes it. For administrators.
func (s *Store) SetQueue(ctx context.Context, c QueueChange) error {
	args := pgx.StrictNamedArgs{"name": c.Name, "paused": c.Paused, "max_running": c.MaxRunning, "max_queued": c.MaxQueued}
	return wrapError("set a queue", s.change(ctx, setQueueSQL, args))
}

// change runs a statement that may safely be sent twice. After a lost reply it sends the statement again.
func (s *Store) change(ctx context.Context, statement string, args pgx.StrictNamedArgs) error {
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, statement, args)
		return err
	}
	return s.write(ctx, askTimeout, do, do)
}

func scanQueue(row pgx.CollectableRow) (q Queue, err error) {
	var oldestMS int64
	err = row.Scan(&q.Name, (*zeronull.Text)(&q.PausedBy), (*zeronull.Timestamptz)(&q.PausedAt), &q.MaxRunning, &q.MaxQueued,
		&q.Queued, &oldestMS, &q.Running)
	q.Oldest = time.Duration(oldestMS) * time.Millisecond
	return q, err
}

// Bounds of counts that people read, so that a read costs the same however many rows there are.
const (
	MaxCounted  = 100_000 // runs of a DAG or a state
	MaxGlimpsed = 10_000  // queued runs of a lane, in reads that a program repeats every second
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

// DAGStats are numbers about the runs of a DAG that have not ended, and about its runs that ended since a moment.
type DAGStats struct {
	DAG                                                                      string
	Scheduled, Queued, Running, Waiting, Paused, Succeeded, Failed, Canceled int64
	Median, P95, Longest                                                     time.Duration // from start to end
}

// Ended returns how many of the runs have ended. If it is MaxCounted, these are the newest ones, and older ones were not read.
func (s *DAGStats) Ended() int64 { return s.Succeeded + s.Failed + s.Canceled }

// Stats counts runs by DAG, sorted by name: runs that have not ended, and runs that ended at since or later. dag "" means all
// DAGs. It reads at most the newest MaxCounted ended runs of each DAG. It also reads at most MaxCounted runs in each other state,
// and MaxCounted waiting runs of each lane and stage. Above these bounds the counts are too low. For readers and workers.
func (s *Store) Stats(ctx context.Context, dag string, since time.Time) ([]DAGStats, error) {
	const op = "count runs"
	args := pgx.StrictNamedArgs{"dag": given(dag), "since": since, "most": MaxCounted}
	ended, err := list(ctx, s, statsEndedSQL, args, scanStats)
	if err != nil {
		return nil, wrapError(op, err)
	}
	all := map[string]*DAGStats{}
	for i := range ended {
		all[ended[i].DAG] = &ended[i]
	}
	delete(args, "since")
	active, err := list(ctx, s, statsActiveSQL, args, pgx.RowToStructByPos[activeRuns])
	if err != nil {
		return nil, wrapError(op, err)
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

// addTo sets the count of a's state in s.
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

// Glimpse describes the database at a moment, for programs that read it every second. Counts of queued runs stop at 10,000 per
// lane.
type Glimpse struct {
	Workers       []WorkerInfo
	Queues        []Queue
	Ended, Failed float64 // runs per second, over the last minute
}

// Glimpse reads workers, queues and rates. It is cheap enough for a program that calls it every second. For readers and workers.
func (s *Store) Glimpse(ctx context.Context) (g Glimpse, err error) {
	if g.Workers, err = s.Workers(ctx); err != nil {
		return g, err
	}
	args := pgx.StrictNamedArgs{"most": MaxGlimpsed}
	if g.Queues, err = list(ctx, s, loadSQL, args, scanQueue); err != nil {
		return g, wrapError("list queues", err)
	}
	rates, err := one(ctx, s, ratesSQL, args, pgx.RowToStructByPos[rates])
	g.Ended, g.Failed = rates.Ended, rates.Failed
	return g, wrapError("count runs", err)
}

type rates struct{ Ended, Failed float64 }

// Prunable is what a Prune would delete.
type Prunable struct {
	Pruned

	DAGs []PrunableDAG
}

// PrunableDAG counts the runs of a DAG that are past its retention, at most MaxCounted.
type PrunableDAG struct {
	DAG    string
	Runs   int64
	Oldest time.Time // when the oldest of these runs ended
}

// PruneOverdue returns for how long the most overdue run has been past its DAG's retention in days; 0: no run is past it. It is
// cheap enough to call every few seconds. For readers and workers.
func (s *Store) PruneOverdue(ctx context.Context) (time.Duration, error) {
	late, err := list(ctx, s, pruneOverdueSQL, nil, func(row pgx.CollectableRow) (seconds float64, err error) {
		return seconds, row.Scan(nil, &seconds)
	})
	if err != nil || len(late) == 0 {
		return 0, wrapError("find what is past its retention", err)
	}
	return time.Duration(late[0] * float64(time.Second)), nil
}

// Prunable counts the data that Prune would delete, and deletes nothing. For readers and workers.
func (s *Store) Prunable(ctx context.Context) (p Prunable, err error) {
	const op = "count what is past its retention"
	args := pgx.StrictNamedArgs{"most": MaxCounted}
	p.DAGs, err = list(ctx, s, prunableRunsSQL, args, func(row pgx.CollectableRow) (d PrunableDAG, err error) {
		return d, row.Scan(&d.DAG, &d.Runs, (*zeronull.Timestamptz)(&d.Oldest))
	})
	if err != nil {
		return p, wrapError(op, err)
	}
	p.Pruned, err = one(ctx, s, prunableRestSQL, args, func(row pgx.CollectableRow) (rest Pruned, err error) {
		return rest, row.Scan(&rest.Keys, &rest.LogDays, &rest.Workers)
	})
	for i := range p.DAGs {
		p.Runs += p.DAGs[i].Runs
	}
	return p, wrapError(op, err)
}
