package queue

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var setDAGSQL = sql.Named("queue/set_dag")

// SetDAG pauses a DAG, resumes it, takes it out of service or back. For administrators.
func (s *Store) SetDAG(ctx context.Context, c DAGChange) error {
	return said("set a dag", s.change(ctx, setDAGSQL, pgx.StrictNamedArgs{"name": c.Name, "paused": c.Paused, "removed": c.Removed}))
}
