package queue

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

const (
	sweepEvery = 5 * time.Second
	sweepLimit = time.Minute // of one look
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

	bringForward = sql.Named("queue/bring_forward")
)

// sweeps look for what polls pass over to be quick: polls begin where the last one left off, and believe who is on the list
// of the living. While somebody holds an old snapshot, everything that was queued or held since is in the way of a look, so
// looks go beside the polls, on a connection of their own, and take a small part of the time. Whoever polls owns them.
type sweeps struct {
	now     func() time.Duration
	since   comeback     // what was committed so late is looked for as soon as may be
	under   comeback     // what the look under way is for, of that
	recent  cadence      // of looks for what was committed late, as far back as lately
	old     cadence      // and for all of it
	strays  cadence      // of looks for claims that nobody knows of
	doubted atomic.Bool  // somebody has a reason to look for those at once
	hurried bool         // the look under way is for such a reason
	found   chan finding // by the look under way; nil: there is none
	link    *link
	mu      sync.Mutex // of what is below
	ended   bool
	running sync.WaitGroup
	life    context.Context //nolint:containedctx // of the session: looks end with it
	end     context.CancelFunc
}

func newSweeps(now func() time.Duration, link *link) *sweeps {
	w := &sweeps{now: now, recent: cadence{every: sweepEvery}, old: cadence{every: lately}, strays: cadence{every: sweepEvery}, link: link}
	w.link.limit = sweepLimit
	w.life, w.end = context.WithCancel(context.Background())
	return w
}

// doubt has a poll look for strays as soon as may be.
func (w *sweeps) doubt() { w.doubted.Store(true) }

// pressing says whether there is a reason to look that the next poll takes further.
func (w *sweeps) pressing() bool {
	if w.found != nil {
		return w.hurried
	}
	return w.doubted.Load() && w.strays.may(w.now())
}

// begin has a look go beside, unless the session is closed.
func (w *sweeps) begin(look func() finding) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	found := make(chan finding, 1)
	w.found = found
	w.running.Go(func() { found <- look() })
}

// close cuts off a look that is under way, and begins none any more.
func (w *sweeps) close(ctx context.Context) error {
	w.mu.Lock()
	w.ended = true
	w.mu.Unlock()
	w.end()
	w.running.Wait()
	return w.link.close(ctx)
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
		w.begin(func() finding { return w.look(of, look) })
	}
	return dead, err
}

// look goes again at once where its connection had died before.
func (w *sweeps) look(of *cadence, look func(context.Context, *pgx.Conn, *finding) error) finding {
	begun := w.now()
	for try := 0; ; try++ {
		f := finding{of: of}
		err := w.link.use(w.life, func(ctx context.Context, conn *pgx.Conn) error { return look(ctx, conn, &f) })
		f.took = w.now() - begun
		if err == nil {
			return f
		}
		if try == 0 && pglink.Classify(err) == pglink.SessionLost {
			continue
		}
		if of == &w.strays {
			w.doubt() // whatever was in doubt is so still
		}
		return finding{of: of, took: max(f.took, PollEvery/hurryShare)} // a database that is away is not asked more often than by polls
	}
}

func (s *Session) takeIn(ctx context.Context, f finding) (dead []uuid.UUID, err error) {
	w, now := s.sweeps, s.sweeps.now()
	f.of.looked(now, f.took)
	if f.of == &w.old {
		w.recent.looked(now, 0)
	}
	if f.late != nil {
		s.lanes.late(f.late)
	} else if w.under.some {
		w.since.add(w.under.from) // it got no answer
	}
	w.under = comeback{}
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
	case w.since.some && w.recent.may(now):
		w.under, w.since = w.since, comeback{}
		return &w.recent, s.lookForLate(w.under.from)
	case w.recent.due(now):
		return &w.recent, s.lookForLate(s.lanes.polled.Add(-lately))
	}
	return nil, nil
}

func (s *Session) lookForLate(since time.Time) func(context.Context, *pgx.Conn, *finding) error {
	args := s.lateArgs(since)
	return func(ctx context.Context, conn *pgx.Conn, f *finding) error {
		var l late
		var ahead bool // the database's clock was, and went back: polls do not look for what has begun there
		f.late = &l
		err := conn.QueryRow(ctx, findLate, args).Scan(&l.lanes, &l.floors, &l.froms, &l.wakes, &l.expires, &ahead)
		if err != nil || !ahead {
			return err
		}
		var brought int64
		return conn.QueryRow(ctx, bringForward, pgx.StrictNamedArgs{"lanes": args["lanes"], "batch": forwardBatch}).Scan(&brought)
	}
}

// forwardBatch bounds how many runs one look brings forward.
const forwardBatch = 1000

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
