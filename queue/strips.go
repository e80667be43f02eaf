package queue

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/oarlock-dev/oarlock/sql"
)

var stripsSQL = sql.Named("queue/strips")

// StripRun is a run as one bar among many.
type StripRun struct {
	DAG       string
	ID        RunID
	State     string
	StartedAt time.Time
	EndedAt   time.Time
	Waited    time.Duration // until it started
}

// Strips reads the newest runs of some DAGs, at most so many of each, the oldest first. For readers and workers.
func (s *Store) Strips(ctx context.Context, dags []string, rows int) (map[string][]StripRun, error) {
	runs, err := list(ctx, s, stripsSQL, pgx.StrictNamedArgs{"dags": dags, "rows": rows}, func(row pgx.CollectableRow) (r StripRun, err error) {
		var waitedMS int64
		err = row.Scan(&r.DAG, &r.ID, &r.State, (*zeronull.Timestamptz)(&r.StartedAt), &waitedMS, (*zeronull.Timestamptz)(&r.EndedAt))
		r.Waited = time.Duration(waitedMS) * time.Millisecond
		return r, err
	})
	strips := map[string][]StripRun{}
	for i := range runs {
		strips[runs[i].DAG] = append(strips[runs[i].DAG], runs[i])
	}
	return strips, said("read the newest runs of dags", err)
}
