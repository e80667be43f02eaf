package dagrun

// request stores a request to end a task that is under way, here or in a child run, and has the caller end the task.
func (r *Run) request(t *task, q Request, by, reason string, now bool) {
	t.Request, t.RequestBy, t.Reason = q, by, reason
	r.changed(t)
	r.setAlarm(t)
	r.halt(t, now)
}

// halt adds the action that ends the body or child run of a task. If the Ref of a child run is not known yet, the child run
// is cancelled after EvWaits names it.
func (r *Run) halt(t *task, now bool) {
	switch {
	case t.underWay():
		r.act(t, Action{Kind: ActKill, Attempt: t.Attempt, Cause: t.Request, Now: now})
	case t.childRuns() && t.Ref != "" && (r.begun || r.rec.Ending == EndingRefused):
		r.act(t, Action{Kind: ActCancelChild, Attempt: t.Attempt, Ref: t.Ref, Now: now})
	}
}

// childRuns reports whether the task waits for a child run, which ends by a VerbChildEnded control.
func (t *task) childRuns() bool { return t.waits() && t.step.Body == BodyChild }

// engaged reports whether a body, a publish or a child run must end before the task can. Before EvBegin this includes a task
// recorded as running, because EvBegin closes its attempt.
func (t *task) engaged() bool {
	return t.underWay() || t.childRuns() || t.runs()
}

// cancel ends a task that has nothing under way as canceled.
func (r *Run) cancel(t *task, reason string) { r.end(t, TaskCanceled, reason) }

// stop cancels a task: at once, or after its body, publish or child run has ended.
func (r *Run) stop(t *task, by, reason string, now bool) {
	switch {
	case t.State.Terminal() || t.grown():
	case !t.engaged():
		r.cancel(t, reason)
	case t.Request != RequestCancel:
		r.request(t, RequestCancel, by, reason, now)
	case now:
		r.halt(t, true)
	}
}
