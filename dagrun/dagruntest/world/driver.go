package world

import (
	"errors"
	"fmt"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// driver plays the loop that owns one run.
type driver struct {
	worker *worker
	world  *World
	row    *row
	core   *dagrun.Run
	claim  int
	epoch  int
	seen   int             // of the run's inbox
	asked  map[int64]bool  // controls stepped
	inbox  []dagrun.Event  // not stepped yet
	wants  []dagrun.TaskID // not granted yet
	wakeAt dagrun.Time
	bodies []*body
	resend *batch // its outcome is unknown: nothing else until it is settled
	ready  dagrun.Ready
	gone   bool
}

// body is one process, or what plays one.
type body struct {
	task    dagrun.TaskID
	attempt int
	endsAt  dagrun.Time
	killed  bool
}

func newDriver(k *worker, r *row) *driver {
	d := &driver{worker: k, world: k.world, row: r, claim: r.claim, epoch: r.epoch, asked: map[int64]bool{}}
	core, err := dagrun.Restore(r.graph, r.opts, r.saved())
	if err != nil {
		panic(fmt.Sprintf("run %d: restore: %v\n%s", r.id, err, r.describe()))
	}
	d.core = core
	if r.losses >= maxDrives {
		d.world.Counts.DriveLimits++
		d.step(dagrun.Event{Kind: dagrun.EvDriveLimit, Text: "too many lost drives"})
	}
	for id, s := range sorted(r.settled) {
		d.world.Counts.Settled++
		d.step(dagrun.Event{Kind: dagrun.EvSettled, Task: id, Attempt: s.attempt, Result: &s.result})
	}
	d.readControls()
	d.step(dagrun.Event{Kind: dagrun.EvBegin})
	return d
}

// step hands an event in. Late events are part of life, senseless ones are not.
func (d *driver) step(e dagrun.Event) {
	e.At = d.world.now
	err := d.core.Step(e)
	if err != nil && !errors.Is(err, dagrun.ErrStale) {
		panic(fmt.Sprintf("run %d: %s %v: %v", d.row.id, e.Kind, e.Task, err))
	}
}

// readControls takes in what people asked since.
func (d *driver) readControls() {
	d.seen = d.row.inbox
	for _, c := range d.row.undecided() {
		if !d.asked[c.ID] {
			d.asked[c.ID] = true
			d.step(dagrun.Event{Kind: dagrun.EvControl, Control: c})
		}
	}
}

// act is one turn of the loop.
func (d *driver) act() {
	if d.resend != nil {
		d.send(d.resend)
		return
	}
	d.collect()
	d.ready, _ = d.core.Ready()
	d.gate()
	ready, ok := d.core.Ready()
	d.wakeAt = ready.WakeAt
	if ok {
		d.ready = ready
		d.send(d.batch(&ready))
	}
}

// collect steps something of what happened since, or a tick.
func (d *driver) collect() {
	if !d.worker.cut() && d.row.inbox != d.seen && d.world.chance(0.5) {
		d.readControls()
	}
	if len(d.inbox) > 0 {
		e := d.inbox[0]
		d.inbox = d.inbox[1:]
		d.step(e)
	}
	if i := slices.IndexFunc(d.bodies, func(b *body) bool { return b.endsAt <= d.world.now }); i >= 0 {
		b := d.bodies[i]
		d.bodies = slices.Delete(d.bodies, i, i+1)
		d.endBody(b)
	}
	if d.wakeAt != 0 && d.wakeAt <= d.world.now {
		d.step(dagrun.Event{Kind: dagrun.EvTick})
	}
}

// endBody has a body end. Some of them settle first, as SQL tasks do.
func (d *driver) endBody(b *body) {
	res := d.world.randomEnd()
	if b.killed {
		res = dagrun.Result{Kind: dagrun.KindSignal, Signal: 15, ExitCode: 143, HasExit: true}
	}
	if d.worker.draining && d.world.chance(0.3) {
		d.step(dagrun.Event{Kind: dagrun.EvLost, Task: b.task, Attempt: b.attempt, Text: "drained"})
		return
	}
	if res.Kind == dagrun.KindNone && res.SnoozeUntil == 0 && d.world.chance(0.1) && d.settle(b, res) {
		res.Settled = true
		if d.world.chance(0.3) {
			d.world.kill(d.worker)
			return
		}
	}
	d.step(dagrun.Event{Kind: dagrun.EvFinished, Task: b.task, Attempt: b.attempt, Result: &res})
}

// settle writes a result in the body's own transaction, under the fence and the claim.
func (d *driver) settle(b *body, res dagrun.Result) bool {
	row := d.row.tasks[b.task]
	ok := d.world.store.beats[d.worker.id].fenced && d.row.claim == d.claim && !d.worker.cut() &&
		row.State == dagrun.TaskRunning && row.Attempt == b.attempt
	if ok {
		d.row.settled[b.task] = settlement{b.attempt, res}
	}
	return ok
}

// queue keeps what is wanted and was not granted yet.
func (d *driver) queue() {
	for _, id := range d.ready.Drops {
		d.wants = slices.DeleteFunc(d.wants, func(w dagrun.TaskID) bool { return w == id })
	}
	for _, w := range d.ready.Wants {
		if !slices.Contains(d.wants, w.Task) {
			d.wants = append(d.wants, w.Task)
		}
	}
}

// gate grants wants while there are slots, sometimes not at once.
func (d *driver) gate() {
	d.queue()
	granted := 0
	for len(d.wants) > 0 && d.worker.busy()+granted < d.worker.slots && !d.world.chance(0.1) {
		id := d.wants[0]
		d.wants = d.wants[1:]
		d.step(dagrun.Event{Kind: dagrun.EvGranted, Task: id})
		granted++
	}
}

// batch copies what is ready: it must outlive the next step. In bad times the journal sometimes gets only so far.
func (d *driver) batch(ready *dagrun.Ready) *batch {
	rs := ready.Records
	b := &batch{
		claim: d.claim, worker: d.worker.id, epoch: d.epoch, inbox: d.seen, keep: -1, leave: ready.Leave, over: ready.Result,
		records: dagrun.Records{
			Tasks: slices.Clone(rs.Tasks), Attempts: slices.Clone(rs.Attempts), Controls: slices.Clone(rs.Controls),
		},
	}
	if rs.Run != nil {
		run := *rs.Run
		b.records.Run = &run
	}
	return b
}

// send commits, with what can happen to a commit.
func (d *driver) send(b *batch) {
	w := d.world
	switch {
	case d.worker.cut() || !w.calm && w.chance(0.02):
		w.Counts.FailedCommits++ // nothing was written, and it is known: as good as refused
	case !w.calm && w.chance(0.03):
		w.Counts.UnknownCommits++
		if w.chance(0.5) {
			w.store.commit(d.row, b)
		}
		d.resend = b
	case !w.calm && len(b.records.Tasks) > 1 && w.chance(0.05):
		b.keep = w.rng.IntN(len(b.records.Tasks))
		w.store.commit(d.row, b)
		w.kill(d.worker)
	default:
		d.heard(b, w.store.commit(d.row, b))
	}
}

// lastGasp is a commit that was on its way when the process was killed.
func (d *driver) lastGasp() {
	if ready, ok := d.core.Ready(); ok && d.resend == nil {
		d.world.store.commit(d.row, d.batch(&ready))
	}
}

func (d *driver) heard(b *batch, o outcome) {
	d.resend = nil
	switch o {
	case leaseLost:
		d.forget()
	case refused:
		d.readControls()
		if b.over != nil {
			d.world.Counts.CancelsOverEnd++
		}
	case landed:
		d.perform(b)
	}
}

// perform does what the core asked for, now that its records are durable.
func (d *driver) perform(b *batch) {
	actions := slices.Clone(d.ready.Actions)
	for _, t := range b.records.Tasks {
		d.world.count(t)
	}
	d.queue()
	d.core.Advance()
	if b.leave != nil || b.over != nil {
		if !d.core.Over() {
			panic(fmt.Sprintf("run %d: the drive goes on after it left", d.row.id))
		}
		d.forget()
		d.countEnd(b)
	}
	for _, a := range actions {
		d.do(a)
	}
}

func (d *driver) countEnd(b *batch) {
	if b.over == nil {
		return
	}
	switch b.over.State {
	case dagrun.RunSucceeded:
		d.world.Counts.Succeeded++
	case dagrun.RunFailed:
		d.world.Counts.Failed++
	default:
		d.world.Counts.Canceled++
	}
}

func (d *driver) do(a dagrun.Action) {
	switch a.Kind {
	case dagrun.ActStart:
		d.start(a)
	case dagrun.ActOpen:
		d.open(a)
	case dagrun.ActKill:
		for _, b := range d.bodies {
			if b.task == a.Task && b.attempt == a.Attempt {
				b.killed, b.endsAt = true, min(b.endsAt, d.world.after(2_000))
			}
		}
	case dagrun.ActCancelChild:
		d.world.store.cancelChild(a.Ref)
	case dagrun.ActProbe:
		e := dagrun.Event{Kind: dagrun.EvProbed, Task: a.Task}
		if d.world.chance(0.5) {
			e.Result = &dagrun.Result{Outputs: `{"cached":true}`}
		}
		d.inbox = append(d.inbox, e)
	}
}

func (d *driver) start(a dagrun.Action) {
	d.checkStart(a)
	d.world.Counts.Bodies++
	length := dagrun.Duration(8_000)
	if d.world.chance(0.1) {
		length = 2 * ttl
	}
	d.bodies = append(d.bodies, &body{task: a.Task, attempt: a.Attempt, endsAt: d.world.after(length)})
	d.inbox = append(d.inbox, dagrun.Event{Kind: dagrun.EvStarted, Task: a.Task, Attempt: a.Attempt})
}

func (d *driver) open(a dagrun.Action) {
	e := dagrun.Event{Kind: dagrun.EvWaits, Task: a.Task, Attempt: a.Attempt}
	switch d.core.Spec(a.Task).Body {
	case dagrun.BodyChild:
		e.Ref = d.world.store.openChild(d.row, a).ref
	default:
		if d.world.chance(0.5) {
			e.Kind, e.Result = dagrun.EvFinished, &dagrun.Result{}
		} else {
			e.Until = d.world.after(3 * ttl)
		}
	}
	d.inbox = append(d.inbox, e)
}

func (d *driver) killBodies() { d.bodies = nil }

func (d *driver) forget() {
	d.killBodies()
	d.gone = true
}
