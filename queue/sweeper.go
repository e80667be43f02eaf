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
	// lately is how far back most sweeps reach: few transactions are open for longer. The others reach back to the very first run,
	// fullInterval apart, or longer where they take long.
	lately       = time.Minute
	fullInterval = time.Minute
	// The statement that looks at everything waits for so many times as long as it took, with a reason to look again at once or without.
	askedShare, sweepShare = 10, 200

	forwardBatch = 1000 // runs that one sweep brings forward
)

var (
	sweepAll     = sql.Named("queue/sweep")
	bringForward = sql.Named("queue/bring_forward")
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
	soonest  time.Duration               // when to look at everything where there is a reason
	next     time.Duration               // and where there is none
	full     time.Duration               // when to reach back to the very first run
	missing  map[uuid.UUID]time.Duration // claims that the database lacked whenever it was asked for all, since when
	stubborn map[uuid.UUID]time.Duration // lost workers whose fences could not be had, and when
}

func newSweeper(s *Session, conn *link, x *exchange) *sweeper {
	conn.limit = sweepTimeout
	return &sweeper{worker: &s.worker, conn: conn, held: s.held, x: x, sweeping: newToken(), now: boottime.Now}
}

// sweepReply is what a sweep finds.
type sweepReply struct {
	late     map[int]place // by lane, the first run below where polls begin
	overdue  bool          // runs whose time came and that looks pass over
	ahead    bool          // runs that have begun start in the future: the database's clock went back
	dead     []uuid.UUID   // workers that left runs, and no other trace
	before   []*heldClaim  // what this worker held when it asked
	expected []uuid.UUID   // ids that a poll was about to claim under when it asked
	runs     []RunID       // what the database said it holds
	claims   []uuid.UUID   // of these runs
}

func (w *sweeper) sweep(ctx context.Context, swept *Swept) error {
	why := w.x.takeReasons()
	errs := []error{w.takeOverAll(ctx, why.workers, swept)}
	if now := w.now(); now < w.next && (now < w.soonest || !why.claims && !why.since.some) {
		w.x.putBack(why)
		return errors.Join(errs...)
	}
	f, err := w.ask(ctx, why.since)
	if err != nil {
		why.claims = true
		w.x.putBack(why)
		return errors.Join(append(errs, err)...)
	}
	swept.Done = true
	if swept.Late = len(f.late) > 0; swept.Late {
		w.x.foundLate(f.late)
	}
	if f.overdue {
		w.x.overdue.Store(true)
	}
	errs = append(errs, w.bringForward(ctx, f), w.settle(ctx, f))
	dead := make(map[uuid.UUID]*int64, len(f.dead))
	for _, id := range f.dead {
		dead[id] = nil
	}
	return errors.Join(append(errs, w.takeOverAll(ctx, dead, swept))...)
}

func (w *sweeper) args(view *laneView, since time.Time) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{
		"worker": w.worker.ID, "lanes": view.ids, "floors": view.floors, "froms": view.froms, "halted": view.halted, "since": orMinusInfinity(since),
	}
}

func (w *sweeper) ask(ctx context.Context, since comeback) (*sweepReply, error) {
	view, began := w.x.lanes.Load(), w.now()
	from, full := view.polled.Add(-lately), began >= w.full
	switch {
	case full || view.polled.IsZero():
		from = time.Time{}
	case since.some && since.from.Before(from):
		from = since.from
	}
	f := &sweepReply{expected: w.x.expected(), before: w.held.all()} // in this order, and before the statement has its snapshot
	var lanes []int
	var floors []time.Time
	var froms []RunID
	err := w.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, sweepAll, w.args(view, from)).Scan(&lanes, &floors, &froms, &f.overdue, &f.ahead, &f.dead, &f.runs, &f.claims)
	})
	now := w.now()
	took := now - began
	if w.soonest, w.next = now+askedShare*took, now+sweepShare*took; err != nil {
		w.soonest = now + max(LookInterval, took) // the database may be away, and there is more to mend when it is back
		w.next = w.soonest
	}
	if full {
		w.full = now + max(fullInterval, sweepShare*took) // after an error, too: one that reaches back less may be answered
	}
	f.late = placesOf(lanes, floors, froms)
	return f, err
}

// bringForward has runs that have begun be due where they start in the future.
func (w *sweeper) bringForward(ctx context.Context, f *sweepReply) error {
	if !f.ahead {
		return nil
	}
	return w.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var n int
		err := conn.QueryRow(ctx, bringForward, pgx.StrictNamedArgs{"lanes": w.x.lanes.Load().ids, "batch": forwardBatch}).Scan(&n)
		if err != nil {
			return fmt.Errorf("bring runs forward: %w", err)
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
