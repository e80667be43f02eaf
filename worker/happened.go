package worker

import (
	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// happened takes one thing in.
func (d *driver) happened(h *happening) {
	switch {
	case h.mail:
		d.mail = true
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
	if d.tickets[h.event.Task] != h.ticket {
		return // released already, or another wish has taken its place
	}
	if d.step(h.event) != nil {
		d.giveBack(h.event.Task)
	}
}

// ended takes in how a body ended. What it left of its log rides with the record.
func (d *driver) ended(h *happening) {
	b := h.body
	if d.bodies[b.task] == b {
		delete(d.bodies, b.task)
		d.giveBack(b.task)
	}
	if b.log != nil {
		d.kept[b.task] = b.log
	}
	d.extra.chunks = append(d.extra.chunks, b.chunks...)
	d.extra.details = append(d.extra.details, queue.Detail{Task: b.task, LastLine: b.lastLine})
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
		d.giveBack(task)
	}
	for _, want := range ready.Wants {
		if d.tickets[want.Task] == nil {
			d.askFor(want)
		}
	}
}

func (d *driver) askFor(want dagrun.Want) {
	grant := happening{event: dagrun.Event{Kind: dagrun.EvGranted, Task: want.Task}}
	order := Order{Run: d.priority(), Step: want.Priority, Since: int64(want.Since)}
	d.tickets[want.Task] = d.worker.gate.Ask(want.Slots, order, func(t *Ticket) {
		grant.ticket = t
		d.post.put(grant)
	})
}

// giveBack releases what a task holds of the gate: a place in its queue, or slots.
func (d *driver) giveBack(task dagrun.TaskID) {
	if t := d.tickets[task]; t != nil {
		delete(d.tickets, task)
		t.Release()
	}
}

func (d *driver) priority() int { return d.claim.Priority }
