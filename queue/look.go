package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/sql"
)

const (
	begunMax = 100 // most runs that a look counts as begun and waiting in the queue

	lookTimeout = 2 * time.Second // of every look after the first: while a look hangs, the worker watches no other worker

	// timerSlack is how far below now looks begin when they search for parked runs to wake and for queued runs past their
	// deadline. Such a row may have been written before the last look and committed after it.
	timerSlack = 2 * time.Second
)

var lookAround = sql.Named("queue/look")

// Look reads what the worker has to know about other workers and due runs, and says which calls are to follow. It leaves work
// that is due for all workers to DoChores. Call it at each LookInterval, even if the worker wants no runs: a worker that does not
// look counts silent workers as alive. A second Look of the session waits for the first.
func (s *Session) Look(ctx context.Context, load Load) (Looked, error) {
	var looked Looked
	err := s.alone(ctx, s.lookout.looking, func() (err error) {
		looked, err = s.lookout.look(ctx, load)
		return err
	})
	tell(s.store.meter.Looked, err)
	if err != nil {
		return looked, fmt.Errorf("look: %w", err)
	}
	return looked, nil
}

// lookout makes a session's looks. Its fields belong to the call that has the token of looking.
type lookout struct {
	worker *Worker
	conn   *dedicatedConn
	spare  []*dedicatedConn // for a look while a chore occupies conn, or conn hangs
	x      *exchange

	overdue func(time.Duration) // takes how long the first item of the agenda has been due; 0: nothing is due

	looking  chan struct{} // holds one token
	observer *observer
	last     time.Time     // time of the last look, by the database's clock
	slept    time.Time     // no parked run was due to wake up to this moment; zero: unknown
	waited   time.Time     // no queued run's deadline had passed up to this moment; zero: unknown
	logDays  time.Duration // when to make partitions next
	now      func() time.Duration
}

func newLookout(s *Session, l *sessionConns, x *exchange) *lookout {
	return &lookout{
		worker: &s.worker, conn: l.looks, spare: []*dedicatedConn{l.sweeps, l.reads}, x: x,
		overdue: s.store.meter.overdue, looking: newToken(), observer: newObserver(boottime.Now), now: boottime.Now,
	}
}

// lookReply is the answer to a look.
type lookReply struct {
	now            time.Time
	due            dueTops
	begun          int // runs that have begun and are due; at most begunMax are counted
	wakes, expires bool
	agenda         *time.Time  // moment since which the first item of the agenda is due; nil: no item is due
	dead           []uuid.UUID // dead workers that left fences behind; sweeps find the ones that left runs
	peers          []peer
	shared         []int // those of Load.Lanes that Looked.Shared names
}

// look asks the database, and leaves the answers where the other calls of the session find them: in l.x for polls, chores and
// sweeps.
func (l *lookout) look(ctx context.Context, load Load) (Looked, error) {
	if l.x.overdue.Swap(false) {
		l.lookAnew()
	}
	seen, err := l.ask(ctx, load)
	if err != nil {
		l.observer.fail()
		return Looked{}, err
	}
	l.x.due.Store(&seen.due)
	l.passTo(seen)
	silent := l.observer.see(seen.peers)
	for _, p := range silent {
		l.x.silent(p.id, &p.beat)
	}
	for _, id := range seen.dead {
		l.x.silent(id, nil)
	}
	l.x.peers.Store(l.observer.others > 0)
	l.leaveChores(seen)
	return Looked{
		Now: dagrun.Time(seen.now.UnixMilli()), Due: seen.due.open != nil || seen.due.limited != nil || l.worker.Only != 0, Sweep: l.x.sweepDue(),
		Attend: seen.agenda != nil && l.worker.Only == 0,
		Shared: seen.shared, Highest: seen.due.highest(), Begun: seen.begun,
	}, nil
}

// leaveChores leaves the work that a look found due for all workers to the next DoChores. Partitions for logs are due at the
// first look, and then every logDaysInterval; leaveChores moves that time on.
func (l *lookout) leaveChores(seen *lookReply) {
	due := chores{wakes: seen.wakes, expires: seen.expires}
	if now := l.now(); now >= l.logDays {
		due.logDays, l.logDays = true, now+logDaysInterval
	}
	l.x.addChores(due)
}

// lookAnew makes the next look search from the very start for parked runs, expired runs and items of the agenda, instead of from
// the moment up to which an earlier look found nothing due.
func (l *lookout) lookAnew() {
	l.slept, l.waited = time.Time{}, time.Time{}
	l.x.agenda.Store(nil)
}

// passTo makes the next look begin near the moment up to which this one, seen, found nothing due: timerSlack before it. If the
// database's clock went back, the next look begins at the very start. passTo also reports to l.overdue for how long the first
// item of the agenda has been due.
func (l *lookout) passTo(seen *lookReply) {
	back := seen.now.Before(l.last)
	l.last = seen.now
	if back {
		l.lookAnew()
		return
	}
	if !seen.wakes {
		l.slept = seen.now.Add(-timerSlack)
	}
	if !seen.expires {
		l.waited = seen.now.Add(-timerSlack)
	}
	attended := seen.now.Add(-timerSlack)
	if seen.agenda == nil {
		l.overdue(0)
	} else {
		l.overdue(seen.now.Sub(*seen.agenda))
		if !seen.agenda.After(attended) {
			attended = seen.agenda.Add(-time.Microsecond)
		}
	}
	l.x.agenda.Store(&attended)
}

func (l *lookout) args(load Load) pgx.StrictNamedArgs {
	stalled := load.Lanes
	if l.worker.Only != 0 {
		stalled = nil // no other worker drives runs of this family
	}
	shelves, ats, rest := l.x.cursors.args()
	return pgx.StrictNamedArgs{
		"worker": l.worker.ID, "begun": begunMax, "stalled": stalled, "quiet": plain(l.observer.quiet), "busy": load.Busy, "waiting": load.Waiting,
		"shelves": shelves, "cursors": ats, "rest": rest, "slept": orMinusInfinity(l.slept), "waited": orMinusInfinity(l.waited),
		"attended": orMinusInfinity(l.x.agendaFloor()),
	}
}

// ask sends a look, and returns the answer. A look after one that succeeded gets lookTimeout, any other callTimeout.
func (l *lookout) ask(ctx context.Context, load Load) (*lookReply, error) {
	var r lookReply
	var ids []uuid.UUID
	var beats, ttls []int64
	var lives []bool
	timeout := callTimeout
	if !l.last.IsZero() && !l.observer.failed { // after a failure or at the start, the look may have much to read
		timeout = lookTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := l.conn.useOr(ctx, l.spare, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, lookAround, l.args(load)).Scan(
			&r.now, &r.due.open, &r.due.limited, &r.begun, &r.wakes, &r.expires, &r.agenda, &r.dead, &ids, &beats, &ttls, &lives, &r.shared)
	})
	for i, id := range ids {
		r.peers = append(r.peers, peer{id: id, beat: beats[i], ttl: time.Duration(ttls[i]) * time.Millisecond, live: lives[i]})
	}
	return &r, err
}

// Two looks may be half a TTL apart, within these bounds, for the time between them to count as silence of other workers. After a
// longer gap the observer itself was asleep or cut off, and knows nothing about the others.
const (
	shortestGap = LookInterval + LookInterval/2
	longestGap  = 5 * LookInterval
)

// A worker is not counted on to take runs once it is silent for longer than a third of its TTL, which is two renewals, or longer
// than livelyMost. oarlock.quiet_since tells people at about the same time, by the database's clock.
const (
	lively     = 3
	livelyMost = 10 * time.Second
)

// observer measures how long other workers have been silent, by its own clock only.
type observer struct {
	now    func() time.Duration // monotonic clock
	last   time.Duration        // time of the last look that succeeded
	failed bool                 // a look has failed since then
	seen   map[uuid.UUID]sighting
	others int         // live peers that showed a sign of life lately
	quiet  []uuid.UUID // live peers that did not
}

type sighting struct {
	beat   int64
	silent time.Duration // how long this observer has watched the beat stand still
	ttl    time.Duration
}

// peer is another worker, as a look shows it.
type peer struct {
	id   uuid.UUID
	beat int64
	ttl  time.Duration
	live bool // it claims runs of lanes
}

func newObserver(now func() time.Duration) *observer {
	return &observer{now: now, seen: map[uuid.UUID]sighting{}}
}

// fail makes see leave out the time between the last look that succeeded and the next one, because other workers could not show a
// sign of life meanwhile. Silence that was watched before still counts. Otherwise a worker with a long TTL would be found silent
// only if no look failed during all of it.
func (o *observer) fail() { o.failed = true }

// see takes the peers of a look that succeeded, and returns the peers that have not moved their beat for their whole TTL. It
// counts the silence of a peer from look to look. A gap does not count if it was too long or if a look failed in it, because this
// worker could not watch then.
//
// see also sets o.others to the number of live peers that moved their beat lately, and o.quiet to the other live peers. Lately
// means within a third of the peer's TTL, at most livelyMost, and one LookInterval more.
func (o *observer) see(peers []peer) (silent []peer) {
	now := o.now()
	gap, blind := now-o.last, o.failed
	o.last, o.failed = now, false
	next := make(map[uuid.UUID]sighting, len(peers))
	o.others, o.quiet = 0, nil
	for _, p := range peers {
		was, known := o.seen[p.id]
		switch {
		case !known || was.beat != p.beat || was.ttl != p.ttl:
			was = sighting{beat: p.beat, ttl: p.ttl}
		case !blind && gap <= min(longestGap, max(shortestGap, p.ttl/2)):
			was.silent += gap
		}
		next[p.id] = was
		switch {
		case !p.live:
		case was.silent <= min(p.ttl/lively, livelyMost)+LookInterval:
			o.others++
		default:
			o.quiet = append(o.quiet, p.id)
		}
		if was.silent >= p.ttl {
			silent = append(silent, p)
		}
	}
	o.seen = next
	return silent
}

// Bounds of one DoChores. Work beyond them is left to the next call, or to another worker.
const (
	choreBatch      = 500 // runs woken or expired by one statement
	logDaysAhead    = 3
	logDaysInterval = time.Hour
)

var (
	makeLogDays  = sql.Named("queue/log_days")
	wakeDue      = sql.Named("queue/wake_due")
	expireQueued = sql.Named("queue/expire_queued")
)

// DoChores does the work for all workers that the last look found due. It queues parked runs that are due, ends queued runs
// that have waited too long, and makes partitions for logs. It also gives back claims of this session that this version cannot
// read. It returns how many runs it queued. Call it after each Look; if nothing is due it sends nothing.
//
// A chore may wait for a lock that an application holds. It runs on the connection of looks; a Look made during that time uses
// a spare connection.
func (s *Session) DoChores(ctx context.Context) (queued int, err error) {
	due := false
	err = s.alone(ctx, s.janitor.working, func() (err error) {
		due = s.x.choreDue()
		queued, err = s.janitor.work(ctx)
		return err
	})
	s.store.meter.requeued(0, queued)
	if due || err != nil {
		tell(s.store.meter.ChoresDone, err)
	}
	if err != nil {
		return queued, fmt.Errorf("do chores: %w", err)
	}
	return queued, nil
}

// chores are the kinds of work that a look found due for all workers.
type chores struct {
	wakes, expires, logDays bool
}

// janitor does chores. Its fields belong to the call that has the token of working.
type janitor struct {
	worker *Worker
	conn   *dedicatedConn // shared with the lookout
	held   *claimSet
	x      *exchange

	working chan struct{} // holds one token
}

func newJanitor(s *Session, conn *dedicatedConn, x *exchange) *janitor {
	return &janitor{worker: &s.worker, conn: conn, held: s.held, x: x, working: newToken()}
}

// work does all chores that are due, and releases unreadable claims, even if one of these fails. It returns the number of parked
// runs that it queued, and all errors joined. A failed chore is done by a later call.
func (j *janitor) work(ctx context.Context) (woken int, err error) {
	due := j.x.takeChores()
	var errs []error
	if due.wakes {
		if woken, err = j.count(ctx, wakeDue, choreBatch); err != nil {
			errs = append(errs, fmt.Errorf("wake parked runs: %w", err))
		}
	}
	if due.expires {
		if _, err := j.count(ctx, expireQueued, choreBatch); err != nil {
			errs = append(errs, fmt.Errorf("end runs that waited too long: %w", err))
		}
	}
	if due.logDays {
		if _, err := j.count(ctx, makeLogDays, logDaysAhead); err != nil {
			j.x.addChores(chores{logDays: true}) // looks find the other chores again; a lock timeout is no error, and waits for the next hour
			errs = append(errs, fmt.Errorf("make room for logs: %w", err))
		}
	}
	return woken, errors.Join(append(errs, j.releaseUnreadable(ctx))...)
}

// count runs a statement that takes most, a limit, as its only argument. It returns the number that the statement answers.
func (j *janitor) count(ctx context.Context, statement string, most int) (n int, err error) {
	err = j.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, statement, most).Scan(&n)
	})
	return n, err
}

// attendBatch bounds the items of one call. Each item is a subtransaction, and a snapshot has room for 64 of them per
// transaction.
const attendBatch = 32

var attendAgenda = sql.Named("queue/attend")

// Attended is the result of an Attend.
type Attended struct {
	Decisions []Decision
	More      bool // more items are due: call Attend again
}

// Decision is the outcome of one item of the agenda, or of some fire times of a schedule.
type Decision struct {
	Kind     string // schedule, ended
	DAG      string // "": the item was put off
	Schedule string // name of the schedule; if the item was put off, its number
	Outcome  string // fired, skipped, dropped, refused, waits, paused, ended (a backfill); put off, failed
	Times    int    // number of fire times
	Late     time.Duration
	Message  string
}

// Attend does some of the due items of the agenda: it fires schedules, and does what follows the end of their runs. It returns
// its decisions. Call it when a Look asks for it, when a run of a schedule has ended on this worker, and again while
// Attended.More is set. Workers share the due items.
func (s *Session) Attend(ctx context.Context) (Attended, error) {
	began := time.Now()
	done, err := s.attend(ctx)
	s.store.meter.attended(done, time.Since(began), err)
	if err != nil {
		return Attended{}, fmt.Errorf("attend to the agenda: %w", err)
	}
	return done, nil
}

func (s *Session) attend(ctx context.Context) (done Attended, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	args := pgx.StrictNamedArgs{"floor": orMinusInfinity(s.x.agendaFloor()), "batch": attendBatch}
	err = s.call(ctx, func(ctx context.Context, db caller) error {
		done = Attended{}
		rows, err := db.Query(ctx, attendAgenda, args)
		if err != nil {
			return err
		}
		var d Decision
		var late int64
		_, err = pgx.ForEachRow(rows, []any{&d.Kind, &d.DAG, &d.Schedule, &d.Outcome, &d.Times, &late, &d.Message}, func() error {
			if d.Kind == "more" {
				done.More = true
				return nil
			}
			d.Late = time.Duration(late) * time.Millisecond
			done.Decisions = append(done.Decisions, d)
			return nil
		})
		return err
	})
	return done, err
}
