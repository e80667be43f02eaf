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

// Nightly reports whether tests may take long.
func Nightly() bool { return *nightly }

// SetClock makes the session measure its own pauses and the silence of other workers by another clock.
func (s *Session) SetClock(now func() time.Duration) {
	s.claimer.now, s.lookout.now, s.lookout.observer.now, s.sweeper.now = now, now, now, now
}

// Postpone makes the session leave a lost worker to later sweeps, as after a try that could not lock its fences.
func (s *Session) Postpone(worker uuid.UUID) { s.sweeper.postpone(worker) }

// ReapLimit is how many workers one sweep takes over from.
const ReapLimit = reapLimit

// Expected returns the number of ids under which a poll may have claimed runs while its reply is not read.
func (s *Session) Expected() int { return len(s.x.expected()) }

// InUse returns how many connections of the session are in use.
func (s *Session) InUse() (n int) {
	for _, l := range []*dedicatedConn{s.claimer.conn, s.lookout.conn, s.sweeper.conn, s.lease, s.reads, s.chunks, s.journal.conn} {
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

// ReleaseStatement returns the statement that gives claims back: all, or some.
func ReleaseStatement(all bool) string {
	if all {
		return releaseAll
	}
	return releaseSome
}

// ClaimStatement returns the next claim behind no limit, as it is sent.
func (s *Session) ClaimStatement(want Want) (string, pgx.StrictNamedArgs) {
	ids := newClaimIDs(want.room(&Polled{}))
	args := s.claimer.args(s.claimer.order(&want), ids)
	args["want"], args["free"], args["least"] = len(ids), want.Free, want.Least
	return claimRuns, args
}

// LimitedStatement returns the next claim behind limits, as it is sent.
func (s *Session) LimitedStatement(want Want) (string, pgx.StrictNamedArgs) {
	return claimLimited, s.claimer.args(s.claimer.order(&want), newClaimIDs(want.room(&Polled{})))
}

// RenewStatement returns the next renewal, as it is sent.
func (s *Session) RenewStatement() (string, pgx.StrictNamedArgs) {
	return renewLease, s.renewArgs(Vitals{Busy: 1})
}

// LookStatement returns the next look, as it is sent.
func (s *Session) LookStatement(load Load) (string, pgx.StrictNamedArgs) {
	return lookAround, s.lookout.args(load)
}

// SweptFor makes the last sweep appear to have taken d, and adds a reason for another one.
func (s *Session) SweptFor(took time.Duration) {
	s.sweeper.soonest, s.sweeper.next = s.sweeper.now()+askedShare*took, s.sweeper.now()+sweepShare*took
	s.sweeper.full = s.sweeper.next
	s.x.doubt()
}

// Reasons returns why a sweep is due.
func (s *Session) Reasons() string {
	s.x.mu.Lock()
	defer s.x.mu.Unlock()
	return fmt.Sprintf("%+v", s.x.why)
}

// SweepAll makes a sweep from the very start, even if none is due.
func (s *Session) SweepAll(ctx context.Context) (Swept, error) {
	s.sweeper.full = 0
	return s.Sweep(ctx)
}

// SweepLately makes a sweep of what was queued lately.
func (s *Session) SweepLately(ctx context.Context) (Swept, error) {
	s.sweeper.next = 0
	return s.Sweep(ctx)
}

// SweepStatement returns the statement of a sweep that reaches back to the very first run.
func (s *Session) SweepStatement() (string, pgx.StrictNamedArgs) {
	return sweepAll, pgx.StrictNamedArgs{"worker": s.worker.ID, "since": orMinusInfinity(time.Time{})}
}

// SetCloseLimit bounds a Close without a deadline.
func (s *Session) SetCloseLimit(d time.Duration) { s.closeLimit = d }

// Own returns a connection made as a session makes its own.
func (s *Store) Own(ctx context.Context) (*pgx.Conn, error) {
	return pglink.Dial(ctx, s.connConfig("test"), nil)
}

// Steady returns the settings of the connection that polls.
func Steady(c *pgx.ConnConfig) *pgx.ConnConfig { return steady(c) }

// Cursor returns where polls begin on a shelf.
func (s *Session) Cursor(lane, stage int) time.Time {
	c := &s.x.cursors
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ofLocked(shelfOf(lane, stage))
}

// RaiseCursors makes the session look for nothing below a moment.
func (s *Session) RaiseCursors(at time.Time) {
	c := &s.x.cursors
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.rest, c.tried = nil, at, nil
}

// Needs returns how many connections a pooler that lends per session must lend a worker.
func (s *Store) Needs() int { return s.needs(pglink.SessionPooler) }

// ConnectLate makes workers register with the connection for claims alone, and make the others at their first use. Ten
// connections cost more time than most tests do.
func (s *Store) ConnectLate() { s.shortage.trusting = true }

// SetShortagePatience sets the patience of all tries and of one, for tests that cannot wait.
func (s *Store) SetShortagePatience(all, one time.Duration) {
	s.shortage.patience, s.shortage.tryPatience = all, one
}
