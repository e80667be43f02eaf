package coretest

import (
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// randomMove makes one random move of all that are possible.
func (p *Play) randomMove() error {
	p.now += dagrun.Time(Pick(p.c, 0, 0, 1, 900, 4_000))
	switch k := p.c.N(20); {
	case k < 5:
		return p.grant()
	case k < 10:
		return p.bodyMoves()
	case k < 12:
		return p.answer()
	case k < 15:
		return p.tick()
	case k < 18:
		return p.someControl()
	case k < 19:
		return p.stray()
	}
	switch p.c.N(6) {
	case 0:
		return p.step(dagrun.Event{Kind: dagrun.EvDrain})
	case 1:
		if p.c.OneIn(4) {
			return p.step(dagrun.Event{Kind: dagrun.EvRefuse, Text: "bad record"})
		}
	}
	return p.lose()
}

func (p *Play) grant() error {
	ready, err := p.Ready()
	if err != nil {
		return err
	}
	if held := p.Core.Held(p.now, 2); len(held) > 0 && p.c.OneIn(4) {
		p.Stats.Held++
		return p.step(dagrun.Event{Kind: dagrun.EvQueued, Task: Pick(p.c, held...)})
	}
	ids := sortedIDs(p.offered(ready))
	if len(ids) == 0 {
		return p.bodyMoves()
	}
	kind := Pick(p.c, dagrun.EvGranted, dagrun.EvGranted, dagrun.EvGranted, dagrun.EvQueued)
	return p.step(dagrun.Event{Kind: kind, Task: Pick(p.c, ids...)})
}

func (p *Play) bodyMoves() error {
	ids := sortedIDs(p.bodies)
	if len(ids) == 0 {
		return p.answer()
	}
	id := Pick(p.c, ids...)
	b := p.bodies[id]
	if p.c.OneIn(4) {
		return p.step(dagrun.Event{Kind: dagrun.EvStarted, Task: id, Attempt: b.attempt})
	}
	r := randomResult(p.c)
	switch p.c.N(8) {
	case 7:
		if !b.publish {
			r = dagrun.Result{SnoozeUntil: p.now + dagrun.Time(Pick(p.c, 1_000, 60_000))}
		}
	case 6:
		r = dagrun.Result{Kind: dagrun.KindLost, Unstarted: true, Reason: "not started: no room"}
		p.Stats.Unstarted++
	}
	r.Settled = !b.publish && r.Kind == dagrun.KindNone && !r.HasExit && p.c.OneIn(4)
	delete(p.bodies, id)
	return p.step(dagrun.Event{Kind: dagrun.EvFinished, Task: id, Attempt: b.attempt, Result: &r})
}

// answer answers one of the core's questions: an opened wait or a cache lookup.
func (p *Play) answer() error {
	if ids := sortedIDs(p.probes); len(ids) > 0 && (p.c.OneIn(2) || p.c.Done()) {
		id := Pick(p.c, ids...)
		delete(p.probes, id)
		ev := dagrun.Event{Kind: dagrun.EvProbed, Task: id}
		if p.c.OneIn(3) {
			r := randomResult(p.c)
			ev.Result = &r
		}
		return p.step(ev)
	}
	ids := sortedIDs(p.opens)
	if len(ids) == 0 {
		return p.tick()
	}
	id := Pick(p.c, ids...)
	ev := dagrun.Event{Kind: dagrun.EvWaits, Task: id, Attempt: p.opens[id]}
	delete(p.opens, id)
	switch {
	case p.c.OneIn(6):
		r := randomResult(p.c)
		ev.Kind, ev.Result = dagrun.EvFinished, &r
	case p.Core.Spec(id) != nil && p.Core.Spec(id).Body == dagrun.BodyChild:
		ev.Ref = p.ref(id)
	default:
		ev.Until = Pick(p.c, 0, p.now+2_000, p.now+100_000)
	}
	return p.step(ev)
}

// ref names the child run of a task. The name is the same however often the task asks for it.
func (p *Play) ref(id dagrun.TaskID) string { return "run of " + p.Graph.TaskName(id) }

func (p *Play) tick() error {
	at, err := p.Ready()
	if err != nil {
		return err
	}
	if at.WakeAt > p.now && p.c.N(3) > 0 {
		p.now = at.WakeAt
	}
	return p.step(dagrun.Event{Kind: dagrun.EvTick})
}

func (p *Play) lose() error {
	ids := sortedIDs(p.bodies)
	if len(ids) == 0 {
		return nil
	}
	id := Pick(p.c, ids...)
	b := p.bodies[id]
	delete(p.bodies, id)
	return p.step(dagrun.Event{Kind: dagrun.EvLost, Task: id, Attempt: b.attempt, Text: "drained"})
}

// someTask returns any task.
func (p *Play) someTask() dagrun.TaskID {
	var ids []dagrun.TaskID
	for t := range p.Core.Tasks() {
		ids = append(ids, t.ID)
	}
	return Pick(p.c, ids...)
}

func (p *Play) someControl() error {
	verb := Pick(p.c, dagrun.VerbCancel, dagrun.VerbPause, dagrun.VerbPause, dagrun.VerbResume, dagrun.VerbResume, dagrun.VerbApprove,
		dagrun.VerbApprove, dagrun.VerbReject, dagrun.VerbMark, dagrun.VerbMark, dagrun.VerbChildEnded, dagrun.VerbChildEnded,
		dagrun.VerbRetry, dagrun.VerbRetry, dagrun.VerbRetry, dagrun.VerbRetry)
	ct := dagrun.Control{Verb: verb, By: "ana"}
	ofRun := verb == dagrun.VerbCancel || verb == dagrun.VerbPause || verb == dagrun.VerbResume
	if !ofRun || p.c.N(3) > 0 {
		id := p.someTask()
		ct.Task = &id
		ct.Ref = p.ref(id)
	}
	switch verb {
	case dagrun.VerbCancel:
		ct.Now = p.c.OneIn(4)
		if ct.Task == nil && p.c.OneIn(2) {
			return nil // else most runs end canceled
		}
	case dagrun.VerbMark:
		ct.As = Pick(p.c, dagrun.TaskSucceeded, dagrun.TaskFailed, dagrun.TaskSkipped, dagrun.TaskCanceled)
		ct.Outputs = `{"m":1}`
	case dagrun.VerbChildEnded:
		r := randomResult(p.c)
		ct.Result = &r
	case dagrun.VerbRetry:
		p.drawRetry(&ct)
	case dagrun.VerbApprove:
		ct.Outputs = `{"a":1}`
	}
	ct = p.request(ct)
	return p.step(dagrun.Event{Kind: dagrun.EvControl, Control: &ct})
}

// drawRetry draws a retry of a run under way, mostly of a task that went wrong.
func (p *Play) drawRetry(ct *dagrun.Control) {
	if p.c.OneIn(8) {
		ct.Generation, ct.Task = p.Kept.Run.Generation, nil
		return
	}
	ct.Mode = Pick(p.c, dagrun.RetryStep, dagrun.RetryStep, dagrun.RetryFrom, dagrun.RetryFailed)
	var wrong []dagrun.TaskID
	for t := range p.Core.Tasks() {
		if t.State == dagrun.TaskFailed || t.State == dagrun.TaskUpstreamFailed || t.State == dagrun.TaskCanceled {
			wrong = append(wrong, t.ID)
		}
	}
	if len(wrong) > 0 && p.c.N(4) > 0 {
		id := Pick(p.c, wrong...)
		ct.Task = &id
	}
}

// stray steps an event that should not come: about another attempt or task, or a second time.
func (p *Play) stray() error {
	id := p.someTask()
	t, _ := p.Core.Task(id)
	ev := dagrun.Event{Task: id, Attempt: max(0, t.Attempt+p.c.N(3)-1)}
	ev.Kind = dagrun.EventKind(p.c.N(int(dagrun.EvDriveLimit) + 1))
	if _, known := p.bodies[id]; known || ev.Kind == dagrun.EvTick || (ev.Kind == dagrun.EvProbed && p.probes[id]) {
		return nil
	}
	if _, open := p.opens[id]; open || t.State == dagrun.TaskWaiting {
		return nil
	}
	if t.State == dagrun.TaskRunning || t.State == dagrun.TaskFinishing || ev.Kind == dagrun.EvGranted {
		return nil // the action is shown but not performed, so the event would not be stray
	}
	if ev.Kind == dagrun.EvProbed && t.State == dagrun.TaskReady {
		return nil
	}
	ev.At = p.now
	taken, err := p.Step(ev)
	if taken && err == nil {
		return fmt.Errorf("a stray event was taken: %s", p.event(ev))
	}
	return err
}
