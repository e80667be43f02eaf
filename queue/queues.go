package queue

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/sql"
)

var (
	queuesSQL        = sql.Named("queue/queues")
	queuesMissingSQL = sql.Named("queue/queues_missing")
	setQueueSQL      = sql.Named("queue/set_queue")
	obstaclesSQL     = sql.Named("queue/obstacles")
)

// Queues lists all queues by name. It counts the runs that wait: a list for people. For readers and workers.
func (s *Store) Queues(ctx context.Context) ([]Queue, error) {
	queues, err := list(ctx, s, queuesSQL, nil, scanQueue)
	return queues, said("list queues", err)
}

// MissingQueues returns those of the names that no queue has, sorted. For readers and workers.
func (s *Store) MissingQueues(ctx context.Context, names []string) ([]string, error) {
	missing, err := list(ctx, s, queuesMissingSQL, pgx.StrictNamedArgs{"queues": names}, pgx.RowTo[string])
	return missing, said("list queues", err)
}

// Obstacles are what a person may clear out of the way of a queued run.
type Obstacles struct {
	QueuePaused bool     // its queue starts no runs
	DAGPaused   bool     // no runs of its DAG start
	QueueFull   int      // the max_running of its queue, where it is reached; 0: it is not
	DAGFull     bool     // its DAG has as many active runs as it may
	Unserved    bool     // workers are live, and none serves its queue
	Labels      []string // NAME=VALUE, which its DAG wants and no live worker has
	Deserted    bool     // no live worker gives signs of life
}

// Obstacles reads what keeps a queued run from being taken. For readers and workers.
func (s *Store) Obstacles(ctx context.Context, run RunID) (Obstacles, error) {
	obstacles, err := one(ctx, s, obstaclesSQL, pgx.StrictNamedArgs{"run": run}, pgx.RowToStructByPos[Obstacles])
	return obstacles, said("read what keeps a run", noSuchRun(run, err))
}

// SetQueue makes a queue, pauses or resumes it, sets its limits. For administrators.
func (s *Store) SetQueue(ctx context.Context, c QueueChange) error {
	args := pgx.StrictNamedArgs{"name": c.Name, "paused": c.Paused, "max_running": c.MaxRunning, "max_queued": c.MaxQueued}
	return said("set a queue", s.change(ctx, setQueueSQL, args))
}

// change sends what may be sent twice.
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
