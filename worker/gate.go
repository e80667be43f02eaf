package worker

import (
	"container/list"
	"fmt"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// reserveFor is how long the gate reserves free slots for the first ticket in order if that needs more than are free. After that,
// smaller tickets behind it may pass.
const reserveFor = 5 * time.Second

// wideWaitMax is how long a ticket that needs several slots waits while smaller ones pass. After that the gate keeps all slots
// that come free for this ticket.
const wideWaitMax = 30 * time.Second

// wideLookMax is the number of tickets that overdue looks at, at most, to find one that fits.
const wideLookMax = 64

// handOnFor is how long another ticket may have waited while slots still go from a task to the next task of the same run. Handing
// on ends one task and starts the next in one commit instead of two. If bodies take longer than handOnFor, other tickets do not
// wait longer because of it.
const handOnFor = 250 * time.Millisecond

// Order is the rank of a task at the gate. The next slot goes to a run of the highest priority; among these to the run that holds
// the fewest slots, and then to the run that was given slots the longest time ago. Within a run the slot goes by step priority, by
// the time ready, and then to the task that asked first.
type Order struct {
	RunID queue.RunID
	Run   int   // priority of the run
	Step  int   // priority of the step within its run
	Since int64 // when the task became ready, in milliseconds
}

// Gate gives the slots of a worker to the tasks of all its runs. If enough slots are free and no task waits, Ask grants them before
// it returns. A Gate is safe for concurrent use, and calls no callback while it is locked.
type Gate struct {
	mu      sync.Mutex
	slots   int
	free    int
	shut    bool   // grants stop until a sign of life is answered
	unfit   string // why this host cannot start tasks: grants stop; "": it can
	waiting ticketQueue
	active  int // tickets that hold slots, or that needed none and are not released
	grants  int // turns by order since the ticket that had waited longest got one

	expected int // free slots kept for the runs of a poll under way, or for claimed runs that have not asked yet
	asks     asks
	head     reservation
	wide     wideTurn
	idle     idleTime
	tell     gateListener
	crowd    bool // tickets waited at the last giveOut
}

// gateListener holds the callbacks of a gate. The gate calls them after it is unlocked.
type gateListener struct {
	asking  func() // a slot is kept for a QueueAsk
	freed   func() // there may be room for another run
	crowded func() // tickets begin to wait
}

// reservation keeps the free slots for the first ticket in order, which needs more than are free.
type reservation struct {
	ticket *Ticket // nil: nothing is reserved
	since  time.Time
	timer  *time.Timer // fires when smaller tickets may pass
}

// wideTurn is the turn of a ticket that needs several slots and has waited for wideWaitMax. It gets all slots that come free.
type wideTurn struct {
	ticket  *Ticket // nil: no such ticket has its turn
	between int     // grants since the last turn
}

// idleTime adds up free slots multiplied by the time during which tickets waited beside them.
type idleTime struct {
	sum   time.Duration
	since time.Time
}

// GateStats are the figures of a gate.
type GateStats struct {
	Slots, Free     int
	Expected        int     // how many of the free slots are kept for runs that are being claimed
	Waiting, Active int     // tickets
	IdleSlotSeconds float64 // free slots multiplied by the time during which tickets waited beside them
}

// GateLook is the state of a gate at one moment.
type GateLook struct {
	GateStats
	Room int  // free slots for runs that are still to be claimed; 0 while free slots are kept for a waiting ticket
	Next *int // run priority of the first waiting ticket; nil: none waits
}

// NewGate makes a gate with all its slots free.
func NewGate(slots int) *Gate {
	return &Gate{
		slots: slots, free: slots, waiting: newTicketQueue(), wide: wideTurn{between: queue.TurnEvery}, idle: idleTime{since: time.Now()},
		tell: gateListener{asking: func() {}, freed: func() {}, crowded: func() {}},
	}
}

// Ticket is a task's place in the queue of the gate, and after the grant its slots, until Release.
type Ticket struct {
	gate  *Gate
	run   *gateRun // nil: the ticket needs no slot
	order Order
	nth   uint64    // number of the ask, which decides between equals
	since time.Time // when the task asked
	slots int
	grant func(*Ticket)
	place int // index among the waiting tickets of its run; -1: it does not wait
	byAge *list.Element
	wide  *list.Element
	held  bool
	ask   *QueueAsk // HandOn refused for the sake of this ask, which gets the slots at Release; nil: none
}

// Ask queues for n slots, and calls grant once they are given: before it returns, or later from another goroutine. A ticket for 0
// slots is granted at once. A ticket for more slots than the gate has is for all of its slots.
func (g *Gate) Ask(n int, order Order, grant func(*Ticket)) *Ticket {
	return g.ask(n, order, false, grant)
}

// Keeping is a number of free slots that no task gets while a poll looks for runs to start in them.
type Keeping struct {
	Slots int // how many slots are kept
	gate  *Gate
	over  bool
	timer *time.Timer
}

// Keep keeps up to n free slots until Expect is called, but no longer than atMost: a poll that hangs must not leave slots idle.
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

// Expect ends the Keeping after a poll. It keeps one slot for each of the given number of claimed runs, until that run calls Arrive
// or Forgo, and frees the other slots.
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

// Arrive is the first Ask of a run for which Expect keeps a slot.
func (g *Gate) Arrive(n int, order Order, grant func(*Ticket)) *Ticket {
	return g.ask(n, order, true, grant)
}

// Forgo frees the slot that Expect keeps for a run, because the run needs none.
func (g *Gate) Forgo() {
	g.lock()
	g.expected--
	g.giveOut()
}

// Look returns the state of the gate at this moment.
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

// room returns how many slots are free for runs that are still to be claimed: 0 while free slots are kept for a waiting ticket.
func (g *Gate) room() int {
	if g.closed() || g.keeps() {
		return 0
	}
	return max(0, g.free-g.expected)
}

// keeps reports whether the free slots are kept for a waiting ticket.
func (g *Gate) keeps() bool {
	return g.waiting.Len() > 0 && (g.head.ticket == nil || time.Since(g.head.since) < reserveFor || g.keepsAll())
}

// keepsAll reports whether the gate keeps all slots that come free for one ticket, and chooses that ticket: the oldest that needs
// several slots and has waited for wideWaitMax. The ticket keeps its turn until it has its slots or leaves. Between two such turns,
// queue.TurnEvery grants go by the order, so that many such tickets do not starve tickets that rank above them.
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
		g.giveOut() // a ticket for 0 slots leaves the slot that was kept for it to others
		t.grant(t)
		return t
	}
	g.waiting.add(t)
	g.giveOut()
	return t
}

// givesAtOnce reports whether a new ticket gets its slots at once: because no ticket waits, or because a slot was kept for its run.
func (g *Gate) givesAtOnce(t *Ticket, arrives bool) bool {
	return !g.closed() && g.may(t) && (g.waiting.Len() == 0 || arrives && !g.keepsAll())
}

// giveOut grants all tickets that can be granted and unlocks the gate. Then it calls their grant functions and the callbacks of the
// worker.
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

// Release gives a ticket's slots back, or its place in the queue. It may be called more than once. The grant function may still be
// called after Release has returned.
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

// HandOn moves the slots of a ticket to another task of the same run, without giving them back. It reports whether it did; if not,
// the caller releases the ticket. It refuses if a waiting ticket would get the slots and belongs to a run of higher priority, to a
// step of this run that ranks above the other task, or has waited for handOnFor. It also refuses if the tasks need different
// numbers of slots, if the gate grants nothing now, or if it keeps slots for a QueueAsk or for a ticket that needs several.
func (t *Ticket) HandOn(n int, order Order) bool {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !t.held || g.closed() || t.slots != min(n, g.slots):
		return false
	case t.run != nil && !g.handsOn(t, &order):
		return false
	case t.run != nil && g.free <= g.expected: // while slots are free, polls claim for those and no ask is needed
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

// outranks reports whether a task of this run may go on with slots of the run although other tickets wait.
func (g *Gate) outranks(r *gateRun, order *Order) bool {
	first := g.waiting.first()
	if first.order.Run > order.Run {
		return false
	}
	waited := time.Since(first.since) >= handOnFor
	switch {
	case first.order.Run < order.Run:
		g.grants++
		return g.grants < queue.TurnEvery // at the turn of the ticket that has waited longest, the slot goes to that
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

// waits reports whether the ticket is still in the queue.
func (t *Ticket) waits() bool {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	return t.place >= 0
}

// why returns, for people, what the ticket waits for on the named worker, or "" if it does not wait.
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

// Shut stops all grants until Open. Tickets that hold slots keep them.
func (g *Gate) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

// Open ends Shut.
func (g *Gate) Open() {
	g.lock()
	g.shut = false
	g.giveOut()
}

// Refuse stops all grants because this host cannot start tasks, for the reason why. Refuse("") ends that.
func (g *Gate) Refuse(why string) {
	g.lock()
	g.unfit = why
	g.giveOut()
}

func (g *Gate) closed() bool { return g.shut || g.unfit != "" }

// give takes the tickets that get slots now out of the queue, and returns them in order.
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

// next returns the ticket to be served next. It goes by the order, but after queue.TurnEvery grants the ticket that has waited
// longest has its turn. nil: too few slots are free for the next ticket.
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

// may reports whether enough slots are free for the ticket.
func (g *Gate) may(t *Ticket) bool {
	return t.slots <= g.free-g.expected
}

// pass serves waiting tickets in order, and skips each ticket that needs more slots than are free.
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

// keepFor reserves the free slots for a ticket, for reserveFor; nil ends the reservation. If t replaces a ticket that still waits,
// and did not ask after the reservation began, the time of that reservation goes on: t comes first only because slots were
// granted or given back.
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

// expire gives the reserved slots to smaller tickets.
func (g *Gate) expire() {
	g.lock()
	g.giveOut()
}

// lock locks the gate, and adds the time since the last lock to the idle time, before anything changes.
func (g *Gate) lock() {
	g.mu.Lock()
	now := time.Now()
	if g.waiting.Len() > 0 {
		g.idle.sum += time.Duration(g.free) * now.Sub(g.idle.since)
	}
	g.idle.since = now
}

// Stats returns the figures of the gate at this moment.
func (g *Gate) Stats() GateStats { return g.Look().GateStats }
