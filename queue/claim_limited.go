package queue

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// maxGates bounds how many limits one poll goes through. The others have their turn at the next.
const maxGates = 16

var (
	passGate     = sql.Named("queue/gates")
	claimBehind  = sql.Named("queue/claim_limited")
	passedRuns   = sql.Named("queue/passed")
	errGateTaken = errors.New("somebody else is at this limit")
)

// gatesOf are the limits that these lanes are behind, in the order of their priority: of many those that were not gone to for
// the longest time, so that none starves.
func (l *lanes) gatesOf(ids []int) []gate {
	var gates []gate
	for _, lane := range l.all {
		if slices.Contains(ids, lane.ID) && !slices.Contains(gates, lane.gate()) {
			gates = append(gates, lane.gate())
		}
	}
	rank := make(map[gate]int, len(gates))
	for _, g := range gates {
		rank[g] = behind(g, l.all)[0].Priority
	}
	slices.SortStableFunc(gates, func(a, b gate) int { return cmp.Compare(l.passed[a], l.passed[b]) })
	gates = gates[:min(len(gates), maxGates)]
	slices.SortStableFunc(gates, func(a, b gate) int { return cmp.Compare(rank[b], rank[a]) })
	return gates
}

// pass takes in that a limit was gone to, in vain or not.
func (l *lanes) pass(g gate) {
	l.serves++
	l.passed[g] = l.serves
}

// owe remembers limits that had something due when there was no room left for it: they go first at the next poll, or a
// backlog without limits would starve them. Every other time, so that they do not starve the backlog.
func (l *lanes) owe(due []gate, full bool) {
	paid := len(l.owed) > 0
	l.owed = nil
	if full && !paid {
		l.owed = due
	}
}

// claimLimited claims behind limits, as far as there is room: runs for slots, or where none is free those that may need no slot.
func (c *claimer) claimLimited(ctx context.Context, gates []gate, want Want, room func() int, p *Polled) error {
	for _, g := range gates {
		if room() == 0 {
			return nil
		}
		c.lanes.pass(g)
		if err := c.claimBehind(ctx, g, want, room(), p); err != nil && !errors.Is(err, errGateTaken) {
			return err
		}
	}
	return nil
}

// claimBehind claims up to n runs behind one limit, in two statements of one transaction.
func (c *claimer) claimBehind(ctx context.Context, g gate, want Want, n int, p *Polled) error {
	ids := newClaimIDs(n)
	group := behind(g, above(c.lanes.order(), want.Above))
	if len(group) == 0 {
		return nil
	}
	k := look{lanes: group}
	claims, err := c.ask(ctx, ids, func(ctx context.Context, conn *pgx.Conn) (claims []*Claim, err error) {
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
			if claims, err = c.behindGate(ctx, tx, g, group, ids, want.Slots); err != nil {
				return err
			}
			k.claims = inTurn(g, claims)
			k.passed, err = c.passedOver(ctx, tx, k)
			return err
		})
		return claims, err
	})
	if err != nil {
		return err
	}
	c.lanes.gave(claims)
	p.Claims = append(p.Claims, claims...)
	if want.full() {
		return nil // what waits for a slot was left where it is
	}
	k.now = c.lanes.polled // of the last poll: whether a lane gave all it had, or the limit held back, is not known
	c.lanes.saw(k)
	return nil
}

// inTurn leaves out what was driven before: what a DAG had begun goes on in front of runs that the limit holds back.
func inTurn(g gate, claims []*Claim) []*Claim {
	return slices.DeleteFunc(slices.Clone(claims), func(c *Claim) bool { return g.dag != 0 && c.Epoch > 1 })
}

func (c *claimer) behindGate(ctx context.Context, tx pgx.Tx, g gate, group []*lane, ids []uuid.UUID, slots int) ([]*Claim, error) {
	if err := c.enterGate(ctx, tx, g); err != nil {
		return nil, err
	}
	a := argsOf(group)
	rows, err := tx.Query(ctx, claimBehind, pgx.StrictNamedArgs{
		"worker": c.worker.ID, "queue": g.inQueue, "dag": g.dag, "want": len(ids), "slots": slots, "claims": plain(ids), "terms": c.lanes.terms,
		"lanes": a.ids, "floors": a.floors, "froms": a.froms, "halted": a.halted, "held": c.lanes.held,
	})
	if err != nil {
		return nil, err
	}
	return readClaims(rows, c.lanes)
}

// passedOver finds runs that stand before those that were claimed, and were not claimed: somebody has their rows.
func (c *claimer) passedOver(ctx context.Context, tx pgx.Tx, k look) (map[int]place, error) {
	first := k.first()
	var a laneArgs
	var ats []time.Time
	var runs []RunID
	for _, l := range k.lanes {
		if p, gave := first[l.ID]; gave {
			a.ids, a.floors, a.froms = append(a.ids, l.ID), append(a.floors, orMinusInfinity(l.floor.at)), append(a.froms, l.floor.run)
			ats, runs = append(ats, p.at), append(runs, p.run)
		}
	}
	if len(a.ids) == 0 {
		return nil, nil //nolint:nilnil // nothing was claimed, so no floor moves
	}
	rows, err := tx.Query(ctx, passedRuns, pgx.StrictNamedArgs{"lanes": a.ids, "floors": a.floors, "froms": a.froms, "ats": ats, "runs": runs})
	if err != nil {
		return nil, err
	}
	passed := map[int]place{}
	var lane int
	var p place
	_, err = pgx.ForEachRow(rows, []any{&lane, &p.at, &p.run}, func() error {
		passed[lane] = p
		return nil
	})
	return passed, err
}

// enterGate is for the first of those that are at it.
func (c *claimer) enterGate(ctx context.Context, tx pgx.Tx, g gate) error {
	var first bool
	err := tx.QueryRow(ctx, passGate, pgx.StrictNamedArgs{
		"worker": c.worker.ID, "queue": g.inQueue, "dag": g.dag, "by_queue": g.queue != "", "by_dag": g.dag != 0,
	}).Scan(&first)
	if err == nil && !first {
		return errGateTaken
	}
	return err
}

func readClaims(rows pgx.Rows, l *lanes) ([]*Claim, error) {
	var c claimRow
	targets := c.targets()
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (*Claim, error) {
		if err := row.Scan(targets...); err != nil {
			return nil, err
		}
		return c.claim(l), nil
	})
}
