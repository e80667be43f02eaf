package dagrun

import (
	"cmp"
	"fmt"
)

// Restore makes a Run that continues from a store's rows. It lays aside the rows of items and replacements that no Growth
// describes.
func Restore(g *Graph, o Options, s Saved) (*Run, error) {
	rec := s.Run
	if rec.Generation == 0 {
		rec.Generation = max(o.Generation, 1)
	}
	r := newRun(g, o, rec)
	r.saved = s.Run
	r.over = rec.State.Terminal()
	r.restoring, r.left = true, map[TaskID]*TaskRecord{}
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

// loadRows loads the rows of steps. It lays aside the rows of items and replacements until their foreach node or replaced
// task has grown.
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

// regrowNode makes the items and replacements of a step again, as the stored Growths describe them.
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

// regrowAlts makes the replacements of a group again, in the order of their numbers.
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

func (r *Run) checkGrowth(t *task) error {
	rules, grew := t.step.OnError, t.Growth
	fits := grew.Rule >= 0 && grew.Rule < len(rules) && grew.Count > 0 && grew.Count == len(rules[grew.Rule].With)
	return unless(fits, "task %s was replaced by on_error[%d] with %d, but its step says otherwise",
		r.graph.TaskName(t.ID), grew.Rule, grew.Count)
}

// takeLeft gives a new task the row that was laid aside for it. A row that is older than the task's Growth is history:
// takeLeft records its last attempt and keeps the attempt number. While the run is not restoring, the same holds for every
// row that is not final in this generation: a crash came between that row and the row with the Growth.
func (r *Run) takeLeft(t *task, row *TaskRecord) {
	delete(r.left, t.ID)
	current := row.Generation == r.rec.Generation && row.State.Terminal()
	if r.restoring {
		current = row.Generation >= r.grownIn(t)
	}
	if current {
		t.load(row)
		return
	}
	t.Attempt = row.Attempt
	if row.AttemptAt != 0 {
		r.closeOld(row)
		r.changed(t) // in the same commit, so that the attempt is recorded once
	}
}

// grownIn returns the generation in which the foreach node, or the replaced task, grew this task.
func (r *Run) grownIn(t *task) int {
	from := t.node.main
	if t.ID.Alt != 0 {
		t.group.members(func(m *task) {
			if g := m.Growth; g != nil && m.State == TaskReplaced && g.FirstAlt <= t.ID.Alt && t.ID.Alt < g.FirstAlt+g.Count {
				from = m
			}
		})
	}
	return from.Growth.Generation
}

// load copies a stored row into a task. A ready task becomes pending, because the run judges again whether it is ready.
func (t *task) load(row *TaskRecord) {
	t.TaskRecord = *row
	t.Asks = nil // the question is stored already
	t.stored = true
	if t.State == TaskReady {
		t.State, t.shown = TaskPending, true
	}
}

// applyBefore applies an event to a drive that has not begun: EvSettled, EvDriveLimit or EvBegin.
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

// settledBefore keeps a result that a former driver's transaction made durable without recording the end of the task.
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

// begin starts the drive. It first completes what follows from the stored rows, then takes up every task where the last
// driver left it.
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

// startClock starts the run's timeout, or continues it: the timeout stands still while a run is parked. A row may have a
// start time and no deadline, because the store records the start at the claim and a lost driver may never have stored the
// deadline.
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

// finishInterrupted ends the run or its steps where the stored rows demand it. A former driver may have stored the rows of tasks and
// been lost before it stored the row of the run, which goes last.
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

// continueTask continues one task where the last driver left it.
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

// continueRunning ends an attempt that a former driver left running. It closes a foreach node if all its items have settled.
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

func (r *Run) continueFinishing(t *task) {
	if t.Request != RequestNone {
		r.applyRequest(t, lost(""))
		return
	}
	r.enqueue(t)
}

// continueWaiting opens a wait or a child run again if the former driver may not have opened it. Otherwise the task keeps
// waiting.
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

// giveUp ends a run that has lost too many drives. If its steps have all settled already, the handlers that are left end as
// well.
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

// giveUpOn fails an attempt that was lost, regardless of on_lost and on_error. A settled result or a stored request takes
// precedence.
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

// giveUpHandlers cancels the handlers that have not ended yet.
func (r *Run) giveUpHandlers() {
	reason := gaveUp(r.limitText)
	for _, n := range []*node{r.outcomeHandler(), r.handler(handlerExit)} {
		if n.isOpen() {
			n.tasks(func(t *task) { r.stop(t, "", reason, false) })
		}
	}
}
