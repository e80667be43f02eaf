package dagrun

import (
	"cmp"
	"fmt"
)

// endRun sets the run's ending, and ends its open steps and handlers accordingly. It does nothing if the run has a stronger
// ending already.
func (r *Run) endRun(e Ending, by, text string) {
	if e < r.rec.Ending {
		return
	}
	r.rec.Ending, r.rec.EndingBy, r.rec.EndingText = e, by, text
	if e >= EndingCancel && r.rec.PausedBy != "" {
		r.unpause()
	}
	r.endSteps()
	r.endHandlers()
}

// endSteps ends every open task of a step as the run's ending demands.
func (r *Run) endSteps() {
	reason := r.endingReason()
	for i := range r.graph.plain {
		r.nodes[i].tasks(func(t *task) { r.endTask(t, reason) })
	}
}

// endTask ends one task as the run's ending demands.
func (r *Run) endTask(t *task, reason string) {
	switch r.rec.Ending {
	case EndingRefused:
		r.drop(t, reason)
	case EndingTimeout:
		r.timeOut(t, reason)
	default:
		r.stop(t, r.rec.EndingBy, reason, r.rec.Ending == EndingNow)
	}
}

// timeOut fails a task that is under way or waits when the run's time is up. It cancels any other open task.
func (r *Run) timeOut(t *task, reason string) {
	switch {
	case !t.runs() && t.State != TaskFinishing && t.State != TaskWaiting:
		r.stop(t, "", reason, false)
	case t.Request != RequestNone && t.Request != RequestPause:
	case t.engaged():
		r.request(t, RequestTimeout, "", reason, false)
	case t.State == TaskFinishing:
		t.take(timedOut(reason))
		r.fail(t)
	default:
		r.weigh(t, timedOut(reason))
	}
}

// drop cancels a task at once, without waiting for its body or its child run to end.
func (r *Run) drop(t *task, reason string) {
	if t.runs() && t.settled != nil {
		r.bodyEnded(t, *t.settled)
	}
	if t.State.Terminal() || t.grown() {
		return
	}
	if t.engaged() {
		t.Request = RequestCancel
		r.halt(t, true)
	}
	r.cancel(t, reason)
}

// refuse ends the run as failed, at once and without handlers.
func (r *Run) refuse(text string) error {
	if r.rec.Ending == EndingRefused {
		return ErrStale
	}
	r.endRun(EndingRefused, "", text)
	return nil
}

// stopping reports whether the run's ending keeps a task from starting. It never does for a handler.
func (r *Run) stopping(t *task) bool { return r.rec.Ending != EndingNone && !t.node.handler }

// endingReason returns the reason for tasks that the run's ending cancels.
func (r *Run) endingReason() string {
	switch r.rec.Ending {
	case EndingFailFast:
		return "fail fast: step " + r.rec.EndingText + " failed"
	case EndingInit:
		return "init failed"
	case EndingTimeout:
		return "run timed out after " + r.graph.spec.Timeout.String()
	case EndingDrives:
		return gaveUp(r.rec.EndingText)
	case EndingRefused:
		return r.rec.EndingText
	default:
		return canceledBy(r.rec.EndingBy)
	}
}

func gaveUp(text string) string { return cmp.Or(text, "gave up after too many lost drives") }

func canceledBy(by string) string { return byWhom("canceled", by) }

func byWhom(done, by string) string {
	if by == "" {
		return done
	}
	return fmt.Sprintf("%s by %s", done, by)
}

// failFast reacts to a failure that was not tolerated: under fail_fast it stops the other items of the foreach node, or ends
// the run.
func (r *Run) failFast(t *task) {
	if f := t.node.main.step.Foreach; f != nil && f.FailFast && t.ID.Item != "" && t.node.class == classOpen {
		r.stopItems(t.node, "fail fast: step "+r.graph.TaskName(t.ID)+" failed")
	}
	if r.graph.spec.FailFast && r.rec.Ending == EndingNone && !t.node.handler {
		r.endRun(EndingFailFast, "", r.graph.TaskName(t.ID))
	}
}

func (r *Run) stopItems(n *node, reason string) {
	n.tasks(func(t *task) {
		if t != n.main {
			r.stop(t, "", reason, false)
		}
	})
}
