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
func (s *Session) claimFamily(ctx context.Context, room func() int, p *Polled) error {
	if room() == 0 {
		return nil
	}
	ids := newClaimIDs(room())
	var gates []gate
	err := s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		claims, err := s.ownBehind(ctx, conn, gate{}, ids)
		if err != nil {
			return err
		}
		s.takeOwn(claims, ids, p)
		gates, err = s.gatesOfFamily(ctx, conn)
		return err
	})
	s.doubt(err, ids)
	for _, g := range gates {
		if err != nil || room() == 0 {
			break
		}
		err = s.claimOwnBehind(ctx, g, p)
	}
	if err != nil {
		return fmt.Errorf("claim run %d: %w", s.worker.Only, err)
	}
	return nil
}

func (s *Session) gatesOfFamily(ctx context.Context, conn *pgx.Conn) ([]gate, error) {
	rows, err := conn.Query(ctx, ownGates, pgx.StrictNamedArgs{"root": int64(s.worker.Only), "bound": maxGates})
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (g gate, err error) {
		var byQueue bool
		if err = row.Scan(&g.inQueue, &byQueue, &g.dag); byQueue {
			g.queue = g.inQueue
		}
		return g, err
	})
}

// claimOwnBehind claims one run behind a limit, in two statements of one transaction.
func (s *Session) claimOwnBehind(ctx context.Context, g gate, p *Polled) error {
	ids := newClaimIDs(1)
	err := s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var claims []*Claim
		err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
			if err := s.enterGate(ctx, tx, g); err != nil {
				return err
			}
			claims, err = s.ownBehind(ctx, tx, g, ids)
			return err
		})
		if err == nil {
			s.takeOwn(claims, ids, p)
		}
		return err
	})
	if errors.Is(err, errGateTaken) {
		return nil
	}
	s.doubt(err, ids)
	return err
}

// ownBehind claims runs of the family that are behind this very gate, none for the zero gate.
func (s *Session) ownBehind(ctx context.Context, q rowsQuerier, g gate, ids []uuid.UUID) ([]*Claim, error) {
	rows, err := q.Query(ctx, claimOwn, pgx.StrictNamedArgs{
		"worker": s.worker.ID, "root": int64(s.worker.Only), "want": len(ids), "claims": plain(ids), "queue": given(g.queue), "dag": given(g.dag),
	})
	if err != nil {
		return nil, err
	}
	return readClaims(rows, s.lanes)
}

// rowsQuerier is what pgx.Tx and *pgx.Conn have in common here.
type rowsQuerier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func (s *Session) takeOwn(claims []*Claim, ids []uuid.UUID, p *Polled) {
	s.hold(claims, ids)
	p.Claims = append(p.Claims, claims...)
}

// doubt has the next poll read back what may have been claimed although no reply came.
func (s *Session) doubt(err error, ids []uuid.UUID) {
	if breaks(err) {
		s.unread = append(s.unread, ids...)
	}
}
