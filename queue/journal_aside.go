package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// An application may keep a transaction open in which it asked something of a run, and with it the run's row. That run's
// records wait for it; those of all others must not. So a flush waits for a lock only briefly (pglink.AsFlush), and what has to wait
// longer is set aside: with its entry, until a look says that the row is free.

// Pauses between looks at a run that somebody holds.
const (
	firstAsidePause   = 50 * time.Millisecond
	longestAsidePause = time.Second
)

// askHolderAfter is how long records wait before the server is asked for whom.
const askHolderAfter = time.Second

var (
	whoHolds     = sql.Named("queue/holder")
	whichAreFree = sql.Named("queue/free_runs")
	errAside     = errors.New("somebody else holds the run's row")
)

// partFrom takes out of a flush what somebody else holds, and says whether that was anything. Pieces of a large entry
// stay: what was written of it must go on in order.
func (j *journal) partFrom(pieces []*piece) (some bool) {
	for _, p := range pieces {
		if p.settled || !p.entry.fits() || !p.changes() || j.isFree(p.entry) {
			continue
		}
		p.settle(errAside)
		some = true
	}
	return some
}

// isFree says whether the rows that an entry changes can be locked now. Where nobody answers the flush finds out.
func (j *journal) isFree(e *entry) bool {
	rows := []int64{int64(e.batch.Claim.Run)}
	if parent := e.batch.Claim.Parent; parent != 0 {
		rows = append(rows, int64(parent))
	}
	free := len(rows)
	_, err := j.try(func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, whichAreFree, rows).Scan(&free)
	})
	return err != nil || free == len(rows)
}

// setAside keeps an entry until its rows are free.
func (j *journal) setAside(e *entry) {
	e.pause = min(max(2*e.pause, firstAsidePause), longestAsidePause)
	e.due = time.Now().Add(e.pause)
	if e.aside.IsZero() {
		e.aside = time.Now()
	}
	j.aside = append(j.aside, e)
	j.tellAside()
}

// tellAside lets others know what waits, and for whom.
func (j *journal) tellAside() {
	if len(j.aside) == 0 {
		j.health.setAside(Aside{})
		return
	}
	first := slices.MinFunc(j.aside, func(a, b *entry) int { return a.aside.Compare(b.aside) })
	j.health.setAside(Aside{Since: first.aside, Run: first.batch.Claim.Run, Runs: len(j.aside), Holder: first.holder})
}

// retake is an entry that was set aside and may go now, or whose claim is gone; nil for none.
func (j *journal) retake() *entry {
	for i, e := range j.aside {
		if time.Now().Before(e.due) && j.ctx.Err() == nil {
			continue
		}
		j.aside = slices.Delete(j.aside, i, i+1)
		j.tellAside()
		if j.ctx.Err() != nil || j.held.of(e.batch.Claim) == nil || j.isFree(e) {
			return e
		}
		if time.Since(e.aside) >= askHolderAfter {
			e.holder = j.holderOf(e)
		}
		j.setAside(e)
		return nil
	}
	return nil
}

// holderOf tells who holds what entries wait for; "" where the server does not tell.
func (j *journal) holderOf(entries ...*entry) string {
	var runs []int64
	for _, e := range entries {
		runs = append(runs, int64(e.batch.Claim.Run))
		if e.batch.Claim.Parent != 0 {
			runs = append(runs, int64(e.batch.Claim.Parent))
		}
	}
	var holder string
	_, _ = j.try(func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, whoHolds, pgx.StrictNamedArgs{"worker": j.worker, "runs": runs}).Scan(&holder)
	})
	return holder
}

// withHolder adds to an error who holds what the flush waited for, once it fails for a while.
func (j *journal) withHolder(pieces []*piece, err error) error {
	if f := j.health.failure(); !isLockTimeout(err) || !f.Failing() || time.Since(f.Since) < askHolderAfter {
		return err
	}
	entries := make([]*entry, len(pieces))
	for i, p := range pieces {
		entries[i] = p.entry
	}
	if holder := j.holderOf(entries...); holder != "" {
		return fmt.Errorf("%w: %s", err, holder)
	}
	return err
}

// nextRetake fires when it is time to look again; never, while nothing is set aside.
func (j *journal) nextRetake() <-chan time.Time {
	if len(j.aside) == 0 {
		return nil
	}
	first := slices.MinFunc(j.aside, func(a, b *entry) int { return a.due.Compare(b.due) })
	return time.After(time.Until(first.due))
}
