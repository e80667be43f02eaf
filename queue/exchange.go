package queue

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// exchange is all that a session's polls, looks and sweeps leave for each other. They wait for none of the others, so each
// leaves what it found and takes what it finds.
type exchange struct {
	cursors cursors
	due     atomic.Pointer[dueTops]   // as the last look saw it
	found   atomic.Int64              // counts what notifications and sweeps brought of runs
	hungry  atomic.Bool               // the last poll brought less than there was room for
	peers   atomic.Bool               // the last look saw another worker that claims runs
	overdue atomic.Bool               // a sweep found runs or items of the agenda whose time came where looks begin above
	agenda  atomic.Pointer[time.Time] // nothing on the agenda is due up to then; nil: not known

	mu         sync.Mutex     // of what follows
	noticed    map[int]notice // by lane, for the next poll
	sent       [][]uuid.UUID  // by statement, ids of claims that polls may have made whose replies were not read, for sweeps
	unreadable []unreadClaim  // for chores
	chores     chores         // for the next DoChores
	why        reasons        // for the next sweep
}

// reasons are why to sweep at once.
type reasons struct {
	claims  bool                 // the database and this worker may differ in what the worker holds
	since   time.Time            // runs may have been committed below where polls begin, from then on; zero: there are none
	workers map[uuid.UUID]*int64 // that are to be taken over from, and the beat at which they are silent; nil: they are known to be gone
}

// dueTops are the highest priorities that have something due, of lanes behind no limit and of the others; nil: none has. It is never changed.
type dueTops struct {
	open, limited *int
}

// highest is the highest priority of both.
func (d *dueTops) highest() *int {
	if d.open == nil || d.limited != nil && *d.limited > *d.open {
		return d.limited
	}
	return d.open
}

// limitedFirst reports whether a poll is to claim behind limits before it claims the rest. turn counts polls.
func (d *dueTops) limitedFirst(o order, turn int) bool {
	switch {
	case d.limited == nil:
		return false
	case d.open == nil:
		return true
	case o.fair:
		return turn/(TurnEvery/2)%2 == 0
	case *d.open != *d.limited:
		return *d.limited > *d.open
	}
	return turn%2 == 0
}

// noticedMax bounds the lanes that a worker remembers to have been told of.
const noticedMax = 1000

// agendaFloor is the moment up to which nothing on the agenda is due; zero: not known.
func (x *exchange) agendaFloor() time.Time { return or(x.agenda.Load()) }

func newExchange() *exchange {
	x := &exchange{}
	x.due.Store(&dueTops{})
	return x
}

// taken is what a field holds, which is empty then.
func taken[T any](x *exchange, field *T) (value T) {
	x.mu.Lock()
	defer x.mu.Unlock()
	*field, value = value, *field
	return value
}

// notice is what notifications said of a lane.
type notice struct {
	rows int64     // new runs that were left to this worker
	at   time.Time // none of them has its place before that
}

func (n notice) and(m notice) notice { return notice{n.rows + m.rows, earlier(n.at, m.at)} }

// notice adds what was said of lanes.
func (x *exchange) notice(lanes map[int]notice) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.noticed == nil {
		x.noticed = map[int]notice{}
	}
	for lane, n := range lanes {
		if was, known := x.noticed[lane]; known {
			x.noticed[lane] = was.and(n)
		} else if len(x.noticed) < noticedMax {
			x.noticed[lane] = n
		}
	}
}

func (x *exchange) takeNoticed() map[int]notice { return taken(x, &x.noticed) }

// sending notes ids before the statement is sent that claims under them.
func (x *exchange) sending(ids []uuid.UUID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sent = append(x.sent, ids)
}

// answered drops the ids of the last statement.
func (x *exchange) answered() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sent = x.sent[:len(x.sent)-1]
}

// gone drops all ids: the server process that was asked is gone. What it claimed meanwhile is for a sweep.
func (x *exchange) gone() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.why.claims = x.why.claims || len(x.sent) > 0
	x.sent = nil
}

// expected are the ids under which polls may be claiming.
func (x *exchange) expected() []uuid.UUID {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Concat(x.sent...)
}

// addUnreadable keeps a claim to be put away. Whoever has it hears that it is gone.
func (x *exchange) addUnreadable(c *Claim, why error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unreadable = append(x.unreadable, unreadClaim{c, why})
	c.Forfeit()
}

func (x *exchange) takeUnreadable(atMost int) []unreadClaim {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := min(atMost, len(x.unreadable))
	taken := x.unreadable[:n:n]
	x.unreadable = x.unreadable[n:]
	return taken
}

// addChores leaves chores to the next DoChores.
func (x *exchange) addChores(due chores) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := &x.chores
	c.wakes, c.expires, c.logDays = c.wakes || due.wakes, c.expires || due.expires, c.logDays || due.logDays
}

// takeChores takes the chores for one DoChores.
func (x *exchange) takeChores() chores { return taken(x, &x.chores) }

// doubt has the claims of this worker compared with those in the database.
func (x *exchange) doubt() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.why.claims = true
}

// lateSince has runs looked for that were committed below where polls begin.
func (x *exchange) lateSince(from time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.why.since.IsZero() || from.Before(x.why.since) {
		x.why.since = from
	}
}

// silent has a worker taken over from.
func (x *exchange) silent(id uuid.UUID, beat *int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.why.workers == nil {
		x.why.workers = map[uuid.UUID]*int64{}
	}
	x.why.workers[id] = beat
}

// sweepDue reports whether there is a reason to sweep.
func (x *exchange) sweepDue() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.why.claims || !x.why.since.IsZero() || len(x.why.workers) > 0
}

// takeReasons takes the reasons for one sweep.
func (x *exchange) takeReasons() reasons { return taken(x, &x.why) }

// putBack has another sweep go by reasons that this one could not go by; the workers are taken over from otherwise.
func (x *exchange) putBack(why reasons) {
	if why.claims {
		x.doubt()
	}
	if !why.since.IsZero() {
		x.lateSince(why.since)
	}
}
