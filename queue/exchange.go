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

const (
	// slack is how long after its place a run may be committed and still be found by the next poll.
	slack = 500 * time.Millisecond
	// noticeReach is how far back a notification has polls begin: anybody may send one. What is older, a sweep finds.
	noticeReach = time.Minute
)

// Stages of a queued run, the shelves of its lane.
const (
	stageRoused = iota // something happened to it, so that it may need no slot
	stageBegun         // it has begun, and wants a slot
	stageNew
	stages
)

// shelfOf is the number of a shelf, which is its place in the array that statements take.
func shelfOf(lane, stage int) int { return stages*lane + stage }

// cursors say where polls begin on each shelf, so that they do not read what is dead below. A sweep sets them all, a poll raises those of
// what it claimed, and a notification lowers those of a lane.
type cursors struct {
	mu      sync.Mutex
	lanes   int               // the highest number that a lane has; as of the last sweep
	rest    time.Time         // of every shelf that is not in at; zero: the very start
	at      map[int]time.Time // by shelf
	lowered map[int]time.Time // since the sweep began that is under way
	noticed map[int]time.Time // lowered since the claim was sent that is under way
	tried   map[int]RunID     // heads below a cursor that polls tried after the last sweep, in vain if they are there still
}

// head is the first due run of a shelf.
type head struct {
	shelf int
	at    time.Time
	run   RunID
}

// args are the cursors by shelf, up to the last that has its own, and the cursor of the rest. Shelves between have that of the rest: the
// database reads an array with nulls from its start on, for each element.
func (c *cursors) args() (at []time.Time, rest time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := 0
	for shelf := range c.at {
		last = max(last, shelf)
	}
	rest = orMinusInfinity(c.rest)
	at = slices.Repeat([]time.Time{rest}, last)
	for shelf, t := range c.at {
		at[shelf-1] = t // an array of the database begins with 1
	}
	return at, rest
}

// orMinusInfinity is a moment that is known, or one below every other.
func orMinusInfinity(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 0)
	}
	return t
}

func (c *cursors) ofLocked(shelf int) time.Time {
	if at, ok := c.at[shelf]; ok {
		return at
	}
	return c.rest
}

func (c *cursors) setLocked(shelf int, at time.Time) {
	if c.at == nil {
		c.at = map[int]time.Time{}
	}
	c.at[shelf] = at
}

// asking is before a claim is sent. What is told from now on it may not see.
func (c *cursors) asking() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.noticed)
}

// areKnown reports whether a sweep has set the cursors.
func (c *cursors) areKnown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.rest.IsZero()
}

// claimed raises the cursor of each shelf to the first run that was claimed there. now is the database's time of the claim.
func (c *cursors) claimed(now time.Time, claims []*Claim) {
	first := map[int]time.Time{}
	for _, claim := range claims {
		shelf := shelfOf(claim.Lane, claim.stage)
		if at, ok := first[shelf]; !ok || claim.readyAt.Before(at) {
			first[shelf] = claim.readyAt
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for shelf, at := range first {
		at = earlier(at, now.Add(-slack))
		if told, ok := c.noticed[shelf]; ok {
			at = earlier(at, told)
		}
		if at.After(c.ofLocked(shelf)) {
			c.setLocked(shelf, at)
		}
	}
}

// told lowers the cursors of a lane that has new runs, of which none has its place before at. It reports whether this is too long ago for
// a poll.
func (c *cursors) told(lane int, at time.Time) (older bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if lane > c.lanes { // anybody may notify, and the array is as long as its highest number
		return false
	}
	if oldest := c.rest.Add(-noticeReach); at.Before(oldest) {
		at, older = oldest, true
	}
	for stage := range stages {
		shelf := shelfOf(lane, stage)
		if !at.Before(c.ofLocked(shelf)) {
			continue
		}
		c.setLocked(shelf, at)
		if c.lowered != nil {
			c.lowered[shelf] = at
		}
		if c.noticed == nil {
			c.noticed = map[int]time.Time{}
		}
		c.noticed[shelf] = at
	}
	return older
}

// sweeping is before a sweep reads the heads. What is told from now on it may not see.
func (c *cursors) sweeping() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lowered = map[int]time.Time{}
}

// swept sets all cursors by the heads that a sweep found from since on, at this time of the database: to a head that stands at or above its
// cursor, and where there is none or a later one, to now. It reports whether there are new heads below: what was committed late, or was locked.
// Where slots are all taken, such a head that polls tried before stays below, so that one that is locked for long does not slow down the
// claims of others.
func (c *cursors) swept(lanes int, now, since time.Time, heads []head, hungry bool) (late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	upTo := now.Add(-slack)
	rest := upTo
	if c.rest.Before(since) { // another server answers since, and its sweep is still to come
		rest = c.rest
	}
	next, tried := map[int]time.Time{}, map[int]RunID{}
	for shelf, at := range c.at {
		if at.Before(since) { // which the sweep did not reach
			next[shelf] = at
		}
	}
	for _, h := range heads {
		at := c.ofLocked(h.shelf)
		if at.Before(since) {
			continue
		}
		switch {
		case !h.at.Before(at):
			at = earlier(h.at, upTo)
		case c.tried[h.shelf] != h.run:
			at, tried[h.shelf], late = h.at, h.run, true
		case hungry:
			at, tried[h.shelf] = h.at, h.run
		}
		next[h.shelf] = at
	}
	for shelf, at := range c.lowered {
		if was, ok := next[shelf]; !ok || at.Before(was) {
			next[shelf] = at
		}
	}
	c.lanes, c.at, c.rest, c.tried, c.lowered = lanes, next, rest, tried, nil
	return late
}

// forget has the next poll begin at the very start: another server answers, whose clock may be behind.
func (c *cursors) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest, c.at, c.tried = time.Time{}, nil, nil
}

// earlier is the earlier of two moments; a zero one is before all.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
