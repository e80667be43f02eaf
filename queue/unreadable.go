package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// A row may hold what this version cannot read: a newer one wrote it, or something is broken. Its run is put away for
// others, who perhaps can; all other runs go on.
const (
	unreadablePause = time.Minute // before the next worker tries
	unreadableTries = 5           // by whomever; then the run fails
	unreadableBatch = 50          // that one DoChores puts away
)

var putAwayRun = sql.Named("queue/put_away")

// unreadableError says why this version cannot read a DAG as it is stored.
type unreadableError struct{ error }

func (e unreadableError) Unwrap() error { return e.error }

// unreadClaim is a claim that nobody here can drive. It is held until it is put away.
type unreadClaim struct {
	claim *Claim
	why   error
}

// dropUnreadable takes those claims out of a poll whose rows could not be read.
func (c *claimer) dropUnreadable(p *Polled) {
	var readable []*Claim
	for _, claim := range p.Claims {
		if claim.unreadable != nil {
			c.x.addUnreadable(claim, claim.unreadable)
		} else {
			readable = append(readable, claim)
		}
	}
	p.Claims = readable
}

// releaseUnreadable gives back what cannot be read. What somebody else holds is tried again by the next call.
func (j *janitor) releaseUnreadable(ctx context.Context) error {
	var errs []error
	for _, u := range j.x.takeUnreadable(unreadableBatch) {
		err := j.putAway(ctx, u)
		if err == nil {
			j.held.remove(u.claim)
			continue
		}
		j.x.addUnreadable(u.claim, u.why)
		if !isLockTimeout(err) {
			errs = append(errs, fmt.Errorf("put run %d away, which cannot be read (%w): %w", u.claim.Run, u.why, err))
		}
	}
	return errors.Join(errs...)
}

func (j *janitor) putAway(ctx context.Context, u unreadClaim) error {
	reason := fmt.Sprintf("worker %s, version %s, cannot read it: %v; is it of a newer version?", j.worker.Name, j.worker.Version, u.why)
	return j.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var ours bool
		return conn.QueryRow(ctx, putAwayRun, pgx.StrictNamedArgs{
			"run": u.claim.Run, "claim": u.claim.ID, "epoch": u.claim.Epoch, "reason": storableReason(reason),
			"pause": unreadablePause, "tries": unreadableTries,
		}).Scan(&ours)
	})
}
