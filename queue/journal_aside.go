package queue

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// An application may keep a transaction open in which it asked something of a run, and with it the run's row. That run's
// records wait for it; those of all others must not. So a flush waits for a lock only briefly, and what has to wait
// longer is set aside: with its entry, until a look says that the row is free.

// flushLockPatience is how long one flush waits for locks.
const flushLockPatience = "250ms"

// Pauses between looks at a run that somebody holds.
const (
	firstAsidePause   = 50 * time.Millisecond
	longestAsidePause = time.Second
)

var (
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
	j.aside = append(j.aside, e)
}

// retake is an entry that was set aside and may go now, or whose claim is gone; nil for none.
func (j *journal) retake() *entry {
	for i, e := range j.aside {
		if time.Now().Before(e.due) {
			continue
		}
		j.aside = slices.Delete(j.aside, i, i+1)
		if j.ctx.Err() != nil || j.held.of(e.batch.Claim) == nil || j.isFree(e) {
			return e
		}
		j.setAside(e)
		return nil
	}
	return nil
}

// nextRetake fires when it is time to look again; never, while nothing is set aside.
func (j *journal) nextRetake() <-chan time.Time {
	if len(j.aside) == 0 {
		return nil
	}
	first := slices.MinFunc(j.aside, func(a, b *entry) int { return a.due.Compare(b.due) })
	return time.After(time.Until(first.due))
}
