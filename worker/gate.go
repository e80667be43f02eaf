package worker

import (
	"container/list"
	"fmt"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// reserveFor is how long a waiter that needs several slots at once keeps smaller ones behind it from passing.
const reserveFor = 5 * time.Second

// wideWaitMax is how long a task that needs several slots waits beside smaller ones: after that the gate keeps all that comes free for it.
const wideWaitMax = 30 * time.Second

// wideLookMax is how many tasks that need several slots are looked at for one that they are to be kept for.
const wideLookMax = 64

// handOnFor is how long somebody may have waited while slots go from a task to the next one of its run. A commit that ends a
// task and starts the next is one instead of two, and where bodies take longer than this, others do not wait longer for it.
const handOnFor = 250 * time.Millisecond

// Order says whose turn a task's is. The next slot goes to a run of the highest priority, among these to the one that holds the fewest
// slots, then to the one whose last turn is longest ago. In the run it goes by step priority, by the time ready, and then to the task
// that asked first.
type Order struct {
	RunID queue.RunID
	Run   int   // priority of the run
	Step  int   // priority of the step, among those of its run
	Since int64 // when it became ready, in milliseconds
}

// Gate gives the slots of a worker to tasks of all its runs. While slots are free, a grant is immediate. It is safe for
// concurrent use, and calls nobody while it is locked.
type Gate struct {
	mu      sync.Mutex
	slots   int
	free    int
	shut    bool   // nothing is given, until a sign of life is answered
	unfit   string // why this host starts nothing, so that nothing is given; "": it does
	waiting ticketQueue
	active  int
	grants  int // since one went to what waited longest

	expected int // slots kept for runs that a poll looks for, or that were just claimed and have not asked yet
	asks     asks
	head     reservation
	wide     wideTurn
	idle     idleTime
	tell     gateListener
	crowd    bool // tasks waited the last time
}

// gateListener is told of a gate, after it was unlocked.
type gateListener struct {
	asking  func() // a slot is kept for what a poll may bring
	freed   func() // there may be room for another run
	crowded func() // tasks begin to wait
}

// reservation is of what is free, for the waiter that goes first and needs more.
type reservation struct {
	ticket *Ticket // nil: nothing is reserved
	since  time.Time
	timer  *time.Timer // when smaller ones may pass it
}

// wideTurn is of a ticket that needs several slots, has waited for wideWaitMax, and gets all that comes free.
type wideTurn struct {
	ticket  *Ticket // nil: it is nobody's turn
	between int     // grants since there was one
}

// idleTime adds up slots that were free while something waited, times time.
type idleTime struct {
	sum   time.Duration
	since time.Time
}

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
	Room int  // slots that are free for runs that are still to be claimed: none while they are kept for a task that waits
	Next *int // the run priority of the next task that waits; nil: none does
}

// NewGate makes a gate with all its slots free.
func NewGate(slots int) *Gate {
	return &Gate{
		slots: slots, free: slots, waiting: newTicketQueue(), wide: wideTurn{between: queue.TurnEvery}, idle: idleTime{since: time.Now()},
		tell: gateListener{asking: func() {}, freed: func() {}, crowded: func() {}},
	}
}

// Ticket is a place in the queue, then a grant, until Release.
type Ticket struct {
	gate  *Gate
	run   *gateRun // nil: it needs no slot
	order Order
	nth   uint64
	since time.Time // when it was asked for
	slots int
	grant func(*Ticket)
	place int // among those of its run; -1: not waiting (any more)
	byAge *list.Element
	wide  *list.Element
	held  bool
	ask   *QueueAsk // for which its slots were not handed on, and are given back next; nil: none
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
	slots := min(n, g.free-g.expected)
	if g.keepsAll() || slots <= 0 {
		return &Keeping{gate: g, over: true}
	}
	return g.keepLocked(slots, atMost)
}

func (g *Gate) keepLocked(slots int, atMost time.Duration) *Keeping {
	k := &Keeping{Slots: slots, gate: g}
	g.expected += k.Slots
	k.timer = time.AfterFunc(atMost, func() { k.Expect(0) })
	return k
}

// Expect keeps slots for so many runs that were just claimed, until each has arrived, and lets the others go.
func (k *Keeping) Expect(runs int) {
	g := k.gate
	g.lock()
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
	g.lock()
	g.expected--
	g.giveOut()
}

// Look shows the gate at this moment.
func (g *Gate) Look() GateLook {
	g.lock()
	defer g.mu.Unlock()
	look := GateLook{GateStats: GateStats{
		Slots: g.slots, Free: g.free, Expected: max(0, g.expected), Waiting: g.waiting.Len(), Active: g.active, IdleSlotSeconds: g.idle.sum.Seconds(),
	}}
	look.Room = g.room()
	if first := g.waiting.first(); first != nil {
		look.Next = &first.run.key.priority
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

// keeps says whether what is free is kept for a task that waits.
func (g *Gate) keeps() bool {
	return g.waiting.Len() > 0 && (g.head.ticket == nil || time.Since(g.head.since) < reserveFor || g.keepsAll())
}

// keepsAll reports whether the gate keeps all that comes free for one ticket that needs several slots and has waited for long: the oldest
// such. Once chosen, it stays until it has its slots or leaves. Between two of these, queue.TurnEvery grants go by the order, so that many
// of them do not starve what ranks above.
func (g *Gate) keepsAll() bool {
	if g.wide.ticket == nil && g.wide.between >= queue.TurnEvery {
		g.wide.ticket = g.waiting.overdue(g.slots)
	}
	return g.wide.ticket != nil
}

func (g *Gate) ask(n int, order Order, arrives bool, grant func(*Ticket)) *Ticket {
	g.lock()
	if arrives {
		g.expected--
	}
	t := &Ticket{gate: g, order: order, nth: g.waiting.stamp(), since: time.Now(), slots: min(n, g.slots), grant: grant, place: -1}
	if t.slots > 0 {
		t.run = g.waiting.run(&order)
	}
	if n == 0 || g.givesAtOnce(t, arrives) {
		g.hold(t)
		g.giveOut() // one that needs no slot leaves the one that was kept for it
		t.grant(t)
		return t
	}
	g.waiting.add(t)
	g.giveOut()
	return t
}

// givesAtOnce reports whether a new ticket gets its slots before all that wait: because none do, or because the slot was kept for it.
func (g *Gate) givesAtOnce(t *Ticket, arrives bool) bool {
	return !g.closed() && g.may(t) && (g.waiting.Len() == 0 || arrives && !g.keepsAll())
}

// giveOut grants what can be granted, unlocks the gate, and tells those who got something, and the worker where room is left.
func (g *Gate) giveOut() {
	given := g.give()
	room, asks := g.free-g.expected > 0 && !g.keeps(), g.asks.next != nil
	begins := !g.crowd && g.waiting.Len() > 0
	g.crowd = g.waiting.Len() > 0
	g.mu.Unlock()
	for _, t := range given {
		t.grant(t)
	}
	if asks {
		g.tell.asking()
	}
	if room {
		g.tell.freed()
	}
	if begins {
		g.tell.crowded()
	}
}

// Release gives a ticket back: its slots, or its place in the queue. It may be called more than once. A grant may still
// be on its way when it returns.
func (t *Ticket) Release() {
	g := t.gate
	g.lock()
	switch {
	case t.held:
		t.held = false
		g.free += t.slots
		g.active--
		if t.run != nil {
			g.waiting.gain(t.run, -t.slots)
			g.waiting.forget(t.run)
			g.ended(t)
		}
	case t.place >= 0:
		g.leave(t)
		g.waiting.forget(t.run)
	}
	g.giveOut()
}

// HandOn keeps granted slots for another task of the same run. It refuses where another task would get them once they are given back, and
// is of a run of a higher priority, or of a step of this run that ranks above, or has waited for handOnFor. The driver then releases the
// slots.
func (t *Ticket) HandOn(n int, order Order) bool {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !t.held || g.closed() || t.slots != min(n, g.slots):
		return false
	case t.run != nil && !g.handsOn(t, &order):
		return false
	case t.run != nil && g.free <= g.expected: // else a poll claims for what is free
		if ask := g.asksFor(order.Run); ask != nil {
			t.ask = ask
			return false
		}
	}
	t.ask, t.order = nil, order
	return true
}

func (g *Gate) handsOn(t *Ticket, order *Order) bool {
	if g.waiting.Len() > 0 {
		if g.keepsAll() {
			return false
		}
		g.waiting.gain(t.run, -t.slots) // as if they were released
		yes := g.outranks(t.run, order)
		g.waiting.gain(t.run, t.slots)
		if !yes {
			return false
		}
		g.wide.between++
	}
	g.waiting.turn(t.run)
	return true
}

// outranks reports whether a run may go on with slots that it gives back although others wait.
func (g *Gate) outranks(r *gateRun, order *Order) bool {
	first := g.waiting.first()
	if first.order.Run > order.Run {
		return false
	}
	waited := time.Since(first.since) >= handOnFor
	switch {
	case first.order.Run < order.Run:
		g.grants++
		return g.grants < queue.TurnEvery // else the slot is for what has waited longest
	case first.run == r && first.order.Step != order.Step:
		g.grants++
		return first.order.Step < order.Step
	case waited && (first.run == r || first.run.goesBefore(r)):
		return false
	default:
		g.grants++
		return true
	}
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
	case g.keepsAll() && t != g.wide.ticket:
		return fmt.Sprintf("waits for a slot: what comes free on worker %s is kept for a task that waits for %d slots at once", worker, g.wide.ticket.slots)
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
	g.lock()
	g.shut = false
	g.giveOut()
}

// Refuse has the gate give no slots while this host starts nothing, and says why. "" is the end of that.
func (g *Gate) Refuse(why string) {
	g.lock()
	g.unfit = why
	g.giveOut()
}

func (g *Gate) closed() bool { return g.shut || g.unfit != "" }

// give takes everybody out of the queue who gets slots now, in order.
func (g *Gate) give() (given []*Ticket) {
	if g.closed() {
		return nil
	}
	for g.waiting.Len() > 0 {
		t := g.next()
		if t == nil {
			break
		}
		if g.grants++; g.grants > queue.TurnEvery {
			g.grants = 0
		}
		given = append(given, g.take(t))
	}
	if g.waiting.Len() == 0 || g.free == 0 || g.keepsAll() {
		g.keepFor(nil)
		return given
	}
	g.keepFor(g.waiting.first())
	if time.Since(g.head.since) >= reserveFor {
		given = append(given, g.pass()...)
	}
	return given
}

// next is the ticket that is to be served next: by order, but one grant of queue.TurnEvery is for what has waited longest. nil: what
// is free does not suffice for it.
func (g *Gate) next() *Ticket {
	t := g.waiting.first()
	if g.keepsAll() {
		t = g.wide.ticket
	} else if oldest := g.waiting.oldest(); g.grants >= queue.TurnEvery && g.may(oldest) {
		return oldest
	}
	if !g.may(t) {
		return nil
	}
	return t
}

// may says whether a ticket gets what is free now.
func (g *Gate) may(t *Ticket) bool {
	return t.slots <= g.free-g.expected
}

// pass lets smaller waiters go past the first one.
func (g *Gate) pass() (given []*Ticket) {
	var passed []*Ticket
	for g.free > g.expected {
		t := g.waiting.first()
		if t == nil {
			break
		}
		if g.may(t) {
			given = append(given, g.take(t))
			continue
		}
		g.waiting.leave(t)
		passed = append(passed, t)
	}
	for _, t := range passed {
		g.waiting.enter(t)
	}
	return given
}

func (g *Gate) take(t *Ticket) *Ticket {
	g.wide.between++
	g.leave(t)
	return g.hold(t)
}

// leave takes a ticket out of the queue.
func (g *Gate) leave(t *Ticket) {
	g.waiting.remove(t)
	if g.wide.ticket == t {
		g.wide.ticket, g.wide.between = nil, 0
	}
}

func (g *Gate) hold(t *Ticket) *Ticket {
	t.held = true
	g.free -= t.slots
	g.active++
	if t.run != nil {
		g.waiting.gain(t.run, t.slots)
		g.waiting.turn(t.run)
	}
	return t
}

// keepFor reserves what is free for a waiter, for a while. The while goes on where another waiter, which was there before, comes first
// only because slots were granted or given back.
func (g *Gate) keepFor(t *Ticket) {
	if g.head.ticket == t {
		return
	}
	goesOn := t != nil && g.head.ticket != nil && g.head.ticket.place >= 0 && !t.since.After(g.head.since)
	if g.head.ticket = t; goesOn {
		return
	}
	g.head.since = time.Now()
	if g.head.timer != nil {
		g.head.timer.Stop()
		g.head.timer = nil
	}
	if t != nil {
		g.head.timer = time.AfterFunc(reserveFor, g.expire)
	}
}

// expire gives what was kept to smaller waiters.
func (g *Gate) expire() {
	g.lock()
	g.giveOut()
}

// lock locks the gate, and adds up how long slots were idle before anything changes.
func (g *Gate) lock() {
	g.mu.Lock()
	now := time.Now()
	if g.waiting.Len() > 0 {
		g.idle.sum += time.Duration(g.free) * now.Sub(g.idle.since)
	}
	g.idle.since = now
}

// Stats tell how busy the gate is.
func (g *Gate) Stats() GateStats { return g.Look().GateStats }
