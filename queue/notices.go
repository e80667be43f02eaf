package queue

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var wakeOthers = sql.Named("queue/wake")

// noticedMax bounds the lanes that a worker remembers to have been told of.
const noticedMax = 1000

// notices count, by lane, the new runs that notifications left to this worker since the last poll.
type notices struct {
	mu    sync.Mutex
	lanes map[int]int64
}

func (n *notices) add(lanes map[int]int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lanes == nil {
		n.lanes = map[int]int64{}
	}
	for lane, rows := range lanes {
		if _, known := n.lanes[lane]; known || len(n.lanes) < noticedMax {
			n.lanes[lane] += rows
		}
	}
}

func (n *notices) take() map[int]int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	lanes := n.lanes
	n.lanes = nil
	return lanes
}

// passOn forwards notices to other hungry workers when this one has no slot left for the runs. Its own row says by now that it is
// not hungry, so the notices do not come back.
func (c *claimer) passOn(ctx context.Context, told map[int]int64, free int, claims []*Claim) error {
	if len(claims) < free || len(told) == 0 || len(c.peers.Load().others) == 0 {
		return nil
	}
	for _, claim := range claims {
		if told[claim.Lane]--; told[claim.Lane] <= 0 {
			delete(told, claim.Lane)
		}
	}
	var lanes []int
	var rows []int64
	for _, lane := range slices.Sorted(maps.Keys(told)) {
		lanes, rows = append(lanes, lane), append(rows, max(told[lane], 1))
	}
	if len(lanes) == 0 {
		return nil
	}
	return c.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, wakeOthers, pgx.StrictNamedArgs{"lanes": lanes, "rows": rows}); err != nil {
			return fmt.Errorf("wake others: %w", err)
		}
		return nil
	})
}
