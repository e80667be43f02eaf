package queue

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var (
	readBackClaims = sql.Named("queue/readback")
	listHolds      = sql.Named("queue/holds")
	releaseClaims  = sql.Named("queue/release")
)

// releaseBatch bounds the runs that one statement gives back or queues again.
const releaseBatch = 1000

// readBack finds out what polls claimed whose replies were lost. The server process that may still be at it was ended
// when the link took up its new connection: what it claimed later would be nobody's.
func (s *Session) readBack(ctx context.Context, p *Polled) error {
	if len(s.unread) == 0 {
		return nil
	}
	var claims []*Claim
	err := s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, readBackClaims, pgx.StrictNamedArgs{"worker": s.worker.ID, "claims": plain(s.unread)})
		if err != nil {
			return err
		}
		if claims, err = readClaims(rows, s.lanes); err != nil {
			return err
		}
		claims = slices.DeleteFunc(claims, func(c *Claim) bool { return s.held.of(c) != nil })
		s.hold(claims, s.unread)
		s.unread = nil
		return nil
	})
	if err != nil {
		return fmt.Errorf("read back claims: %w", err)
	}
	p.Claims = append(p.Claims, claims...)
	return nil
}

// doubts are claims that only one side knew of when the counts of renewals differed.
type doubts struct {
	strange map[uuid.UUID]bool   // the database's, not the session's
	missing map[uuid.UUID]*Claim // the session's, not the database's
}

// settleDoubts compares claim by claim once the counts differ for good. What differs twice is no flush or poll under way:
// the database's is given back, the session's is forfeit.
func (s *Session) settleDoubts(ctx context.Context) error {
	if !s.beat.doubted() {
		s.doubts = doubts{}
		return nil
	}
	before := s.held.all()
	var stored []uuid.UUID
	err := s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, listHolds, s.worker.ID)
		if err == nil {
			stored, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("compare claims: %w", err)
	}
	last := s.doubts
	s.doubts = s.compare(before, stored)
	return s.actOn(ctx, last)
}

// compare finds what only one side knows. before is what the session held when the other side was asked.
func (s *Session) compare(before []*holding, stored []uuid.UUID) doubts {
	d := doubts{strange: map[uuid.UUID]bool{}, missing: map[uuid.UUID]*Claim{}}
	for _, id := range stored {
		d.strange[id] = true
	}
	for _, held := range before {
		if !d.strange[held.claim.ID] && s.held.of(held.claim) != nil {
			d.missing[held.claim.ID] = held.claim
		}
		delete(d.strange, held.claim.ID)
	}
	return d
}

// actOn settles what was in doubt the last time already.
func (s *Session) actOn(ctx context.Context, last doubts) error {
	var back []uuid.UUID
	for id := range s.doubts.strange {
		if last.strange[id] {
			back = append(back, id)
		}
	}
	for id, claim := range s.doubts.missing {
		if last.missing[id] != nil {
			s.held.forfeit(claim)
		}
	}
	if len(back) == 0 {
		return nil
	}
	return s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := s.release(ctx, conn, back)
		return err
	})
}

// release queues claims of this worker again, nil for all, and says how many.
func (s *Session) release(ctx context.Context, q Querier, claims []uuid.UUID) (n int, err error) {
	var lanes, told int
	args := pgx.StrictNamedArgs{"worker": s.worker.ID, "claims": claims, "batch": releaseBatch}
	err = q.QueryRow(ctx, releaseClaims, args).Scan(&n, &lanes, &told)
	if err != nil {
		return n, fmt.Errorf("release claims: %w", err)
	}
	return n, nil
}
