package worker

import (
	"container/list"
	"fmt"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// reserveFor is how long the slot queue reserves free slots for the first request in order if that needs more than are free. After
// that, smaller requests behind it may pass.
const reserveFor = 5 * time.Second

// wideWaitMax is how long a request that needs several slots waits while smaller ones pass. After that the slot queue keeps all
// slots that come free for this request.
const wideWaitMax = 30 * time.Second

// wideLookMax is the number of requests that overdue looks at, at most, to find one that fits.
const wideLookMax = 64

// transferWaitMax is how long another request may have waited while slots still go from a task to the next task of the same run. A
// transfer ends one task and starts the next in one commit instead of two. If bodies take longer than transferWaitMax, other
// requests do not wait longer because of it.
const transferWaitMax = 250 * time.Millisecond

// Order is the rank of a task in the slot queue. The next slot goes to a run of the highest priority; among these to the run that
// holds the fewest slots, and then to the run that was given slots the longest time ago. Within a run the slot goes by step
// priority, by the time ready, and then to the task that asked first.
type Order struct {
	RunID queue.RunID
	Run   int   // priority of the run
	Step  int   // priority of the step within its run
	Since int64 // when the task became ready, in milliseconds
}

// SlotQueue gives the slots of a worker to the tasks of all its runs. If enough slots are free and no task waits, Ask grants them
// before it returns. A SlotQueue is safe for concurrent use, and calls no callback while it is locked.
type SlotQueue struct {
	mu        sync.Mutex
	slots     int
	free      int
	shut      bool   // grants stop until a sign of life is answered
	unfit     string // why this host cannot start tasks: grants stop; "": it can
	waiting   waitingRequests
	active    int // requests that hold slots, or that needed none and are not released
	permitted int // waiting requests that have a permit
	grants    int // turns by order since the request that had waited longest got one

	expected int // free slots kept for the runs of a poll under way, or for claimed runs that have not asked yet
	asks     asks
	head     reservation
	wide     wideTurn
	idle     idleTime
	tell     slotListener
	crowd    bool // requests waited at the last giveOut
}

// slotListener holds the callbacks of a slot queue. The slot queue calls them after it is unlocked.
type slotListener struct {
	asking  func() // a slot is kept for a QueueAsk
	freed   func() // there may be room for another run
	crowded func() // requests begin to wait
}

// reservation keeps the free slots for the first request in order, which needs more than are free.
type reservation struct {
	request *SlotRequest // nil: nothing is reserved
	since   time.Time
	timer   *time.Timer // fires when smaller requests may pass
}

// wideTurn is the turn of a request that needs several slots and has waited for wideWaitMax. It gets all slots that come free.
type wideTurn struct {
	request *SlotRequest // nil: no such request has its turn
	between int          // grants since the last turn
}

// idleTime adds up free slots multiplied by the time during which requests waited beside them.
type idleTime struct {
	sum   time.Duration
	since time.Time
}

// SlotStats are the figures of a slot queue.
type SlotStats struct {
	Slots, Free     int
	Expected        int     // how many of the free slots are kept for runs that are being claimed
	Waiting, Active int     // requests
	Shut            bool    // nothing is granted now
	Permitted       int     // how many of the waiting requests have a permit, which others may wait for
	IdleSlotSeconds float64 // free slots multiplied by the time during which requests waited beside them
}

// SlotLook is the state of a slot queue at one moment.
type SlotLook struct {
	SlotStats
	Room int  // free slots for runs that are still to be claimed; 0 while free slots are kept for a waiting request
	Next *int // run priority of the first waiting request; nil: none waits
}

// NewSlotQueue makes a slot queue with all its slots free.
func NewSlotQueue(slots int) *SlotQueue {
	return &SlotQueue{
		slots: slots, free: slots, waiting: newWaitingRequests(), wide: wideTurn{between: queue.TurnEvery}, idle: idleTime{since: time.Now()},
		tell: slotListener{asking: func() {}, freed: func() {}, crowded: func() {}},
	}
}

// SlotRequest is a task's place in the queue of the slot queue, and after the grant its slots, until Release.
type SlotRequest struct {
	slotQueue *SlotQueue
	run       *waitingRun // nil: the request needs no slot
	order     Order
	nth       uint64    // number of the ask, which decides between equals
	since     time.Time // when the task asked
	slots     int
	grant     func(*SlotRequest)
	place     int // index among the waiting requests of its run; -1: it does not wait
	byAge     *list.Element
	wide      *list.Element
	held      bool
	released  bool
	permitted bool           // it entered the queue with a permit
	permit    *permitRequest // of the task, owned by its driver; in a line for permits the place's own; nil: the task needs no pool
	ask       *QueueAsk      // Transfer refused for the sake of this ask, which gets the slots at Release; nil: none
}

// Ask queues for n slots, and calls grant once they are given: before it returns, or later from another goroutine. A request for 0
// slots is granted at once. A request for more slots than the slot queue has is for all of its slots. The caller must call Release,
// whether or not the request was granted.
func (g *SlotQueue) Ask(n int, order Order, grant func(*SlotRequest)) *SlotRequest {
	return g.ask(n, order, false, grant)
}

// SlotReservation is a number of free slots that no task gets while a poll looks for runs to start in them.
type SlotReservation struct {
	Slots     int // how many slots are kept
	slotQueue *SlotQueue
	over      bool
	timer     *time.Timer
}

// Reserve keeps up to n free slots until KeepFor is called, but no longer than atMost: a poll that hangs must not leave slots idle.
// The result is never nil; its Slots is 0 if no slot is free, or if all slots that come free are kept for one request. The caller
// must call KeepFor in any case.
func (g *SlotQueue) Reserve(n int, atMost time.Duration) *SlotReservation {
	g.mu.Lock()
	defer g.mu.Unlock()
	slots := min(n, g.free-g.expected)
	if g.keepsAll() || slots <= 0 {
		return &SlotReservation{slotQueue: g, over: true}
	}
	return g.reserveLocked(slots, atMost)
}

// reserveLocked is Reserve for slots that are free. The caller holds g.mu.
func (g *SlotQueue) reserveLocked(slots int, atMost time.Duration) *SlotReservation {
	k := &SlotReservation{Slots: slots, slotQueue: g}
	g.expected += k.Slots
	k.timer = time.AfterFunc(atMost, func() { k.KeepFor(0) })
	return k
}

// KeepFor ends the SlotReservation after a poll. It keeps one slot for each of the given number of claimed runs, until that run
// calls AskReserved or ReleaseReserved. The other slots come free and may be granted before KeepFor returns. KeepFor(0) frees all.
func (k *SlotReservation) KeepFor(runs int) {
	g := k.slotQueue
	g.lock()
	g.expected += runs
	if !k.over {
		k.over = true
		k.timer.Stop()
		g.expected -= k.Slots
	}
	g.giveOut()
}

// AskReserved is the first Ask of a run for which KeepFor keeps a slot. The slot is not kept from then on; the request may take it
// ahead of requests that wait.
func (g *SlotQueue) AskReserved(n int, order Order, grant func(*SlotRequest)) *SlotRequest {
	return g.ask(n, order, true, grant)
}

// ReleaseReserved frees the slot that KeepFor keeps for a run, because the run needs none. A run calls it or AskReserved, once.
func (g *SlotQueue) ReleaseReserved() {
	g.lock()
	g.expected--
	g.giveOut()
}

// Look returns the state of the slot queue at this moment.
func (g *SlotQueue) Look() SlotLook {
	g.lock()
	defer g.mu.Unlock()
	look := SlotLook{SlotStats: SlotStats{
		Slots: g.slots, Free: g.free, Expected: max(0, g.expected), Waiting: g.waiting.Len(), Active: g.active, Permitted: g.permitted, Shut: g.closed(), IdleSlotSeconds: g.idle.sum.Seconds(),
	}}
	look.Room = g.room()
	if first := g.waiting.first(); first != nil {
		look.Next = &first.run.key.priority
	}
	return look
}

// room returns how many slots are free for runs that are still to be claimed: 0 while free slots are kept for a waiting request, or
// while the slot queue grants nothing.
func (g *SlotQueue) room() int {
	if g.closed() || g.keeps() {
		return 0
	}
	return max(0, g.free-g.expected)
}

// keeps reports whether the free slots are kept for a waiting request, so that no run is to be claimed for them.
func (g *SlotQueue) keeps() bool {
	return g.waiting.Len() > 0 && (g.head.request == nil || time.Since(g.head.since) < reserveFor || g.keepsAll())
}

// keepsAll reports whether the slot queue keeps all slots that come free for one request, g.wide.request. It also chooses that
// request if none has the turn: the oldest that needs several slots and has waited for wideWaitMax. The request keeps its turn
// until it has its slots or leaves. Between two such turns, queue.TurnEvery grants go by the order, so that many such requests do
// not starve requests that rank above them.
func (g *SlotQueue) keepsAll() bool {
	if g.wide.request == nil && g.wide.between >= queue.TurnEvery {
		g.wide.request = g.waiting.overdue(g.slots)
	}
	return g.wide.request != nil
}

// ask implements Ask and, with arrives, AskReserved.
func (g *SlotQueue) ask(n int, order Order, arrives bool, grant func(*SlotRequest)) *SlotRequest {
	t := g.newRequest(n, order, grant)
	g.enter(t, arrives)
	return t
}

// newRequest returns a request for n slots that is not in the queue yet: enter puts it there.
func (g *SlotQueue) newRequest(n int, order Order, grant func(*SlotRequest)) *SlotRequest {
	g.mu.Lock()
	defer g.mu.Unlock()
	return &SlotRequest{
		slotQueue: g, order: order, nth: g.waiting.stamp(), since: time.Now(), slots: min(n, g.slots), grant: grant, place: -1,
	}
}

// enter puts a request into the queue, or grants it at once. With arrives, a slot was kept for its run, and is not from now on. A
// request that was released before gets nothing.
func (g *SlotQueue) enter(t *SlotRequest, arrives bool) {
	g.lock()
	if arrives {
		g.expected--
	}
	if t.released {
		g.mu.Unlock()
		return
	}
	if t.slots > 0 {
		t.run = g.waiting.run(&t.order)
	}
	if t.slots == 0 || g.givesAtOnce(t, arrives) {
		g.hold(t)
		g.giveOut() // a request for 0 slots leaves the slot that was kept for it to others
		t.grant(t)
		return
	}
	g.waiting.add(t)
	if t.permitted {
		g.permitted++
	}
	g.giveOut()
}

// givesAtOnce reports whether a new request gets its slots at once: enough slots are free, and no request waits. With arrives, a
// slot was kept for the run of the request: then requests may wait, unless one of them gets all slots that come free.
func (g *SlotQueue) givesAtOnce(t *SlotRequest, arrives bool) bool {
	return !g.closed() && g.may(t) && (g.waiting.Len() == 0 || arrives && !g.keepsAll())
}

// giveOut grants all requests that can be granted and unlocks the slot queue, which the caller has locked. Then it calls their
// grant functions and the callbacks of the worker.
func (g *SlotQueue) giveOut() {
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

// Release gives a request's slots back, or its place in the queue. The slots may be granted to other requests before Release
// returns. Release may be called more than once. The grant function of the request may still be called after Release has returned.
func (t *SlotRequest) Release() {
	g := t.slotQueue
	g.lock()
	t.released = true
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
	if t.permit != nil {
		t.permit.release()
	}
}

// Transfer moves the slots of a request to another task of the same run, without giving them back. n is how many slots that task
// needs, order is its rank. Transfer reports whether it moved them; if not, the caller releases the request and asks anew.
//
// It refuses if a waiting request would get the slots and belongs to a run of higher priority, to a step of this run that ranks
// above the other task, or has waited for transferWaitMax. If all waiting requests belong to runs of lower priority, it refuses
// about once in queue.TurnEvery grants, for the request that has waited longest. It also refuses if the tasks need different
// numbers of slots, if the slot queue grants nothing now, or if it keeps slots for a QueueAsk or for a request that needs several.
func (t *SlotRequest) Transfer(n int, order Order) bool {
	g := t.slotQueue
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case !t.held || g.closed() || t.slots != min(n, g.slots):
		return false
	case t.run != nil && !g.mayTransfer(t, &order):
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

// mayTransfer reports whether the slots of t may go to a task of the same run with this order, although other requests may wait. A
// yes counts as a turn of the run.
func (g *SlotQueue) mayTransfer(t *SlotRequest, order *Order) bool {
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

// outranks reports whether a task with this order may go on with slots of its run r although other requests wait; at least one must
// wait. It may add 1 to g.grants, and so bring the turn of the request nearer that has waited longest.
func (g *SlotQueue) outranks(r *waitingRun, order *Order) bool {
	first := g.waiting.first()
	if first.order.Run > order.Run {
		return false
	}
	waited := time.Since(first.since) >= transferWaitMax
	switch {
	case first.order.Run < order.Run:
		g.grants++
		return g.grants < queue.TurnEvery // at the turn of the request that has waited longest, the slot goes to that
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

// withdraw takes a request that waits out of the queue, and reports whether it did: the request was neither granted nor released.
// enter puts it back. A nil request never waits.
func (t *SlotRequest) withdraw() bool {
	if t == nil {
		return false
	}
	g := t.slotQueue
	g.lock()
	if t.place < 0 {
		g.mu.Unlock()
		return false
	}
	g.leave(t)
	g.waiting.forget(t.run)
	g.giveOut()
	return true
}

// waits reports whether the request is still in the queue: it was neither granted nor released.
func (t *SlotRequest) waits() bool {
	t.slotQueue.mu.Lock()
	defer t.slotQueue.mu.Unlock()
	return t.place >= 0
}

// waitsForPermit reports whether the task has no permit yet for its pools. The driver of the task calls it.
func (t *SlotRequest) waitsForPermit() bool { return t.permit != nil && !t.permit.has() }

// why returns, for people, what the request waits for on the named worker, a permit or slots, or "" if it does not wait.
func (t *SlotRequest) why(worker string) string {
	if t.permit != nil {
		if why := t.permit.why(worker); why != "" {
			return why
		}
	}
	g := t.slotQueue
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case t.place < 0:
		return ""
	case g.shut:
		return fmt.Sprintf("waits for a sign of life of worker %s", worker)
	case g.unfit != "":
		return fmt.Sprintf("waits until worker %s can start tasks: %s", worker, g.unfit)
	case g.keepsAll() && t != g.wide.request:
		return fmt.Sprintf("waits for a slot: worker %s keeps its next free slots for a task that waits for %d slots at once", worker, g.wide.request.slots)
	case t.slots > 1:
		return fmt.Sprintf("waits for %d slots at once: %d of %d on worker %s are taken", t.slots, g.slots-g.free, g.slots, worker)
	default:
		return fmt.Sprintf("waits for a slot: %d of %d on worker %s are taken", g.slots-g.free, g.slots, worker)
	}
}

// Shut stops all grants until Open. Requests that hold slots keep them, and Ask queues further requests.
func (g *SlotQueue) Shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
}

// Open ends Shut, and grants waiting requests at once. While Refuse holds, still nothing is granted.
func (g *SlotQueue) Open() {
	g.lock()
	g.shut = false
	g.giveOut()
}

// Refuse stops all grants because this host cannot start tasks, for the reason why. Refuse("") ends that, and grants waiting
// requests at once unless Shut holds.
func (g *SlotQueue) Refuse(why string) {
	g.lock()
	g.unfit = why
	g.giveOut()
}

func (g *SlotQueue) closed() bool { return g.shut || g.unfit != "" }

// give takes the requests that get slots now out of the queue, counts their slots as held, and returns the requests in order; the
// caller calls their grant functions. If requests still wait beside free slots, give reserves these for the first of them, and lets
// smaller ones pass after reserveFor.
func (g *SlotQueue) give() (given []*SlotRequest) {
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

// next returns the request to be served next, or nil if too few slots are free for it. The request goes by the order, but after
// queue.TurnEvery grants the request that has waited longest has its turn. If keepsAll, it is the request for which all slots are
// kept. At least one request must wait.
func (g *SlotQueue) next() *SlotRequest {
	t := g.waiting.first()
	if g.keepsAll() {
		t = g.wide.request
	} else if oldest := g.waiting.oldest(); g.grants >= queue.TurnEvery && g.may(oldest) {
		return oldest
	}
	if !g.may(t) {
		return nil
	}
	return t
}

// may reports whether enough slots are free for the request.
func (g *SlotQueue) may(t *SlotRequest) bool {
	return t.slots <= g.free-g.expected
}

// pass serves waiting requests in order, and skips each request that needs more slots than are free. It takes the served ones out
// of the queue and returns them; the skipped ones keep their places.
func (g *SlotQueue) pass() (given []*SlotRequest) {
	var passed []*SlotRequest
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

func (g *SlotQueue) take(t *SlotRequest) *SlotRequest {
	g.wide.between++
	g.leave(t)
	return g.hold(t)
}

// leave takes a request out of the queue, and ends its turn if all slots that come free were kept for it.
func (g *SlotQueue) leave(t *SlotRequest) {
	g.waiting.remove(t)
	if t.permitted {
		g.permitted--
	}
	if g.wide.request == t {
		g.wide.request, g.wide.between = nil, 0
	}
}

// hold makes a request hold its slots, and counts that as a turn of its run. It returns the request.
func (g *SlotQueue) hold(t *SlotRequest) *SlotRequest {
	t.held = true
	g.free -= t.slots
	g.active++
	if t.run != nil {
		g.waiting.gain(t.run, t.slots)
		g.waiting.turn(t.run)
	}
	return t
}

// keepFor reserves the free slots for the waiting request t, for reserveFor; nil ends the reservation. If t takes the place of a
// request that still waits, and asked before the reservation began, the time of that reservation goes on: t comes first only
// because slots were granted or given back.
func (g *SlotQueue) keepFor(t *SlotRequest) {
	if g.head.request == t {
		return
	}
	goesOn := t != nil && g.head.request != nil && g.head.request.place >= 0 && !t.since.After(g.head.since)
	if g.head.request = t; goesOn {
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

// expire is called when a reservation is over, and gives the reserved slots to smaller requests.
func (g *SlotQueue) expire() {
	g.lock()
	g.giveOut()
}

// lock locks the slot queue, and adds the time since the last lock to the idle time, before anything changes.
func (g *SlotQueue) lock() {
	g.mu.Lock()
	now := time.Now()
	if g.waiting.Len() > 0 {
		g.idle.sum += time.Duration(g.free) * now.Sub(g.idle.since)
	}
	g.idle.since = now
}

// Stats returns the figures of the slot queue at this moment.
func (g *SlotQueue) Stats() SlotStats { return g.Look().SlotStats }
