package queue

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

var nightly = flag.Bool("nightly", false, "fill tables with as many rows as they may come to have")

// Nightly reports whether tests take their time.
func Nightly() bool { return *nightly }

// SetClock has the session count its own pauses and others' silence by another clock.
func (s *Session) SetClock(now func() time.Duration) {
	s.claimer.now, s.lookout.now, s.lookout.observer.now, s.sweeper.now = now, now, now, now
}

// Postpone has the session leave a lost worker to later sweeps, as one whose fences could not be had.
func (s *Session) Postpone(worker uuid.UUID) { s.sweeper.postpone(worker) }

// ReapLimit is how many workers one sweep takes over from.
const ReapLimit = reapLimit

// Expected is under how many ids a poll may have claimed runs whose reply was not read.
func (s *Session) Expected() int { return len(s.x.expected()) }

// InUse is how many of the connections of the session are in use.
func (s *Session) InUse() (n int) {
	for _, l := range []*link{s.claimer.conn, s.lookout.conn, s.sweeper.conn, s.lease, s.reads, s.chunks, s.journal.link} {
		n += 1 - len(l.turn)
	}
	return n
}

// OnClaims uses the connection that polls.
func (s *Session) OnClaims(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	return s.claimer.conn.use(ctx, do)
}

// OnReads uses the connection that loads.
func (s *Session) OnReads(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	return s.reads.use(ctx, do)
}

// ReleaseStatement gives claims back: all, or some.
func ReleaseStatement(all bool) string {
	if all {
		return releaseAll
	}
	return releaseSome
}

// ClaimStatement is the next claim behind no limit, as it is sent.
func (s *Session) ClaimStatement(want Want) (string, pgx.StrictNamedArgs) {
	ids := newClaimIDs(want.room(&Polled{}))
	args := s.claimer.args(s.claimer.order(&want), ids)
	args["want"], args["free"], args["least"] = len(ids), want.Free, want.Least
	return claimRuns, args
}

// LimitedStatement is the next claim behind limits, as it is sent.
func (s *Session) LimitedStatement(want Want) (string, pgx.StrictNamedArgs) {
	return claimLimited, s.claimer.args(s.claimer.order(&want), newClaimIDs(want.room(&Polled{})))
}

// RenewStatement is the next renewal, as it is sent.
func (s *Session) RenewStatement() (string, pgx.StrictNamedArgs) {
	return renewLease, s.renewArgs(Vitals{Busy: 1})
}

// LookStatement is the next look, as it is sent.
func (s *Session) LookStatement(load Load) (string, pgx.StrictNamedArgs) {
	return lookAround, s.lookout.args(load)
}

// SweptFor has the last sweep have taken so long, and gives a reason for another.
func (s *Session) SweptFor(took time.Duration) {
	s.sweeper.soonest, s.sweeper.next = s.sweeper.now()+askedShare*took, s.sweeper.now()+sweepShare*took
	s.sweeper.full = s.sweeper.next
	s.x.doubt()
}

// Reasons says why a sweep is due.
func (s *Session) Reasons() string {
	s.x.mu.Lock()
	defer s.x.mu.Unlock()
	return fmt.Sprintf("%+v", s.x.why)
}

// SweepAll is a sweep that looks at everything from the very start, however soon it comes.
func (s *Session) SweepAll(ctx context.Context) (Swept, error) {
	s.sweeper.full = 0
	return s.Sweep(ctx)
}

// SweepLately is a sweep that looks at what was queued lately.
func (s *Session) SweepLately(ctx context.Context) (Swept, error) {
	s.sweeper.next = 0
	return s.Sweep(ctx)
}

// SweepStatement is a sweep that reaches back to the very first run.
func (s *Session) SweepStatement() (string, pgx.StrictNamedArgs) {
	return sweepAll, pgx.StrictNamedArgs{"worker": s.worker.ID, "since": orMinusInfinity(time.Time{})}
}

// SetCloseLimit bounds a Close without a deadline.
func (s *Session) SetCloseLimit(d time.Duration) { s.closeLimit = d }

// Own is a connection as a session makes them.
func (s *Store) Own(ctx context.Context) (*pgx.Conn, error) {
	return pglink.Dial(ctx, s.connConfig("test"), nil)
}

// Steady is how the connection that polls is set up.
func Steady(c *pgx.ConnConfig) *pgx.ConnConfig { return steady(c) }

// Cursor is where polls begin on a shelf.
func (s *Session) Cursor(lane, stage int) time.Time {
	c := &s.x.cursors
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ofLocked(shelfOf(lane, stage))
}

// RaiseCursors has the session look for nothing below a moment.
func (s *Session) RaiseCursors(at time.Time) {
	c := &s.x.cursors
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.rest, c.tried = nil, at, nil
}

// Needs are the connections that a pooler must lend a worker by the session.
func (s *Store) Needs() int { return s.needs(pglink.SessionPooler) }

// ConnectLate has workers register with the connection for claims alone; the others are made at their first use. Ten connections cost
// more than what most tests do with them.
func (s *Store) ConnectLate() { s.shortage.trusting = true }

// SetShortagePatience is for tests that cannot wait: for all tries, and for one.
func (s *Store) SetShortagePatience(all, one time.Duration) {
	s.shortage.patience, s.shortage.tryPatience = all, one
}
