package worker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// happened takes one thing in.
func (d *driver) happened(h *happening) {
	switch {
	case h.mail:
		d.mail = true
	case h.yield:
		d.ending.yields = true
	case h.ticket != nil:
		d.granted(h)
	case h.body != nil:
		d.ended(h)
	default:
		_ = d.step(h.event)
	}
}

// granted hands a grant in, unless the wish was withdrawn while it was on its way.
func (d *driver) granted(h *happening) {
	if d.slots.byTask[h.event.Task] != h.ticket {
		return // released already, or another wish has taken its place
	}
	if d.step(h.event) != nil {
		d.slots.giveBack(h.event.Task)
	}
}

// ended takes in how a body ended. What it left of its log rides with the record.
func (d *driver) ended(h *happening) {
	b := h.body
	if d.bodies.remove(b) {
		d.slots.keepSpare(b.task)
	}
	if b.log != nil {
		d.kept[b.task] = b.log
	}
	d.keepLog(b.task, b.chunks, b.lastLine)
	if res := h.event.Result; res != nil && res.Unstarted && b.publish {
		d.ending.unfit = true
		_ = d.step(dagrun.Event{Kind: dagrun.EvDrain}) // first: a publish waits for no slot, and would begin again at once
	}
	_ = d.step(h.event)
}

// giveUp ends a body because its drive cannot go on with it; its attempt is recorded as lost, not as failed.
func (b *body) giveUp(o *order) {
	b.lost.Store(&o.why)
	b.kill(dagrun.RequestNone, o.now)
}

// ask queues what is wanted at the gate, and takes back what no longer is. While slots are free the grant is in the
// postbox when it returns, so that the start is part of the same commit.
func (d *driver) ask(ready *dagrun.Ready) {
	for _, task := range ready.Drops {
		d.slots.giveBack(task)
	}
	for _, want := range ready.Wants {
		if d.slots.byTask[want.Task] == nil {
			d.askFor(want)
		}
	}
	d.slots.forgo()
	d.slots.releaseSpare()
}

// runSlots is what a run has of the worker's gate. It belongs to the run's driver.
type runSlots struct {
	gate       *Gate
	byTask     map[dagrun.TaskID]*Ticket // places in its queue, and slots
	spare      []*Ticket                 // of bodies that have ended: for the next wishes, before others get them
	isExpected bool                      // a slot is kept for the run, which has not asked yet
}

// keepSpare keeps the slots of a task whose body has ended.
func (s *runSlots) keepSpare(task dagrun.TaskID) {
	if t := s.byTask[task]; t != nil {
		delete(s.byTask, task)
		s.spare = append(s.spare, t)
	}
}

// releaseSpare gives back the slots of bodies that have ended, for which the run has no other use.
func (s *runSlots) releaseSpare() {
	for _, t := range s.spare {
		t.Release()
	}
	s.spare = s.spare[:0]
}

// handOn has a task take over the slots of one that has just ended, if the gate allows it. nil: it does not.
func (s *runSlots) handOn(want *dagrun.Want, order Order) *Ticket {
	last := len(s.spare) - 1
	if last < 0 || !s.spare[last].HandOn(want.Slots, order) {
		return nil
	}
	t := s.spare[last]
	s.spare = s.spare[:last]
	s.byTask[want.Task] = t
	return t
}

// ask queues a task at the gate.
func (s *runSlots) ask(want *dagrun.Want, order Order, grant func(*Ticket)) *Ticket {
	ask := s.gate.Ask
	if s.isExpected && want.Slots > 0 { // a publish needs none of its own, and leaves it to a body
		ask, s.isExpected = s.gate.Arrive, false
	}
	t := ask(want.Slots, order, grant)
	s.byTask[want.Task] = t
	return t
}

// giveBack releases what a task has of the gate: a place in its queue, or slots.
func (s *runSlots) giveBack(task dagrun.TaskID) {
	if t := s.byTask[task]; t != nil {
		delete(s.byTask, task)
		t.Release()
	}
}

func (d *driver) askFor(want dagrun.Want) {
	order := Order{RunID: d.claim.Run, Run: d.claim.Priority, Step: want.Priority, Since: int64(want.Since)}
	grant := happening{event: dagrun.Event{Kind: dagrun.EvGranted, Task: want.Task}}
	if t := d.slots.handOn(&want, order); t != nil {
		grant.ticket = t
		d.post.put(grant)
		return
	}
	t := d.slots.ask(&want, order, func(t *Ticket) {
		grant.ticket = t
		d.post.put(grant)
	})
	if t.waits() {
		d.line = append(d.line, inLine{want.Task, t, time.Now().Add(tellAfter)})
	}
}

// What a ready task waits for is told once that has lasted for tellAfter: most waits last for less, and would cost a write
// for nothing. Of a great many a second tells so many of a run.
const (
	tellAfter = time.Second
	tellMost  = 100
)

// inLine is a wish that was not granted at once.
type inLine struct {
	task   dagrun.TaskID
	ticket *Ticket
	due    time.Time
}

// tell has the rows of tasks say what they wait for, if they have for a while.
func (d *driver) tell(now time.Time) {
	if len(d.line) > 0 {
		d.tellLine(now)
	}
	if d.run.Bounded() && !d.lookAt.After(now) {
		d.tellHeld()
		d.lookAt = now.Add(tellAfter)
	}
}

// tellLine is about those that wait for slots, in the order in which they asked.
func (d *driver) tellLine(now time.Time) {
	for len(d.line) > 0 && !d.line[0].due.After(now) {
		first := d.line[0]
		why := first.ticket.why(d.life.config.Self.Name)
		if why != "" && d.slots.byTask[first.task] == first.ticket {
			if !d.life.tells.take(now) {
				d.line[0].due = now.Add(tellAfter)
				return
			}
			_ = d.step(dagrun.Event{Kind: dagrun.EvQueued, Task: first.task, Text: why + d.ownShare(why)})
		}
		d.line = d.line[1:]
	}
}

// tellHeld is about those that a limit of the run holds back: they ask for no slots. Where tasks that fill the limit wait for slots,
// those of the worker are what holds them all back.
func (d *driver) tellHeld() {
	by := d.clock.now() - dagrun.Time(tellAfter.Milliseconds())
	for _, task := range d.run.Held(by, tellMost) {
		_ = d.step(dagrun.Event{Kind: dagrun.EvQueued, Task: task, Text: d.whyAhead(task)})
	}
}

// whyAhead says what the task ahead of a held one waits for; "": there is none, or it has its slot by now.
func (d *driver) whyAhead(task dagrun.TaskID) string {
	ahead, ok := d.run.Ahead(task)
	if !ok || d.slots.byTask[ahead] == nil {
		return ""
	}
	why := d.slots.byTask[ahead].why(d.life.config.Self.Name)
	return why + d.ownShare(why)
}

// tellShare bounds how many tasks of a run a reason names.
const tellShare = 3

// ownShare adds to a reason which tasks of this run hold slots. Without it nobody sees that steps of one run wait for each
// other: a client that needs its server started holds the slot that the server waits for.
func (d *driver) ownShare(why string) string {
	if !strings.HasSuffix(why, "are taken") {
		return ""
	}
	slots, names := 0, []string{}
	for task := range d.bodies.byTask {
		if t := d.slots.byTask[task]; t != nil && t.slots > 0 {
			slots += t.slots
			names = append(names, d.def.Graph.TaskName(task))
		}
	}
	if slots == 0 {
		return ""
	}
	slices.Sort(names)
	if more := len(names) - tellShare; more > 0 {
		names = append(names[:tellShare], fmt.Sprintf("%d more", more))
	}
	return fmt.Sprintf(", %d by this run: %s", slots, strings.Join(names, ", "))
}
