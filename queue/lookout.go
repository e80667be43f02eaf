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

// Bounds of what one look does for others. What is left is the next one's, or another worker's.
const (
	choreBatch   = 500 // runs woken or expired by one statement
	logDaysAhead = 3
	logDaysEvery = time.Hour

	begunMax = 100 // runs that have begun and wait in the queue, and are counted

	lookTimeout = 2 * time.Second // of one that follows another: nobody watches other workers meanwhile

	// timerSlack is how far below now looks begin that look for parked runs which are to be woken, and for queued ones whose time has
	// passed: these may just be on their way, written before the look and committed after it.
	timerSlack = 2 * time.Second
)

var (
	lookAround   = sql.Named("queue/look")
	makeLogDays  = sql.Named("queue/log_days")
	wakeDue      = sql.Named("queue/wake_due")
	expireQueued = sql.Named("queue/expire_queued")
)

// Look looks at what a worker has to know of others, and queues what waited long enough. Call it each LookInterval, also when the
// worker wants nothing: for as long as nobody looks, a worker that is silent counts as alive.
func (s *Session) Look(ctx context.Context, load Load) (Looked, error) {
	var looked Looked
	err := s.alone(ctx, s.lookout.looking, func() (err error) {
		looked, err = s.lookout.look(ctx, load)
		return err
	})
	s.store.meter.requeued(0, looked.Queued)
	tell(s.store.meter.Looked, err)
	if err != nil {
		return looked, fmt.Errorf("look: %w", err)
	}
	return looked, nil
}

// lookout looks after what polls know nothing of, over a connection of its own. Its fields belong to the call that has the token
// of looking.
type lookout struct {
	worker *Worker
	conn   *link
	held   *claimSet
	x      *exchange

	overdue func(time.Duration) // is told for how long the first item of the agenda is due; 0: none is

	looking  chan struct{} // holds one token
	observer *observer
	last     time.Time     // the database's time of the last look
	slept    time.Time     // no parked run was to be woken until then; zero: not known
	waited   time.Time     // the same of queued runs and their deadlines
	logDays  time.Duration // when partitions are to be made
	now      func() time.Duration
}

func newLookout(s *Session, conn *link, x *exchange) *lookout {
	return &lookout{
		worker: &s.worker, conn: conn, held: s.held, x: x,
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
	queued, chores := l.doChores(ctx, seen)
	return Looked{
		Now: dagrun.Time(seen.now.UnixMilli()), Due: seen.due.open != nil || seen.due.limited != nil || l.worker.Only != 0, Sweep: l.x.sweepDue(), Queued: queued,
		Attend: seen.agenda != nil && l.worker.Only == 0,
		Shared: seen.shared, Highest: seen.due.highest(), Begun: seen.begun,
	}, errors.Join(chores, l.releaseUnreadable(ctx))
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
	if !l.last.IsZero() && !l.observer.failed { // else it may have much to read, since a time long ago
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, lookTimeout)
		defer cancel()
	}
	err := l.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, lookAround, l.args(load)).Scan(
			&r.now, &r.due.open, &r.due.limited, &r.begun, &r.wakes, &r.expires, &r.agenda, &r.dead, &ids, &beats, &ttls, &lives, &r.shared)
	})
	for i, id := range ids {
		r.peers = append(r.peers, peer{id: id, beat: beats[i], ttl: time.Duration(ttls[i]) * time.Millisecond, live: lives[i]})
	}
	return &r, err
}

// doChores does what is due for everybody, and returns how many parked runs it queued.
func (l *lookout) doChores(ctx context.Context, seen *lookReply) (woken int, err error) {
	err = l.conn.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		var expired, days int
		if seen.wakes {
			if err := conn.QueryRow(ctx, wakeDue, choreBatch).Scan(&woken); err != nil {
				return fmt.Errorf("wake parked runs: %w", err)
			}
		}
		if seen.expires {
			if err := conn.QueryRow(ctx, expireQueued, choreBatch).Scan(&expired); err != nil {
				return fmt.Errorf("end runs that waited too long: %w", err)
			}
		}
		if now := l.now(); now >= l.logDays {
			if err := conn.QueryRow(ctx, makeLogDays, logDaysAhead).Scan(&days); err != nil {
				return fmt.Errorf("make room for logs: %w", err)
			}
			l.logDays = now + logDaysEvery
		}
		return nil
	})
	return woken, err
}
