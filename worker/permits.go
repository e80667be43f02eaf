package worker

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	permitIdle = 250 * time.Millisecond // how long a permit that no task takes stays with this worker, if no other worker waits for it
	// permitPassing is how long a permit goes from task to task here while other workers wait for it. A permit that goes to another worker
	// lies idle until both workers have called, which can take permitEvery each, so it must not go much more often.
	permitPassing  = time.Second
	permitAskAgain = time.Second            // between calls while tasks wait for permits
	permitEvery    = 250 * time.Millisecond // between calls in the long run
	permitBurst    = 8                      // calls that may follow each other at once after a quiet time
	// permitsAhead is how many permits the worker asks for beside those that it has free slots for. So tasks that wait for one pool
	// do not hide the pools of others, and a busy worker has a permit when a slot comes free.
	permitsAhead = 16
	// permitsAsked bounds the permits that a worker asks for at once. The lines then take turns.
	permitsAsked = 200
	// laneWaiters is how many runs that begin with a pool may wait for permits before the worker leaves new runs in their lane. It
	// claims again once half of them have gone on, so that the pool has work meanwhile.
	laneWaiters = 64
	// permitRuns is how many other runs may wait for permits before the worker claims no more.
	permitRuns = 1000
)

// permitQueue gets permits of pools for the tasks of a worker. A task asks with request, and later goes on to the slot queue. A
// permit that the database granted goes from one task to the next without another call, as long as no other worker waits for it.
// A permitQueue is safe for concurrent use, and calls no callback while it is locked.
type permitQueue struct {
	changed signal // a call may be due
	resumed func() // new runs of a lane may be claimed again

	mu      sync.Mutex
	lines   map[string]*permitLine // by lineKey: tasks that take the same from the same pools
	permits map[int64]*permit      // all, by number
	nth     int64
	byLane  map[int]int         // tasks that wait, and with which the runs of a lane begin
	byRun   map[queue.RunID]int // all other tasks that wait, by run
	full    map[int]bool        // lanes of which no new runs are to be claimed
	crowded time.Time           // since when too many of these wait; zero: they do not
	resume  bool                // a lane is not full any more: call resumed
	told    []int64             // numbers in the last call that was answered
	called  time.Time
	passed  bool // since the last call a permit went from a task to the next: others may have begun to wait for it
	heard   bool // since the last call there was a notification that permits were granted
	credit  credit
	refused string // why the last call failed, so that the database may know other permits than told; "": it did not fail
}

// permitLine is the line of the tasks that take the same from the same pools, with the permits for them.
type permitLine struct {
	key     string
	uses    []dagrun.PoolUse
	waiting waitingRequests
	permits []*permit
	asked   time.Time // when a permit was asked for last
	reason  string    // why the database has not granted the permit that was asked for first; "": not known
	wait    time.Duration
	isFull  bool // the last call was refused a permit for the line
}

// permit is a permit that this worker has, or asks for.
type permit struct {
	nth       int64
	line      *permitLine
	order     Order // of the task that used it last or asks for it
	asked     time.Time
	granted   time.Time      // zero: the worker asks for it
	given     time.Time      // to the task that has or had it last; zero: none had it yet
	idle      time.Time      // since when no task has it, if it has no holder
	contested bool           // other workers wait for one of its pools
	once      bool           // for one body only
	holder    *permitRequest // of the task that has it; nil: no task has it
	isEnding  bool           // the body has ended, and the record of that is not durable yet
}

// permitRequest is a task's place in a line and then its permit, until release.
type permitRequest struct {
	queue  *permitQueue
	line   *permitLine
	place  *SlotRequest // in line.waiting
	slots  *SlotRequest // of the task, for later
	permit *permit      // nil: none yet
	lane   int          // as in request
}

func newPermitQueue() *permitQueue {
	q := &permitQueue{changed: newSignal(), resumed: func() {}}
	q.reset()
	return q
}

// reset forgets all permits, at the beginning of a life: the ones of the life before are gone with its fence.
func (q *permitQueue) reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lines, q.permits, q.told = map[string]*permitLine{}, map[int64]*permit{}, nil
	q.byLane, q.byRun, q.full = map[int]int{}, map[queue.RunID]int{}, map[int]bool{}
	q.crowded = time.Time{}
	q.called, q.refused, q.passed, q.heard = time.Now(), "", false, false
	q.credit = credit{calls: permitBurst, at: q.called}
}

// crowdedSince returns since when so many runs wait for permits that the worker claims no more; zero: it claims. Runs that begin with a
// pool do not count.
func (q *permitQueue) crowdedSince() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.crowded
}

// skip returns the lanes of which no new runs are to be claimed, because enough of their runs wait for permits here.
func (q *permitQueue) skip() []int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Sorted(maps.Keys(q.full))
}

// count counts a task that begins to wait, with by = 1, or that waits no more, with by = -1.
func (q *permitQueue) count(r *permitRequest, by int) {
	lane := r.lane
	if run := r.place.order.RunID; lane == 0 {
		if q.byRun[run] += by; q.byRun[run] == 0 {
			delete(q.byRun, run)
		}
		switch is := len(q.byRun) >= permitRuns; {
		case !is:
			q.crowded = time.Time{}
		case q.crowded.IsZero():
			q.crowded = time.Now()
		}
		return
	}
	q.byLane[lane] += by
	switch n := q.byLane[lane]; {
	case n >= laneWaiters:
		q.full[lane] = true
	case q.full[lane] && n < laneWaiters/2:
		delete(q.full, lane)
		q.resume = true
	case n == 0:
		delete(q.byLane, lane)
	}
}

// PermitStats counts permits of pools, and the tasks that wait for them.
type PermitStats struct {
	Held    int // permits that the worker has; for a moment, a permit may be without a task
	Waiting int // tasks that wait for permits
}

func (q *permitQueue) stats() PermitStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	var s PermitStats
	for _, line := range q.lines {
		s.Waiting += line.waiting.Len()
	}
	for _, p := range q.permits {
		if !p.granted.IsZero() {
			s.Held++
		}
	}
	return s
}

// lineKey returns a text that is the same for the same uses, whatever their order.
func lineKey(uses []dagrun.PoolUse) string {
	parts := make([]string, len(uses))
	for i, u := range uses {
		parts[i] = fmt.Sprintf("%s %d %q", u.Pool, u.Weight, u.Key)
	}
	slices.Sort(parts)
	return strings.Join(parts, "\n")
}

// request puts a task into the line for a permit, and calls granted once the task has it: before request returns, or later from
// another goroutine. If the runs of a lane all begin with such a task, lane is this lane, else 0. The caller must call release, whether
// or not the permit was granted. granted puts slots, the request of the task for slots, into the slot queue; from there the queue may
// take it back, and call granted again.
func (q *permitQueue) request(uses []dagrun.PoolUse, order Order, lane int, slots *SlotRequest, granted func()) *permitRequest {
	q.mu.Lock()
	key := lineKey(uses)
	line := q.lines[key]
	if line == nil {
		line = &permitLine{key: key, uses: uses, waiting: newWaitingRequests()}
		q.lines[key] = line
	}
	r := &permitRequest{queue: q, line: line, lane: lane, slots: slots}
	r.place = &SlotRequest{
		run: line.waiting.run(&order), order: order, nth: line.waiting.stamp(), since: time.Now(), slots: 1, place: -1,
		grant: func(*SlotRequest) { granted() },
	}
	r.place.permit = r
	line.waiting.add(r.place)
	q.count(r, 1)
	q.unlock(q.give(line))
	return r
}

// unlock unlocks the queue, has the loop of the calls look, and tells the tasks that have got permits.
func (q *permitQueue) unlock(given []*SlotRequest) {
	resume := q.resume
	q.resume = false
	q.mu.Unlock()
	if resume {
		q.resumed()
	}
	q.changed.send()
	for _, t := range given {
		t.grant(t)
	}
}

// give gives the idle permits of a line to the tasks that are first in it.
func (q *permitQueue) give(line *permitLine) (given []*SlotRequest) {
	for _, p := range line.permits {
		first := line.waiting.first()
		if first == nil {
			break
		}
		if p.granted.IsZero() || p.holder != nil {
			continue
		}
		line.waiting.remove(first)
		line.waiting.gain(first.run, 1)
		line.waiting.turn(first.run)
		q.count(first.permit, -1)
		q.passed = q.passed || !p.given.IsZero()
		p.given, p.order = time.Now(), first.order
		first.permit.permit, p.holder = p, first.permit
		given = append(given, first)
	}
	return given
}

// bodyEnded says that the body has ended, and that release follows once the record of that is durable. Tasks that ask meanwhile
// wait for this permit, rather than for another one.
func (r *permitRequest) bodyEnded() {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	if r.permit != nil {
		r.permit.isEnding = true
	}
}

// release gives the permit of a task back, or its place in the line. The permit then goes to the next task of the line, unless it holds
// for one body only, or other workers or lines wait for its pools and it has passed on here for permitPassing. release may be called
// more than once.
func (r *permitRequest) release() {
	q, line := r.queue, r.line
	q.mu.Lock()
	var given []*SlotRequest
	switch p := r.permit; {
	case p != nil:
		r.permit, p.holder = nil, nil
		line.waiting.gain(r.place.run, -1)
		p.isEnding, p.idle = false, time.Now()
		if p.once || q.isWanted(p) && time.Since(p.granted) >= permitPassing {
			q.drop(p)
		}
		line.waiting.forget(r.place.run)
		given = q.give(line)
	case r.place.place >= 0:
		line.waiting.remove(r.place)
		line.waiting.forget(r.place.run)
		q.count(r, -1)
	}
	q.unlock(given)
}

// shut keeps the permits that take of these pools and keys from going on to further bodies: the pools are closed.
func (q *permitQueue) shut(uses []dagrun.PoolUse) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range q.permits {
		p.once = p.once || sharesPool(p.line.uses, uses)
	}
}

// sharesPool reports whether two tasks take of the same key of a pool.
func sharesPool(a, b []dagrun.PoolUse) bool {
	return slices.ContainsFunc(a, func(u dagrun.PoolUse) bool {
		return slices.ContainsFunc(b, func(o dagrun.PoolUse) bool { return o.Pool == u.Pool && o.Key == u.Key })
	})
}

// isWanted reports whether other workers wait for a pool of the permit, or tasks of another line here.
func (q *permitQueue) isWanted(p *permit) bool {
	if p.contested {
		return true
	}
	for _, line := range q.lines {
		if line != p.line && line.isFull && line.waiting.Len() > 0 && sharesPool(line.uses, p.line.uses) {
			return true
		}
	}
	return false
}

// drop forgets a permit. The next call gives it back.
func (q *permitQueue) drop(p *permit) {
	delete(q.permits, p.nth)
	p.line.permits = slices.DeleteFunc(p.line.permits, func(o *permit) bool { return o == p })
}

// has reports whether the task has its permit.
func (r *permitRequest) has() bool {
	r.queue.mu.Lock()
	defer r.queue.mu.Unlock()
	return r.permit != nil
}

// why returns, for people, what the task waits for; "" if it has its permit.
func (r *permitRequest) why(worker string) string {
	q := r.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	pools := dagrun.PoolNames(r.line.uses)
	switch {
	case r.permit != nil:
		return ""
	case q.refused != "":
		return fmt.Sprintf("waits for %s: worker %s could not ask for a permit: %s", pools, worker, q.refused)
	case r.line.waiting.first() != r.place:
		why, _, _ := strings.Cut(r.line.reason, "; ") // the place in line is the one of the first task
		return fmt.Sprintf("%s; behind other tasks on worker %s", cmp.Or(why, "waits for "+pools), worker)
	default:
		return cmp.Or(r.line.reason, "waits for "+pools)
	}
}

// turn returns when the line asked last, zero if it asks now or has not asked yet: after a drop for permitsAsked, others come first.
func (line *permitLine) turn() time.Time {
	if slices.ContainsFunc(line.permits, func(p *permit) bool { return p.granted.IsZero() }) {
		return time.Time{}
	}
	return line.asked
}

// inOrder returns the lines: first the ones in which tasks wait, by the priority and the turn of the first task of each.
func (q *permitQueue) inOrder() []*permitLine {
	return slices.SortedFunc(maps.Values(q.lines), func(a, b *permitLine) int {
		switch first, second := a.waiting.first(), b.waiting.first(); {
		case first != nil && second != nil:
			return cmp.Or(cmp.Compare(second.order.Run, first.order.Run), a.turn().Compare(b.turn()), inOrder(first, second), cmp.Compare(a.key, b.key))
		case first == nil && second == nil:
			return cmp.Compare(a.key, b.key)
		case first != nil:
			return -1
		default:
			return 1
		}
	})
}

// takeBack puts tasks back into their lines that have waited for a slot for permitPassing, with a permit for which others wait.
func (q *permitQueue) takeBack(now time.Time) {
	for _, p := range q.permits {
		r := p.holder
		if r == nil || p.isEnding || now.Sub(p.given) < permitPassing || !q.isWanted(p) || !r.slots.withdraw() {
			continue
		}
		r.permit, p.holder = nil, nil
		r.line.waiting.gain(r.place.run, -1)
		r.line.waiting.add(r.place)
		q.count(r, 1)
		q.drop(p)
	}
}

// dropStale gives up the permits that were asked for first, if the worker asks for more than permitsAsked. So the other lines get
// their turn.
func (q *permitQueue) dropStale(now time.Time) {
	var stale []*permit
	asked := 0
	for _, p := range q.permits {
		if p.granted.IsZero() {
			asked++
			if now.Sub(p.asked) >= permitAskAgain {
				stale = append(stale, p)
			}
		}
	}
	if asked <= permitsAsked {
		return
	}
	slices.SortFunc(stale, func(a, b *permit) int { return cmp.Compare(a.nth, b.nth) })
	for _, p := range stale[:min(len(stale), asked-permitsAsked)] {
		q.drop(p)
	}
}

// due returns the permits to name in a call now. Some is false if no call is due; after is when one may be, at the latest. The queue
// asks for about as many permits as slots are free, so that permits do not lie idle on a busy worker: slots has the free ones, and
// how many tasks have their permit already and wait for a slot.
func (q *permitQueue) due(slots SlotStats, now time.Time) (all []queue.Permit, after time.Duration, some bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	after, asks := time.Hour, false
	may := max(slots.Free, 1) + permitsAhead - slots.Permitted
	if slots.Shut {
		may = 0 // tasks would get no slot
	}
	q.takeBack(now)
	q.dropStale(now)
	for _, line := range q.inOrder() {
		after = min(after, q.adjust(line, max(slots.Free, 1), &may, now))
		if len(line.permits) == 0 && len(line.waiting.runs) == 0 {
			delete(q.lines, line.key)
		}
		for _, p := range line.permits {
			asks = asks || p.granted.IsZero()
			all = append(all, queue.Permit{Nth: p.nth, Run: p.order.RunID, Priority: p.order.Run, StepPriority: p.order.Step, Held: p.holder != nil, Pools: line.uses})
		}
		if line.wait > 0 {
			after = min(after, max(0, line.wait-now.Sub(q.called)))
		}
	}
	slices.SortFunc(all, func(a, b queue.Permit) int { return cmp.Compare(a.Nth, b.Nth) })
	again := q.refused != "" || asks && (q.heard || after == 0)
	if wait := permitAskAgain - now.Sub(q.called); asks || q.passed || slots.Permitted > 0 { // others may have begun to wait
		again = again || wait <= 0
		after = min(after, max(wait, 0))
	}
	if !again && slices.EqualFunc(all, q.told, func(p queue.Permit, nth int64) bool { return p.Nth == nth }) {
		return nil, after, false
	}
	if wait := q.credit.take(now); wait > 0 {
		return nil, wait, false
	}
	q.called, q.passed, q.heard = now, false, false
	return all, 0, true
}

// credit allows permitBurst calls at once, and one in permitEvery after that.
type credit struct {
	calls float64
	at    time.Time
}

// take counts a call and returns 0, or returns how long the call has to wait.
func (c *credit) take(now time.Time) (wait time.Duration) {
	c.calls = min(permitBurst, c.calls+float64(now.Sub(c.at))/float64(permitEvery))
	c.at = now
	if c.calls < 1 {
		return time.Duration((1-c.calls)*float64(permitEvery)) + 1 // 0 would mean that the call may go
	}
	c.calls--
	return 0
}

// hear has the next call made soon: the database has granted permits to this worker.
func (q *permitQueue) hear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.heard = true
	q.changed.send()
}

// adjust asks for the permits that the tasks of a line lack, at most the given number beside the ones that the worker has, and gives
// up permits that are asked for in vain or idle. may is how many the worker may ask for, over all lines; what it has asked for long ago
// does not count. adjust returns after how long the line is to be adjusted again.
func (q *permitQueue) adjust(line *permitLine, most int, may *int, now time.Time) (after time.Duration) {
	after = time.Hour
	lacks, asked := line.waiting.Len(), []*permit{}
	for _, p := range slices.Clone(line.permits) {
		switch idle := now.Sub(p.idle); {
		case p.granted.IsZero():
			asked = append(asked, p)
		case p.isEnding && !p.once:
			lacks--
		case p.holder != nil:
		case q.isWanted(p) || idle >= permitIdle:
			q.drop(p)
		default:
			after = min(after, permitIdle-idle)
		}
	}
	if line.isFull && len(asked) > 0 && !q.heard && now.Sub(q.called) < permitAskAgain {
		most = len(asked) // other tasks and slots come and go, which is no reason for a call: it would get nothing
	}
	lacks = max(0, min(lacks, most))
	for len(asked) > lacks {
		q.drop(asked[len(asked)-1])
		asked = asked[:len(asked)-1]
	}
	for _, p := range asked {
		if now.Sub(p.asked) < permitAskAgain {
			*may--
		}
	}
	for range lacks - len(asked) {
		if *may <= 0 {
			after = min(after, permitAskAgain)
			break
		}
		*may--
		q.nth++
		p := &permit{nth: q.nth, line: line, asked: now}
		line.asked = now
		q.permits[p.nth], line.permits, asked = p, append(line.permits, p), append(asked, p)
	}
	for i, t := range line.waiting.some(len(asked)) {
		asked[i].order = t.order
	}
	return after
}

// answered takes in the answer to a call that named all, or its error.
func (q *permitQueue) answered(all []queue.Permit, answers []queue.PermitAnswer, err error) {
	q.mu.Lock()
	if err != nil {
		q.refused = err.Error()
		q.mu.Unlock()
		return
	}
	q.refused, q.told = "", q.told[:0]
	for i := range all {
		q.told = append(q.told, all[i].Nth)
		if p := q.permits[all[i].Nth]; p != nil {
			p.line.reason, p.line.wait, p.line.isFull = "", 0, false
		}
	}
	var given []*SlotRequest
	for _, a := range answers {
		p := q.permits[a.Nth]
		if p == nil {
			continue // given up meanwhile
		}
		p.contested, p.once = a.Contested, a.Once
		p.line.isFull = p.line.isFull || !a.Granted
		switch {
		case !a.Granted && p.line.reason == "":
			p.line.reason, p.line.wait = a.Reason, a.Wait
		case a.Granted && p.granted.IsZero():
			p.granted, p.idle = time.Now(), time.Now()
			given = append(given, q.give(p.line)...)
		}
	}
	q.unlock(given)
}

// askForPermits is the loop that calls the database for permits. It makes no call while no task needs a pool. It returns when the
// life has ended.
func (l *life) askForPermits() {
	for {
		all, after, some := l.permits.due(l.slotQueue.Stats(), time.Now())
		if !some {
			if !l.pause(after, l.permits.changed) {
				return
			}
			continue
		}
		answers, err := l.session.Permits(l.ctx, all)
		if l.ctx.Err() != nil {
			return
		}
		l.unpermitted.Tell(l.log, err, "could not ask for permits of pools", "the database gives permits again")
		l.permits.answered(all, answers, err)
		if err != nil {
			if errors.Is(err, queue.ErrNoPermits) {
				l.renewSoon() // it tells whether the lease is lost
			}
			if !l.pause(permitAskAgain, nil) {
				return
			}
		}
	}
}
