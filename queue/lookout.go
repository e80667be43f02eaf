package queue

import (
	"context"
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
