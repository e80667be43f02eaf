package dagrun

import "cmp"

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
	r.endUnsaid()
	if r.driveLimit {
		r.giveUp(handlers)
	}
	r.begun = true
	for i := range r.nodes {
		r.nodes[i].tasks(func(t *task) { r.takeUp(t, text) })
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

// endUnsaid ends the run or its steps where the stored rows demand it. A former driver may have stored the rows of tasks and
// been lost before it stored the row of the run, which goes last.
func (r *Run) endUnsaid() {
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

// takeUp continues one task where the last driver left it.
func (r *Run) takeUp(t *task, text string) {
	switch t.State {
	case TaskPending, TaskReady:
		r.again(t)
	case TaskRunning:
		r.takeUpRunning(t, text)
	case TaskFinishing:
		r.takeUpFinishing(t)
	case TaskWaiting:
		r.takeUpWaiting(t)
	case TaskRetrying:
		r.setAlarm(t)
	}
}

// takeUpRunning ends an attempt that a former driver left running. It closes a foreach node if all its items have settled.
func (r *Run) takeUpRunning(t *task, text string) {
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

func (r *Run) takeUpFinishing(t *task) {
	if t.Request != RequestNone {
		r.honour(t, lost(""))
		return
	}
	r.enqueue(t)
}

// takeUpWaiting opens a wait or a child run again if the former driver may not have opened it. Otherwise the task keeps
// waiting.
func (r *Run) takeUpWaiting(t *task) {
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
		r.takeUpRunning(t, "")
	case t.State == TaskFinishing && t.Request != RequestNone:
		r.takeUpFinishing(t)
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
