package dagrun

import "cmp"

// waits reports whether an attempt of the task waits. A task that snoozes has no attempt under way.
func (t *task) waits() bool { return t.State == TaskWaiting && t.AttemptAt != 0 }

// wait begins an attempt that waits outside of this worker instead of running a body.
func (r *Run) wait(t *task) {
	r.attempt(t)
	if t.step.Timeout > 0 {
		t.Deadline = after(r.now, t.step.Timeout)
	}
	r.to(t, TaskWaiting)
	r.ask(t)
}

// ask has the caller open the task's wait or child run, or blocks the task if nothing may start.
func (r *Run) ask(t *task) {
	if r.halted() {
		r.move(t, blocked)
		return
	}
	r.move(t, opening)
	r.act(t, Action{Kind: ActOpen, Attempt: t.Attempt, Ref: t.Ref})
}

// waits applies EvWaits, the answer to an ActOpen.
func (r *Run) waits(t *task, e *Event) error {
	if t.place != opening || t.Attempt != e.Attempt {
		return ErrStale
	}
	r.rest(t)
	t.NextAt, t.Ref = e.Until, cmp.Or(e.Ref, t.Ref)
	if t.Request == RequestNone {
		t.Reason = cmp.Or(e.Text, t.Reason)
	}
	r.changed(t)
	r.setAlarm(t)
	if t.Request != RequestNone {
		r.halt(t, r.rec.Ending == EndingNow)
	}
	return nil
}

// rest moves an opened task to the place where it waits.
func (r *Run) rest(t *task) {
	if t.step.Body == BodyChild {
		r.move(t, away)
	} else {
		r.move(t, nowhere)
	}
}

// wake handles the alarm of a waiting task.
func (r *Run) wake(t *task) {
	switch {
	case t.Deadline != 0 && (t.NextAt == 0 || t.Deadline <= t.NextAt):
		r.expire(t)
	case !t.waits():
		r.again(t)
	default:
		t.NextAt = 0
		r.changed(t)
		r.setAlarm(t)
		r.ask(t)
	}
}

// expire ends a wait after its timeout. A child run has to be stopped first.
func (r *Run) expire(t *task) {
	reason := "timed out after " + t.step.Timeout.String()
	if t.step.Body == BodyChild {
		r.request(t, RequestTimeout, "", reason, false)
		return
	}
	r.weigh(t, timedOut(reason))
}
