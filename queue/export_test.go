package queue

import (
	"context"
	"flag"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

var nightly = flag.Bool("nightly", false, "fill tables with as many rows as they may come to have")

// Nightly reports whether tests take their time.
func Nightly() bool { return *nightly }

// SetClock has the session count others' silence, floors and chores by another clock.
func (s *Session) SetClock(now func() time.Duration) {
	s.peers.now, s.chores.now, s.sweeps.now = now, now, now
}

// Unread is how many claims a poll may have made whose reply was lost.
func (s *Session) Unread() int { return len(s.unread) }

// InUse is how many of the connections of the session are in use.
func (s *Session) InUse() (n int) {
	for _, l := range []*link{s.claims, s.lease, s.reads, s.chunks, s.journal.link} {
		n += 1 - len(l.turn)
	}
	return n
}

// OnClaims uses the connection that polls.
func (s *Session) OnClaims(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	return s.claims.use(ctx, do)
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

// PollStatement is the next poll, as it is sent.
func (s *Session) PollStatement(a Appetite) (string, pgx.StrictNamedArgs) {
	want := a.Free + a.Ahead
	if want == 0 {
		want = a.Roused
	}
	parts := pollParts{roused: a.Free+a.Ahead == 0, top: a.Least != nil}
	return pollTexts[parts], s.pollArgs(a, s.lanes.order(), newClaimIDs(want))
}

// RenewStatement is the next renewal, as it is sent.
func (s *Session) RenewStatement() (string, pgx.StrictNamedArgs) {
	return renewLease, s.renewArgs(Vitals{Busy: 1})
}

// LateStatement looks for all that was committed late, StraysStatement for claims that nobody knows of.
func (s *Session) LateStatement() (string, pgx.StrictNamedArgs) {
	return findLate, s.lateArgs(time.Time{})
}

func (s *Session) StraysStatement() (string, pgx.StrictNamedArgs) {
	return findStrays, pgx.StrictNamedArgs{"worker": s.worker.ID}
}

// Looks are as many polls as it takes to look at everything.
const Looks = 3

// Swept waits for the look that is under way.
func (s *Session) Swept() { s.sweeps.running.Wait() }

// SetCloseLimit bounds a Close without a deadline.
func (s *Session) SetCloseLimit(d time.Duration) { s.closeLimit = d }

// Own is a connection as a session makes them.
func (s *Store) Own(ctx context.Context) (*pgx.Conn, error) {
	return pglink.Dial(ctx, s.connConfig("test"), nil)
}

// Steady is how the connection that polls is set up.
func Steady(c *pgx.ConnConfig) *pgx.ConnConfig { return steady(c) }

// Floor is below which place nothing of a lane is looked for; zero: not known.
func (s *Session) Floor(lane int) (time.Time, RunID) {
	l := s.lanes.byID[lane]
	return l.floor.at, l.floor.run
}

// SeenLater has the session have seen all it saw that much later.
func (s *Session) SeenLater(d time.Duration) {
	for i := range s.lanes.seen.marks {
		s.lanes.seen.marks[i].now = s.lanes.seen.marks[i].now.Add(d)
	}
	for _, l := range s.lanes.all {
		l.floor.at = l.floor.at.Add(d)
	}
}

// Horizon is how far below the last poll floors had to stay, because of transactions that were open.
func (s *Session) Horizon() time.Duration { return s.lanes.polled.Sub(s.lanes.seen.safe) }

// HungerPolls is how many polls a worker that has just become hungry sends beside the others, while older transactions are open.
const HungerPolls = int64(hungerLasts / openEvery)

// Needs are the connections that a pooler must lend a worker by the session.
func (s *Store) Needs() int { return s.needs() }

// SetShortagePatience is for tests that cannot wait: for all tries, and for one.
func (s *Store) SetShortagePatience(all, one time.Duration) {
	s.shortage.patience, s.shortage.tryPatience = all, one
}
