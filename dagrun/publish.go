package dagrun

import "fmt"

// land starts the publish of a finishing task, or waits until the publish may start.
func (r *Run) land(t *task) {
	switch {
	case r.stopping(t):
		r.endTask(t, r.endingReason())
	case r.halted():
		r.move(t, blocked)
	case t.step.PublishPool != "":
		t.since = r.now
		r.want(t, wanting)
	default:
		r.publish(t)
	}
}

func (r *Run) publish(t *task) {
	t.deadline, t.late = 0, false
	r.move(t, landing)
	r.setAlarm(t)
	r.act(t, Action{Kind: ActStart, Attempt: t.Attempt, Publish: true})
}

// publishEnded decides what the end of a publish means. Of the policies only retry_policy applies, with a separate budget.
func (r *Run) publishEnded(t *task, res Result) {
	if t.late {
		res = timedOut("timed out after " + t.step.PublishTimeout.String())
	}
	switch {
	case t.Request != RequestNone:
		r.honour(t, res)
	case res.Kind == KindNone:
		r.to(t, TaskSucceeded)
	case res.Unstarted:
		r.landAgain(t)
	case !r.stopping(t) && t.step.Retry.allowsPublish(res, t.PublishTries):
		r.retryPublish(t, res)
	default:
		t.take(res)
		t.Reason = "publish: " + t.Reason
		t.Kind = KindPublish
		r.fail(t)
	}
}

// publishLate stops a publish that has exceeded its time. The timeout is not recorded: if this driver is lost, the next
// driver starts the publish again.
func (r *Run) publishLate(t *task) {
	t.late = true
	r.act(t, Action{Kind: ActKill, Attempt: t.Attempt, Cause: RequestTimeout})
}

// retryPublish schedules the next try of a publish. The attempt and its outputs stay, because the body has succeeded.
func (r *Run) retryPublish(t *task, res Result) {
	t.NextAt = after(r.now, r.backoff(t, t.PublishTries))
	t.PublishTries++
	t.Publishing = true
	t.Reason = "publish: " + res.reason()
	r.note(t, "publish", fmt.Sprintf("publish of attempt %d, try %d: %s; tries again in %s", t.Attempt, t.PublishTries, res.reason(), Duration(t.NextAt-r.now)))
	r.to(t, TaskRetrying)
}

func (r *Run) publishAgain(t *task) {
	t.Publishing, t.NextAt, t.Reason = false, 0, "ran"
	r.to(t, TaskFinishing)
	r.enqueue(t)
}
