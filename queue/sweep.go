package queue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/sql"
)

const (
	lateEvery   = 5 * time.Second
	straysEvery = 15 * time.Second
	// sweepShare is how many times as long as it took a look has to wait for its next time, hurryShare how many times where
	// there is a reason to look again at once.
	sweepShare, hurryShare = 200, 10
	hurryEvery             = 100 * time.Millisecond
	// lately is how far back the looks reach that stay cheap: few transactions are open for longer.
	lately = time.Minute
)

var (
	findLate   = sql.Named("queue/late")
	findStrays = sql.Named("queue/strays")
)

// sweeps look for what polls pass over to be quick: polls begin where the last one left off, and believe who is on the list
// of the living. While somebody holds an old snapshot, everything that was queued or held since is in the way of a look, so
// looks go beside the polls, on the connection for reads, and take a small part of the time. Whoever polls owns them.
type sweeps struct {
	now     func() time.Duration
	recent  cadence      // of looks for what was committed late, as far back as lately
	old     cadence      // and for all of it
	strays  cadence      // of looks for claims that nobody knows of
	doubted atomic.Bool  // somebody has a reason to look for those at once
	hurried bool         // the look under way is for such a reason
	found   chan finding // by the look under way; nil: there is none
	running sync.WaitGroup
	life    context.Context //nolint:containedctx // of the session: looks end with it
	end     context.CancelFunc
}

func newSweeps(now func() time.Duration) *sweeps {
	w := &sweeps{now: now, recent: cadence{every: lateEvery}, old: cadence{every: lateEvery}, strays: cadence{every: straysEvery}}
	w.life, w.end = context.WithCancel(context.Background())
	return w
}

// doubt has the next poll look for strays.
func (w *sweeps) doubt() { w.doubted.Store(true) }

// pressing says whether there is a reason to look that the next poll takes further.
func (w *sweeps) pressing() bool { return w.doubted.Load() || w.found != nil && w.hurried }

// close cuts off a look that is under way.
func (w *sweeps) close() {
	w.end()
	w.running.Wait()
}

// cadence is how often to look: from time to time, and not soon again where it took long.
type cadence struct{ every, soonest, next time.Duration }

func (c *cadence) due(now time.Duration) bool { return now >= c.next }

// may says whether somebody who has a reason may look, though it is not due.
func (c *cadence) may(now time.Duration) bool { return now >= c.soonest }

func (c *cadence) looked(now, took time.Duration) {
	c.soonest, c.next = now+max(hurryEvery, hurryShare*took), now+max(c.every, sweepShare*took)
}

// finding is what came of a look. late and strays are nil where it did not look for them, or got no answer.
type finding struct {
	of     *cadence
	took   time.Duration
	late   *late
	strays *strays
}

// late is what was committed below the floors: the lowest of each lane.
type late struct {
	lanes          []int
	floors         []time.Time // together with froms
	froms          []RunID
	wakes, expires *time.Time
}

// strays are where claims may be that nobody knows of.
type strays struct {
	dead   []uuid.UUID // workers that left runs, and no other trace
	before []*holding  // what this worker held when it asked
	runs   []RunID     // what the database said it holds
	claims []uuid.UUID // of these runs
}

// sweep takes in what the last look found, and has the next one begin when it is time. It says which workers are dead.
func (s *Session) sweep(ctx context.Context) (dead []uuid.UUID, err error) {
	w := s.sweeps
	select {
	case f := <-w.found:
		w.found, w.hurried = nil, false
		dead, err = s.takeIn(ctx, f)
	default:
	}
	if w.found != nil {
		return nil, nil // it is still at it
	}
	if of, look := s.nextLook(); look != nil {
		found := make(chan finding, 1)
		w.found = found
		w.running.Go(func() { found <- s.look(of, look) })
	}
	return dead, err
}

func (s *Session) look(of *cadence, look func(context.Context, *pgx.Conn, *finding) error) finding {
	f, begun := finding{of: of}, boottime.Now()
	err := s.reads.use(s.sweeps.life, func(ctx context.Context, conn *pgx.Conn) error { return look(ctx, conn, &f) })
	f.took = boottime.Now() - begun
	if err == nil {
		return f
	}
	if of == &s.sweeps.strays {
		s.sweeps.doubt() // whatever was in doubt is so still
	}
	return finding{of: of, took: f.took}
}

func (s *Session) takeIn(ctx context.Context, f finding) (dead []uuid.UUID, err error) {
	w, now := s.sweeps, s.sweeps.now()
	f.of.looked(now, f.took)
	if f.of == &w.old {
		w.recent.looked(now, 0)
	}
	if f.late != nil {
		s.lanes.late(f.late)
	}
	if f.strays == nil {
		return nil, nil
	}
	err = s.settle(ctx, f.strays)
	if err != nil {
		w.doubt() // it is to be found again
		return nil, fmt.Errorf("settle doubtful claims: %w", err)
	}
	return f.strays.dead, nil
}

// nextLook is one whose time has come, nil for none.
func (s *Session) nextLook() (*cadence, func(context.Context, *pgx.Conn, *finding) error) {
	w, now := s.sweeps, s.sweeps.now()
	switch {
	case w.strays.due(now) || w.strays.may(now) && w.doubted.Load():
		w.hurried = w.doubted.Swap(false)
		return &w.strays, s.lookForStrays
	case w.old.due(now):
		return &w.old, s.lookForLate(time.Time{})
	case w.recent.due(now):
		return &w.recent, s.lookForLate(s.lanes.polled.Add(-lately))
	}
	return nil, nil
}

func (s *Session) lookForLate(since time.Time) func(context.Context, *pgx.Conn, *finding) error {
	args := s.lateArgs(since)
	return func(ctx context.Context, conn *pgx.Conn, f *finding) error {
		var l late
		f.late = &l
		return conn.QueryRow(ctx, findLate, args).Scan(&l.lanes, &l.floors, &l.froms, &l.wakes, &l.expires)
	}
}

func (s *Session) lateArgs(since time.Time) pgx.StrictNamedArgs {
	a := argsOf(s.lanes.all)
	return pgx.StrictNamedArgs{
		"lanes": a.ids, "floors": a.floors, "froms": a.froms, "halted": a.halted, "since": orMinusInfinity(since),
		"slept": orMinusInfinity(s.lanes.slept), "waited": orMinusInfinity(s.lanes.waited),
	}
}

func (s *Session) lookForStrays(ctx context.Context, conn *pgx.Conn, f *finding) error {
	f.strays = &strays{before: s.held.all()}
	return conn.QueryRow(ctx, findStrays, pgx.StrictNamedArgs{"worker": s.worker.ID}).Scan(&f.strays.dead, &f.strays.runs, &f.strays.claims)
}
