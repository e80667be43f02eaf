package worker

import (
	"math"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

const (
	// askInterval is how often a slot that ends is kept at the most for a run that ranks no higher than what waits, or after one that was
	// kept in vain.
	askInterval = 100 * time.Millisecond
	// heldMax is how many runs more than it has slots a worker holds that have tasks to run, before it takes no more of the same priority.
	heldMax = 8
	// anyPriority is above all priorities: runs may be due that were not seen yet.
	anyPriority = math.MaxInt
)

// QueueAsk is a slot that ended and is kept for a run of the queue, until a poll has asked for one.
type QueueAsk struct {
	*Keeping
	Lowest  int  // priority of a run to ask for
	Fair    bool // of any priority: what waits longest
	isFirst bool // only what ranks above all that waits here is asked for
}

// asks is what the gate goes by when it keeps a slot that ends for a run of the queue.
type asks struct {
	due   *int      // the highest priority of which a run may be due; nil: none was, as far as was seen
	ends  int       // slots that ended while something waited for one
	since time.Time // when the queue was asked last, for equals, or in vain
	next  *QueueAsk // for the next poll; nil: none
}

// Due says what the highest priority is of which runs are due in the queue; nil: none is.
func (g *Gate) Due(priority *int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asks.due = priority
}

// MayBeDue says that runs of any priority may be due.
func (g *Gate) MayBeDue() {
	highest := anyPriority
	g.Due(&highest)
}

// Asked takes what the next poll is to ask for; nil: nothing.
func (g *Gate) Asked() *QueueAsk {
	g.mu.Lock()
	defer g.mu.Unlock()
	ask := g.asks.next
	g.asks.next = nil
	if ask != nil && ask.over {
		return nil
	}
	return ask
}

// Answered says whether the queue had a run for an ask, if there was one. Where it had none, it is not asked
// for that again until something may be due.
func (g *Gate) Answered(ask *QueueAsk, some bool) {
	if ask == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !some {
		g.asks.since = time.Now() // anybody may say that something is due
	}
	switch {
	case some || ask.Fair:
	case ask.isFirst: // something that ranks as high as what waits may be due all the same
		lower := ask.Lowest - 1
		g.asks.due = &lower
	default:
		g.asks.due = nil
	}
}

// asksFor is what a slot is for that ends while a task of a run of this priority would get it; nil: it is for that task. A run that ranks
// above goes first. One that ranks the same has every second slot, as long as the worker holds few enough runs; what waits longest has
// one of queue.TurnEvery.
func (g *Gate) asksFor(priority int) *QueueAsk {
	a := &g.asks
	a.ends++
	if a.due == nil || g.closed() || g.keepsAll() {
		return nil
	}
	now := time.Now()
	if now.Sub(a.since) < askInterval {
		return nil
	}
	ask := &QueueAsk{Lowest: priority}
	switch {
	case a.ends%queue.TurnEvery == 0:
		ask.Lowest, ask.Fair = math.MinInt32, true
	case *a.due > priority:
		ask.Lowest, ask.isFirst = priority+1, true
		return ask
	case *a.due < priority || a.ends%2 != 0 || len(g.waiting.runs) >= g.slots+heldMax:
		return nil
	}
	a.since = now
	return ask
}

// ended keeps the slots that a task gave back for an ask, if it is their turn.
func (g *Gate) ended(t *Ticket) {
	ask := t.ask
	t.ask = nil
	if first := g.waiting.first(); ask == nil && first != nil && first.slots == 1 {
		ask = g.asksFor(first.order.Run)
	}
	if ask != nil {
		g.keepForAsk(ask, t.slots)
	}
}

// keepForAsk keeps slots that are free for an ask, of which it tells the worker once the gate is unlocked.
func (g *Gate) keepForAsk(ask *QueueAsk, slots int) {
	slots = min(slots, g.free-g.expected)
	if slots <= 0 {
		return
	}
	switch next := g.asks.next; {
	case next == nil:
		ask.Keeping = g.keepLocked(slots, maxSlotWait)
		g.asks.next = ask
	case !next.over && next.isFirst == ask.isFirst:
		next.Slots += slots
		g.expected += slots
	} // else another one is under way, and the slots are for what waits here
}
