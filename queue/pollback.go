package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var (
	readBackClaims = sql.Named("queue/readback")
	releaseAll     = sql.Without("queue/release", "some")
	releaseSome    = sql.Without("queue/release", "all")
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

// settle compares the claims that the database said this worker has with those it knew of before it asked. Claims come by polls
// alone, and whoever settles polls: what we did not know then and do not know now, we gave up or never knew of. It is given
// back as soon as nothing is left here of a drive that was on it. What the database lacks is forfeit when it was lacking for a
// while: the server that was asked may be another one than polls ask.
func (s *Session) settle(ctx context.Context, found *strays) error {
	s.forfeitMissing(found)
	back := s.held.strange(found)
	if len(back.runs) == 0 {
		return nil
	}
	if len(back.runs) > releaseBatch {
		s.sweeps.doubt()
	}
	return s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := s.release(ctx, conn, releaseSome, pgx.StrictNamedArgs{
			"worker": s.worker.ID, "runs": back.runs, "claims": plain(back.claims), "batch": releaseBatch,
		})
		return err
	})
}

func (s *Session) forfeitMissing(found *strays) {
	last, now := s.missing, s.sweeps.now()
	s.missing = map[uuid.UUID]time.Duration{}
	for _, claim := range s.held.missing(found) {
		since, known := last[claim.ID]
		switch {
		case !known:
			s.missing[claim.ID] = now
		case now-since < PollEvery:
			s.missing[claim.ID] = since
		default:
			s.held.forfeit(claim)
		}
	}
	if len(s.missing) > 0 {
		s.sweeps.doubt()
	}
}

// release queues claims of this worker again, a batch of them, and says how many.
func (s *Session) release(ctx context.Context, q Querier, statement string, args pgx.StrictNamedArgs) (n int, err error) {
	var lanes, told int
	if err := q.QueryRow(ctx, statement, args).Scan(&n, &lanes, &told); err != nil {
		return 0, fmt.Errorf("release claims: %w", err)
	}
	return n, nil
}
