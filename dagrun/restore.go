package dagrun

import (
	"cmp"
	"fmt"
	"slices"
)

// Restore makes a run from the rows of a store; the caller then steps EvBegin. It returns an error if the rows do not fit the
// graph. A run in a final state is over. Rows of items and replacements that no Growth describes are kept aside, for tasks that may
// grow again.
func Restore(g *Graph, o Options, s Saved) (*Run, error) {
	rec := s.Run
	if rec.Generation == 0 {
		rec.Generation = max(o.Generation, 1)
	}
	r := newRun(g, o, rec)
	r.saved = s.Run
	r.over = rec.State.Terminal()
	r.restoring = true
	if err := r.loadRows(s.Tasks); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	for i := range r.nodes {
		if err := r.regrowNode(&r.nodes[i]); err != nil {
			return nil, fmt.Errorf("restore: %w", err)
		}
	}
	r.restoring = false
	r.retally()
	r.recountAll()
	return r, nil
}

// loadRows loads the rows of steps and handlers into their tasks. It puts the rows of items and replacements into r.left, until
// their foreach node or replaced task has grown. It returns an error for a step that the graph does not have, and for a state or
// request that this version does not know.
func (r *Run) loadRows(rows []TaskRecord) error {
	for i := range rows {
		row := &rows[i]
		id := row.ID
		switch {
		case id.Step < 0 || id.Step >= len(r.nodes):
			return fmt.Errorf("a row for step %d, but the graph has %d", id.Step, len(r.nodes))
		case row.State > TaskReplaced, row.Request > RequestMark, row.Request == RequestMark && !markable(row.Marked):
			return fmt.Errorf("task %s in state %s, with request %s as %s", r.graph.TaskName(id), row.State, row.Request, row.Marked)
		case id.Item == "" && id.Alt == 0:
			r.nodes[id.Step].main.load(row)
		default:
			r.left[id] = row
		}
	}
	return nil
}

// regrowNode makes the items and replacements of a step or handler again, as the stored Growths describe them. It returns an error
// if a running foreach node has no stored items, or if replacements do not fit the step.
func (r *Run) regrowNode(n *node) error {
	t := n.main
	switch {
	case !t.grows():
		return r.regrowAlts(&n.group)
	case t.State <= TaskReady:
		return nil
	case t.Growth == nil || len(t.Growth.Items) == 0:
		return unless(t.State != TaskRunning, "foreach node %s is running, but has no items", t.step.Name)
	}
	r.growItems(n)
	for _, g := range n.each.items {
		if err := r.regrowAlts(g); err != nil {
			return err
		}
	}
	return nil
}

// regrowAlts makes the replacements of a group again, in the order of their numbers, replacements of replacements included. It
// returns an error if the Growth of a replaced task is missing or does not fit its step.
func (r *Run) regrowAlts(g *group) error {
	for {
		var next *task
		replaced, grown := 0, 0
		g.members(func(t *task) {
			if t.State != TaskReplaced {
				return
			}
			replaced++
			if t.Growth != nil && t.Growth.FirstAlt <= len(g.alts) {
				grown++
			} else if t.Growth != nil && t.Growth.FirstAlt == len(g.alts)+1 {
				next = t
			}
		})
		if next == nil {
			return unless(replaced == grown, "task %s was replaced, but not by what its step says", r.graph.TaskName(g.main.ID))
		}
		if err := r.checkGrowth(next); err != nil {
			return err
		}
		r.growAlts(next)
	}
}

// checkGrowth returns an error if a replaced task cannot have the replacements that its Growth says: its step has no such rule of
// on_error, or the rule makes another number of them or has no such body.
func (r *Run) checkGrowth(t *task) error {
	grew := t.Growth
	fits := grew.Count > 0 && (t.plans != nil || grew.Rule >= 0 && grew.Rule < len(t.step.OnError))
	if fits {
		rule := t.replacedBy()
		byData := t.plans != nil || rule.byData()
		fits = byData == (grew.Choices != nil) && (byData && grew.Count == len(grew.Choices) || !byData && grew.Count == rule.size(nil)) &&
			!slices.ContainsFunc(grew.Choices, func(c Choice) bool { return c.With < 0 || c.With >= len(rule.With) })
	}
	return unless(fits, "task %s was replaced by on_error[%d] with %d, but its step says otherwise",
		r.graph.TaskName(t.ID), grew.Rule, grew.Count)
}

// takeLeft gives a new task the row that was laid aside for it, and removes that row from r.left. The task takes the whole row only
// if the row is current: no reset came after it, and during Restore it is at least as new as grew, which made the task. Later only
// a final row of this generation is current, which a crash separated from the row with the Growth. Of any other row the task takes
// only the attempt number, and takeLeft records the row's last attempt.
func (r *Run) takeLeft(t *task, row *TaskRecord, grew *Growth) {
	delete(r.left, t.ID)
	current := row.Generation == r.rec.Generation && row.State.Terminal()
	if r.restoring {
		current = row.Generation >= grew.Generation
	}
	if current && row.ResetBy >= grew.ResetBy {
		t.load(row)
		return
	}
	t.Attempt = row.Attempt
	r.closeOld(row)
	if row.AttemptAt != 0 || row.State.Terminal() && row.Generation == r.rec.Generation {
		r.changed(t) // in the same commit, so that the attempt is recorded once, and no row of this generation is out of date
	}
	row.Seq = 0 // a change of it that is not stored yet is left out: a commit has one row of a task
}

// load copies a stored row into a task and marks the task as stored. A row in state ready becomes pending, because the run judges
// again whether the task is ready.
func (t *task) load(row *TaskRecord) {
	t.TaskRecord = *row
	t.Asks = nil // the question is stored already
	t.stored = true
	if t.State == TaskReady {
		t.State, t.shown = TaskPending, true
	}
}

// applyBefore applies an event that is allowed only before the drive has begun: EvSettled, EvDriveLimit or EvBegin. It returns
// ErrStale for a second EvDriveLimit and the errors of settledBefore.
func (r *Run) applyBefore(e *Event) error {
	switch e.Kind {
	case EvSettled:
		return r.settledBefore(e)
	case EvDriveLimit:
		if r.driveLimit {
			return ErrStale
		}
		r.driveLimit, r.limitText = true, e.Text
	default:
		r.begin(e.Text)
	}
	return nil
}

// settledBefore applies EvSettled: it keeps a result that a former driver's transaction made durable without recording the end of
// the task. EvBegin uses it. It returns ErrStale if this attempt is not recorded as running or has such a result already, and
// ErrEvent if the event has no Result.
func (r *Run) settledBefore(e *Event) error {
	t := r.find(e.Task)
	if t == nil || !t.runs() || t.Attempt != e.Attempt || t.settled != nil {
		return ErrStale
	}
	if e.Result == nil {
		return ErrEvent
	}
	res := *e.Result
	res.Settled = true
	t.settled = &res
	return nil
}

// begin applies EvBegin. It first completes what follows from the stored rows, then takes up every task where the last driver left
// it. Attempts recorded as running end as lost, with text as the reason.
func (r *Run) begin(text string) {
	r.startClock()
	handlers := r.open == 0 && !r.handler(handlerInit).isOpen() // by the stored rows alone
	r.finishInterrupted()
	if r.driveLimit {
		r.giveUp(handlers)
	}
	r.begun = true
	for i := range r.nodes {
		r.nodes[i].tasks(func(t *task) { r.continueTask(t, text) })
	}
}

// startClock sets the run's row to running, or to paused if it is, and starts the run's timeout or continues it: the timeout stands
// still while a run is parked. A row may have a start time and no deadline, because the store records the start at the claim and a
// lost driver may never have stored the deadline.
func (r *Run) startClock() {
	r.rec.State = RunRunning
	if r.rec.PausedBy != "" {
		r.rec.State = RunPaused
	}
	r.rec.StartedAt = cmp.Or(r.rec.StartedAt, r.now)
	if timeout := r.graph.spec.Timeout; timeout > 0 && r.rec.Deadline == 0 {
		r.rec.Deadline = after(r.now, cmp.Or(r.rec.Left, timeout))
	}
	r.rec.Left, r.rec.WakeAt, r.rec.Reason = 0, 0, ""
}

// finishInterrupted completes what a former driver began before it was lost: it ends the run if its timeout has passed or a stored
// failure triggers fail_fast, and ends the steps if the run's row has an ending. Such a driver may have stored the rows of tasks
// and not the row of the run, which goes last.
func (r *Run) finishInterrupted() {
	if r.clockRuns() && r.rec.Deadline <= r.now && !r.driveLimit {
		r.endRun(EndingTimeout, "", "")
	}
	for _, t := range r.failures {
		if t.Generation == r.rec.Generation {
			r.failFast(t)
		}
	}
	if r.rec.Ending != EndingNone {
		r.endSteps()
	}
}

// continueTask continues one task where the last driver left it: it starts, waits, retries or publishes again. An attempt that was
// running ends with the result of its EvSettled, or else as lost with text as the reason.
func (r *Run) continueTask(t *task, text string) {
	switch t.State {
	case TaskPending, TaskReady:
		r.again(t)
	case TaskRunning:
		r.continueRunning(t, text)
	case TaskFinishing:
		r.continueFinishing(t)
	case TaskWaiting:
		r.continueWaiting(t)
	case TaskRetrying:
		r.setAlarm(t)
	}
}

// continueRunning ends an attempt that a former driver left running: with the result of its EvSettled, or else as lost with text as
// the reason. It closes a foreach node if all its items have settled.
func (r *Run) continueRunning(t *task, text string) {
	switch {
	case t.grown():
		if t.node.each.open == 0 {
			r.closeForeach(t.node)
		}
	case t.settled == nil:
		r.bodyEnded(t, lost(text))
	default:
		r.bodyEnded(t, *t.settled)
	}
}

// continueFinishing has the publish of a finishing task start again, or carries out a stored request to stop the task.
func (r *Run) continueFinishing(t *task) {
	if t.Request != RequestNone {
		r.applyRequest(t, lost(""))
		return
	}
	r.enqueue(t)
}

// continueWaiting has a wait or a child run opened again if the row does not show that the former driver has opened it. Otherwise
// the task keeps waiting, and a child run that was asked to stop is asked again.
func (r *Run) continueWaiting(t *task) {
	r.setAlarm(t)
	body := t.step.Body
	switch {
	case !t.waits():
	case body == BodyChild && t.Ref == "", body == BodyWait && t.NextAt == 0:
		r.enqueue(t)
	default:
		r.rest(t)
		if t.Request != RequestNone {
			r.halt(t, r.rec.Ending == EndingNow)
		}
	}
}

// giveUp ends a run that has lost too many drives: attempts left running fail, and open steps are canceled. If handlers is set, the
// steps had all settled already and only handlers were left: they are canceled as well. Otherwise the handlers other than init
// still run.
func (r *Run) giveUp(handlers bool) {
	r.rec.Ending = max(r.rec.Ending, EndingDrives)
	for i := range r.nodes {
		r.nodes[i].tasks(r.giveUpOn)
	}
	r.endRun(EndingDrives, "", r.limitText)
	if handlers {
		r.giveUpHandlers()
	} else {
		r.endHandler(handlerInit, true)
	}
}

// giveUpOn fails an attempt that a former driver left running, as lost, and applies neither on_lost nor on_error. If the attempt
// has a settled result, or the task a stored request, that decides instead.
func (r *Run) giveUpOn(t *task) {
	switch {
	case t.runs() && t.settled == nil && t.Request == RequestNone:
		t.take(lost(""))
		r.fail(t)
	case t.runs():
		r.continueRunning(t, "")
	case t.State == TaskFinishing && t.Request != RequestNone:
		r.continueFinishing(t)
	}
}

// giveUpHandlers cancels the handlers that still had to run or to end: the one for the outcome of the run, and exit.
func (r *Run) giveUpHandlers() {
	reason := gaveUp(r.limitText)
	for _, n := range []*node{r.outcomeHandler(), r.handler(handlerExit)} {
		if n.isOpen() {
			n.tasks(func(t *task) { r.stop(t, "", reason, false) })
		}
	}
}
