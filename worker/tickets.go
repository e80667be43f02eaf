package worker

import (
	"cmp"
	"container/heap"
	"container/list"
	"math"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// inOrder compares two tickets: the result is negative if a goes before b. For tickets of one run this is the gate's order. For
// tickets of two runs it leaves out how many slots the runs hold and when they were given some.
func inOrder(a, b *Ticket) int {
	return cmp.Or(
		cmp.Compare(b.order.Run, a.order.Run), cmp.Compare(b.order.Step, a.order.Step),
		cmp.Compare(a.order.Since, b.order.Since), cmp.Compare(a.nth, b.nth),
	)
}

// ticketQueue holds the waiting tickets in a heap of runs, with a heap of tickets in each run. When the slots of a run or its last
// turn change, the rank of all its tickets changes with one move in the heap of runs.
type ticketQueue struct {
	runs  map[runKey]*gateRun // runs that hold slots or have waiting tickets
	waits runHeap
	byAge list.List // of *Ticket: all waiting tickets, the oldest first
	wide  list.List // of *Ticket: waiting tickets that need several slots, the oldest first
	count uint64    // asks and turns so far
}

// runKey identifies a run at a gate. The priority can be a part of it because it does not change while the run is there.
type runKey struct {
	priority int
	id       queue.RunID
}

// gateRun is a run at a gate.
type gateRun struct {
	key     runKey
	slots   int     // held by its tasks
	turn    uint64  // stamp of the last grant to the run; before the first grant, of its first ask
	waiting tickets // heap
	place   int     // index in runHeap; -1: no task of the run waits
}

// goesBefore reports whether the next slot is for r rather than for other.
func (r *gateRun) goesBefore(other *gateRun) bool {
	return cmp.Or(cmp.Compare(other.key.priority, r.key.priority), cmp.Compare(r.slots, other.slots), cmp.Compare(r.turn, other.turn)) < 0
}

func newTicketQueue() ticketQueue { return ticketQueue{runs: map[runKey]*gateRun{}} }

// Len returns the number of waiting tickets.
func (q *ticketQueue) Len() int { return q.byAge.Len() }

// stamp returns a number for an ask or a turn, greater than all before it.
func (q *ticketQueue) stamp() uint64 {
	q.count++
	return q.count
}

// first returns the waiting ticket that goes before all others; nil: none waits.
func (q *ticketQueue) first() *Ticket {
	if len(q.waits) == 0 {
		return nil
	}
	return q.waits[0].waiting[0]
}

// oldest returns the ticket that has waited longest. At least one ticket must wait.
func (q *ticketQueue) oldest() *Ticket {
	return q.byAge.Front().Value.(*Ticket) //nolint:forcetypeassert // ours alone
}

// overdue returns the oldest ticket that needs several slots and has waited for wideWaitMax; nil: there is none. It skips a ticket
// that does not fit beside the slots that its own run holds: the run may hold these for ever, like a server that waits for its
// client.
func (q *ticketQueue) overdue(slots int) *Ticket {
	looked := 0
	for e := q.wide.Front(); e != nil && looked < wideLookMax; e = e.Next() {
		t := e.Value.(*Ticket) //nolint:forcetypeassert // ours alone
		if time.Since(t.since) < wideWaitMax {
			break
		}
		if t.slots+t.run.slots <= slots {
			return t
		}
		looked++
	}
	return nil
}

// run returns the run of an ask. It adds the run if that neither waits nor holds slots yet.
func (q *ticketQueue) run(order *Order) *gateRun {
	key := runKey{order.Run, order.RunID}
	r := q.runs[key]
	if r == nil {
		r = &gateRun{key: key, turn: q.stamp(), place: -1}
		q.runs[key] = r
	}
	return r
}

func (q *ticketQueue) add(t *Ticket) {
	t.byAge = q.byAge.PushBack(t)
	if t.slots > 1 {
		t.wide = q.wide.PushBack(t)
	}
	q.enter(t)
}

func (q *ticketQueue) remove(t *Ticket) {
	q.byAge.Remove(t.byAge)
	if t.wide != nil {
		q.wide.Remove(t.wide)
	}
	t.byAge, t.wide = nil, nil
	q.leave(t)
}

// enter puts a ticket into the heaps. Its place in byAge, which add has set, stays.
func (q *ticketQueue) enter(t *Ticket) {
	heap.Push(&t.run.waiting, t)
	if t.run.place < 0 {
		heap.Push(&q.waits, t.run)
	}
}

// leave takes a ticket out of the heaps. Its place in byAge stays.
func (q *ticketQueue) leave(t *Ticket) {
	heap.Remove(&t.run.waiting, t.place)
	if len(t.run.waiting) == 0 {
		heap.Remove(&q.waits, t.run.place)
	}
}

// gain adds slots, which may be negative, to the slots that a run holds.
func (q *ticketQueue) gain(r *gateRun, slots int) {
	r.slots += slots
	q.rank(r)
}

// turn records that a run is given slots.
func (q *ticketQueue) turn(r *gateRun) {
	r.turn = q.stamp()
	q.rank(r)
}

func (q *ticketQueue) rank(r *gateRun) {
	if r.place >= 0 {
		heap.Fix(&q.waits, r.place)
	}
}

// forget drops a run that neither holds slots nor waits.
func (q *ticketQueue) forget(r *gateRun) {
	if r.slots == 0 && len(r.waiting) == 0 {
		delete(q.runs, r.key)
	}
}

// runHeap is a heap of the runs that have waiting tickets, the first on top. One generic heap for runs and tickets would make
// BenchmarkGate/crowded slower by a tenth.
type runHeap []*gateRun

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return h[i].goesBefore(h[j]) }

func (h runHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *runHeap) Push(x any) {
	r := x.(*gateRun) //nolint:forcetypeassert // ours alone
	r.place = len(*h)
	*h = append(*h, r)
}

// Pop implements heap.Interface.
func (h *runHeap) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	r.place = -1
	return r
}

// tickets is a heap of the waiting tickets of one run, the first on top.
type tickets []*Ticket

func (q tickets) Len() int           { return len(q) }
func (q tickets) Less(i, j int) bool { return inOrder(q[i], q[j]) < 0 }

func (q tickets) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push implements heap.Interface.
func (q *tickets) Push(x any) {
	t := x.(*Ticket) //nolint:forcetypeassert // ours alone
	t.place = len(*q)
	*q = append(*q, t)
}

// Pop implements heap.Interface.
func (q *tickets) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.place = -1
	return t
}

const (
	// askInterval is the least time between two asks for a run that ranks no higher than the waiting tickets, and after an ask that
	// the queue had no run for.
	askInterval = 100 * time.Millisecond
	// heldMax is how many more runs than slots a worker may hold before it asks for no more runs of the same priority. Only runs
	// with tasks at the gate count.
	heldMax = 8
	// anyPriority is above all priorities. It stands for runs that no look or poll has seen yet.
	anyPriority = math.MaxInt
)

// QueueAsk keeps slots that came free for a run of the queue, although tickets wait at the gate. The next poll claims for it.
type QueueAsk struct {
	*Keeping
	Lowest  int  // least priority of the run to claim
	Fair    bool // claim the run that has waited longest, of any priority
	isFirst bool // only a run that ranks above all waiting tickets will do
}

// asks is the state by which the gate decides whether a slot that comes free is for a waiting ticket or for a run of the queue.
type asks struct {
	due   *int      // the highest priority of which a run may be due; nil: none is due as far as the worker knows
	ends  int       // slots that came free, or were handed on, while a ticket waited
	since time.Time // the last ask for a run of equal priority or any, or the last answer without a run
	next  *QueueAsk // for the next poll; nil: none
}

// Due sets the highest priority of which a run is due in the queue; nil: none is due.
func (g *Gate) Due(priority *int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asks.due = priority
}

// MayBeDue records that runs of any priority may be due.
func (g *Gate) MayBeDue() {
	highest := anyPriority
	g.Due(&highest)
}

// Asked removes and returns the ask for the next poll; nil: there is none, or its Keeping is over.
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

// Answered records whether the queue had a run for an ask; ask may be nil. If it had none, the gate does not ask for such a run
// again until one may be due.
func (g *Gate) Answered(ask *QueueAsk, some bool) {
	if ask == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !some {
		g.asks.since = time.Now() // bounds asks in vain: every notification marks all priorities as possibly due
	}
	switch {
	case some || ask.Fair:
	case ask.isFirst: // a run that ranks as high as the waiting tickets may still be due
		lower := ask.Lowest - 1
		g.asks.due = &lower
	default:
		g.asks.due = nil
	}
}

// asksFor decides about a slot that comes free while a task of a run with this priority would get it. It returns nil if the task
// gets the slot, and otherwise the ask for which the slot is to be kept. A run of the queue with a higher priority goes first. A run
// with the same priority gets every second slot, as long as the worker holds few enough runs. The run that has waited longest gets
// one slot of queue.TurnEvery.
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

// ended keeps the slots that a task just gave back for an ask, if asksFor or HandOn has decided so.
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

// keepForAsk keeps free slots for an ask. giveOut then calls the worker's callback for asks, once the gate is unlocked.
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
	} // else the ask under way is of another kind, and the slots are for the waiting tickets
}
