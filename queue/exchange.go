package queue

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// exchange holds everything that the polls, looks, chores and sweeps of a session leave for each other. None of them waits for
// another one: each stores its findings here, and takes the findings that the others stored.
type exchange struct {
	cursors cursors
	due     atomic.Pointer[dueTops]   // priorities with something due, as of the last look
	found   atomic.Int64              // counts the lanes that notifications named and the sweeps that found late runs
	hungry  atomic.Bool               // the last poll brought fewer runs than the worker had room for
	peers   atomic.Bool               // the last look saw another worker that claims runs
	overdue atomic.Bool               // a sweep found due runs or agenda items below the moment where looks begin
	agenda  atomic.Pointer[time.Time] // nothing on the agenda is due up to this moment; nil: unknown

	mu         sync.Mutex     // guards the fields below
	noticed    map[int]notice // by lane, for the next poll
	sent       [][]uuid.UUID  // per claim statement with no reply yet, the ids under which it may have claimed; for sweeps
	unreadable []unreadClaim  // for the next DoChores
	chores     chores         // for the next DoChores
	why        reasons        // for the next sweep
}

// reasons are the reasons to sweep at once.
type reasons struct {
	claims  bool                 // the database and this worker may disagree about the worker's claims
	since   time.Time            // runs may have been committed below where polls begin, at this moment or later; zero: none
	workers map[uuid.UUID]*int64 // workers to take over from, with the beat at which each fell silent; nil: the worker is gone
}

// dueTops are the highest priorities at which something is due: open for lanes behind no limit, limited for the others. nil means
// that nothing is due. A dueTops is never changed.
type dueTops struct {
	open, limited *int
}

// highest returns the higher of d.open and d.limited; nil if nothing is due.
func (d *dueTops) highest() *int {
	if d.open == nil || d.limited != nil && *d.limited > *d.open {
		return d.limited
	}
	return d.open
}

// limitedFirst reports whether a poll claims behind limits before it claims the rest. It does so if only runs behind limits are
// due, or if theirs is the higher priority. At equal priorities the two take turns from turn to turn. If o is fair, priorities do
// not count, and they take turns every TurnEvery/2 turns. turn counts the polls.
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

// noticedMax bounds the lanes that a worker keeps notices of.
const noticedMax = 1000

// agendaFloor returns the moment up to which nothing on the agenda is due; zero if that is unknown.
func (x *exchange) agendaFloor() time.Time { return or(x.agenda.Load()) }

func newExchange() *exchange {
	x := &exchange{}
	x.due.Store(&dueTops{})
	return x
}

// taken takes the value out of field, a field of x: it returns the value, and leaves the zero value in its place.
func taken[T any](x *exchange, field *T) (value T) {
	x.mu.Lock()
	defer x.mu.Unlock()
	*field, value = value, *field
	return value
}

// notice sums up the notifications about one lane.
type notice struct {
	rows int64     // new runs that other transactions left to this worker
	at   time.Time // earliest place of these runs in the queue
}

func (n notice) and(m notice) notice { return notice{n.rows + m.rows, earlier(n.at, m.at)} }

// notice adds notices, by lane, to the ones that the next poll takes. It drops notices of further lanes once there are noticedMax
// lanes.
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

// sending records the ids of a claim statement as being under way. The claimer calls it just before it sends the statement, and
// calls answered after the answer.
func (x *exchange) sending(ids []uuid.UUID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sent = append(x.sent, ids)
}

// answered removes the ids of the last statement, because the server has answered it.
func (x *exchange) answered() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sent = x.sent[:len(x.sent)-1]
}

// gone removes all ids, because the server process that was asked is gone. If there were ids, the next sweep compares this
// worker's claims with the database, and gives back the claims that were made under them.
func (x *exchange) gone() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.why.claims = x.why.claims || len(x.sent) > 0
	x.sent = nil
}

// expected returns the ids under which polls may be claiming now.
func (x *exchange) expected() []uuid.UUID {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Concat(x.sent...)
}

// addUnreadable keeps a claim, with the reason why this version cannot read its run, until DoChores gives it back. It forfeits
// the claim, so that its driver, if it has one, stops.
func (x *exchange) addUnreadable(c *Claim, why error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.unreadable = append(x.unreadable, unreadClaim{c, why})
	c.Forfeit()
}

// takeUnreadable removes the oldest atMost unreadable claims, or all if there are fewer, and returns them.
func (x *exchange) takeUnreadable(atMost int) []unreadClaim {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := min(atMost, len(x.unreadable))
	taken := x.unreadable[:n:n]
	x.unreadable = x.unreadable[n:]
	return taken
}

// addChores adds chores to the ones that the next DoChores does.
func (x *exchange) addChores(due chores) {
	x.mu.Lock()
	defer x.mu.Unlock()
	c := &x.chores
	c.wakes, c.expires, c.logDays = c.wakes || due.wakes, c.expires || due.expires, c.logDays || due.logDays
}

// choreDue reports whether the next DoChores has a chore to do or a claim to release.
func (x *exchange) choreDue() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.chores != chores{} || len(x.unreadable) > 0
}

// takeChores returns the chores for one DoChores, and removes them.
func (x *exchange) takeChores() chores { return taken(x, &x.chores) }

// doubt makes the next sweep compare the claims of this worker with the claims in the database.
func (x *exchange) doubt() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.why.claims = true
}

// lateSince makes the next sweep look for runs that were committed below where polls begin, at from or later.
func (x *exchange) lateSince(from time.Time) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.why.since.IsZero() || from.Before(x.why.since) {
		x.why.since = from
	}
}

// silent makes the next sweep take over from a worker. beat is the beat at which the worker fell silent; nil: the worker is known
// to be gone.
func (x *exchange) silent(id uuid.UUID, beat *int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.why.workers == nil {
		x.why.workers = map[uuid.UUID]*int64{}
	}
	x.why.workers[id] = beat
}

// sweepDue reports whether there is a reason to sweep at once.
func (x *exchange) sweepDue() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.why.claims || !x.why.since.IsZero() || len(x.why.workers) > 0
}

// takeReasons returns the reasons for one sweep, and removes them.
func (x *exchange) takeReasons() reasons { return taken(x, &x.why) }

// putBack keeps, for the next sweep, the reasons that this sweep could not act on. It leaves out the workers, because the sweep
// has already tried to take over from them.
func (x *exchange) putBack(why reasons) {
	if why.claims {
		x.doubt()
	}
	if !why.since.IsZero() {
		x.lateSince(why.since)
	}
}

const (
	// slack is how much later than its place in the queue a run may be committed and still be found by the next poll.
	slack = 500 * time.Millisecond
	// noticeReach is how far back a notification can make polls begin. It is bounded because any connection may send a
	// notification. Sweeps find older runs.
	noticeReach = time.Minute
)

// Stages of a queued run. Each lane has one shelf per stage.
const (
	stageRoused = iota // something happened to the run, so that it may need no slot
	stageBegun         // the run has begun, and wants a slot
	stageNew
	stages
)

// shelfOf returns the number of a shelf, as the statements compute it too. It may be larger than an int of the database.
func shelfOf(lane, stage int) int { return stages*lane + stage }

// cursors hold the place on each shelf where polls begin, so that polls do not read the dead rows below it. A sweep sets all
// cursors, a poll raises the cursors of the shelves it claimed from, and a notification lowers the cursors of its lane.
type cursors struct {
	mu      sync.Mutex
	lanes   []int             // lanes that the worker serves, in order, as of the last sweep
	rest    time.Time         // cursor of each shelf that is not in at; zero: the very start
	at      map[int]time.Time // by shelf
	lowered map[int]time.Time // cursors lowered since the running sweep began; nil: no sweep is running
	noticed map[int]time.Time // cursors lowered since the running claim was sent
	tried   map[int]RunID     // heads below a cursor that polls were to try after the last sweep; if one is still there, they failed
}

// head is the first due run of a shelf.
type head struct {
	shelf int
	at    time.Time
	run   RunID
}

// args returns the shelves with a cursor of their own in order, the cursors of these shelves, and the cursor of all other shelves.
// The statements find a shelf by halving the array. An array with one element for each possible shelf would be as long as the
// highest number of a lane, which any login that enqueues can raise: each enqueue that is rolled back takes a number.
func (c *cursors) args() (shelves []int, ats []time.Time, rest time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	shelves, ats = make([]int, 0, len(c.at)), make([]time.Time, len(c.at))
	shelves = slices.AppendSeq(shelves, maps.Keys(c.at))
	slices.Sort(shelves)
	for i, shelf := range shelves {
		ats[i] = c.at[shelf]
	}
	return shelves, ats, orMinusInfinity(c.rest)
}

// orMinusInfinity returns t, or the start of 1970 if t is zero. No run has its place in the queue before that.
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

// asking forgets which cursors notifications have lowered so far. The claimer calls it just before it sends a claim. From then on
// c.noticed gathers the lowered cursors, and claimed does not raise a cursor above them, because the claim perhaps does not see
// these runs.
func (c *cursors) asking() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.noticed)
}

// areKnown reports whether a sweep has set the cursors. It is false at the start, and after forget.
func (c *cursors) areKnown() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.rest.IsZero()
}

// claimed raises the cursor of each shelf that claims came from, to the place of the first run claimed there. It raises no cursor
// above now - slack, or above the place of a run that was notified since asking, and lowers none. now is the time of the claim by
// the database's clock.
func (c *cursors) claimed(now time.Time, claims []*Claim) {
	first := map[int]time.Time{}
	for _, claim := range claims {
		if claim.keyed && claim.stage == stageNew {
			continue // runs of other keys wait below it
		}
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

// told takes a notification that a lane has new runs, the first of them at the place at. It lowers the cursors of the lane's
// shelves to at, but at most noticeReach below c.rest. It reports whether at is too far back for polls, so that only a sweep
// finds these runs.
//
// For a lane that the last sweep did not name, told sets no cursors, because any connection may notify, and each lane costs
// memory and a part of each claim. Polls begin in such a lane at c.rest. Runs of a new lane stand above it. A retry can put a run
// below it, into a lane that prune had closed: told then returns true.
func (c *cursors) told(lane int, at time.Time) (older bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, served := slices.BinarySearch(c.lanes, lane); !served {
		return at.Before(c.rest)
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

// sweeping marks the moment before a sweep reads the heads: from now on, c.lowered gathers the cursors that notifications lower.
// The sweep perhaps does not see these runs, so swept lowers its result by them.
func (c *cursors) sweeping() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lowered = map[int]time.Time{}
}

// swept sets all cursors from the heads that a sweep found at since or later. now is the time of the sweep by the database's
// clock. If the head of a shelf stands at or above the cursor, the cursor is set to the place of the head, and without a head to
// now - slack; it is never set above that. A cursor below since stays, because the sweep did not read its shelf from there.
// Cursors that notifications lowered during the sweep are lowered again.
//
// A head below its cursor is a run that was committed late, or that was locked. swept lowers the cursor to it, so that polls try
// it, and returns true. If the sweep before lowered the cursor to the same head, polls have tried that run in vain. Then swept
// does not return true for it, and lowers the cursor only if the worker is hungry: a run that is locked for long must not slow
// down other claims. A worker that is not hungry forgets that it tried the run, so the next sweep has polls try it once more.
func (c *cursors) swept(lanes []int, now, since time.Time, heads []head, hungry bool) (late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	upTo := now.Add(-slack)
	rest := upTo
	if c.rest.Before(since) { // another server answers now, and the sweep from its very start is still to come
		rest = c.rest
	}
	next, tried := map[int]time.Time{}, map[int]RunID{}
	for shelf, at := range c.at {
		if at.Before(since) { // the sweep did not reach this shelf's cursor
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

// forget drops all cursors, so that the next poll begins at the very start. The claimer calls it when another server may answer,
// because that server's clock may be behind.
func (c *cursors) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rest, c.at, c.tried = time.Time{}, nil, nil
}

// earlier returns the earlier of two moments. A zero moment is before all others.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
