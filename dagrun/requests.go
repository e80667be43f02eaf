package dagrun

// request asks a task that is under way, here or in a child run, to end, and remembers why.
func (r *Run) request(t *task, q Request, by, reason string, now bool) {
	t.Request, t.RequestBy, t.Reason = q, by, reason
	r.changed(t)
	r.setAlarm(t)
	r.halt(t, now)
}

// halt has the caller end what a request is about. A child run without a name is cancelled when it gets one.
func (r *Run) halt(t *task, now bool) {
	switch {
	case t.underWay():
		r.act(t, Action{Kind: ActKill, Attempt: t.Attempt, Cause: t.Request, Now: now})
	case t.childRuns() && t.Ref != "" && (r.begun || r.rec.Ending == EndingRefused):
		r.act(t, Action{Kind: ActCancelChild, Attempt: t.Attempt, Ref: t.Ref, Now: now})
	}
}

// childRuns says whether the task waits for a child run, which ends by a ChildEnded control.
func (t *task) childRuns() bool { return t.waits() && t.step.Body == BodyChild }

// engaged says whether a task cannot end before something outside has: a body, a publish, a child run. Before
// EvBegin a task recorded as running counts as well: its attempt is closed then.
func (t *task) engaged() bool {
	return t.underWay() || t.childRuns() || t.runs()
}

// cancel ends a task that has nothing under way.
func (r *Run) cancel(t *task, reason string) { r.end(t, TaskCanceled, reason) }

// stop ends a task by cancel, at once or as soon as what is under way has ended.
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
