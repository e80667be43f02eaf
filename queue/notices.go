package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var wakeOthers = sql.Named("queue/wake")

// passOn forwards notices to other hungry workers when this one has no slot left for the runs. Its own row says by now that it is
// not hungry, so the notices do not come back.
func (c *claimer) passOn(ctx context.Context, told map[int]notice, free int, claims []*Claim) error {
	if len(claims) < free || len(told) == 0 || !c.x.peers.Load() {
		return nil
	}
	left := map[int]int64{}
	for lane, n := range told {
		left[lane] = max(n.rows, 1)
	}
	for _, claim := range claims {
		left[claim.Lane]--
	}
	var lanes []int
	var rows []int64
	var ats []time.Time
	for _, lane := range slices.Sorted(maps.Keys(told)) {
		if left[lane] > 0 {
			lanes, rows, ats = append(lanes, lane), append(rows, left[lane]), append(ats, told[lane].at)
		}
	}
	if len(lanes) == 0 {
		return nil
	}
	return c.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, wakeOthers, pgx.StrictNamedArgs{"lanes": lanes, "rows": rows, "ats": ats}); err != nil {
			return fmt.Errorf("wake others: %w", err)
		}
		return nil
	})
}
