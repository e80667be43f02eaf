package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/sql"
)

const (
	sweepTimeout = time.Minute
	// lately is how far back sweeps reach where one from the very start takes long: few transactions are open for longer.
	lately = time.Minute
	// A sweep waits for so many times as long as the last one took, with a reason to sweep again at once or without.
	askedShare, sweepShare = 10, 100
	// asideRounds are how often one sweep puts runs aside that may not begin, choreBatch at a time.
	asideRounds = 20
)

var (
	sweepAll     = sql.Named("queue/sweep")
	sweepShelves = sql.Without("queue/sweep", "claims")
	setAside     = sql.Named("queue/set_aside")
)

// Sweep finds and mends what polls and looks pass over to be quick. It takes over from the workers that a look found silent. It gives
// back claims that nobody here knows of. It finds runs that were committed late, below where polls begin. Call it each SweepInterval, and
// when a look or a poll asks for it.
//
// While somebody holds an old snapshot, a sweep reads all that was queued or held since. So it has a connection of its own, and takes a
// small part of the time.
func (s *Session) Sweep(ctx context.Context) (Swept, error) {
	var swept Swept
	err := s.alone(ctx, s.sweeper.sweeping, func() error { return s.sweeper.sweep(ctx, &swept) })
	swept.Sweep = s.sweeper.x.sweepDue()
	s.store.meter.requeued(len(swept.Lost), swept.Queued)
	if swept.Done || err != nil {
		tell(s.store.meter.Swept, err)
	}
	if err != nil {
		return swept, fmt.Errorf("sweep: %w", err)
	}
	return swept, nil
}

// sweeper mends what others left behind. Its fields belong to the call that has the token of sweeping.
type sweeper struct {
	worker *Worker
	conn   *link
	held   *claimSet
	x      *exchange

	sweeping chan struct{} // holds one token
	now      func() time.Duration
	soonest  time.Duration               // when to ask for claims where there is a reason
	next     time.Duration               // when to look at what was queued lately
	full     time.Duration               // when to look at everything, from the very start
	swept    time.Duration               // when the last sweep was sent
	clock    time.Time                   // the database's time of that sweep
	missing  map[uuid.UUID]time.Duration // claims that the database lacked whenever it was asked for all, since when
	stubborn map[uuid.UUID]time.Duration // lost workers whose fences could not be had, and when
}

func newSweeper(s *Session, conn *link, x *exchange) *sweeper {
	conn.limit = sweepTimeout
	return &sweeper{worker: &s.worker, conn: conn, held: s.held, x: x, sweeping: newToken(), now: boottime.Now}
}

// sweepReply is what a sweep finds.
type sweepReply struct {
	now      time.Time
	heads    []head
	late     bool         // some stand below where polls begin
	blocked  []int        // lanes whose first new run may not begin, because its DAG is paused or limited
	overdue  bool         // runs whose time came and that looks pass over
	dead     []uuid.UUID  // workers that left runs, and no other trace
	before   []*heldClaim // what this worker held when it asked
	expected []uuid.UUID  // ids that a poll was about to claim under when it asked
	runs     []RunID      // what the database said it holds
	claims   []uuid.UUID  // of these runs
}

func (w *sweeper) sweep(ctx context.Context, swept *Swept) error {
	why := w.x.takeReasons()
	errs := []error{w.takeOverAll(ctx, why.workers, swept)}
	reach, due := w.reach(why)
	if !due {
		w.x.putBack(why)
		return errors.Join(errs...)
	}
	f, err := w.ask(ctx, reach)
	if err != nil {
		why.claims = true
		w.x.putBack(why)
		return errors.Join(append(errs, err)...)
	}
	swept.Done, swept.Late = true, f.late
	if f.late {
		w.x.found.Add(1)
	}
	if f.overdue {
		w.x.overdue.Store(true)
	}
	errs = append(errs, w.putAside(ctx, f.blocked))
	if reach.since.After(why.since) { // so far back it did not reach
		w.x.putBack(reasons{since: why.since})
	}
	if !reach.claims {
		w.x.putBack(reasons{claims: why.claims})
		return errors.Join(errs...)
	}
	errs = append(errs, w.settle(ctx, f))
	dead := make(map[uuid.UUID]*int64, len(f.dead))
	for _, id := range f.dead {
		dead[id] = nil
	}
	return errors.Join(append(errs, w.takeOverAll(ctx, dead, swept))...)
}

// reach is how far a sweep reaches.
type reach struct {
	since  time.Time // zero: the very start
	told   bool      // since a notification named a moment so long ago
	claims bool      // what the database says this worker holds, and who left runs, too: all that ever was claimed may be in the way
}

// reach of a sweep that is due now. One from the very start takes 1 % of the time, so where that takes long, those between look at what was
// queued lately.
func (w *sweeper) reach(why reasons) (r reach, due bool) {
	now := w.now()
	if now >= w.full || w.clock.IsZero() || !w.x.cursors.areKnown() {
		return reach{claims: true}, true
	}
	r.since, r.claims = w.clock.Add(-lately), why.claims && now >= w.soonest
	if r.told = !why.since.IsZero() && now >= max(w.soonest, w.swept+LookInterval); r.told { // anybody may notify
		r.since = earlier(r.since, why.since)
	}
	return r, r.claims || r.told || now >= w.next
}

func (w *sweeper) ask(ctx context.Context, r reach) (*sweepReply, error) {
	f := &sweepReply{expected: w.x.expected(), before: w.held.all()} // in this order, and before the statement has its snapshot
	w.x.cursors.sweeping()
	var lanes int
	var shelves []int
	var ats []time.Time
	var runs []RunID
	text, to := sweepShelves, []any{&f.now, &lanes, &shelves, &ats, &runs, &f.blocked, &f.overdue}
	if r.claims {
		text, to = sweepAll, append(to, &f.dead, &f.runs, &f.claims)
	}
	began := w.now()
	err := w.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, text, pgx.StrictNamedArgs{"worker": w.worker.ID, "since": orMinusInfinity(r.since)}).Scan(to...)
	})
	w.waits(r, began, err)
	if err != nil {
		return nil, err
	}
	for i, shelf := range shelves {
		f.heads = append(f.heads, head{shelf, ats[i], runs[i]})
	}
	w.clock, f.late = f.now, w.x.cursors.swept(lanes, f.now, r.since, f.heads, w.x.hungry.Load())
	return f, nil
}

// waits says when the next sweeps are due, after one that began then.
func (w *sweeper) waits(r reach, began time.Duration, err error) {
	now := w.now()
	took := now - began
	w.swept, w.soonest = began, max(w.soonest, now+askedShare*took)
	switch {
	case r.since.IsZero():
		w.full = now + sweepShare*took // after an error, too: one that reaches back less may be answered
	case !r.claims && !r.told:
		w.next = now + sweepShare*took
	}
	if err != nil { // the database may be away, and there is more to mend when it is back
		w.soonest = now + max(LookInterval, took)
		w.next = w.soonest
	}
}

// putAside moves runs that may not begin out of the way of others. What is left is the next sweep's.
func (w *sweeper) putAside(ctx context.Context, lanes []int) error {
	if len(lanes) == 0 {
		return nil
	}
	return w.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		for range asideRounds {
			var n int
			if err := conn.QueryRow(ctx, setAside, lanes, choreBatch).Scan(&n); err != nil {
				return fmt.Errorf("put runs of paused DAGs aside: %w", err)
			} else if n == 0 {
				break
			}
		}
		return nil
	})
}

// settle compares the claims that the database said this worker has with those that the worker knew of before it asked. It gives back
// claims that only the database knows, as soon as nothing is left here of a drive that was on them. It forfeits claims that the database
// lacked for a while: the server that was asked may be another one than polls ask.
func (w *sweeper) settle(ctx context.Context, f *sweepReply) error {
	w.forfeitMissing(f)
	expected := w.x.expected() // before what is held: claims go from these to those
	runs, claims := w.held.unknown(f, expected)
	if len(runs) == 0 {
		return nil
	}
	return w.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		n, err := release(ctx, conn, releaseSome, pgx.StrictNamedArgs{
			"worker": w.worker.ID, "runs": runs, "claims": plain(claims), "batch": releaseBatch,
		})
		if n == releaseBatch {
			w.x.doubt() // there are more
		}
		return err
	})
}

func (w *sweeper) forfeitMissing(f *sweepReply) {
	last, now := w.missing, w.now()
	w.missing = map[uuid.UUID]time.Duration{}
	for _, claim := range w.held.missing(f) {
		since, known := last[claim.ID]
		switch {
		case !known:
			w.missing[claim.ID] = now
		case now-since < LookInterval:
			w.missing[claim.ID] = since
		default:
			w.held.forfeit(claim)
		}
	}
	if len(w.missing) > 0 {
		w.x.doubt()
	}
}
