package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	maxSlotWait   = 250 * time.Millisecond // how long a run may wait for a slot here while another worker may have one free
	shareInterval = 100 * time.Millisecond // between checks for runs that have waited longer than maxSlotWait
	sharedMax     = 1000                   // runs that a worker gives back at a time

	// soloClaimInterval is how long a worker claims for free slots alone, and none ahead, after it gave a run back for want of a
	// slot.
	soloClaimInterval = time.Second
	// idleMax is how many runs a worker without a free slot claims that a request, a child's end or a timer brought back. Such a run
	// may need no slot to go on.
	idleMax = 64
	// idleFull is how many of these runs may wait for a slot before the worker gives them back, even to a lane that no other worker
	// serves.
	idleFull = idleMax / 2
	// wideReturnInterval is the least time between two returns of the same run if that needs several slots.
	wideReturnInterval = time.Minute
	// endsInterval is the time over which ended bodies are counted. A worker claims ahead for as many slots as bodies ended in it.
	endsInterval = 100 * time.Millisecond
	// fastEnds is from how many ended bodies within endsInterval on a worker waits between polls, so that each claims several runs.
	fastEnds = 40
)

// errGivenBack is the error of a drive that ended because its run went back to the queue.
var errGivenBack = errors.New("the run went back to the queue")

// sharer holds the signal and the state of life.share, the loop that gives runs back.
type sharer struct {
	stuck    signal                        // a run waits for a slot and has nothing else to do
	gaveBack atomic.Int64                  // when runs last went back for want of a slot, in time since boot; 0: never
	returned map[queue.RunID]time.Duration // when a run that needs several slots went back, in time since boot; owned by the loop
}

func newSharer() sharer { return sharer{stuck: newSignal(), returned: map[queue.RunID]time.Duration{}} }

// slotSnapshot is the state of the slots by which a worker decides how many runs to claim.
type slotSnapshot struct {
	SlotLook
	ends int // bodies that ended within endsInterval
}

func (w *Worker) slotsNow() slotSnapshot { return slotSnapshot{w.slotQueue.Look(), w.ends.count()} }

// want returns the Want of the next poll, and a reservation of the free slots for which the poll claims; the caller ends it by
// KeepFor. Without a reservation, a task of a run that the worker holds already could take such a slot during the poll, and the
// claimed run would wait.
//
// If ask is not nil and the worker may claim, the poll is for the ask alone. If no slot is free or about to be, Want.Idle allows
// runs that may need no slot.
func (l *life) want(ask *QueueAsk) (queue.Want, *SlotReservation) {
	slots := l.slotsNow()
	switch {
	case ask != nil && l.mayClaim():
		return l.wantFor(ask, &slots), ask.SlotReservation
	case ask != nil:
		ask.KeepFor(0)
	}
	want, ahead := l.wants(&slots)
	free, ahead := l.claimer.ration.cut(min(want.Free, queue.MaxClaims), ahead)
	kept := l.slotQueue.Reserve(free, maxSlotWait)
	want.Free -= free - kept.Slots // tasks took the difference since the snapshot
	want.Slots = min(kept.Slots+ahead, queue.MaxClaims)
	if want.Slots == 0 && l.mayClaim() {
		_, idle := l.drivers.look()
		want.Idle = max(0, idleMax-idle.roused())
	}
	return want, kept
}

// mayClaim reports whether the worker may claim runs now: it is fit and not stopping, and not too many runs wait for pools.
func (w *Worker) mayClaim() bool {
	return !w.stopping() && w.fitness.ok() && w.permits.crowdedSince().IsZero()
}

// wantFor returns the Want of a poll for an ask: as many runs as the ask keeps slots for, with the priority and fairness of the
// ask. While slots.Slots+heldMax or more runs that have begun are due, the poll claims no new runs, unless the ask is for a run
// that ranks above all waiting requests.
func (w *Worker) wantFor(ask *QueueAsk, slots *slotSnapshot) queue.Want {
	return queue.Want{
		Slots: ask.Slots, Lowest: &ask.Lowest, Fair: ask.Fair, Begun: !ask.isFirst && w.lookout.begun.Load() >= int64(slots.Slots+heldMax), Least: slots.Next, Skip: w.permits.skip(),
	}
}

// ration limits a poll to as many runs as notifications left to this worker, because other workers were notified of the rest. The
// poll after a limited one claims for all slots. Otherwise a backlog that no notification announces would wait for as long as
// applications go on to enqueue single runs.
type ration struct {
	told  atomic.Int64 // runs that notifications left to this worker since the last poll
	isCut bool         // the last poll was limited; owned by the poll loop
}

// cut limits what one poll claims, so that other workers that were notified of the same runs get some of them. free is the number
// of free slots to claim for, ahead the number of runs to claim beyond these. r.told is how many new runs notifications left to
// this worker since the last call. If r.told is at least 1 and less than free+ahead, cut returns at most r.told slots and no runs
// ahead. It returns its arguments unchanged in all other cases, if no slot is free, and if the last call limited a poll. Each call
// sets r.told to 0, and sets r.isCut to whether it limited the poll.
func (r *ration) cut(free, ahead int) (int, int) {
	told := int(r.told.Swap(0))
	r.isCut = !r.isCut && free > 0 && told > 0 && told < free+ahead
	if r.isCut {
		return min(free, told), 0
	}
	return free, ahead
}

// hungers reports whether the worker has room, so that a poll may claim: a slot is free, or slots will soon come free and the
// waiting tasks would fill less than half of them.
func (w *Worker) hungers() bool {
	slots := w.slotsNow()
	want, ahead := w.wants(&slots)
	return want.Free > 0 || ahead > 0 && slots.Waiting < slots.ends/2
}

// wants returns in want.Free how many slots are free for claimed runs, in want.Least the priority of the first waiting task, and in
// want.Skip the lanes of which enough runs wait for permits.
// ahead is how many slots more will soon come free, by the rate at which bodies ended lately and less the tasks that wait. Free and
// ahead are 0 while the worker must not claim; ahead is also 0 for soloClaimInterval after runs went back for want of a slot.
func (w *Worker) wants(slots *slotSnapshot) (want queue.Want, ahead int) {
	want.Least, want.Skip = slots.Next, w.permits.skip()
	if !w.mayClaim() {
		return want, 0
	}
	want.Free = slots.Room
	if back := w.sharer.gaveBack.Load(); back == 0 || w.config.Boot()-time.Duration(back) > soloClaimInterval {
		ahead = max(0, slots.ends-slots.Waiting)
	}
	return want, ahead
}

// share is the loop that gives runs back while they wait for a slot and another worker may have one. It returns when the life has
// ended.
func (l *life) share() {
	tick := time.NewTimer(time.Hour)
	tick.Stop()
	defer tick.Stop()
	armed := false // the timer runs: runs that stall one after the other must not put it off again and again
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.sharer.stuck:
		case <-tick.C:
			armed = false
			l.giveBack()
		}
		if _, idle := l.drivers.look(); !armed && len(idle) > 0 {
			armed = true
			tick.Reset(shareInterval)
		}
	}
}

// giveBack asks drivers to give their runs back if these have waited for a slot for longer than maxSlotWait with nothing under way,
// and returnable allows it. It asks for at most sharedMax runs, and starts with the run that would be served last here. It does not
// wait for the drivers, and does nothing while the worker stops.
func (l *life) giveBack() {
	_, idle := l.drivers.look()
	if l.stopping() {
		return
	}
	if len(idle.longerThan(shareInterval)) > 0 {
		l.lookout.crowded.send()
	}
	late := l.returnable(idle)
	if len(late) == 0 {
		return
	}
	l.slotQueue.lastFirst(late)
	l.sharer.gaveBack.Store(int64(l.config.Boot()))
	for _, s := range late[:min(len(late), sharedMax)] {
		if s.request.slots > 1 {
			l.sharer.returned[s.driver.claim.Run] = l.config.Boot()
			l.claimer.sated.Store(false) // no poll at once when a slot comes free: the run fits no better here than before
		}
		s.driver.events.put(driverEvent{yield: true})
	}
}

// lastFirst sorts blocked drivers so that the one that would be served last is the first.
func (g *SlotQueue) lastFirst(drivers blockedDrivers) {
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortFunc(drivers, func(a, b blockedDriver) int { return inOrder(b.request, a.request) })
}

// returnable returns the blocked drivers that are to give their runs back: they have waited for longer than maxSlotWait, and
// another worker may serve their lane. Once idleFull runs wait here that were claimed without a free slot, these go back too, in
// any lane, so that the worker can claim the next such run and answer its requests. A run that needs several slots goes back once
// in wideReturnInterval. Otherwise a worker with one free slot would claim it and give it back again and again.
func (w *Worker) returnable(idle blockedDrivers) blockedDrivers {
	now := w.config.Boot()
	maps.DeleteFunc(w.sharer.returned, func(_ queue.RunID, at time.Duration) bool { return now-at >= wideReturnInterval })
	var shared []int
	if seen := w.lookout.shared.Load(); seen != nil {
		shared = *seen
	}
	full := idle.roused() >= idleFull
	return slices.DeleteFunc(idle.longerThan(maxSlotWait), func(s blockedDriver) bool {
		_, may := slices.BinarySearch(shared, s.driver.claim.Lane)
		_, again := w.sharer.returned[s.driver.claim.Run]
		return again || !may && !(full && s.driver.roused)
	})
}

// releaseReserved gives up the slot that the slot queue keeps for the run until the run asks. It does nothing if none is kept.
func (s *runSlots) releaseReserved() {
	if s.isExpected {
		s.isExpected = false
		s.queue.ReleaseReserved()
	}
}

// stuckFor returns the request of the run that is first in order, if the run has nothing under way and all its requests wait.
// Otherwise it returns nil.
func (d *driver) stuckFor() *SlotRequest {
	if len(d.slots.byTask) == 0 || d.calls.open.Load() > 0 || !d.run.Idle() {
		return nil
	}
	var first *SlotRequest
	for _, t := range d.slots.byTask {
		if !t.waits() {
			return nil
		}
		if first == nil || inOrder(t, first) < 0 {
			first = t
		}
	}
	return first
}

// giveBack gives the run back to the queue. If nothing of this drive is durable, it releases the claim and returns errGivenBack.
// Otherwise it steps a drain, and the drive goes on until it has recorded that the run is handed on. If the run has got a new
// request, nothing is given back: giveBack sets d.hasControls and returns nil. Other errors come from the release.
func (d *driver) giveBack(ctx context.Context) error {
	if d.acted || d.seen != d.claim.Inbox || len(d.extra.details)+len(d.extra.chunks) > 0 {
		return d.step(dagrun.Event{Kind: dagrun.EvDrain})
	}
	switch err := d.life.session.Release(ctx, d.claim, true, d.clock.database(d.ending.wake)); {
	case errors.Is(err, queue.ErrInboxMoved):
		d.hasControls = true // the run has a new request, which it may answer without a slot
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("run %d: %w", d.claim.Run, errGivenBack)
}

// rate counts events of the last endsInterval, in parts. The oldest part is dropped as a whole.
type rate struct {
	mu    sync.Mutex
	since time.Time // when the current part began
	now   int       // index of the current part
	parts [rateParts]int
}

const (
	rateParts = 10
	ratePart  = endsInterval / rateParts
)

func (r *rate) add() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.roll()
	r.parts[r.now]++
}

func (r *rate) count() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.roll()
	for _, part := range r.parts {
		n += part
	}
	return n
}

// roll begins a new part for each ratePart that went by since r.since, and drops the oldest ones for them. It needs mu.
func (r *rate) roll() {
	now := time.Now()
	if now.Sub(r.since) >= endsInterval {
		r.parts, r.since = [rateParts]int{}, now
		return
	}
	for now.Sub(r.since) >= ratePart {
		r.since = r.since.Add(ratePart)
		r.now = (r.now + 1) % rateParts
		r.parts[r.now] = 0
	}
}

// allowance allows tellMost takes a second.
type allowance struct {
	mu    sync.Mutex
	since time.Time
	taken int
}

// take counts an event at now. It returns false and does not count if tellMost events have been counted within this second.
func (a *allowance) take(now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.since) >= time.Second {
		a.since, a.taken = now, 0
	}
	if a.taken >= tellMost {
		return false
	}
	a.taken++
	return true
}
