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
	begunMax = 100 // runs that have begun and wait in the queue, and are counted

	lookTimeout = 2 * time.Second // of one that follows another: nobody watches other workers meanwhile

	// timerSlack is how far below now looks begin that look for parked runs which are to be woken, and for queued ones whose time has
	// passed: these may just be on their way, written before the look and committed after it.
	timerSlack = 2 * time.Second
)

var lookAround = sql.Named("queue/look")

// Look looks at what a worker has to know of others, and leaves to DoChores what is due for all. Call it each LookInterval, also when
// the worker wants nothing: while it does not look, it counts silent workers as alive.
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

// lookout looks after what polls know nothing of. Its fields belong to the call that has the token of looking.
type lookout struct {
	worker *Worker
	conn   *link
	spare  []*link // for a look while a chore uses conn, or hangs
	x      *exchange

	overdue func(time.Duration) // is told for how long the first item of the agenda is due; 0: none is

	looking  chan struct{} // holds one token
	observer *observer
	last     time.Time     // the database's time of the last look
	slept    time.Time     // no parked run was to be woken until then; zero: not known
	waited   time.Time     // the same of queued runs and their deadlines
	logDays  time.Duration // when partitions are to be made next
	now      func() time.Duration
}

func newLookout(s *Session, l *links, x *exchange) *lookout {
	return &lookout{
		worker: &s.worker, conn: l.looks, spare: []*link{l.sweeps, l.reads}, x: x,
		overdue: s.store.meter.overdue, looking: newToken(), observer: newObserver(boottime.Now), now: boottime.Now,
	}
}

// lookReply is what a look sees.
type lookReply struct {
	now            time.Time
	due            dueTops
	begun          int // runs that have begun and are due, begunMax at the most
	wakes, expires bool
	agenda         *time.Time  // since when the first item of the agenda is due; nil: none is
	dead           []uuid.UUID // workers that left fences behind; sweeps find those that left runs
	peers          []peer
	shared         []int // lanes of Load.Lanes, see Looked
}

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

// leaveChores leaves what is due for all workers to the next DoChores.
func (l *lookout) leaveChores(seen *lookReply) {
	due := chores{wakes: seen.wakes, expires: seen.expires}
	if now := l.now(); now >= l.logDays {
		due.logDays, l.logDays = true, now+logDaysInterval
	}
	l.x.addChores(due)
}

// lookAnew has the next look begin at the very start.
func (l *lookout) lookAnew() {
	l.slept, l.waited = time.Time{}, time.Time{}
	l.x.agenda.Store(nil)
}

// passTo has the next look begin where nothing was due by now. After the database's clock went back it begins at the very start.
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
	cursors, rest := l.x.cursors.args()
	return pgx.StrictNamedArgs{
		"worker": l.worker.ID, "begun": begunMax, "stalled": stalled, "quiet": plain(l.observer.quiet), "busy": load.Busy, "waiting": load.Waiting,
		"cursors": cursors, "rest": rest, "slept": orMinusInfinity(l.slept), "waited": orMinusInfinity(l.waited),
		"attended": orMinusInfinity(l.x.agendaFloor()),
	}
}

func (l *lookout) ask(ctx context.Context, load Load) (*lookReply, error) {
	var r lookReply
	var ids []uuid.UUID
	var beats, ttls []int64
	var lives []bool
	timeout := callTimeout
	if !l.last.IsZero() && !l.observer.failed { // else it may have much to read, since a time long ago
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

// How far apart two looks may be for the time between them to count as silence: half a TTL, within these bounds. Over a
// longer gap the observer itself was asleep or cut off, and knows nothing of the others.
const (
	shortestGap = LookInterval + LookInterval/2
	longestGap  = 5 * LookInterval
)

// A worker that is silent for longer than this part of its TTL, two renewals, or than livelyMost, is not counted on to take runs.
// People are told at about the same time, by the database's clock: oarlock.quiet_since.
const (
	lively     = 3
	livelyMost = 10 * time.Second
)

// observer counts how long other workers have been silent, by its own clock and nobody else's.
type observer struct {
	now    func() time.Duration // never goes back
	last   time.Duration        // of the last look that succeeded
	failed bool                 // a look failed since
	seen   map[uuid.UUID]sighting
	others int         // live peers that were heard of lately
	quiet  []uuid.UUID // live peers that were not
}

type sighting struct {
	beat   int64
	silent time.Duration // for how long this observer watched it stand still
	ttl    time.Duration
}

// peer is another worker as a look shows it.
type peer struct {
	id   uuid.UUID
	beat int64
	ttl  time.Duration
	live bool // it claims runs of lanes
}

func newObserver(now func() time.Duration) *observer {
	return &observer{now: now, seen: map[uuid.UUID]sighting{}}
}

// fail leaves out the time from the last look that succeeded to the next one: nobody could show a sign of life meanwhile.
// What was watched before still counts. A long TTL would otherwise never pass without a failure.
func (o *observer) fail() { o.failed = true }

// see takes in a look that succeeded, and returns those whose beat stood still for their whole TTL.
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

// Bounds of one DoChores. What is left is the next one's, or another worker's.
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

// DoChores does what the last look found due for all workers: it queues parked runs whose time has come, ends queued runs that waited too
// long, and makes partitions for logs. It also puts away claims of this session that it cannot read. It returns how many runs it queued.
// Call it after each Look; where nothing is due it sends nothing.
//
// A chore may wait for a lock that an application holds. It has the connection for looks meanwhile, and looks go over another one.
func (s *Session) DoChores(ctx context.Context) (queued int, err error) {
	err = s.alone(ctx, s.janitor.working, func() (err error) {
		queued, err = s.janitor.work(ctx)
		return err
	})
	s.store.meter.requeued(0, queued)
	if err != nil {
		return queued, fmt.Errorf("do chores: %w", err)
	}
	return queued, nil
}

// chores are what looks find to be done for all workers.
type chores struct {
	wakes, expires, logDays bool
}

// janitor does chores. Its fields belong to the call that has the token of working.
type janitor struct {
	worker *Worker
	conn   *link // of the lookout
	held   *claimSet
	x      *exchange

	working chan struct{} // holds one token
}

func newJanitor(s *Session, conn *link, x *exchange) *janitor {
	return &janitor{worker: &s.worker, conn: conn, held: s.held, x: x, working: newToken()}
}

// work does all chores, also after one that failed.
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
			j.x.addChores(chores{logDays: true}) // looks find the others again
			errs = append(errs, fmt.Errorf("make room for logs: %w", err))
		}
	}
	return woken, errors.Join(append(errs, j.releaseUnreadable(ctx))...)
}

// count sends a statement with a bound, and returns the number that it answers.
func (j *janitor) count(ctx context.Context, statement string, most int) (n int, err error) {
	err = j.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, statement, most).Scan(&n)
	})
	return n, err
}

// attendBatch bounds the items of one call: each is a subtransaction, and a snapshot has room for 64 of a transaction.
const attendBatch = 32

var attendAgenda = sql.Named("queue/attend")

// Attended is what came of an Attend.
type Attended struct {
	Decisions []Decision
	More      bool // there is more to do: attend again
}

// Decision is what became of an item of the agenda, or of fire times of a schedule.
type Decision struct {
	Kind     string // schedule, ended
	DAG      string // "" where the item was put off
	Schedule string // its name; of an item that was put off its number
	Outcome  string // fired, skipped, dropped, refused, waits, paused, ended (a backfill); put off, failed
	Times    int    // fire times
	Late     time.Duration
	Message  string
}

// Attend does what is due on the agenda: it fires schedules, and does what follows the end of their runs. Call it when a Look asks
// for it, when a run of a schedule has ended here, and again while there is more. Several workers share what is due.
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
