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
	maxSlotWait        = 250 * time.Millisecond // that a run may wait for a slot here though another worker may have one
	shareInterval      = 100 * time.Millisecond // between looks whether runs wait longer than that
	sharedMax          = 1000                   // runs that a worker gives back at a time
	soloClaimInterval  = time.Second            // after a run went back for want of a slot, in which the worker claims for free slots alone
	idleMax            = 64                     // runs without a slot that a worker holds though it has none free: what brought them back is to be decided all the same
	idleFull           = idleMax / 2            // of these, so many that the worker gives them back though no other one serves their lanes
	wideReturnInterval = time.Minute            // for which a run that needs several slots stays here once it went back and was claimed again
	endsInterval       = 100 * time.Millisecond // in which the bodies end for whose slots a worker claims ahead
	fastEnds           = 40                     // bodies that end within endsInterval where a worker polls for several runs at a time
)

// errGivenBack ends a drive whose run went back to the queue.
var errGivenBack = errors.New("the run went back to the queue")

// sharer is what wakes the loop that gives runs back, and what it remembers.
type sharer struct {
	stuck    signal                        // a run waits for a slot, and has nothing else to do
	gaveBack atomic.Int64                  // when runs were last given back for want of a slot, by the time since boot; 0: never
	returned map[queue.RunID]time.Duration // runs that need several slots and went back, and when; the loop's alone
}

func newSharer() sharer { return sharer{stuck: newSignal(), returned: map[queue.RunID]time.Duration{}} }

// slotSnapshot is what a worker goes by when it claims runs and gives some back.
type slotSnapshot struct {
	GateLook
	ends int // bodies that ended within endsInterval
}

func (w *Worker) slots() slotSnapshot { return slotSnapshot{w.gate.Look(), w.ends.count()} }

// want is what a poll claims, and the free slots that are kept for that: else a task of a run that is held takes one meanwhile, and
// the run that was claimed for it waits. Where no slot is free or about to be, it is what came back by itself and may need none.
func (l *life) want(ask *QueueAsk) (queue.Want, *Keeping) {
	slots := l.slots()
	switch {
	case ask != nil && l.mayClaim():
		return l.wantFor(ask, &slots), ask.Keeping
	case ask != nil:
		ask.Expect(0)
	}
	want, ahead := l.wants(&slots)
	free, ahead := l.claimer.ration.cut(min(want.Free, queue.MaxClaims), ahead)
	kept := l.gate.Keep(free, maxSlotWait)
	want.Free -= free - kept.Slots // tasks took them
	want.Slots = min(kept.Slots+ahead, queue.MaxClaims)
	if want.Slots == 0 && l.mayClaim() {
		_, idle := l.fleet.look()
		want.Idle = max(0, idleMax-idle.roused())
	}
	return want, kept
}

// mayClaim reports whether the worker takes runs at all now.
func (w *Worker) mayClaim() bool { return !w.stopping() && w.fitness.ok() }

// wantFor is what a poll claims for an ask.
func (w *Worker) wantFor(ask *QueueAsk, slots *slotSnapshot) queue.Want {
	return queue.Want{
		Slots: ask.Slots, Lowest: &ask.Lowest, Fair: ask.Fair, Begun: !ask.isFirst && w.lookout.begun.Load() >= int64(slots.Slots+heldMax), Least: slots.Next,
	}
}

// ration has a worker that was told of new runs claim no more than it was told of: other workers were told of the rest. The poll after
// that claims for all slots. A backlog that nobody was told of would wait otherwise for as long as single runs are enqueued.
type ration struct {
	told  atomic.Int64 // runs that notifications left to this worker since the last poll
	isCut bool         // the last poll claims less for that; the poll loop's alone
}

// cut returns for how many free slots to claim, and how many runs ahead.
func (r *ration) cut(free, ahead int) (int, int) {
	told := int(r.told.Swap(0))
	r.isCut = !r.isCut && free > 0 && told > 0 && told < free+ahead
	if r.isCut {
		return min(free, told), 0
	}
	return free, ahead
}

// hungers reports whether a poll is due because it would claim something. What is claimed ahead is filled up once half of it is gone.
func (w *Worker) hungers() bool {
	slots := w.slots()
	want, ahead := w.wants(&slots)
	return want.Free > 0 || ahead > 0 && slots.Waiting < slots.ends/2
}

// wants is how many slots are free, and how many more are soon, by the rate at which bodies ended lately.
func (w *Worker) wants(slots *slotSnapshot) (want queue.Want, ahead int) {
	want.Least = slots.Next
	if !w.mayClaim() {
		return want, 0
	}
	want.Free = slots.Room
	if back := w.sharer.gaveBack.Load(); back == 0 || w.config.Boot()-time.Duration(back) > soloClaimInterval {
		ahead = max(0, slots.ends-slots.Waiting)
	}
	return want, ahead
}

// share gives runs back that wait for a slot while another worker may have one.
func (l *life) share() {
	tick := time.NewTimer(time.Hour)
	tick.Stop()
	defer tick.Stop()
	armed := false // else runs that stall one after the other would put the look off again and again
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.sharer.stuck:
		case <-tick.C:
			armed = false
			l.giveBack()
		}
		if _, idle := l.fleet.look(); !armed && len(idle) > 0 {
			armed = true
			tick.Reset(shareInterval)
		}
	}
}

// giveBack asks drivers to give back runs that have waited for a slot for longer than maxSlotWait, with nothing under way. Those that
// are served last here go first.
func (l *life) giveBack() {
	_, idle := l.fleet.look()
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
	slices.SortFunc(late, func(a, b stall) int { return inOrder(b.ticket, a.ticket) })
	l.sharer.gaveBack.Store(int64(l.config.Boot()))
	for _, s := range late[:min(len(late), sharedMax)] {
		if s.ticket.slots > 1 {
			l.sharer.returned[s.driver.claim.Run] = l.config.Boot()
			l.claimer.sated.Store(false) // what fits no better here is not looked for at once: another worker may have more room
		}
		s.driver.post.put(happening{yield: true})
	}
}

// returnable are the stalled runs that are to go back: those whose lane another worker may serve, and where the worker is half full of
// runs that came back by themselves these, so that it hears what is asked of the next one. What needs several slots went where one is
// free, and would come and go for ever.
func (w *Worker) returnable(idle stalls) stalls {
	now := w.config.Boot()
	maps.DeleteFunc(w.sharer.returned, func(_ queue.RunID, at time.Duration) bool { return now-at >= wideReturnInterval })
	var shared []int
	if seen := w.lookout.shared.Load(); seen != nil {
		shared = *seen
	}
	full := idle.roused() >= idleFull
	return slices.DeleteFunc(idle.longerThan(maxSlotWait), func(s stall) bool {
		_, may := slices.BinarySearch(shared, s.driver.claim.Lane)
		_, again := w.sharer.returned[s.driver.claim.Run]
		return again || !may && !(full && s.driver.roused)
	})
}

// forgo lets the slot go that was kept for the run.
func (s *runSlots) forgo() {
	if s.isExpected {
		s.isExpected = false
		s.gate.Forgo()
	}
}

// stuckFor is the first ticket of a run that has nothing under way and waits for a slot; nil: it is no such run.
func (d *driver) stuckFor() *Ticket {
	if len(d.slots.byTask) == 0 || d.errands.open.Load() > 0 || !d.run.Idle() {
		return nil
	}
	var first *Ticket
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

// yield gives the run back: as it was claimed if nothing of this drive is durable, else in the way of a drain.
func (d *driver) yield(ctx context.Context) error {
	if d.acted || d.seen != d.claim.Inbox || len(d.extra.decisions)+len(d.extra.details)+len(d.extra.chunks) > 0 {
		return d.step(dagrun.Event{Kind: dagrun.EvDrain})
	}
	switch err := d.life.session.Release(ctx, d.claim, true, d.clock.database(d.ending.wake)); {
	case errors.Is(err, queue.ErrInboxMoved):
		d.mail = true // it may need no slot for what is asked
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("run %d: %w", d.claim.Run, errGivenBack)
}

// rate counts what happened within endsInterval.
type rate struct {
	mu    sync.Mutex
	since time.Time
	now   int // of the part that goes on
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

// roll begins new parts for the time that went by.
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

// allowance bounds how often something is done a second.
type allowance struct {
	mu    sync.Mutex
	since time.Time
	taken int
}

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
