package dagrun

import (
	"cmp"
	"fmt"
	"slices"
)

// timeoutExit is the exit code of every body that timed out.
const timeoutExit = 124

// finished applies EvFinished: the end of a body, of a wait or of a publish.
func (r *Run) finished(t *task, e *Event) error {
	waits := t.waits() && t.step.Body != BodyApproval
	switch {
	case t.Attempt != e.Attempt || !t.underWay() && !waits:
		return ErrStale
	case e.Result == nil:
		return ErrEvent
	case t.place == landing:
		t.late = t.late && e.At >= t.deadline
		r.publishEnded(t, *e.Result)
	default:
		if t.Request == RequestTimeout && r.inTime(t, e.At) {
			t.Request = RequestNone
		}
		r.bodyEnded(t, *e.Result)
	}
	return nil
}

// inTime reports whether a body ended before the timeout that was to stop it, although the caller stepped its end later. The
// timeout is the task's own, or the run's.
func (r *Run) inTime(t *task, at Time) bool {
	limit := t.deadline
	if r.rec.Ending == EndingTimeout {
		limit = earliest(limit, r.rec.Deadline)
	}
	return at < limit
}

// gaveUp applies EvLost: this driver will not see how an attempt ends.
func (r *Run) gaveUp(t *task, e *Event) error {
	if !t.underWay() || t.Attempt != e.Attempt {
		return ErrStale
	}
	if t.place == landing && t.Request == RequestNone {
		r.landAgain(t)
		return nil
	}
	r.bodyEnded(t, lost(e.Text))
	return nil
}

// landAgain starts the publish of a task again, because this driver will not see how the current one ends.
func (r *Run) landAgain(t *task) {
	r.move(t, nowhere)
	r.setAlarm(t)
	r.enqueue(t)
}

// committed reports whether the body's effects are durable together with its success, so that no request can undo them.
func (res Result) committed() bool {
	return res.Settled && res.Kind == KindNone && res.SnoozeUntil == 0
}

func lost(why string) Result {
	reason := "lost"
	if why != "" {
		reason += ": " + why
	}
	return Result{Kind: KindLost, Reason: reason}
}

// bodyEnded decides what the end of an attempt means, in the order of the language reference. It handles requests, snoozes
// and lost attempts, and leaves the rest to weigh.
func (r *Run) bodyEnded(t *task, res Result) {
	if res.committed() {
		t.Request, t.RequestBy, t.Marked = RequestNone, "", TaskPending // too late to stop it
	}
	switch {
	case t.Request != RequestNone:
		r.honour(t, res)
	case res.SnoozeUntil > 0:
		r.snooze(t, res)
	case res.Unstarted || res.Kind == KindLost && t.step.OnLost == LostRetry:
		r.lostAttempt(t, res)
	default:
		r.weigh(t, res)
	}
}

// honour carries out the request that ended the attempt.
func (r *Run) honour(t *task, res Result) {
	reason, finishing := t.Reason, t.State == TaskFinishing
	switch t.Request {
	case RequestPause:
		t.Request, t.RequestBy = RequestNone, ""
		r.closeAttempt(t, TaskPaused, Result{Reason: reason})
		r.to(t, TaskPaused)
	case RequestCancel:
		t.take(res)
		r.end(t, TaskCanceled, reason)
	case RequestMark:
		r.mark(t, t.Marked, reason)
	case RequestTimeout:
		t.Request = RequestNone
		if res = timedOut(reason); finishing {
			t.take(res)
			r.fail(t)
			return
		}
		r.weigh(t, res)
	}
}

func timedOut(reason string) Result {
	return Result{Kind: KindTimeout, ExitCode: timeoutExit, HasExit: true, Reason: reason}
}

// snooze ends an attempt for a while: the next attempt begins at SnoozeUntil and does not count as a retry.
func (r *Run) snooze(t *task, res Result) {
	t.Reason = res.Reason
	r.closeAttempt(t, TaskWaiting, Result{Reason: res.Reason})
	t.NextAt, t.Deadline, t.Ref = res.SnoozeUntil, 0, ""
	r.move(t, nowhere)
	r.to(t, TaskWaiting)
}

// lostAttempt starts a lost attempt again, which does not count as a retry.
func (r *Run) lostAttempt(t *task, res Result) {
	r.note(t, "lost", fmt.Sprintf("attempt %d %s", t.Attempt, res.Reason))
	t.take(res)
	r.closeAttempt(t, TaskFailed, res)
	r.again(t)
}

// again sends a task back to pending, so that its dependencies are judged again before it starts.
func (r *Run) again(t *task) {
	t.NextAt, t.Deadline, t.Ref = 0, 0, ""
	r.to(t, TaskPending)
	r.enqueue(t)
}

// weigh judges a result that no request overrules.
func (r *Run) weigh(t *task, res Result) {
	switch {
	case t.step.skips(res):
		t.take(res)
		r.skip(t, fmt.Sprintf("skip exit code %d", res.ExitCode))
	case res.Kind == KindNone && !res.Settled && r.overflows(t, res.Outputs):
		r.bodyFailed(t, Result{
			Kind: KindOutput, HasExit: res.HasExit, ExitCode: res.ExitCode,
			Reason: fmt.Sprintf("the outputs of the run have more than %d bytes: put large data elsewhere and output its address", MaxRunOutputs),
		})
	case res.Kind == KindNone:
		r.bodySucceeded(t, res)
	default:
		r.bodyFailed(t, res)
	}
}

// MaxRunOutputs limits the bytes of outputs of all steps of a run together, because each driver loads all of them. The
// output lists of foreach steps do not count: the core builds them on demand.
const MaxRunOutputs = 4 << 20

func (r *Run) overflows(t *task, outputs JSON) bool {
	return t.ID.Item == "" && r.bytes-t.weight()+len(outputs) > MaxRunOutputs
}

// OutputBytes returns the bytes of outputs of all other tasks, as MaxRunOutputs counts them. It returns 0 for an item,
// because items do not count.
func (r *Run) OutputBytes(id TaskID) int {
	t := r.find(id)
	if t == nil || id.Item != "" {
		return 0
	}
	return r.bytes - t.weight()
}

// weight returns the bytes of a task's outputs that count toward MaxRunOutputs.
func (t *task) weight() int {
	if t.ID.Item != "" {
		return 0
	}
	return len(t.Outputs)
}

// put replaces the outputs of a task; "" removes them.
func (r *Run) put(t *task, outputs JSON) {
	r.bytes -= t.weight()
	t.Outputs = outputs
	r.bytes += t.weight()
}

// skips reports whether a body ended by itself with an exit code that means "nothing to do".
func (s *Step) skips(res Result) bool {
	byItself := res.Kind == KindNone || res.Kind == KindExit
	return byItself && res.HasExit && slices.Contains(s.SkipExit, res.ExitCode)
}

// skip ends a task that has nothing to do, by its condition or its exit code.
func (r *Run) skip(t *task, reason string) {
	r.note(t, "skip", reason)
	r.end(t, TaskSkipped, reason)
}

func (r *Run) bodySucceeded(t *task, res Result) {
	t.take(res)
	r.put(t, res.Outputs)
	t.Reason = cmp.Or(res.Reason, "ran")
	if !t.step.Publish {
		r.to(t, TaskSucceeded)
		return
	}
	r.move(t, nowhere)
	t.NextAt, t.Deadline = 0, 0
	r.to(t, TaskFinishing)
	r.enqueue(t)
}

func (r *Run) bodyFailed(t *task, res Result) {
	t.take(res)
	if res.Kind == KindConfig {
		r.fail(t)
		return
	}
	rule, err := r.matchRule(t)
	switch {
	case err != nil:
		r.misconfigured(t, "on_error: "+err.Error())
	case rule >= 0:
		r.obey(t, rule, res)
	case !r.stopping(t) && t.step.Retry.allows(res, t.Retries):
		r.retry(t, res)
	default:
		r.fail(t)
	}
}

// misconfigured fails a task for a mistake in its spec, which a retry cannot cure.
func (r *Run) misconfigured(t *task, reason string) {
	t.take(Result{Kind: KindConfig, Reason: reason})
	r.fail(t)
}

// fail ends a task as failed, unless continue_on tolerates the failure.
func (r *Run) fail(t *task) {
	c := t.step.ContinueOn
	r.failAs(t, c.Failed || t.HasExit && slices.Contains(c.ExitCodes, t.ExitCode))
}

func (r *Run) failAs(t *task, tolerated bool) {
	r.put(t, "")
	if tolerated && t.step.ContinueOn.MarkSuccess {
		t.CacheKey = ""
		r.end(t, TaskSucceeded, "marked")
		return
	}
	t.Tolerated = tolerated
	r.to(t, TaskFailed)
}

// end moves a task to a state with a reason.
func (r *Run) end(t *task, s State, reason string) {
	t.Reason = reason
	r.to(t, s)
}

// take copies the end of a body into the task's row.
func (t *task) take(res Result) {
	t.Kind, t.ExitCode, t.HasExit, t.Signal = res.Kind, res.ExitCode, res.HasExit, res.Signal
	t.Reason = res.reason()
}

// reason returns the reason that the result brings. A failure without one gets a description of its kind.
func (res Result) reason() string {
	if res.Kind == KindNone {
		return res.Reason
	}
	return cmp.Or(res.Reason, res.String())
}

// String describes in a few words how a body ended.
func (res Result) String() string {
	switch {
	case res.Kind == KindNone:
		return "ran"
	case res.Kind == KindExit && res.HasExit:
		return fmt.Sprintf("exit %d", res.ExitCode)
	case res.Kind == KindSignal:
		return fmt.Sprintf("signal %d", res.Signal)
	case res.Kind == KindTimeout:
		return "timed out"
	default:
		return string(res.Kind)
	}
}

// closeAttempt records an attempt that did not end the task.
func (r *Run) closeAttempt(t *task, s State, res Result) {
	r.attempts = append(r.attempts, AttemptRecord{
		ID: t.ID, Attempt: t.Attempt, Generation: t.Generation, State: s,
		Kind: res.Kind, ExitCode: res.ExitCode, HasExit: res.HasExit, Signal: res.Signal, Reason: res.reason(),
		StartedAt: t.AttemptAt, FinishedAt: r.now,
	})
	t.AttemptAt = 0
}
