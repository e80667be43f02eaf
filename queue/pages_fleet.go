package queue

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var (
	heldSQL = sql.Named("queue/held")
	dueSQL  = sql.Named("queue/due")
)

// HeldRuns lists at most rows runs that a worker drives, the oldest first. For readers and workers.
func (s *Store) HeldRuns(ctx context.Context, worker uuid.UUID, rows int) ([]Run, error) {
	runs, err := list(ctx, s, heldSQL, pgx.StrictNamedArgs{"worker": worker, "rows": rows}, scanRun)
	return runs, said("list the runs of a worker", err)
}

// DueRuns lists at most rows runs of a queue that wait, those first that have been due for longest. For readers and workers.
func (s *Store) DueRuns(ctx context.Context, queue string, rows int) ([]Run, error) {
	runs, err := list(ctx, s, dueSQL, pgx.StrictNamedArgs{"queue": queue, "rows": rows}, scanRun)
	return runs, said("list the runs that wait in a queue", err)
}
