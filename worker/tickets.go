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
	waits placeHeap[*gateRun] // those of which tasks wait
	byAge list.List           // of *Ticket: all that wait
	wide  list.List           // of *Ticket: those that need several slots
	count uint64              // asks and turns so far
}

// runKey names a run at a gate. The priority is in it, since it does not change while the run is there.
type runKey struct {
	priority int
	id       queue.RunID
}

// gateRun is a run at a gate.
type gateRun struct {
	key     runKey
	slots   int    // that its tasks hold
	turn    uint64 // when it last was given slots; before that, when it first asked for some
	waiting placeHeap[*Ticket]
	place   int // in ticketQueue.waits; -1: no task of it waits
}

// goesBefore reports whether the next slot is for r rather than for other.
func (r *gateRun) goesBefore(other *gateRun) bool {
	return cmp.Or(cmp.Compare(other.key.priority, r.key.priority), cmp.Compare(r.slots, other.slots), cmp.Compare(r.turn, other.turn)) < 0
}

func (r *gateRun) placed() *int { return &r.place }

func (t *Ticket) goesBefore(other *Ticket) bool { return inOrder(t, other) < 0 }

func (t *Ticket) placed() *int { return &t.place }

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

// ranked is what has a place in a placeHeap.
type ranked[T any] interface {
	goesBefore(other T) bool
	placed() *int // in the heap; -1: it is in none
}

// placeHeap has what goes first on top, and tells each where it is.
type placeHeap[T ranked[T]] []T

func (h placeHeap[T]) Len() int           { return len(h) }
func (h placeHeap[T]) Less(i, j int) bool { return h[i].goesBefore(h[j]) }

func (h placeHeap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].placed(), *h[j].placed() = i, j
}

// Push implements heap.Interface.
func (h *placeHeap[T]) Push(x any) {
	t := x.(T) //nolint:forcetypeassert // ours alone
	*t.placed() = len(*h)
	*h = append(*h, t)
}

// Pop implements heap.Interface.
func (h *placeHeap[T]) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	clear((*h)[last:])
	*h = (*h)[:last]
	*t.placed() = -1
	return t
}
