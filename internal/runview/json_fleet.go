package runview

import (
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// QueueJSON is the JSON of a queue.
type QueueJSON struct {
	Name       string  `json:"name"`
	Paused     bool    `json:"paused"`
	PausedBy   *string `json:"paused_by"`
	Queued     int64   `json:"queued"`
	Running    int64   `json:"running"`
	OldestMs   *int64  `json:"oldest_ms"`   // null: nothing waits
	MaxRunning int     `json:"max_running"` // 0: no limit
	MaxQueued  int     `json:"max_queued"`
}

// NewQueueJSON returns the JSON of a queue. oldest_ms is null if no run waits.
func NewQueueJSON(q *queue.Queue) QueueJSON {
	j := QueueJSON{
		Name: q.Name, Paused: q.PausedBy != "", PausedBy: TextOrNull(q.PausedBy), Queued: q.Queued, Running: q.Running,
		MaxRunning: q.MaxRunning, MaxQueued: q.MaxQueued,
	}
	if q.Queued > 0 {
		j.OldestMs = new(q.Oldest.Milliseconds())
	}
	return j
}

// PoolJSON is the JSON of a pool.
type PoolJSON struct {
	Name         string     `json:"name"`
	Slots        int        `json:"slots"` // 0: no limit
	PerKey       bool       `json:"per_key"`
	Rate         int        `json:"rate"`   // 0: no limit
	PerMs        *int64     `json:"per_ms"` // null: there is no rate
	Burst        *int       `json:"burst"`
	Taken        int64      `json:"taken"`
	Waiting      int64      `json:"waiting"`
	OldestWaitMs *int64     `json:"oldest_wait_ms"` // null: nothing waits
	Keys         int64      `json:"keys"`
	ClosedUntil  *time.Time `json:"closed_until"` // null: open, or closed until it is opened
	ClosedBy     *string    `json:"closed_by"`    // null: open
	Note         *string    `json:"note"`
	SetBy        string     `json:"set_by"`
	SetAt        *time.Time `json:"set_at"`
}

// NewPoolJSON returns the JSON of a pool.
func NewPoolJSON(p *queue.Pool) PoolJSON {
	j := PoolJSON{
		Name: p.Name, Slots: p.Slots, PerKey: p.PerKey, Rate: p.Rate, Taken: p.Taken, Waiting: p.Waiting, Keys: p.Keys,
		ClosedUntil: TimeOrNull(p.Closed.Until), ClosedBy: TextOrNull(p.Closed.By), Note: TextOrNull(p.Note),
		SetBy: p.SetBy, SetAt: TimeOrNull(p.SetAt),
	}
	if p.Rate > 0 {
		j.PerMs, j.Burst = new(p.Per.Milliseconds()), &p.Burst
	}
	if p.Waiting > 0 {
		j.OldestWaitMs = new(p.Oldest.Milliseconds())
	}
	return j
}

// WorkerJSON is the JSON of a worker.
type WorkerJSON struct {
	Name        string            `json:"name"`
	ID          string            `json:"id"`
	Host        string            `json:"host"`
	PID         int               `json:"pid"`
	State       string            `json:"state"`   // live, draining, lost, gone
	Desired     string            `json:"desired"` // live, draining, gone
	Labels      map[string]string `json:"labels"`
	Queues      []string          `json:"queues"` // none: all
	Offers      []string          `json:"offers"`
	Slots       int               `json:"slots"`
	Busy        int               `json:"busy"`    // slots in use
	Waiting     int               `json:"waiting"` // tasks that wait for a slot
	Runs        int               `json:"runs"`    // runs that it holds
	Unfit       string            `json:"unfit"`   // why it claims no runs; "": it claims runs
	UnfitSince  *time.Time        `json:"unfit_since"`
	BeatAgeMs   int64             `json:"beat_age_ms"`
	Silent      bool              `json:"silent"` // no sign of life for longer than its lease
	Quiet       bool              `json:"quiet"`  // no sign of life for longer than two renewals; a silent worker is quiet too
	Containment string            `json:"containment"`
	Version     string            `json:"version"`
	StartedAt   *time.Time        `json:"started_at"`
	EndedAt     *time.Time        `json:"ended_at"`
}

// NewWorkerJSON returns the JSON of a worker.
func NewWorkerJSON(w *queue.WorkerInfo) WorkerJSON {
	j := WorkerJSON{
		Name: w.Name, ID: w.ID.String(), Host: w.Host, PID: w.PID, State: string(w.State), Desired: string(w.Desired), Labels: w.Labels,
		Queues: append([]string{}, w.Queues...), Offers: append([]string{}, w.Offers...), Slots: w.Slots, Busy: w.Busy, Waiting: w.Waiting,
		Runs: w.Runs, Unfit: w.Unfit, UnfitSince: TimeOrNull(w.UnfitSince), BeatAgeMs: w.BeatAge.Milliseconds(), Silent: w.Silent(), Quiet: w.Quiet != nil,
		Containment: w.Containment,
		Version:     w.Version, StartedAt: TimeOrNull(w.StartedAt), EndedAt: TimeOrNull(w.EndedAt),
	}
	if j.Labels == nil {
		j.Labels = map[string]string{}
	}
	return j
}

// DAGJSON is the JSON of a version of a DAG.
type DAGJSON struct {
	Name          string     `json:"name"`
	Version       int        `json:"version"`
	Queue         string     `json:"queue"`
	MaxActiveRuns int        `json:"max_active_runs"`
	PausedBy      *string    `json:"paused_by"`
	RemovedAt     *time.Time `json:"removed_at"`
	CreatedAt     *time.Time `json:"created_at"`
	AppliedAt     *time.Time `json:"applied_at"`
	AppliedBy     string     `json:"applied_by"`
}

// ListedDAGJSON is the JSON of a DAG in the list of all DAGs, in its current version.
type ListedDAGJSON struct {
	DAGJSON

	NextAt *time.Time `json:"next_at"` // next time of its schedules; null: no schedule fires
}

// NewListedDAGJSON returns the JSON of a DAG in the list of all DAGs.
func NewListedDAGJSON(d *queue.DAG) ListedDAGJSON {
	return ListedDAGJSON{NewDAGJSON(d), TimeOrNull(d.NextAt)}
}

// NewDAGJSON returns the JSON of a version of a DAG.
func NewDAGJSON(d *queue.DAG) DAGJSON {
	return DAGJSON{
		d.Name, d.Version, d.Queue, d.MaxActive, TextOrNull(d.PausedBy), TimeOrNull(d.RemovedAt), TimeOrNull(d.CreatedAt),
		TimeOrNull(d.PutAt), d.PutBy,
	}
}

// StatsJSON is the number of runs since a time.
type StatsJSON struct {
	Since *time.Time     `json:"since"`
	DAGs  []DAGStatsJSON `json:"dags"`
}

// DAGStatsJSON is the number of runs of one DAG.
type DAGStatsJSON struct {
	DAG       string `json:"dag"`
	Scheduled int64  `json:"scheduled"`
	Queued    int64  `json:"queued"`
	Running   int64  `json:"running"`
	Waiting   int64  `json:"waiting"`
	Paused    int64  `json:"paused"`
	Succeeded int64  `json:"succeeded"`
	Failed    int64  `json:"failed"`
	Canceled  int64  `json:"canceled"`
	P50       *int64 `json:"p50_ms"` // null: no run ended
	P95       *int64 `json:"p95_ms"`
	Max       *int64 `json:"max_ms"`
	Capped    bool   `json:"capped"` // there are older runs that were not counted
}

// NewStatsJSON returns the JSON of the numbers of runs by DAG. since is the time from which the caller has counted.
func NewStatsJSON(stats []queue.DAGStats, since time.Time) StatsJSON {
	j := StatsJSON{Since: TimeOrNull(since), DAGs: []DAGStatsJSON{}}
	for i := range stats {
		j.DAGs = append(j.DAGs, newDAGStatsJSON(&stats[i]))
	}
	return j
}

func newDAGStatsJSON(s *queue.DAGStats) DAGStatsJSON {
	j := DAGStatsJSON{
		DAG: s.DAG, Scheduled: s.Scheduled, Queued: s.Queued, Running: s.Running, Waiting: s.Waiting, Paused: s.Paused,
		Succeeded: s.Succeeded, Failed: s.Failed, Canceled: s.Canceled, Capped: s.Ended() >= queue.MaxCounted,
	}
	if s.Ended() > 0 {
		j.P50, j.P95, j.Max = new(s.Median.Milliseconds()), new(s.P95.Milliseconds()), new(s.Longest.Milliseconds())
	}
	return j
}
