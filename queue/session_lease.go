package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/sql"
)

var renewLease = sql.Named("queue/renew")

// Vitals are what a renewal tells others about a worker.
type Vitals struct {
	Busy    int       // slots in use
	Waiting int       // tasks that wait for a slot
	Unfit   string    // why the worker claims nothing now, for people and without secrets; "": the worker claims
	Since   time.Time // when the worker became unfit
}

// Renew proves that the worker is alive, which moves Deadline on, and returns requests to the worker and its runs. It returns
// ErrLeaseLost if another worker took this one for dead. The session has then ended, and all claims are forfeited; later calls
// return the same error. After any other error the lease goes on until Deadline: call Renew again soon.
func (s *Session) Renew(ctx context.Context, v Vitals) (Renewal, error) {
	if err := s.end.get(); err != nil {
		return Renewal{}, err
	}
	sent := boottime.Now()
	count, hash := s.held.sum()
	a, err := s.askRenewal(ctx, v)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return Renewal{}, s.lost()
	case err != nil:
		if Crowded(err) {
			s.makeRoom()
		}
		return Renewal{}, fmt.Errorf("renew: %w", err)
	}
	s.beat.renewed(sent)
	count2, hash2 := s.held.sum()
	if s.beat.compared(a.count == count && a.hash == hash || a.count == count2 && a.hash == hash2) {
		s.x.doubt()
	}
	return a.renewal(), nil
}

// makeRoom closes the connections that the session's dedicatedConns cannot borrow, the listener's and those of the store's own
// pool, so that the next renewal finds room for a connection. If it finds none, the worker loses its lease, and with it all of
// its connections.
func (s *Session) makeRoom() {
	s.listener.giveWay()
	if s.store.ownsPool {
		s.store.pool.Reset()
	}
}

// Deadline returns the two ends of the lease, in time since boot (boottime.Now). At soft the worker must begin to kill everything
// it runs, and at hard all of it must be dead. Each good renewal moves both on.
func (s *Session) Deadline() (soft, hard time.Duration) { return s.beat.deadline() }

// renewalRow is the answer to a renewal.
type renewalRow struct {
	now     time.Time
	desired string
	count   int
	hash    int64
	runs    []RunID
	inboxes []int64
}

// renewArgs returns the arguments of a renewal. A worker that is not unfit sends "" and 0 for the reason and its age.
func (s *Session) renewArgs(v Vitals) pgx.StrictNamedArgs {
	held := s.held.runs()
	args := pgx.StrictNamedArgs{
		"worker": s.worker.ID, "busy": v.Busy, "waiting": v.Waiting, "runs": len(held), "held": held, "unfit": "", "unfit_ms": 0,
	}
	if v.Unfit != "" {
		args["unfit"], args["unfit_ms"] = storableReason(v.Unfit), time.Since(v.Since).Milliseconds()
	}
	return args
}

func (s *Session) askRenewal(ctx context.Context, v Vitals) (*renewalRow, error) {
	var a renewalRow
	err := s.lease.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, renewLease, s.renewArgs(v)).Scan(&a.now, &a.desired, &a.count, &a.hash, &a.runs, &a.inboxes)
	})
	return &a, err
}

func (a *renewalRow) renewal() Renewal {
	r := Renewal{Now: dagrun.Time(a.now.UnixMilli()), Desired: WorkerState(a.desired)}
	for i, run := range a.runs {
		r.Mail = append(r.Mail, Mail{Run: run, Inbox: a.inboxes[i]})
	}
	return r
}

// A lease ends by itself at these parts of its TTL after the last good renewal was sent. First the driver process kills what it
// runs, then its guard kills the rest. Other workers take the worker for lost after a whole TTL at the earliest.
const (
	softPercent = 60
	hardPercent = 70
)

// heartbeat keeps when a lease ends, by the time since boot.
type heartbeat struct {
	mu     sync.Mutex
	ttl    time.Duration
	sent   time.Duration // when the last good renewal was sent
	misses int           // consecutive renewals in which the database's claims and ours differed
}

// LeaseEnds returns how long after the last good renewal was sent a lease with this TTL ends by itself: 60 % and 70 % of the TTL.
// Session.Deadline explains soft and hard.
func LeaseEnds(ttl time.Duration) (soft, hard time.Duration) {
	return ttl * softPercent / 100, ttl * hardPercent / 100
}

func newHeartbeat(ttl, sent time.Duration) *heartbeat {
	return &heartbeat{ttl: ttl, sent: sent}
}

// renewed records a good renewal that was sent at sent. It does nothing if a later renewal has succeeded already.
func (h *heartbeat) renewed(sent time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sent = max(h.sent, sent)
}

func (h *heartbeat) deadline() (soft, hard time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	soft, hard = LeaseEnds(h.ttl)
	return h.sent + soft, h.sent + hard
}

// compared records whether a renewal found the same claims in the database as in the session. doubtful is true once
// doubtfulMisses renewals in a row have not: a claim or a flush under way cannot explain that. same begins the count again.
func (h *heartbeat) compared(same bool) (doubtful bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.misses++
	if same {
		h.misses = 0
	}
	return h.misses >= doubtfulMisses
}

const doubtfulMisses = 2

// Meter holds functions that sessions call as things happen. They run where every microsecond counts, so they must only count,
// and must not block or call back. A nil function is not called.
type Meter struct {
	Flushed    func(FlushTry)
	FenceLost  func()                  // called once per session that finds that another worker took its worker for dead
	Requeued   func(workers, runs int) // runs were put back into the queue, some of them from so many lost workers
	Looked     func(err error)         // err: of a Look
	Swept      func(err error)         // err: of a Sweep, unless the call came too soon
	ChoresDone func(err error)         // err: of a DoChores, unless nothing was due
	Attended   func(done Attended, took time.Duration, err error)
	Permitted  func(took time.Duration, err error) // of each Permits
	Overdue    func(d time.Duration)               // of each Look: for how long the first item of the agenda has been due; 0: nothing is due
}

func (m *Meter) requeued(workers, runs int) {
	if m.Requeued != nil && workers+runs > 0 {
		m.Requeued(workers, runs)
	}
}

func (m *Meter) overdue(d time.Duration) {
	if m.Overdue != nil {
		m.Overdue(d)
	}
}

func (m *Meter) attended(done Attended, took time.Duration, err error) {
	if m.Attended != nil {
		m.Attended(done, took, err)
	}
}

func (m *Meter) permitted(took time.Duration, err error) {
	if m.Permitted != nil {
		m.Permitted(took, err)
	}
}

// tell calls told with err, the result of a call, which may be nil. If told is nil, it does nothing.
func tell(told func(error), err error) {
	if told != nil {
		told(err)
	}
}

// FlushTry is one try to send a flush to the database. Err is its error, or the reason why no connection was found. If the
// outcome of a flush is unknown, it is sent again.
type FlushTry struct {
	Batches int
	Records int // rows; the state of each run counts as one
	Bytes   int // as sent
	Took    time.Duration
	Err     error
}

// SessionStats describe a session at one moment.
type SessionStats struct {
	Held    int           // runs
	Waiting int           // batches that no flush has taken yet
	Trying  time.Duration // how long the journal has waited for the server, or Close for one of its statements; 0: neither waits
	Taken   int64         // flushes written so far
	Failing Failure       // why no flush is written now
	Aside   Aside         // records that wait for a row that another connection holds
}

// Stats returns a description of the session at this moment. It does not wait for the database.
func (s *Session) Stats() SessionStats {
	s.journal.health.mu.Lock()
	taken, aside := s.journal.health.taken, s.journal.health.aside
	s.journal.health.mu.Unlock()
	return SessionStats{
		Held: s.held.count(), Waiting: len(s.journal.queue), Trying: max(s.journal.pulse.at(), s.leaving.at()),
		Taken: taken, Failing: s.journal.failure(), Aside: aside,
	}
}

// size returns the number of rows in the flush and the bytes of its arguments.
func (f *flush) size() (records, bytes int) {
	for _, g := range f.groups() {
		records += g.count
	}
	for _, arg := range f.args {
		bytes += len(arg)
	}
	return records, bytes
}

// meter reports a try of the flush in j.flush to the Meter, if there is one. The try had so many batches, began at start and
// ended now with err.
func (j *journal) meter(batches int, start time.Time, err error) {
	if j.flushed == nil {
		return
	}
	records, bytes := j.flush.size()
	j.flushed(FlushTry{Batches: batches, Records: records, Bytes: bytes, Took: time.Since(start), Err: err})
}
