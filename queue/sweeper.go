package queue

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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

// Bounds of what one sweep takes over. What is left is the next one's, or another worker's.
const (
	reapLimit     = 8               // workers
	releaseBatch  = 1000            // runs that one statement gives back or queues again
	requeueRounds = 20              // of as many runs, for one worker
	stubbornPause = 5 * time.Second // before another try at a worker whose connections do not end

	// With connections that hold fences of a lost worker: first for a moment, so that others do not wait.
	lockPatience, longLockPatience = "500ms", "2s"
)

var (
	limitWait   = sql.Named("queue/lock_timeout")
	loseWorker  = sql.Named("queue/lose")
	markLost    = sql.Named("queue/mark_lost")
	endWorker   = sql.Named("queue/end_worker")
	requeueRuns = sql.Named("queue/requeue")
	releaseAll  = sql.Without("queue/release", "some")
	releaseSome = sql.Without("queue/release", "all")
)

// takeOverAll queues the runs of workers that are dead, unless they are not: first of those whose fences are free.
func (w *sweeper) takeOverAll(ctx context.Context, workers map[uuid.UUID]*int64, swept *Swept) error {
	var errs []error
	var held []uuid.UUID // whose fences a connection holds
	ids := slices.SortedFunc(maps.Keys(workers), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	if ids = slices.DeleteFunc(ids, w.postponed); len(ids) > reapLimit {
		for _, id := range ids[reapLimit:] {
			w.x.silent(id, workers[id]) // the next sweep's
		}
		ids = ids[:reapLimit]
	}
	for _, id := range ids {
		lost, err := w.lose(ctx, id, workers[id], lockPatience)
		if isLockTimeout(err) {
			held = append(held, id)
			continue
		}
		errs = append(errs, w.tookOver(lost, workers[id] != nil, err, swept))
	}
	for _, id := range held {
		lost, err := w.loseHeld(ctx, id, workers[id])
		if isLockTimeout(err) {
			w.postpone(id)
		}
		errs = append(errs, w.tookOver(lost, workers[id] != nil, err, swept))
	}
	return errors.Join(errs...)
}

// tookOver takes in what came of one takeover. A worker that nobody watched, and that left nothing, is no news.
func (w *sweeper) tookOver(lost LostWorker, watched bool, err error, swept *Swept) error {
	switch {
	case errors.Is(err, errAlive):
		return nil
	case err != nil:
		return fmt.Errorf("take over from worker %s: %w", lost.ID, err)
	}
	if lost.Runs > 0 {
		w.x.doubt() // more than one statement takes, or that somebody holds
	}
	if watched || lost.Runs > 0 {
		swept.Lost, swept.Queued = append(swept.Lost, lost), swept.Queued+lost.Runs
	}
	return nil
}

// postpone leaves a worker to a later sweep: each try may wait for seconds.
func (w *sweeper) postpone(id uuid.UUID) {
	if w.stubborn == nil {
		w.stubborn = map[uuid.UUID]time.Duration{}
	}
	w.stubborn[id] = w.now()
}

// postponed reports whether a worker has to wait for a later sweep.
func (w *sweeper) postponed(id uuid.UUID) bool {
	since, ok := w.stubborn[id]
	if ok && w.now()-since >= stubbornPause {
		delete(w.stubborn, id)
		return false
	}
	return ok
}

// errAlive: the worker showed a sign of life in the last moment.
var errAlive = errors.New("the worker is alive")

// reap takes the fences and then the runs of a worker that is dead: its beat stood still at beat, or, without one, it is
// known to be dead or found to have no fence.
func (w *sweeper) reap(ctx context.Context, id uuid.UUID, beat *int64) (LostWorker, error) {
	lost, err := w.lose(ctx, id, beat, longLockPatience)
	if isLockTimeout(err) {
		return w.loseHeld(ctx, id, beat)
	}
	return lost, err
}

// loseHeld is for a worker one of whose connections holds a fence and does not come to an end: half a statement, then silence.
func (w *sweeper) loseHeld(ctx context.Context, id uuid.UUID, beat *int64) (LostWorker, error) {
	if err := w.endConnections(ctx, id, beat); err != nil {
		return LostWorker{ID: id}, err
	}
	return w.lose(ctx, id, nil, longLockPatience)
}

func isLockTimeout(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "55P03"
}

// lose is one transaction of two statements. The second has its own snapshot, taken when the worker's last claim had
// ended, one way or the other. It names the worker with an error, too.
func (w *sweeper) lose(ctx context.Context, id uuid.UUID, beat *int64, patience string) (lost LostWorker, err error) {
	lost.ID = id
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err = w.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, limitWait, patience); err != nil {
				return err
			}
			var isLost bool
			args := pgx.StrictNamedArgs{"worker": id, "beat": beat, "by": w.replaces(id)}
			if err := tx.QueryRow(ctx, loseWorker, args).Scan(&isLost, &lost.Name); err != nil {
				return err
			}
			if !isLost && beat != nil {
				return errAlive
			}
			lost.Runs, err = requeue(ctx, tx, id)
			return err
		})
	})
	return lost, err
}

func requeue(ctx context.Context, tx pgx.Tx, id uuid.UUID) (n int, err error) {
	for range requeueRounds {
		var queued, lanes, told int
		args := pgx.StrictNamedArgs{"worker": id, "batch": releaseBatch}
		if err := tx.QueryRow(ctx, requeueRuns, args).Scan(&queued, &lanes, &told); err != nil {
			return n, err
		}
		n += queued
		if queued < releaseBatch {
			break
		}
	}
	return n, nil
}

// replaces is this worker's id if it replaces the other.
func (w *sweeper) replaces(id uuid.UUID) *uuid.UUID {
	if slices.Contains(w.worker.Replaces, id) {
		return &w.worker.ID
	}
	return nil
}

// endConnections marks a worker lost, so that it is decided, and then ends its connections.
func (w *sweeper) endConnections(ctx context.Context, id uuid.UUID, beat *int64) error {
	return w.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		tag, err := conn.Exec(ctx, markLost, pgx.StrictNamedArgs{"worker": id, "beat": beat, "by": w.replaces(id)})
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 && beat != nil {
			return errAlive
		}
		var ended int
		return conn.QueryRow(ctx, endWorker, pgx.StrictNamedArgs{"worker": id}).Scan(&ended)
	})
}

// release queues claims of a worker again, a batch of them, and returns how many.
func release(ctx context.Context, q Querier, statement string, args pgx.StrictNamedArgs) (n int, err error) {
	var lanes, told int
	if err := q.QueryRow(ctx, statement, args).Scan(&n, &lanes, &told); err != nil {
		return 0, fmt.Errorf("release claims: %w", err)
	}
	return n, nil
}
