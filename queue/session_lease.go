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

// Vitals are what a sign of life tells others of a worker.
type Vitals struct {
	Busy    int       // slots in use
	Waiting int       // tasks that wait for one
	Unfit   string    // why the worker claims nothing now, for people and without secrets; "": it claims
	Since   time.Time // when the worker became unfit
}

// Renew shows that the worker is alive, and brings what is wanted of it. After ErrLeaseLost the session does nothing more.
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

// makeRoom gives back the connections that no link may take, so that the next renewal finds one free: without it all of them go with
// the lease.
func (s *Session) makeRoom() {
	s.hearing.giveWay()
	if s.store.ownsPool {
		s.store.pool.Reset()
	}
}

// Deadline says until when the lease holds, by boottime.Now: at soft what the worker runs is to be killed, at hard all of
// it must be dead.
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

// A lease ends by itself at these parts of its TTL after the last good renewal was sent: first the driver process kills
// what it runs, then its guard kills whatever is left. Others take the worker for lost after a whole TTL at the earliest.
const (
	softPercent = 60
	hardPercent = 70
)

// heartbeat keeps until when a lease holds, by the time since boot.
type heartbeat struct {
	mu     sync.Mutex
	ttl    time.Duration
	sent   time.Duration // before the last good renewal was sent
	misses int           // renewals running that did not find the claims we know of as we do
}

// LeaseEnds says when a lease ends by itself, from the moment in which the last good renewal was sent.
func LeaseEnds(ttl time.Duration) (soft, hard time.Duration) {
	return ttl * softPercent / 100, ttl * hardPercent / 100
}

func newHeartbeat(ttl, sent time.Duration) *heartbeat {
	return &heartbeat{ttl: ttl, sent: sent}
}

// renewed takes in a good renewal. One that was sent earlier than another that succeeded changes nothing.
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

// compared takes in whether a renewal found the claims that we know of as we do. It says whether so many running did not that
// it cannot be something under way.
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

// Meter is told what sessions do, as it happens. Its functions are called where every microsecond counts: they count, do
// not block and do not call back. One that is nil is not called.
type Meter struct {
	Flushed   func(FlushTry)
	FenceLost func()                  // once per session that finds that others took its worker for dead
	Requeued  func(workers, runs int) // so many runs were put back into the queue, also of so many lost workers
	Looked    func(err error)         // a Look
	Swept     func(err error)         // a Sweep, unless it came too soon
	Attended  func(done Attended, took time.Duration, err error)
	Overdue   func(d time.Duration) // as of a Look, for how long the first item of the agenda is due; 0: none is
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

// tell calls a function that is told how a call ended, unless it is nil.
func tell(told func(error), err error) {
	if told != nil {
		told(err)
	}
}

// FlushTry is one time that a flush went to the database and came back, or found no way there: Err says why. One whose
// outcome was not known goes again.
type FlushTry struct {
	Batches int
	Records int // rows, of which the state of each run is one
	Bytes   int // as sent
	Took    time.Duration
	Err     error
}

// SessionStats are a session at one moment.
type SessionStats struct {
	Held    int           // runs
	Waiting int           // batches that no flush has taken yet
	Trying  time.Duration // how long the journal has waited for the server, or a close for one statement of it; 0: neither waits
	Taken   int64         // flushes so far
	Failing Failure       // why none are taken now
	Aside   Aside         // what waits beside, for a row that somebody else holds
}

// Stats show the session at this moment. They wait for nobody.
func (s *Session) Stats() SessionStats {
	s.journal.health.mu.Lock()
	taken, aside := s.journal.health.taken, s.journal.health.aside
	s.journal.health.mu.Unlock()
	return SessionStats{
		Held: s.held.count(), Waiting: len(s.journal.queue), Trying: max(s.journal.pulse.at(), s.leaving.at()),
		Taken: taken, Failing: s.journal.failure(), Aside: aside,
	}
}

// size of what a flush was filled with.
func (f *flush) size() (records, bytes int) {
	for _, g := range f.groups() {
		records += g.count
	}
	for _, arg := range f.args {
		bytes += len(arg)
	}
	return records, bytes
}

// meter tells of a try that began at start.
func (j *journal) meter(batches int, start time.Time, err error) {
	if j.flushed == nil {
		return
	}
	records, bytes := j.flush.size()
	j.flushed(FlushTry{Batches: batches, Records: records, Bytes: bytes, Took: time.Since(start), Err: err})
}
