package queue

import (
	"slices"
	"sync"
	"time"
)

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
