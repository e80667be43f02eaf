package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	// soonEnough is for how long a run may wait for a slot here though another worker may have one.
	soonEnough = 250 * time.Millisecond
	// shareEvery is how often a worker looks whether runs wait longer than that.
	shareEvery = 50 * time.Millisecond
	// shareMost bounds the runs that it gives back at a time.
	shareMost = 1000
	// aloneFor is for how long after that it claims for free slots alone.
	aloneFor = time.Second
	// rousedMost bounds the runs without a slot that a worker holds though it has none free: what brought them back is to be
	// decided all the same.
	rousedMost = 64
	// againAfter is for how long a run that needs several slots stays here once it went back and was claimed again.
	againAfter = 30 * time.Second
	// mostParts is into how many parts a worker divides its free slots at most where others have room as well.
	mostParts = 8
	// fastEnds is how many bodies end within soonEnough where a worker polls for several runs at a time.
	fastEnds = 100
)

// errGivenBack ends a drive whose run went back to the queue.
var errGivenBack = errors.New("the run went back to the queue")

// moment is what a worker goes by when it claims runs and gives some back.
type moment struct {
	GateLook
	ends int // bodies that ended within soonEnough
}

func (w *Worker) moment() moment { return moment{w.gate.Look(), w.ends.count()} }

// appetite is what a poll claims, and the slots that are kept for that: else a task of a run that is held takes one meanwhile, and the
// run that was claimed for it is given back. Where nothing else is to be had, it takes what came back by itself and may need no slot.
func (w *Worker) appetite() (queue.Appetite, *Keeping) {
	m := w.moment()
	a := w.wants(&m)
	kept := w.gate.Keep(a.Free, soonEnough)
	a.Free = kept.Slots
	if a.Ahead > 0 && w.ahead >= queue.TurnEvery {
		a.Free, a.Ahead = 1, 0 // slots end fast: one is free soon
	}
	if a.Free+a.Ahead == 0 && !w.stopping() && w.fitness.ok() {
		_, idle := w.fleet.look()
		a.Roused = max(0, rousedMost-idle.roused())
	}
	return a, kept
}

// portion is how many runs to claim at a time where others have room as well, so that a burst spreads over all of them: what is left to
// this worker of what they were told of; else an even part of its free slots, an eighth of them at least.
func (w *Worker) portion(room int) int {
	left := int(w.due.Load())
	known := w.others.Load()
	switch {
	case known == nil || known.rivals == 0:
		return room
	case left > 0:
		return min(left, room)
	}
	parts := min(known.rivals+1, mostParts)
	return (room + parts - 1) / parts
}

// hungers says whether a poll is due because it would claim something. What is claimed ahead is filled up once half of it is gone.
func (w *Worker) hungers() bool {
	m := w.moment()
	a := w.wants(&m)
	return a.Free > 0 || a.Ahead > 0 && m.Waiting < m.ends/2
}

// wants is what can start now, and ahead of that what the slots get to soon, by the rate at which bodies ended lately.
func (w *Worker) wants(m *moment) queue.Appetite {
	a := queue.Appetite{Busy: m.Slots - m.Free, Waiting: m.Waiting, Least: m.Next}
	if w.stopping() || !w.fitness.ok() {
		return a
	}
	if m.Urgent > 0 && a.Least != nil {
		a.Free, a.Above = m.Urgent, a.Least
		return a
	}
	a.Free = min(w.portion(m.Room), queue.MaxClaims)
	a.Spare = m.Room - a.Free
	if back := w.gaveBack.Load(); a.Free == 0 && (back == 0 || w.config.Boot()-time.Duration(back) > aloneFor) {
		a.Ahead = min(max(0, m.ends-m.Waiting), queue.MaxClaims)
	}
	return a
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
		case <-w.stuck:
		case <-tick.C:
			armed = false
			w.giveBack()
		}
		if _, idle := w.fleet.look(); !armed && len(idle) > 0 {
			armed = true
			tick.Reset(shareEvery)
		}
	}
}

// stalled has share look.
func (w *Worker) stalled() {
	select {
	case w.stuck <- struct{}{}:
	default:
	}
}

// giveBack asks drivers to give back runs that have nothing under way and that more tasks go before than have ended within
// soonEnough.
func (w *Worker) giveBack() {
	m := w.moment()
	if m.Waiting <= m.ends || w.stopping() {
		return
	}
	_, idle := w.fleet.look()
	stalled := idle.byTicket()
	late := w.gate.After(m.ends, w.returnable(idle))
	if len(late) == 0 {
		return
	}
	slices.SortFunc(late, func(a, b *Ticket) int { return inOrder(b, a) })
	w.gaveBack.Store(int64(w.config.Boot()))
	for _, t := range late[:min(len(late), shareMost)] {
		if t.slots > 1 {
			w.returned[stalled[t].driver.claim.Run] = w.config.Boot()
			w.sated.Store(false) // what fits no better here is not looked for at once: another worker may have more room
		}
		stalled[t].driver.post.put(happening{yield: true})
	}
}

// others are the lanes that another worker may serve, those where one has room, and how many have.
type others struct {
	shared, open []int
	rivals       int
}

// returnable are the tickets whose runs may go back. Only where another worker may serve the lane: else they are as well here.
// Nobody looks at the time of a run that waits in the database for a slot, so one whose time comes goes where there is room alone.
// A worker that is full of runs that came back by themselves keeps none, so that it hears what is asked of the next one.
// What needs several slots went where one is free, and would come and go for ever.
func (w *Worker) returnable(idle stalls) []*Ticket {
	now := w.config.Boot()
	maps.DeleteFunc(w.returned, func(_ queue.RunID, at time.Duration) bool { return now-at >= againAfter })
	var known others
	if at := w.others.Load(); at != nil {
		known = *at
	}
	full := idle.roused() >= rousedMost
	tickets := make([]*Ticket, 0, len(idle))
	for _, s := range idle {
		lanes := known.shared
		if s.timed {
			lanes = known.open
		}
		_, may := slices.BinarySearch(lanes, s.driver.claim.Lane)
		_, again := w.returned[s.driver.claim.Run]
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

// rate counts what happened within soonEnough.
type rate struct {
	mu    sync.Mutex
	since time.Time
	now   int // of the part that goes on
	parts [rateParts]int
}

const (
	rateParts = 10
	ratePart  = soonEnough / rateParts
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
	if now.Sub(r.since) >= soonEnough {
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
