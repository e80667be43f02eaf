package worker

import (
	"cmp"
	"container/heap"
	"container/list"
	"math"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// inOrder compares two requests: the result is negative if a goes before b, and positive if b does. For requests of one run this is
// the slot queue's order. For requests of two runs it leaves out how many slots the runs hold and when they were given some.
func inOrder(a, b *SlotRequest) int {
	return cmp.Or(
		cmp.Compare(b.order.Run, a.order.Run), cmp.Compare(b.order.Step, a.order.Step),
		cmp.Compare(a.order.Since, b.order.Since), cmp.Compare(a.nth, b.nth),
	)
}

// waitingRequests holds the waiting requests in a heap of runs, with a heap of requests in each run. When the slots of a run or its
// last turn change, the rank of all its requests changes with one move in the heap of runs.
type waitingRequests struct {
	runs  map[runKey]*waitingRun // runs that hold slots or have waiting requests
	waits runHeap
	byAge list.List // of *SlotRequest: all waiting requests, the oldest first
	wide  list.List // of *SlotRequest: waiting requests that need several slots, the oldest first
	count uint64    // asks and turns so far
}

// runKey identifies a run in a slot queue. The priority can be a part of it because it does not change while the run is there.
type runKey struct {
	priority int
	id       queue.RunID
}

// waitingRun is a run in a slot queue.
type waitingRun struct {
	key     runKey
	slots   int         // held by its tasks
	turn    uint64      // stamp of the last grant to the run; before the first grant, of its first ask
	waiting requestHeap // heap
	place   int         // index in runHeap; -1: no task of the run waits
}

// goesBefore reports whether the next slot is for r rather than for other.
func (r *waitingRun) goesBefore(other *waitingRun) bool {
	return cmp.Or(cmp.Compare(other.key.priority, r.key.priority), cmp.Compare(r.slots, other.slots), cmp.Compare(r.turn, other.turn)) < 0
}

func newWaitingRequests() waitingRequests { return waitingRequests{runs: map[runKey]*waitingRun{}} }

// Len returns the number of waiting requests.
func (q *waitingRequests) Len() int { return q.byAge.Len() }

// stamp returns a number for an ask or a turn, greater than all before it.
func (q *waitingRequests) stamp() uint64 {
	q.count++
	return q.count
}

// first returns the waiting request that goes before all others by the order; nil: none waits. The request stays in the queue.
func (q *waitingRequests) first() *SlotRequest {
	if len(q.waits) == 0 {
		return nil
	}
	return q.waits[0].waiting[0]
}

// some returns n waiting requests: the one that goes before all others, and then the oldest. At least n requests must wait.
func (q *waitingRequests) some(n int) (requests []*SlotRequest) {
	if n == 0 {
		return nil
	}
	requests = append(requests, q.first())
	for e := q.byAge.Front(); len(requests) < n; e = e.Next() {
		if t := e.Value.(*SlotRequest); t != requests[0] { //nolint:forcetypeassert // ours alone
			requests = append(requests, t)
		}
	}
	return requests
}

// oldest returns the request that has waited longest. At least one request must wait.
func (q *waitingRequests) oldest() *SlotRequest {
	return q.byAge.Front().Value.(*SlotRequest) //nolint:forcetypeassert // ours alone
}

// overdue returns the oldest request that needs several slots and has waited for wideWaitMax; nil: there is none among the
// wideLookMax oldest. slots is the number of slots of the slot queue. overdue skips a request that does not fit beside the slots
// that its own run holds: the run may hold these for ever, like a server that waits for its client.
func (q *waitingRequests) overdue(slots int) *SlotRequest {
	looked := 0
	for e := q.wide.Front(); e != nil && looked < wideLookMax; e = e.Next() {
		t := e.Value.(*SlotRequest) //nolint:forcetypeassert // ours alone
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

// run returns the waitingRun for the run in order, and adds one if the run neither waits nor holds slots yet.
func (q *waitingRequests) run(order *Order) *waitingRun {
	key := runKey{order.Run, order.RunID}
	r := q.runs[key]
	if r == nil {
		r = &waitingRun{key: key, turn: q.stamp(), place: -1}
		q.runs[key] = r
	}
	return r
}

func (q *waitingRequests) add(t *SlotRequest) {
	t.byAge = q.byAge.PushBack(t)
	if t.slots > 1 {
		t.wide = q.wide.PushBack(t)
	}
	q.enter(t)
}

func (q *waitingRequests) remove(t *SlotRequest) {
	q.byAge.Remove(t.byAge)
	if t.wide != nil {
		q.wide.Remove(t.wide)
	}
	t.byAge, t.wide = nil, nil
	q.leave(t)
}

// enter puts a request into the heaps. Its place in byAge, which add has set, stays.
func (q *waitingRequests) enter(t *SlotRequest) {
	heap.Push(&t.run.waiting, t)
	if t.run.place < 0 {
		heap.Push(&q.waits, t.run)
	}
}

// leave takes a request out of the heaps. Its place in byAge stays.
func (q *waitingRequests) leave(t *SlotRequest) {
	heap.Remove(&t.run.waiting, t.place)
	if len(t.run.waiting) == 0 {
		heap.Remove(&q.waits, t.run.place)
	}
}

// gain adds slots to the slots that a run holds, or takes some away if slots is negative, and moves the run to its new rank.
func (q *waitingRequests) gain(r *waitingRun, slots int) {
	r.slots += slots
	q.rank(r)
}

// turn records that a run is given slots now, so that it ranks behind runs that hold as many slots and were given some earlier.
func (q *waitingRequests) turn(r *waitingRun) {
	r.turn = q.stamp()
	q.rank(r)
}

func (q *waitingRequests) rank(r *waitingRun) {
	if r.place >= 0 {
		heap.Fix(&q.waits, r.place)
	}
}

// forget drops a run if it neither holds slots nor waits, and otherwise does nothing.
func (q *waitingRequests) forget(r *waitingRun) {
	if r.slots == 0 && len(r.waiting) == 0 {
		delete(q.runs, r.key)
	}
}

// runHeap is a heap of the runs that have waiting requests, the first on top. One generic heap for runs and requests would make
// BenchmarkGate/crowded slower by a tenth.
type runHeap []*waitingRun

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return h[i].goesBefore(h[j]) }

func (h runHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push implements heap.Interface.
func (h *runHeap) Push(x any) {
	r := x.(*waitingRun) //nolint:forcetypeassert // ours alone
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

// requestHeap is a heap of the waiting requests of one run, the first on top.
type requestHeap []*SlotRequest

func (q requestHeap) Len() int           { return len(q) }
func (q requestHeap) Less(i, j int) bool { return inOrder(q[i], q[j]) < 0 }

func (q requestHeap) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push implements heap.Interface.
func (q *requestHeap) Push(x any) {
	t := x.(*SlotRequest) //nolint:forcetypeassert // ours alone
	t.place = len(*q)
	*q = append(*q, t)
}

// Pop implements heap.Interface.
func (q *requestHeap) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.place = -1
	return t
}

const (
	// askInterval is the least time between two asks for a run that ranks no higher than the waiting requests, and after an ask
	// that the queue had no run for.
	askInterval = 100 * time.Millisecond
	// heldMax is how many more runs than slots a worker may hold before it asks for no more runs of the same priority. Only runs
	// with tasks in the slot queue count.
	heldMax = 8
	// anyPriority is above all priorities. It stands for runs that no look or poll has seen yet.
	anyPriority = math.MaxInt
)

// QueueAsk keeps slots that came free for a run of the queue, although requests wait in the slot queue. The next poll claims for
// it.
type QueueAsk struct {
	*SlotReservation
	Lowest  int  // least priority of the run to claim
	Fair    bool // claim the run that has waited longest, of any priority
	isFirst bool // only a run that ranks above all waiting requests will do
}

// asks is the state by which the slot queue decides whether a slot that comes free is for a waiting request or for a run of the
// queue.
type asks struct {
	due   *int      // the highest priority of which a run may be due; nil: none is due as far as the worker knows
	ends  int       // slots that came free, or were handed on, while a request waited
	since time.Time // the last ask for a run of equal priority or any, or the last answer without a run
	next  *QueueAsk // for the next poll; nil: none
}

// Due records the highest priority of which a run is due in the queue, so that slots may be kept for it; nil: none is due.
func (g *SlotQueue) Due(priority *int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asks.due = priority
}

// MayBeDue records that runs of any priority may be due.
func (g *SlotQueue) MayBeDue() {
	highest := anyPriority
	g.Due(&highest)
}

// Asked removes and returns the ask for the next poll; nil: there is none, or its SlotReservation is over.
func (g *SlotQueue) Asked() *QueueAsk {
	g.mu.Lock()
	defer g.mu.Unlock()
	ask := g.asks.next
	g.asks.next = nil
	if ask != nil && ask.over {
		return nil
	}
	return ask
}

// Answered records the outcome of the poll for an ask: some means that the queue had a run, or that the poll failed. If it had
// none, the slot queue does not ask again for askInterval; after an ask that is not Fair, it does not ask for such a run until one
// may be due. A nil ask changes nothing.
func (g *SlotQueue) Answered(ask *QueueAsk, some bool) {
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
	case ask.isFirst: // a run that ranks as high as the waiting requests may still be due
		lower := ask.Lowest - 1
		g.asks.due = &lower
	default:
		g.asks.due = nil
	}
}

// asksFor decides about a slot that comes free while a task of a run with this priority would get it; each call counts one such
// slot. It returns nil if the task gets the slot, and otherwise the ask for which the slot is to be kept. A run of the queue with a
// higher priority goes first. A run with the same priority gets every second slot, as long as the worker holds few enough runs. The
// run that has waited longest gets one slot of queue.TurnEvery.
func (g *SlotQueue) asksFor(priority int) *QueueAsk {
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

// ended keeps the slots of t, which its task just gave back, for an ask if asksFor or Transfer has decided so. Otherwise they stay
// free.
func (g *SlotQueue) ended(t *SlotRequest) {
	ask := t.ask
	t.ask = nil
	if first := g.waiting.first(); ask == nil && first != nil && first.slots == 1 {
		ask = g.asksFor(first.order.Run)
	}
	if ask != nil {
		g.keepForAsk(ask, t.slots)
	}
}

// keepForAsk keeps up to slots of the free slots for an ask, which the next poll gets by Asked. If an ask is there already, the
// slots are added to that one, provided that both are for a run that ranks first, or both are not, and that its reservation is not
// over. Otherwise they stay free for the waiting requests. giveOut then calls the worker's callback for asks, once the slot queue
// is unlocked.
func (g *SlotQueue) keepForAsk(ask *QueueAsk, slots int) {
	slots = min(slots, g.free-g.expected)
	if slots <= 0 {
		return
	}
	switch next := g.asks.next; {
	case next == nil:
		ask.SlotReservation = g.reserveLocked(slots, maxSlotWait)
		g.asks.next = ask
	case !next.over && next.isFirst == ask.isFirst:
		next.Slots += slots
		g.expected += slots
	} // else the ask under way is of another kind, and the slots are for the waiting requests
}
