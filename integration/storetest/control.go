package storetest

import (
	"context"
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// Control puts a request into a run's inbox, or decides it at once if the run's driver need not be asked.
func (m *Memory) Control(ctx context.Context, a queue.Ask) (queue.Control, error) {
	args, err := arguments(&a)
	if err != nil {
		return queue.Control{}, fmt.Errorf("control: %w", err)
	}
	if err := m.enter(ctx); err != nil {
		return queue.Control{}, err
	}
	defer m.mu.Unlock()
	r, err := m.run(a.Run)
	if err != nil {
		return queue.Control{}, err
	}
	if a.Step != "" {
		if _, err := r.version.graph.ParseTask(a.Step); err != nil {
			return queue.Control{}, refusal(queue.ErrNotFound, "OA007", "look at its tasks", "run %d has no step %s", a.Run, a.Step)
		}
	}
	shown := r.rec.State.String()
	if r.claim == nil {
		shown = "queued"
	}
	c := &queue.Control{Run: r.id, Verb: a.Verb, Step: a.Step, Item: a.Item, By: m.user, At: m.now()}
	live := !r.over()
	m.decide(r, c, &a)
	if a.Verb == dagrun.VerbRetry && !live { // without a generation, the retry is of a run under way
		args["generation"] = r.rec.Generation
	}
	if guards := r.version.graph.Guards(); len(guards) > 0 && a.Step != "" && (a.Verb == dagrun.VerbRetry || a.Verb == dagrun.VerbMark) {
		args["decides"] = guards
	}
	c.Args = spell(args)
	m.file(r, c)
	answer := *c
	answer.Args = nil // the caller passed them
	if answer.State == "" {
		answer.State = shown
	}
	if accepted(c) {
		answer.Outcome = dagrun.Accepted
	}
	return answer, nil
}

// accepted reports whether the request is a cancel of the run that its driver must read before the run can end.
func accepted(c *queue.Control) bool {
	return c.Outcome == "" && c.Verb == dagrun.VerbCancel && c.Step == ""
}

// arguments checks the arguments of a request and returns those that its verb takes.
func arguments(a *queue.Ask) (map[string]any, error) {
	needsStep := a.Verb == dagrun.VerbApprove || a.Verb == dagrun.VerbReject || a.Verb == dagrun.VerbMark ||
		a.Verb == dagrun.VerbRetry && (a.Mode == dagrun.RetryFrom || a.Mode == dagrun.RetryStep)
	if needsStep && a.Step == "" {
		return nil, refusal(nil, "OA013", "name one", "%s needs a step", a.Verb)
	}
	outputs, err := object(a.Outputs)
	if err != nil {
		return nil, err
	}
	if err := checkDepth("outputs", outputs); err != nil {
		return nil, err
	}
	switch a.Verb {
	case dagrun.VerbCancel:
		return map[string]any{"now": a.Now}, nil
	case dagrun.VerbRetry:
		return map[string]any{"mode": a.Mode.String()}, nil
	case dagrun.VerbApprove:
		return map[string]any{"outputs": outputs}, nil
	case dagrun.VerbReject:
		return map[string]any{"reason": a.Reason}, nil
	case dagrun.VerbMark:
		if a.As != dagrun.TaskSucceeded && a.As != dagrun.TaskFailed && a.As != dagrun.TaskSkipped {
			return nil, refusal(nil, "OA013", "succeeded, failed or skipped", "a step cannot be marked %s", a.As)
		}
		return map[string]any{"as": a.As.String(), "outputs": outputs}, nil
	case dagrun.VerbChildEnded:
		return nil, refusal(nil, "OA013", "only the end of a child run says so", "nobody may ask for child_ended")
	default:
		return map[string]any{}, nil
	}
}

// file stores a control under a new number.
func (m *Memory) file(r *run, c *queue.Control) {
	m.controls++
	c.ID = m.controls
	if c.Outcome != "" {
		c.DecidedAt = m.now()
	}
	r.controls = append(r.controls, c)
}

// decide answers a control at once if it can. Otherwise the run's driver answers it.
func (m *Memory) decide(r *run, c *queue.Control, a *queue.Ask) {
	retry, cancel := c.Verb == dagrun.VerbRetry, c.Verb == dagrun.VerbCancel && c.Step == ""
	switch {
	case retry && !r.over() && c.Step == "":
		c.Outcome, c.State = dagrun.Refused, r.rec.State.String()
		c.Message = fmt.Sprintf("run %[1]d is %[2]s: name the step to repeat (oarlock retry %[1]d --step STEP), retry the run when it has ended, or cancel it", r.id, r.rec.State)
	case retry && !r.over() && r.rec.StartedAt == 0 && r.rec.Generation == 1:
		c.Outcome, c.State = dagrun.Refused, r.rec.State.String()
		c.Message = fmt.Sprintf("run %d has not started: there is nothing to repeat", r.id)
	case retry && !r.over():
		m.rouse(r)
	case !retry && r.over():
		c.Outcome, c.State = dagrun.Refused, r.rec.State.String()
		c.Message = fmt.Sprintf("run %d is %s already", r.id, r.rec.State)
		if c.Verb != dagrun.VerbCancel && c.Verb != dagrun.VerbApprove && c.Verb != dagrun.VerbReject {
			c.Message += ": retry it"
		}
	case cancel && r.rec.State == dagrun.RunQueued && r.rec.StartedAt == 0:
		c.Outcome, c.State = dagrun.Applied, dagrun.RunCanceled.String()
		m.cancelQueued(r)
	case cancel && r.claim == nil:
		m.cancelUnheld(r, c, a.Now)
	case retry:
		if why := r.whyNoRetry(a); why != "" {
			c.Outcome, c.State, c.Message = dagrun.Refused, r.rec.State.String(), why
			return
		}
		m.reopen(r)
	default:
		m.rouse(r)
	}
}

// whyNoRetry returns the reason why a retry of an ended run would reset nothing, "" if it resets something. It asks the core,
// where the database has a copy of the rule in SQL.
func (r *run) whyNoRetry(a *queue.Ask) string {
	generation := r.rec.Generation + 1
	saved := dagrun.Saved{Run: dagrun.RunRecord{State: dagrun.RunQueued, Generation: generation}}
	for _, row := range r.sortedTasks() {
		saved.Tasks = append(saved.Tasks, row.TaskRecord)
	}
	core, err := dagrun.Restore(r.version.graph, dagrun.Options{Generation: generation}, saved)
	if err != nil {
		return "" // the next driver finds the same
	}
	c := &dagrun.Control{Verb: a.Verb, Mode: a.Mode, Generation: generation, Decides: r.version.graph.Guards()}
	if a.Step != "" {
		id, err := r.version.graph.ParseTask(a.Step)
		if err != nil {
			return err.Error()
		}
		id.Item = a.Item
		c.Task = &id
	}
	if err := core.Step(dagrun.Event{Kind: dagrun.EvControl, Control: c}); err != nil {
		return err.Error()
	}
	ready, _ := core.Ready()
	if d := ready.Records.Controls[0]; d.Outcome == dagrun.Refused {
		return d.Message
	}
	return ""
}

// cancelQueued cancels a run that has not started in its current generation.
func (m *Memory) cancelQueued(r *run) {
	why := "canceled by " + m.user
	r.inbox++
	m.log(r, queue.Event{Kind: "canceled", By: m.user, Message: why + " before it started"})
	m.end(r, dagrun.RunCanceled, why)
}

// end finishes a run that no worker drives, and refuses its open controls.
func (m *Memory) end(r *run, state dagrun.RunState, reason string) {
	for _, c := range r.controls {
		if c.DecidedAt.IsZero() {
			c.DecidedAt, c.Outcome, c.State, c.Message = m.now(), dagrun.Refused, state.String(), reason
		}
	}
	r.unshelve()
	r.rec.State, r.rec.Reason, r.rec.FinishedAt = state, reason, stamp(m.now())
	r.rec.WakeAt, r.wakeAt, r.queueDeadline = 0, noTime, noTime
	m.tellParent(r)
}

// reopen queues a finished run for its next generation.
func (m *Memory) reopen(r *run) {
	r.rec = dagrun.RunRecord{State: dagrun.RunQueued, Generation: r.rec.Generation + 1, Counts: r.rec.Counts}
	r.losses, r.wakeAt = 0, noTime
	m.expireAfter(r, m.now())
	r.inbox++
	m.list(r, stageNew, r.place(m.now()), reachRanked)
}

// rouse makes a run's driver look at its inbox. If a worker holds the run, that worker is notified; else rouse queues the
// run.
func (m *Memory) rouse(r *run) {
	r.inbox++
	switch {
	case r.claim != nil:
		r.owner.tell(func(h *queue.Heard) { h.Runs = append(h.Runs, r.id) })
	case r.rec.State == dagrun.RunQueued && r.stage == stageNew: // nothing to do: the first driver of a run reads its inbox anyway
	default:
		m.requeue(r, stageRoused, reachAll)
	}
}

// requeue puts a run back on a shelf and tells the workers within reach. A new run keeps its place.
func (m *Memory) requeue(r *run, stage, reach int) {
	r.rec.State, r.rec.WakeAt, r.wakeAt = dagrun.RunQueued, 0, noTime
	at := m.now()
	switch {
	case stage == stageNew && r.stage == stageNew:
		at = r.readyAt
	case stage == stageNew:
		at = r.place(at)
	}
	m.list(r, stage, at, reach)
}

// tellParent reports the end of a child run to its parent run through the parent's inbox.
func (m *Memory) tellParent(child *run) {
	if child.parent == 0 {
		return
	}
	p := m.runs[child.parent-1]
	if p.over() {
		return
	}
	args := spell(map[string]any{"ref": fmt.Sprint(child.id), "state": child.rec.State.String(), "reason": child.rec.Reason})
	m.file(p, &queue.Control{
		Run: p.id, Verb: dagrun.VerbChildEnded, Step: p.stepName(child.parentTask), Item: child.parentTask.Item,
		Args: args, By: fmt.Sprintf("run %d", child.id), At: m.now(),
	})
	m.rouse(p)
}
