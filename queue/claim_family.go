package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// noQueue is served by a worker that serves no lane: no queue can have this name.
const noQueue = ""

var (
	claimOwn = sql.Named("queue/claim_own")
	ownGates = sql.Named("queue/own_gates")
)

// claimFamily claims for a worker that serves one run and its children.
func (c *claimer) claimFamily(ctx context.Context, room func() int, p *Polled) error {
	if room() == 0 {
		return nil
	}
	if err := c.claimOwn(ctx, newClaimIDs(room()), p); err != nil {
		return fmt.Errorf("claim run %d: %w", c.worker.Only, err)
	}
	gates, err := c.gatesOfFamily(ctx)
	for _, g := range gates {
		if err != nil || room() == 0 {
			break
		}
		err = c.claimOwnBehind(ctx, g, p)
	}
	if err != nil {
		return fmt.Errorf("claim run %d: %w", c.worker.Only, err)
	}
	return nil
}

// claimOwn claims runs of the family that are behind no limit.
func (c *claimer) claimOwn(ctx context.Context, ids []uuid.UUID, p *Polled) error {
	claims, err := c.ask(ctx, ids, func(ctx context.Context, conn *pgx.Conn) ([]*Claim, error) {
		return c.ownBehind(ctx, conn, gate{}, ids)
	})
	p.Claims = append(p.Claims, claims...)
	return err
}

func (c *claimer) gatesOfFamily(ctx context.Context) (gates []gate, err error) {
	err = c.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, ownGates, pgx.StrictNamedArgs{"root": int64(c.worker.Only), "bound": maxGates})
		if err != nil {
			return err
		}
		gates, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (g gate, err error) {
			var byQueue bool
			if err = row.Scan(&g.inQueue, &byQueue, &g.dag); byQueue {
				g.queue = g.inQueue
			}
			return g, err
		})
		return err
	})
	return gates, err
}

// claimOwnBehind claims one run behind a limit, in two statements of one transaction.
func (c *claimer) claimOwnBehind(ctx context.Context, g gate, p *Polled) error {
	ids := newClaimIDs(1)
	claims, err := c.ask(ctx, ids, func(ctx context.Context, conn *pgx.Conn) (claims []*Claim, err error) {
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
			if err := c.enterGate(ctx, tx, g); err != nil {
				return err
			}
			claims, err = c.ownBehind(ctx, tx, g, ids)
			return err
		})
		return claims, err
	})
	if errors.Is(err, errGateTaken) {
		return nil
	}
	p.Claims = append(p.Claims, claims...)
	return err
}

// ownBehind claims runs of the family that are behind this very gate, none for the zero gate.
func (c *claimer) ownBehind(ctx context.Context, q rowsQuerier, g gate, ids []uuid.UUID) ([]*Claim, error) {
	rows, err := q.Query(ctx, claimOwn, pgx.StrictNamedArgs{
		"worker": c.worker.ID, "root": int64(c.worker.Only), "want": len(ids), "claims": plain(ids), "queue": given(g.queue), "dag": given(g.dag),
	})
	if err != nil {
		return nil, err
	}
	return readClaims(rows, c.lanes)
}

// rowsQuerier is what pgx.Tx and *pgx.Conn have in common here.
type rowsQuerier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}
