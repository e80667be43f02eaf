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
	shareInterval      = 50 * time.Millisecond  // between looks whether runs wait longer than that
	sharedMax          = 1000                   // runs that a worker gives back at a time
	soloClaimInterval  = time.Second            // after that, in which it claims for free slots alone
	rousedMax          = 64                     // runs without a slot that a worker holds though it has none free: what brought them back is to be decided all the same
	wideReturnInterval = 30 * time.Second       // for which a run that needs several slots stays here once it went back and was claimed again
	shareParts         = 8                      // into which a worker divides its free slots at most where others have room as well
	fastEnds           = 100                    // bodies that end within maxSlotWait where a worker polls for several runs at a time
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
	ends int // bodies that ended within maxSlotWait
}

func (w *Worker) slots() slotSnapshot { return slotSnapshot{w.gate.Look(), w.ends.count()} }

// crowded reports whether more tasks wait than slots end soon.
func (s *slotSnapshot) crowded() bool { return s.Waiting > s.ends }

// want is what a poll claims, and the slots that are kept for that: else a task of a run that is held takes one meanwhile, and the
// run that was claimed for it is given back. Where nothing else is to be had, it takes what came back by itself and may need no slot.
func (w *Worker) want() (queue.Want, *Keeping) {
	slots := w.slots()
	want := w.wants(&slots)
	kept := w.gate.Keep(want.Free, maxSlotWait)
	want.Free = kept.Slots
	if want.Ahead > 0 && w.claimer.ahead >= queue.TurnEvery {
		want.Free, want.Ahead = 1, 0 // slots end fast: one is free soon
	}
	if want.Free+want.Ahead == 0 && !w.stopping() && w.fitness.ok() {
		_, idle := w.fleet.look()
		want.Roused = max(0, rousedMax-idle.roused())
	}
	return want, kept
}

// fairShare is how many runs to claim at a time where others have room as well, so that a burst spreads over all of them: what is left to
// this worker of what they were told of; else an even part of its free slots, an eighth of them at least.
func (w *Worker) fairShare(room int) int {
	left := int(w.claimer.rows.Load())
	peers := w.lookout.peers.Load()
	switch {
	case peers == nil || peers.rivals == 0:
		return room
	case left > 0:
		return min(left, room)
	}
	parts := min(peers.rivals+1, shareParts)
	return (room + parts - 1) / parts
}

// hungers reports whether a poll is due because it would claim something. What is claimed ahead is filled up once half of it is gone.
func (w *Worker) hungers() bool {
	slots := w.slots()
	want := w.wants(&slots)
	return want.Free > 0 || want.Ahead > 0 && slots.Waiting < slots.ends/2
}

// wants is what can start now, and ahead of that what the slots get to soon, by the rate at which bodies ended lately.
func (w *Worker) wants(slots *slotSnapshot) queue.Want {
	want := queue.Want{Least: slots.Next}
	if w.stopping() || !w.fitness.ok() {
		return want
	}
	if slots.Urgent > 0 && want.Least != nil {
		want.Free, want.Above = slots.Urgent, want.Least
		return want
	}
	want.Free = min(w.fairShare(slots.Room), queue.MaxClaims)
	want.Spare = slots.Room - want.Free
	if back := w.sharer.gaveBack.Load(); want.Free == 0 && (back == 0 || w.config.Boot()-time.Duration(back) > soloClaimInterval) {
		want.Ahead = min(max(0, slots.ends-slots.Waiting), queue.MaxClaims)
	}
	return want
}

// share gives runs back that wait for a slot while another worker may have one.
func (w *Worker) share() {
	tick := time.NewTimer(time.Hour)
	tick.Stop()
	defer tick.Stop()
	armed := false // else runs that stall one after the other would put the look off again and again
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.sharer.stuck:
		case <-tick.C:
			armed = false
			w.giveBack()
		}
		if _, idle := w.fleet.look(); !armed && len(idle) > 0 {
			armed = true
			tick.Reset(shareInterval)
		}
	}
}

// giveBack asks drivers to give back runs that have nothing under way and that more tasks go before than have ended within
// maxSlotWait.
func (w *Worker) giveBack() {
	slots := w.slots()
	if !slots.crowded() || w.stopping() {
		return
	}
	_, idle := w.fleet.look()
	if len(idle) > 0 {
		w.lookout.crowded.send()
	}
	stalled := idle.byTicket()
	late := w.gate.After(slots.ends, w.returnable(idle))
	if len(late) == 0 {
		return
	}
	slices.SortFunc(late, func(a, b *Ticket) int { return inOrder(b, a) })
	w.sharer.gaveBack.Store(int64(w.config.Boot()))
	for _, t := range late[:min(len(late), sharedMax)] {
		if t.slots > 1 {
			w.sharer.returned[stalled[t].driver.claim.Run] = w.config.Boot()
			w.claimer.sated.Store(false) // what fits no better here is not looked for at once: another worker may have more room
		}
		stalled[t].driver.post.put(happening{yield: true})
	}
}

// returnable are the tickets whose runs may go back. Only where another worker may serve the lane: else they are as well here.
// Nobody looks at the time of a run that waits in the database for a slot, so one whose time comes goes where there is room alone.
// A worker that is full of runs that came back by themselves keeps none, so that it hears what is asked of the next one.
// What needs several slots went where one is free, and would come and go for ever.
func (w *Worker) returnable(idle stalls) []*Ticket {
	now := w.config.Boot()
	maps.DeleteFunc(w.sharer.returned, func(_ queue.RunID, at time.Duration) bool { return now-at >= wideReturnInterval })
	var peers peerSnapshot
	if seen := w.lookout.peers.Load(); seen != nil {
		peers = *seen
	}
	full := idle.roused() >= rousedMax
	tickets := make([]*Ticket, 0, len(idle))
	for _, s := range idle {
		lanes := peers.shared
		if s.timed {
			lanes = peers.open
		}
		_, may := slices.BinarySearch(lanes, s.driver.claim.Lane)
		_, again := w.sharer.returned[s.driver.claim.Run]
		if (may || full && s.driver.roused && !s.timed) && !again {
			tickets = append(tickets, s.ticket)
		}
	}
	return tickets
}

// forgo lets the slot go that was kept for the run.
func (d *driver) forgo() {
	if d.waited {
		d.waited = false
		d.worker.gate.Forgo()
	}
}

// stuckFor is the first ticket of a run that has nothing under way and waits for a slot; nil: it is no such run.
func (d *driver) stuckFor() *Ticket {
	if len(d.tickets) == 0 || d.opens.Load() > 0 || !d.run.Idle() {
		return nil
	}
	var first *Ticket
	for _, t := range d.tickets {
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
	switch err := d.worker.session.Release(ctx, d.claim, true); {
	case errors.Is(err, queue.ErrInboxMoved):
		d.mail = true // it may need no slot for what is asked
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("run %d: %w", d.claim.Run, errGivenBack)
}

// rate counts what happened within maxSlotWait.
type rate struct {
	mu    sync.Mutex
	since time.Time
	now   int // of the part that goes on
	parts [rateParts]int
}

const (
	rateParts = 10
	ratePart  = maxSlotWait / rateParts
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
	if now.Sub(r.since) >= maxSlotWait {
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
