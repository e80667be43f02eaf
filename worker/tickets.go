package worker

import (
	"cmp"
	"container/heap"
	"container/list"
	"math"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// inOrder compares tickets by who goes first: those of one run exactly, those of several as if none held slots.
func inOrder(a, b *Ticket) int {
	return cmp.Or(
		cmp.Compare(b.order.Run, a.order.Run), cmp.Compare(b.order.Step, a.order.Step),
		cmp.Compare(a.order.Since, b.order.Since), cmp.Compare(a.nth, b.nth),
	)
}

// ticketQueue holds the tickets that wait, by run. The slots that a run holds and its last turn change the rank of all its tickets at
// once, so it is runs that are in order, and in each run its tickets.
type ticketQueue struct {
	runs  map[runKey]*gateRun // those that hold slots or wait
	waits runHeap
	byAge list.List // of *Ticket: all that wait
	wide  list.List // of *Ticket: those that need several slots
	count uint64    // asks and turns so far
}

// runKey names a run at a gate. The priority is in it, since it does not change while the run is there.
type runKey struct {
	priority int
	id       queue.RunID
}

// gateRun is a run at a gate.
type gateRun struct {
	key     runKey
	slots   int     // that its tasks hold
	turn    uint64  // when it last was given slots; before that, when it first asked for some
	waiting tickets // heap
	place   int     // in runHeap; -1: no task of it waits
}

// goesBefore reports whether the next slot is for r rather than for other.
func (r *gateRun) goesBefore(other *gateRun) bool {
	return cmp.Or(cmp.Compare(other.key.priority, r.key.priority), cmp.Compare(r.slots, other.slots), cmp.Compare(r.turn, other.turn)) < 0
}

func newTicketQueue() ticketQueue { return ticketQueue{runs: map[runKey]*gateRun{}} }

// Len counts the tickets that wait.
func (q *ticketQueue) Len() int { return q.byAge.Len() }

// stamp counts an ask or a turn.
func (q *ticketQueue) stamp() uint64 {
	q.count++
	return q.count
}

// first is the ticket that goes before all others; nil: none waits.
func (q *ticketQueue) first() *Ticket {
	if len(q.waits) == 0 {
		return nil
	}
	return q.waits[0].waiting[0]
}

// oldest is the ticket that has waited longest, of those that wait.
func (q *ticketQueue) oldest() *Ticket {
	return q.byAge.Front().Value.(*Ticket) //nolint:forcetypeassert // ours alone
}

// overdue is the oldest ticket that needs several slots and has waited for wideWaitMax; nil: there is none. One that does not fit beside
// what its own run holds is passed over: the run may hold that for ever, as a server does that waits for its client.
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

// run finds the run of an ask. One that neither waits nor holds slots is new.
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

// enter puts a ticket where its turn is. Its age counts from add.
func (q *ticketQueue) enter(t *Ticket) {
	heap.Push(&t.run.waiting, t)
	if t.run.place < 0 {
		heap.Push(&q.waits, t.run)
	}
}

// leave is the end of enter.
func (q *ticketQueue) leave(t *Ticket) {
	heap.Remove(&t.run.waiting, t.place)
	if len(t.run.waiting) == 0 {
		heap.Remove(&q.waits, t.run.place)
	}
}

// gain has a run hold so many slots more.
func (q *ticketQueue) gain(r *gateRun, slots int) {
	r.slots += slots
	q.rank(r)
}

// turn is that of a run which is given slots.
func (q *ticketQueue) turn(r *gateRun) {
	r.turn = q.stamp()
	q.rank(r)
}

func (q *ticketQueue) rank(r *gateRun) {
	if r.place >= 0 {
		heap.Fix(&q.waits, r.place)
	}
}

// forget drops a run of which nothing is left here.
func (q *ticketQueue) forget(r *gateRun) {
	if r.slots == 0 && len(r.waiting) == 0 {
		delete(q.runs, r.key)
	}
}

// runHeap are the runs of which tasks wait, the first on top. One generic heap for these and tickets makes BenchmarkGate/crowded slower by a tenth.
type runHeap []*gateRun

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return h[i].goesBefore(h[j]) }

func (h runHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push is container/heap's.
func (h *runHeap) Push(x any) {
	r := x.(*gateRun) //nolint:forcetypeassert // ours alone
	r.place = len(*h)
	*h = append(*h, r)
}

// Pop is container/heap's.
func (h *runHeap) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	r.place = -1
	return r
}

// tickets are those of a run that wait, the first on top.
type tickets []*Ticket

func (q tickets) Len() int           { return len(q) }
func (q tickets) Less(i, j int) bool { return inOrder(q[i], q[j]) < 0 }

func (q tickets) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].place, q[j].place = i, j
}

// Push is container/heap's.
func (q *tickets) Push(x any) {
	t := x.(*Ticket) //nolint:forcetypeassert // ours alone
	t.place = len(*q)
	*q = append(*q, t)
}

// Pop is container/heap's.
func (q *tickets) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.place = -1
	return t
}

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
