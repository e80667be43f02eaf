package worker

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"sync"
	"time"
)

// reserveFor is how long a waiter that needs several slots at once keeps smaller ones behind it from passing.
const reserveFor = 5 * time.Second

// handOnFor is how long somebody may have waited while slots go from a task to the next one of its run. A commit that ends a
// task and starts the next is one instead of two, and where bodies take longer than this, others do not wait longer for it.
const handOnFor = 250 * time.Millisecond

// Order says who goes first: by run priority, step priority, time ready, and then who asked first.
type Order struct {
	Run, Step int
	Since     int64 // milliseconds
}

// Gate gives the slots of a worker to tasks of all its runs. While slots are free, a grant is immediate. It is safe for
// concurrent use, and calls nobody while it is locked.
type Gate struct {
	mu      sync.Mutex
	slots   int
	free    int
	shut    bool // nothing is given
	asked   uint64
	waiting tickets
	active  int

	head      *Ticket // the waiter that slots are kept for
	headSince time.Time
	timer     *time.Timer // when smaller ones may pass it

	idle      time.Duration // slots that were free while something waited, times time
	idleSince time.Time
}

// GateStats count what a gate does.
type GateStats struct {
	Slots, Free     int
	Waiting, Active int
	IdleSlotSeconds float64 // of slots that were free while something waited
}

// NewGate makes a gate with all its slots free.
func NewGate(slots int) *Gate {
	return &Gate{slots: slots, free: slots, idleSince: time.Now()}
}

// Ticket is a place in the queue, then a grant, until Release.
type Ticket struct {
	gate  *Gate
	order Order
	nth   uint64
	since time.Time // when it was asked for
	slots int
	grant func(*Ticket)
	place int // in the queue; -1: not waiting (any more)
	held  bool
}

// Ask queues for n slots, and has grant called, from any goroutine, once they are given; who needs none queues for none.
// More than the gate has is cut to what it has: whoever cannot have more takes all.
func (g *Gate) Ask(n int, order Order, grant func(*Ticket)) *Ticket {
	g.mu.Lock()
	g.asked++
	t := &Ticket{gate: g, order: order, nth: g.asked, since: time.Now(), slots: min(n, g.slots), grant: grant, place: -1}
	g.account()
	var given []*Ticket
	if n == 0 {
		given = []*Ticket{g.hold(t)}
	} else {
		heap.Push(&g.waiting, t)
		given = g.give()
	}
	g.mu.Unlock()
	for _, t := range given {
		t.grant(t)
	}
	return t
}

// Release gives a ticket back: its slots, or its place in the queue. It may be called more than once. A grant may still
// be on its way when it returns.
func (t *Ticket) Release() {
	g := t.gate
	g.mu.Lock()
	g.account()
	switch {
	case t.held:
		t.held = false
		g.free += t.slots
		g.active--
	case t.place >= 0:
		heap.Remove(&g.waiting, t.place)
	}
	given := g.give()
	g.mu.Unlock()
	for _, t := range given {
		t.grant(t)
	}
}

// HandOn keeps granted slots for another task of the same run, unless somebody waits who goes before it: by priority, or
// because it has waited for handOnFor. Where it says no, the slots are to be released as always.
func (t *Ticket) HandOn(n int, order Order) bool {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if !t.held || g.shut || t.slots != min(n, g.slots) {
		return false
	}
	if len(g.waiting) > 0 {
		first := g.waiting[0]
		before := cmp.Or(cmp.Compare(first.order.Run, order.Run), cmp.Compare(first.order.Step, order.Step))
		if before > 0 || before == 0 && time.Since(first.since) >= handOnFor {
			return false
		}
	}
	t.order = order
	return true
}

// waits says whether it is still in the queue.
func (t *Ticket) waits() bool {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	return t.place >= 0
}

// why says what a ticket waits for on a worker, "" if it does not.
func (t *Ticket) why(worker string) string {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case t.place < 0:
		return ""
	case g.shut:
		return fmt.Sprintf("waits for a sign of life of worker %s", worker)
	case t.slots > 1:
		return fmt.Sprintf("waits for %d slots at once: %d of %d on worker %s are taken", t.slots, g.slots-g.free, g.slots, worker)
	default:
		return fmt.Sprintf("waits for a slot: %d of %d on worker %s are taken", g.slots-g.free, g.slots, worker)
	}
}

// Shut has the gate give no slots until Open. Who has some keeps them.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

// Open is the end of Shut.
func (g *Gate) Open() {
	g.mu.Lock()
	g.shut = false
	g.account()
	given := g.give()
	g.mu.Unlock()
	for _, t := range given {
		t.grant(t)
	}
}

// give takes everybody out of the queue who gets slots now, in order.
func (g *Gate) give() (given []*Ticket) {
	if g.shut {
		return nil
	}
	for g.waiting.Len() > 0 && g.waiting[0].slots <= g.free {
		given = append(given, g.take(g.waiting[0]))
	}
	if g.waiting.Len() == 0 || g.free == 0 {
		g.keepFor(nil)
		return given
	}
	g.keepFor(g.waiting[0])
	if time.Since(g.headSince) >= reserveFor {
		given = append(given, g.pass()...)
	}
	return given
}

// pass lets smaller waiters go past the first one.
func (g *Gate) pass() (given []*Ticket) {
	behind := slices.Clone(g.waiting)
	slices.SortFunc(behind, inOrder)
	for _, t := range behind {
		if t.slots <= g.free {
			given = append(given, g.take(t))
		}
	}
	return given
}

func (g *Gate) take(t *Ticket) *Ticket {
	heap.Remove(&g.waiting, t.place)
	return g.hold(t)
}

func (g *Gate) hold(t *Ticket) *Ticket {
	t.held = true
	g.free -= t.slots
	g.active++
	return t
}

// keepFor reserves what is free for a waiter, for a while.
func (g *Gate) keepFor(t *Ticket) {
	if g.head == t {
		return
	}
	g.head, g.headSince = t, time.Now()
	if g.timer != nil {
		g.timer.Stop()
		g.timer = nil
	}
	if t != nil {
		g.timer = time.AfterFunc(reserveFor, g.expire)
	}
}

// expire gives what was kept to smaller waiters.
func (g *Gate) expire() {
	g.mu.Lock()
	g.account()
	given := g.give()
	g.mu.Unlock()
	for _, t := range given {
		t.grant(t)
	}
}

// account adds up how long slots were idle, before anything changes.
func (g *Gate) account() {
	now := time.Now()
	if g.waiting.Len() > 0 {
		g.idle += time.Duration(g.free) * now.Sub(g.idleSince)
	}
	g.idleSince = now
}

// Stats tell how busy the gate is.
func (g *Gate) Stats() GateStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.account()
	return GateStats{
		Slots: g.slots, Free: g.free, Waiting: g.waiting.Len(), Active: g.active, IdleSlotSeconds: g.idle.Seconds(),
	}
}

// inOrder compares by who goes first.
func inOrder(a, b *Ticket) int {
	return cmp.Or(
		cmp.Compare(b.order.Run, a.order.Run), cmp.Compare(b.order.Step, a.order.Step),
		cmp.Compare(a.order.Since, b.order.Since), cmp.Compare(a.nth, b.nth),
	)
}

// tickets are those that wait, the first on top.
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
