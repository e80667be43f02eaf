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
	unreadableBatch = 50          // that one look puts away
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

// dropUnreadable takes those claims out of a poll whose rows could not be read.
func (c *claimer) dropUnreadable(p *Polled) {
	var readable []*Claim
	for _, claim := range p.Claims {
		if claim.unreadable != nil {
			c.unreadable.add(claim, claim.unreadable)
		} else {
			readable = append(readable, claim)
		}
	}
	p.Claims = readable
}

// releaseUnreadable gives back what cannot be read. What somebody else holds is tried again by the next look.
func (l *lookout) releaseUnreadable(ctx context.Context) error {
	var errs []error
	for _, u := range l.unreadable.take(unreadableBatch) {
		err := l.putAway(ctx, u)
		if err == nil {
			l.held.remove(u.claim)
			continue
		}
		l.unreadable.add(u.claim, u.why)
		if !isLockTimeout(err) {
			errs = append(errs, fmt.Errorf("put run %d away, which cannot be read (%w): %w", u.claim.Run, u.why, err))
		}
	}
	return errors.Join(errs...)
}

func (l *lookout) putAway(ctx context.Context, u unreadClaim) error {
	reason := fmt.Sprintf("worker %s, version %s, cannot read it: %v; is it of a newer version?", l.worker.Name, l.worker.Version, u.why)
	return l.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var ours bool
		return conn.QueryRow(ctx, putAwayRun, pgx.StrictNamedArgs{
			"run": u.claim.Run, "claim": u.claim.ID, "epoch": u.claim.Epoch, "reason": storableReason(reason),
			"pause": unreadablePause, "tries": unreadableTries,
		}).Scan(&ours)
	})
}
