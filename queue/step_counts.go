package queue

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var stepCountsSQL = sql.Named("queue/step_counts")

// CountSteps fills in the counts of runs that have none yet: a run counts its tasks once its first change is stored. Their
// steps are open then. It takes one query, or none. For readers.
func (s *Store) CountSteps(ctx context.Context, runs []Run) error {
	at := map[RunID]*Run{}
	var ids []RunID
	for i := range runs {
		if r := &runs[i]; r.Counts.Total == 0 {
			at[r.ID] = r
			ids = append(ids, r.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	type counted struct {
		Run   RunID
		Steps int
	}
	all, err := list(ctx, s, stepCountsSQL, pgx.StrictNamedArgs{"runs": ids}, pgx.RowToStructByPos[counted])
	for _, c := range all {
		at[c.Run].Counts.Total, at[c.Run].Counts.Open = c.Steps, c.Steps
	}
	return said("count steps", err)
}
