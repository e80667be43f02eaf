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
	lanes   atomic.Pointer[laneView]  // as the last poll knew them
	peers   atomic.Bool               // the last look saw another worker that claims runs
	overdue atomic.Bool               // a sweep found runs or items of the agenda whose time came where looks begin above
	agenda  atomic.Pointer[time.Time] // nothing on the agenda is due up to then; nil: not known

	mu         sync.Mutex    // of what follows
	noticed    map[int]int64 // by lane, new runs that notifications left to this worker, for the next poll
	late       map[int]place // by lane, where a sweep found the first run below the floors, for the next poll
	sent       [][]uuid.UUID // by statement, ids of claims that polls may have made whose replies were not read, for sweeps
	blocked    []int         // lanes at whose heads polls found runs that may not begin, for the next look; sorted
	unreadable []unreadClaim // for looks
	why        reasons       // for the next sweep
}

// reasons are why to sweep at once.
type reasons struct {
	claims  bool                 // the database and this worker may differ in what the worker holds
	since   comeback             // runs may have been committed below where polls begin
	workers map[uuid.UUID]*int64 // that are to be taken over from, and the beat at which they are silent; nil: they are known to be gone
}

// laneView is what looks and sweeps know of lanes. It is never changed.
type laneView struct {
	terms  string
	polled time.Time
	laneArgs
}

// noticedMax bounds the lanes that a worker remembers to have been told of.
const noticedMax = 1000

// agendaFloor is the moment up to which nothing on the agenda is due; zero: not known.
func (x *exchange) agendaFloor() time.Time { return or(x.agenda.Load()) }

func newExchange() *exchange {
	x := &exchange{}
	x.lanes.Store(newLanes().view())
	return x
}

// taken is what a field holds, which is empty then.
func taken[T any](x *exchange, field *T) (value T) {
	x.mu.Lock()
	defer x.mu.Unlock()
	*field, value = value, *field
	return value
}

// notice counts new runs by lane.
func (x *exchange) notice(rows map[int]int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.noticed == nil {
		x.noticed = map[int]int64{}
	}
	for lane, n := range rows {
		if _, known := x.noticed[lane]; known || len(x.noticed) < noticedMax {
			x.noticed[lane] += n
		}
	}
}

func (x *exchange) takeNoticed() map[int]int64 { return taken(x, &x.noticed) }

// foundLate adds places below floors to those that no poll has taken in yet.
func (x *exchange) foundLate(late map[int]place) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for lane, p := range x.late {
		if now, ok := late[lane]; !ok || p.below(now) {
			late[lane] = p
		}
	}
	x.late = late
}

func (x *exchange) takeLate() map[int]place { return taken(x, &x.late) }

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

// block adds lanes at whose heads runs stand that may not begin. The poll that saw them may be the last: the next one begins above.
func (x *exchange) block(lanes []int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.blocked = slices.Concat(x.blocked, lanes)
	slices.Sort(x.blocked)
	x.blocked = slices.Compact(x.blocked)
}

func (x *exchange) takeBlocked() []int { return taken(x, &x.blocked) }

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

// doubt has the claims of this worker compared with those in the database.
func (x *exchange) doubt() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.why.claims = true
}

// lateSince has runs looked for that were committed below where polls begin; zero: however long ago.
func (x *exchange) lateSince(from time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.why.since.add(from)
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
	return x.why.claims || x.why.since.some || len(x.why.workers) > 0
}

// takeReasons takes the reasons for one sweep.
func (x *exchange) takeReasons() reasons { return taken(x, &x.why) }

// putBack has another sweep go by reasons that this one could not go by; the workers are taken over from otherwise.
func (x *exchange) putBack(why reasons) {
	if why.claims {
		x.doubt()
	}
	if why.since.some {
		x.lateSince(why.since.from)
	}
}
