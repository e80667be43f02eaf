package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// A row may hold what this version cannot read: a newer one wrote it, or something is broken. Its run is put away for
// others, who perhaps can; all other runs go on.
const (
	unreadablePause = time.Minute // before the next worker tries
	unreadableTries = 5           // by whomever; then the run fails
	unreadableBatch = 50          // that one poll puts away
)

var putAwayRun = sql.Named("queue/put_away")

// unreadable are claims that nobody here can drive. They are held until they are put away.
type unreadable struct {
	mu     sync.Mutex
	claims []unreadClaim
}

type unreadClaim struct {
	claim *Claim
	why   error
}

// add keeps a claim to be put away. Whoever has it hears that it is gone.
func (u *unreadable) add(c *Claim, why error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.claims = append(u.claims, unreadClaim{c, why})
	c.Forfeit()
}

func (u *unreadable) take(atMost int) []unreadClaim {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := min(atMost, len(u.claims))
	taken := u.claims[:n:n]
	u.claims = u.claims[n:]
	return taken
}

// sortOut takes those claims out of a poll whose rows could not be read.
func (s *Session) sortOut(p *Polled) {
	var readable []*Claim
	for _, c := range p.Claims {
		if c.unreadable != nil {
			s.odd.add(c, c.unreadable)
		} else {
			readable = append(readable, c)
		}
	}
	p.Claims = readable
}

// putAway gives back what cannot be read. What somebody else holds is tried again by the next poll.
func (s *Session) putAway(ctx context.Context) error {
	var errs []error
	for _, u := range s.odd.take(unreadableBatch) {
		err := s.putAwayOne(ctx, u)
		if err == nil {
			s.held.remove(u.claim)
			continue
		}
		s.odd.add(u.claim, u.why)
		if !isLockTimeout(err) {
			errs = append(errs, fmt.Errorf("put run %d away, which cannot be read (%w): %w", u.claim.Run, u.why, err))
		}
	}
	return errors.Join(errs...)
}

func (s *Session) putAwayOne(ctx context.Context, u unreadClaim) error {
	reason := fmt.Sprintf("worker %s, version %s, cannot read it: %v; is it of a newer version?", s.worker.Name, s.worker.Version, u.why)
	return s.claims.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var ours bool
		return conn.QueryRow(ctx, putAwayRun, pgx.StrictNamedArgs{
			"run": u.claim.Run, "claim": u.claim.ID, "epoch": u.claim.Epoch, "reason": storableReason(reason),
			"pause": unreadablePause, "tries": unreadableTries,
		}).Scan(&ours)
	})
}
