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
	// lately is how far back most sweeps reach if a sweep from the very start takes long. Few transactions are open for longer.
	lately = time.Minute
	// The next sweep waits for so many times the duration of the last one: askedShare times if there is a reason to sweep,
	// sweepShare times if not.
	askedShare, sweepShare = 10, 100
	// asideRounds bounds the statements by which one sweep moves runs that must not begin out of the way. Each moves choreBatch
	// runs.
	asideRounds = 20
)

var (
	sweepAll     = sql.Named("queue/sweep")
	sweepShelves = sql.Without("queue/sweep", "claims")
	setAside     = sql.Named("queue/set_aside")
)

// Sweep finds and mends what polls and looks leave out so that they stay fast. It takes over from workers that a look found
// silent. It gives back claims that the database holds for this worker but that this session does not know. It finds runs that
// were committed late, below where polls begin. Call it at each SweepInterval, and when a look or a poll asks for it.
//
// While any transaction holds an old snapshot, a sweep reads every row that was queued or claimed since then. So it uses a
// connection of its own, and only a small part of the time.
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

// sweeper makes a session's sweeps. Its fields belong to the call that has the token of sweeping.
type sweeper struct {
	worker *Worker
	conn   *dedicatedConn
	held   *claimSet
	x      *exchange

	sweeping chan struct{} // holds one token
	now      func() time.Duration
	soonest  time.Duration               // earliest time of a sweep that there is a reason for
	next     time.Duration               // time of the next sweep without a reason, which reaches back by lately
	full     time.Duration               // time of the next sweep from the very start
	swept    time.Duration               // time when the last sweep was sent
	clock    time.Time                   // time of that sweep, by the database's clock
	missing  map[uuid.UUID]time.Duration // claims that the database has lacked in every sweep that asked for all, and since when
	stubborn map[uuid.UUID]time.Duration // lost workers with fences that could not be locked, and the time of that try
}

func newSweeper(s *Session, conn *dedicatedConn, x *exchange) *sweeper {
	conn.limit = sweepTimeout
	return &sweeper{worker: &s.worker, conn: conn, held: s.held, x: x, sweeping: newToken(), now: boottime.Now}
}

// sweepReply is the answer to a sweep, with the state of the session before it.
type sweepReply struct {
	now      time.Time
	heads    []head
	late     bool         // some heads stand below where polls begin
	blocked  []int        // lanes where the first new run must not begin, because its DAG is paused or limited
	overdue  bool         // there are due runs or agenda items that looks do not reach
	dead     []uuid.UUID  // workers that left claimed runs and nothing else
	before   []*heldClaim // claims that this worker held before the sweep
	expected []uuid.UUID  // ids under which a poll was about to claim before the sweep
	runs     []RunID      // runs that the database says this worker holds
	claims   []uuid.UUID  // claims of these runs, in the same order
}

// sweep makes one sweep if it is due, and adds the results to swept. It takes over from silent workers even if the sweep itself
// is not due. Reasons to sweep that it could not act on stay for the next sweep.
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
	if reach.since.After(why.since) { // the sweep did not reach so far back
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

// reach is how much a sweep reads.
type reach struct {
	since  time.Time // oldest place that the sweep reads; zero: the very start
	told   bool      // since goes back to a moment that a notification named
	claims bool      // also read this worker's claims and workers that left runs; may have to pass the dead rows of all claims ever made
}

// reach returns how far the next sweep reads, for the reasons why, and reports whether that sweep is due now. Sweeps from the
// very start take at most about 1 % of the time. If they take long, the sweeps in between read only places from lately before the
// last sweep on, or from the moment that a notification named.
func (w *sweeper) reach(why reasons) (r reach, due bool) {
	now := w.now()
	if now >= w.full || w.clock.IsZero() || !w.x.cursors.areKnown() {
		return reach{claims: true}, true
	}
	r.since, r.claims = w.clock.Add(-lately), why.claims && now >= w.soonest
	if r.told = !why.since.IsZero() && now >= max(w.soonest, w.swept+LookInterval); r.told { // any connection may notify
		r.since = earlier(r.since, why.since)
	}
	return r, r.claims || r.told || now >= w.next
}

// ask sends a sweep of reach r, sets the cursors from the answer, and computes when the next sweeps are due.
func (w *sweeper) ask(ctx context.Context, r reach) (*sweepReply, error) {
	f := &sweepReply{expected: w.x.expected(), before: w.held.all()} // in this order, and before the statement takes its snapshot
	w.x.cursors.sweeping()
	var lanes, shelves []int
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

// waits sets when the next sweeps are due, later the longer this one took. began is when this sweep began, r how far it
// reached, err its error. After an error the next one is due soon.
func (w *sweeper) waits(r reach, began time.Duration, err error) {
	now := w.now()
	took := now - began
	w.swept, w.soonest = began, max(w.soonest, now+askedShare*took)
	switch {
	case r.since.IsZero():
		w.full = now + sweepShare*took // even after an error: a sweep that reaches back less may still be answered
	case !r.claims && !r.told:
		w.next = now + sweepShare*took
	}
	if err != nil { // the database may be away, and there will be more to mend when it is back
		w.soonest = now + max(LookInterval, took)
		w.next = w.soonest
	}
}

// putAside moves runs that are not allowed to begin, at the heads of lanes, out of the way of other runs. It moves at most
// asideRounds times choreBatch runs, and leaves the rest to the next sweep.
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

// settle compares the claims that the database holds for this worker, in f, with the claims that the session knew of before the
// sweep. It gives back claims that only the database knows, once no driver is left on them. It forfeits claims that the database
// has lacked for LookInterval. A single miss is no proof, because the sweep may have asked another server than polls ask.
func (w *sweeper) settle(ctx context.Context, f *sweepReply) error {
	w.forfeitMissing(f)
	expected := w.x.expected() // before the held claims are read: a claim moves from the expected ids to the held claims
	runs, claims := w.held.unknown(f, expected)
	if len(runs) == 0 {
		return nil
	}
	return w.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		n, err := release(ctx, conn, releaseSome, pgx.StrictNamedArgs{
			"worker": w.worker.ID, "runs": runs, "claims": plain(claims), "batch": releaseBatch,
		})
		if n == releaseBatch {
			w.x.doubt() // there may be more
		}
		return err
	})
}

// forfeitMissing forfeits the claims that the database has lacked in all sweeps of the last LookInterval. It remembers the other
// claims that f lacks, and asks for another sweep if there are any.
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

// Bounds of what one sweep takes over. It leaves the rest to its next call, or to another worker.
const (
	reapLimit     = 8               // workers
	releaseBatch  = 1000            // runs that one statement gives back or queues again
	requeueRounds = 20              // statements of releaseBatch runs for one lost worker
	stubbornPause = 5 * time.Second // until the next try to take over from a worker with connections that do not end

	// Waits for a connection that holds fences of a lost worker. The first wait is short, so that other lost workers do not wait
	// behind it.
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

// takeOverAll takes over from workers that turn out to be dead: it queues their runs, and adds the results to swept. workers has
// for each worker the beat at which it fell silent; nil: the worker is known to be gone. It takes over from at most reapLimit
// workers, and leaves the others to the next sweep. It begins with workers that have no fence held by a connection. A worker with
// connections that do not end is left alone for stubbornPause.
func (w *sweeper) takeOverAll(ctx context.Context, workers map[uuid.UUID]*int64, swept *Swept) error {
	var errs []error
	var held []uuid.UUID // workers with a fence that a connection holds
	ids := slices.SortedFunc(maps.Keys(workers), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	if ids = slices.DeleteFunc(ids, w.postponed); len(ids) > reapLimit {
		for _, id := range ids[reapLimit:] {
			w.x.silent(id, workers[id]) // left to the next sweep
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

// tookOver adds lost, the result of one takeover, to swept.Lost and swept.Queued, or returns its error. watched means that this
// session saw the worker fall silent: a worker that was not watched and left no run is not added. A worker that is alive after
// all is no error. If the worker left runs, the next sweep compares claims.
func (w *sweeper) tookOver(lost LostWorker, watched bool, err error, swept *Swept) error {
	switch {
	case errors.Is(err, errAlive):
		return nil
	case err != nil:
		return fmt.Errorf("take over from worker %s: %w", lost.ID, err)
	}
	if lost.Runs > 0 {
		w.x.doubt() // there may be more runs than one takeover queues, or another connection may hold some of them
	}
	if watched || lost.Runs > 0 {
		swept.Lost, swept.Queued = append(swept.Lost, lost), swept.Queued+lost.Runs
	}
	return nil
}

// postpone makes sweeps leave out a worker for stubbornPause, because each try to take over from it may wait for seconds.
func (w *sweeper) postpone(id uuid.UUID) {
	if w.stubborn == nil {
		w.stubborn = map[uuid.UUID]time.Duration{}
	}
	w.stubborn[id] = w.now()
}

// postponed reports whether sweeps leave out a worker at present, because of postpone. Once stubbornPause is over, it forgets the
// worker.
func (w *sweeper) postponed(id uuid.UUID) bool {
	since, ok := w.stubborn[id]
	if ok && w.now()-since >= stubbornPause {
		delete(w.stubborn, id)
		return false
	}
	return ok
}

// errAlive means that the worker showed a sign of life after all.
var errAlive = errors.New("the worker is alive")

// reap takes over from a dead worker: it takes its fences and then its runs. beat is the beat at which the worker fell silent. If
// the worker has moved since, reap returns errAlive. If beat is nil, the worker is known to be dead, or was found to have no
// fence. If connections of the worker hold a fence for long, reap ends them.
func (w *sweeper) reap(ctx context.Context, id uuid.UUID, beat *int64) (LostWorker, error) {
	lost, err := w.lose(ctx, id, beat, longLockPatience)
	if isLockTimeout(err) {
		return w.loseHeld(ctx, id, beat)
	}
	return lost, err
}

// loseHeld takes over from a worker if one of its connections holds a fence and does not end, because it sent half a statement
// and fell silent. It ends these connections first. If the worker's beat is no longer beat, it returns errAlive instead. It
// returns a lock timeout if the fence is held all the same.
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

// lose takes the fences and then the runs of a worker, in one transaction of two statements. The second statement has its own
// snapshot, taken after the worker's last claim has ended in a commit or a rollback. lose waits at most patience for a fence, and
// then returns a lock timeout. If the worker's beat is no longer beat, lose returns errAlive; if beat is nil, it takes over in
// any case. lost has the worker's id even with an error.
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

// requeue queues the runs of a lost worker again, in batches, at most requeueRounds of them. It returns how many it queued.
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

// replaces returns this worker's id if its Replaces names worker id, and nil if not.
func (w *sweeper) replaces(id uuid.UUID) *uuid.UUID {
	if slices.Contains(w.worker.Replaces, id) {
		return &w.worker.ID
	}
	return nil
}

// endConnections ends a worker's connections. It marks the worker lost first, so that the loss is decided before a connection
// ends. If the worker's beat is no longer beat, it ends nothing and returns errAlive; if beat is nil, it ends them in any case.
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

// release runs statement, which queues up to a batch of a worker's claims again, and returns how many. As many as a batch means
// that there may be more.
func release(ctx context.Context, q Querier, statement string, args pgx.StrictNamedArgs) (n int, err error) {
	var lanes, told int
	if err := q.QueryRow(ctx, statement, args).Scan(&n, &lanes, &told); err != nil {
		return 0, fmt.Errorf("release claims: %w", err)
	}
	return n, nil
}
