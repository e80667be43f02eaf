package worker

import (
	"cmp"
	"container/heap"
	"container/list"
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
