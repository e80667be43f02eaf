package queue

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/oarlock-dev/oarlock/sql"
)

var failureHistorySQL = sql.Named("queue/failure_history")

// FailureHistory says how a run stands among the newest 50 runs of its DAG that ended.
type FailureHistory struct {
	Ended         int   // runs that were looked at: at most 50
	Alike         int   // how many of them ended in the same state, with the same reason to the letter
	First         RunID // the oldest of those; 0: none is alike
	FirstVersion  int   // of the DAG, in that run; 0: none is alike
	VersionBefore int   // of the DAG, in the run that ended before the first; 0: the first is the oldest that was looked at
	LastGood      RunID // the newest that succeeded before the run ended, of 200 before it; 0: none did
}

// FailureHistory reads how many runs of a DAG ended like one of them. Of other runs a submitter sees its own, among the newest 200.
func (s *Store) FailureHistory(ctx context.Context, run RunID) (*FailureHistory, error) {
	h, err := one(ctx, s, failureHistorySQL, pgx.StrictNamedArgs{"run": run}, func(row pgx.CollectableRow) (h FailureHistory, err error) {
		err = row.Scan(&h.Ended, &h.Alike, (*zeronull.Int8)(&h.First), &h.FirstVersion, &h.VersionBefore, (*zeronull.Int8)(&h.LastGood))
		return h, err
	})
	if err != nil {
		return nil, said("read how runs of a dag ended", noSuchRun(run, err))
	}
	return &h, nil
}
