package worker

import (
	"cmp"
	"container/heap"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
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
	shut    bool   // nothing is given, until a sign of life is answered
	unfit   string // why this host starts nothing, so that nothing is given; "": it does
	asked   uint64
	waiting tickets
	line    []*Ticket // the same by age, with some that wait no longer
	active  int
	grants  int // since one went to what waited longest

	expected int    // slots kept for runs that a poll looks for, or that were just claimed and have not asked yet
	urgent   *int   // tasks of runs that rank below get nothing: a run above them waits in the database for a slot
	freed    func() // told when there may be room for another run
	crowded  func() // told when tasks begin to wait
	crowd    bool   // tasks waited the last time

	head      *Ticket // the waiter that slots are kept for
	headSince time.Time
	timer     *time.Timer // when smaller ones may pass it

	idle      time.Duration // slots that were free while something waited, times time
	idleSince time.Time
}

// lineSlack is how many tickets that wait no longer may stand behind one that does, however few wait.
const lineSlack = 64

// GateStats count what a gate does.
type GateStats struct {
	Slots, Free     int
	Expected        int     // of the free ones, those that are kept for runs that are being claimed
	Waiting, Active int     // tickets
	IdleSlotSeconds float64 // of slots that were free while something waited
}

// GateLook is a gate at one moment.
type GateLook struct {
	GateStats
	Room   int  // slots that are free for runs that are still to be claimed: none while they are kept for a task that waits
	Urgent int  // slots that are kept free for a run that waits in the database, of those that became free since Urge
	Next   *int // the run priority of the next task that waits; nil: none does
}

// NewGate makes a gate with all its slots free.
func NewGate(slots int) *Gate {
	return &Gate{slots: slots, free: slots, idleSince: time.Now(), freed: func() {}, crowded: func() {}}
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
	return g.ask(n, order, false, grant)
}

// Keeping is slots that no task takes while a poll looks for runs to start in them.
type Keeping struct {
	Slots int // as many as were free
	gate  *Gate
	over  bool
	timer *time.Timer
}

// Keep keeps up to n free slots until Expect, or for so long: a poll that hangs does not idle them.
func (g *Gate) Keep(n int, atMost time.Duration) *Keeping {
	g.mu.Lock()
	defer g.mu.Unlock()
	k := &Keeping{Slots: max(0, min(n, g.free-g.expected)), gate: g}
	if k.over = k.Slots == 0; !k.over {
		g.expected += k.Slots
		k.timer = time.AfterFunc(atMost, func() { k.Expect(0) })
	}
	return k
}

// Expect keeps slots for so many runs that were just claimed, until each has arrived, and lets the others go.
func (k *Keeping) Expect(runs int) {
	g := k.gate
	g.mu.Lock()
	g.account()
	g.expected += runs
	if !k.over {
		k.over = true
		k.timer.Stop()
		g.expected -= k.Slots
	}
	g.giveOut()
}

// Arrive is the first Ask of a run that was expected.
func (g *Gate) Arrive(n int, order Order, grant func(*Ticket)) *Ticket {
	return g.ask(n, order, true, grant)
}

// Forgo says that a run that was expected needs no slot.
func (g *Gate) Forgo() {
	g.mu.Lock()
	g.account()
	g.expected--
	g.giveOut()
}

// Look shows the gate at this moment.
func (g *Gate) Look() GateLook {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.account()
	look := GateLook{GateStats: GateStats{
		Slots: g.slots, Free: g.free, Expected: max(0, g.expected), Waiting: g.waiting.Len(), Active: g.active, IdleSlotSeconds: g.idle.Seconds(),
	}}
	look.Room, look.Urgent = g.room(), g.urgentRoom()
	if g.waiting.Len() > 0 {
		priority := g.waiting[0].order.Run
		look.Next = &priority
	}
	return look
}

// room counts the slots that are free for runs that are still to be claimed: none while they are kept for a task that waits.
func (g *Gate) room() int {
	if g.closed() || g.keeps() {
		return 0
	}
	return max(0, g.free-g.expected)
}

// urgentRoom counts the slots that are kept free for a run that waits in the database, of those that became free since Urge.
func (g *Gate) urgentRoom() int {
	if g.urgent == nil || g.closed() {
		return 0
	}
	return max(0, g.free-g.expected)
}

// keeps says whether what is free is kept for what waits, a task or a run that ranks above.
func (g *Gate) keeps() bool {
	return g.waiting.Len() > 0 && (g.urgent != nil || g.head == nil || time.Since(g.headSince) < reserveFor)
}

// Urge keeps slots that become free from tasks of runs that rank below priority: a run of it waits in the database. nil is the
// end of that.
func (g *Gate) Urge(priority *int) {
	g.mu.Lock()
	g.account()
	g.urgent = priority
	g.giveOut()
}

func (g *Gate) ask(n int, order Order, arrives bool, grant func(*Ticket)) *Ticket {
	g.mu.Lock()
	if arrives {
		g.expected--
	}
	g.asked++
	t := &Ticket{gate: g, order: order, nth: g.asked, since: time.Now(), slots: min(n, g.slots), grant: grant, place: -1}
	g.account()
	if n == 0 || arrives && !g.closed() && t.slots <= g.free-g.expected { // the slot was kept for it, whoever else waits by now
		g.hold(t)
		g.giveOut() // one that needs no slot leaves the one that was kept for it
		t.grant(t)
		return t
	}
	heap.Push(&g.waiting, t)
	if len(g.line) > 2*g.waiting.Len()+lineSlack {
		g.line = slices.DeleteFunc(g.line, func(t *Ticket) bool { return t.place < 0 })
	}
	g.line = append(g.line, t)
	g.giveOut()
	return t
}

// giveOut grants what can be granted, unlocks the gate, and tells those who got something, and the worker where room is left.
func (g *Gate) giveOut() {
	given := g.give()
	room := g.free-g.expected > 0 && (g.urgent != nil || !g.keeps())
	begins := !g.crowd && g.waiting.Len() > 0
	g.crowd = g.waiting.Len() > 0
	g.mu.Unlock()
	for _, t := range given {
		t.grant(t)
	}
	if room {
		g.freed()
	}
	if begins {
		g.crowded()
	}
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
	g.giveOut()
}

// HandOn keeps granted slots for another task of the same run, unless somebody waits who goes before it: by priority, or
// because it has waited for handOnFor. Where it says no, the slots are to be released as always.
func (t *Ticket) HandOn(n int, order Order) bool {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if !t.held || g.closed() || t.slots != min(n, g.slots) || g.urgent != nil && order.Run < *g.urgent {
		return false
	}
	if len(g.waiting) > 0 {
		first := g.waiting[0]
		before := cmp.Or(cmp.Compare(first.order.Run, order.Run), cmp.Compare(first.order.Step, order.Step))
		if before > 0 || before == 0 && time.Since(first.since) >= handOnFor {
			return false
		}
		if g.grants++; before < 0 && g.grants >= queue.TurnEvery {
			return false // the slot is for what has waited longest
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
	case g.unfit != "":
		return fmt.Sprintf("waits until worker %s can start tasks: %s", worker, g.unfit)
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
	g.giveOut()
}

// Refuse has the gate give no slots while this host starts nothing, and says why. "" is the end of that.
func (g *Gate) Refuse(why string) {
	g.mu.Lock()
	g.unfit = why
	g.account()
	g.giveOut()
}

func (g *Gate) closed() bool { return g.shut || g.unfit != "" }

// give takes everybody out of the queue who gets slots now, in order.
func (g *Gate) give() (given []*Ticket) {
	if g.closed() {
		return nil
	}
	for g.waiting.Len() > 0 {
		t := g.first()
		if !g.may(t) {
			break
		}
		if g.grants++; g.grants > queue.TurnEvery {
			g.grants = 0
		}
		given = append(given, g.take(t))
	}
	if g.waiting.Len() == 0 || g.free == 0 || g.urgent != nil {
		g.keepFor(nil)
		return given
	}
	g.keepFor(g.waiting[0])
	if time.Since(g.headSince) >= reserveFor {
		given = append(given, g.pass()...)
	}
	return given
}

// may says whether a ticket gets what is free now.
func (g *Gate) may(t *Ticket) bool {
	return t.slots <= g.free-g.expected && (g.urgent == nil || t.order.Run >= *g.urgent)
}

// first is who is to be served next: by order, but one grant of queue.TurnEvery is for what has waited longest.
func (g *Gate) first() *Ticket {
	for len(g.line) > 0 && g.line[0].place < 0 {
		g.line = g.line[1:]
	}
	if g.grants >= queue.TurnEvery && g.may(g.line[0]) {
		return g.line[0]
	}
	return g.waiting[0]
}

// pass lets smaller waiters go past the first one.
func (g *Gate) pass() (given []*Ticket) {
	behind := slices.Clone(g.waiting)
	slices.SortFunc(behind, inOrder)
	for _, t := range behind {
		if g.may(t) {
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
	g.giveOut()
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
func (g *Gate) Stats() GateStats { return g.Look().GateStats }
