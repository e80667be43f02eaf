package dagrun

import (
	"fmt"
	"strings"
)

// Explain returns the reason why a task is not running, or how it ended, in a few words for people.
func (r *Run) Explain(id TaskID) string {
	t := r.find(id)
	if t == nil {
		return "no such task"
	}
	if t.State.Terminal() {
		return t.Reason
	}
	if t.Request != RequestNone {
		return r.explainRequest(t)
	}
	switch t.State {
	case TaskPending, TaskReady:
		return r.explainStart(t)
	case TaskRunning:
		return r.explainRunning(t)
	case TaskFinishing:
		return r.explainPublish(t)
	case TaskRetrying:
		return fmt.Sprintf("%s; retries at %s", t.Reason, r.timeText(t.NextAt))
	case TaskWaiting:
		return r.explainWait(t)
	default:
		return t.Reason
	}
}

func (r *Run) explainRequest(t *task) string {
	switch t.Request {
	case RequestPause:
		return "being paused: " + t.Reason
	case RequestMark:
		return "being marked: " + t.Reason
	case RequestTimeout:
		return "being stopped: " + t.Reason
	default:
		return "being canceled: " + t.Reason
	}
}

func (r *Run) explainStart(t *task) string {
	switch t.place {
	case probing:
		return "looking in the cache"
	case capped, held:
		if ahead := r.ahead(t); ahead != nil {
			return r.explainStart(ahead)
		}
		if t.place == capped {
			return fmt.Sprintf("max_concurrent %d of %s reached", t.node.each.limit, t.node.main.step.Name)
		}
	case offered:
		if t.Reason != "" {
			return t.Reason
		}
		if t.step.Pool != "" {
			return "pool " + t.step.Pool
		}
		return "waits for a slot"
	}
	if names := r.parentsOf(t, classOpen); len(names) > 0 && t == t.node.main {
		return "waits for: " + some(names)
	}
	return r.explainHeld(t)
}

// ahead returns a task that fills the limit which holds t back, and that waits for a slot itself. Then slots are the
// bottleneck of the run, and a higher limit would start nothing. It returns nil if all tasks that fill the limit have begun,
// or if no limit holds t back.
func (r *Run) ahead(t *task) *task {
	for _, o := range r.bags[offered].tasks {
		if t.place == held && !r.room() || t.place == capped && o.node == t.node {
			return o
		}
	}
	return nil
}

// explainHeld returns why the run, rather than the task itself, keeps a task from starting.
func (r *Run) explainHeld(t *task) string {
	switch {
	case r.rec.PausedBy != "":
		return "run paused by " + r.rec.PausedBy
	case r.draining:
		return "this driver is draining: another one will go on"
	case !r.begun:
		return "waits for a driver"
	case t.node.handler && t.node != r.turn:
		return "waits for the steps"
	case !t.node.handler && r.handler(handlerInit).isOpen():
		return "waits for: " + InitHandler
	case t.place == held && !r.room():
		return fmt.Sprintf("max_active_steps %d reached", r.graph.spec.MaxActive)
	default:
		return "about to start"
	}
}

func (r *Run) explainRunning(t *task) string {
	if t.grows() {
		each := t.node.each
		return fmt.Sprintf("%d of %d items open", each.open, len(each.items))
	}
	return "running since " + r.timeText(t.AttemptAt)
}

func (r *Run) explainPublish(t *task) string {
	switch t.place {
	case landing:
		return "publishing"
	case wanting:
		return "pool " + t.step.PublishPool
	default:
		return "publish held: " + r.explainHeld(t)
	}
}

func (r *Run) explainWait(t *task) string {
	var parts []string
	switch {
	case !t.waits():
		return strings.TrimPrefix(t.Reason+"; goes on at "+r.timeText(t.NextAt), "; ")
	case t.step.Body == BodyApproval:
		parts = append(parts, t.step.waitsForApproval())
	case t.step.Body == BodyChild && t.Ref != "":
		parts = append(parts, "child run "+t.Ref)
	case t.step.Body == BodyChild:
		parts = append(parts, "child run being made")
	case t.NextAt != 0:
		parts = append(parts, "waits until "+r.timeText(t.NextAt))
	default:
		parts = append(parts, "waits")
	}
	if t.Deadline != 0 {
		parts = append(parts, "times out at "+r.timeText(t.Deadline))
	}
	return strings.Join(parts, ", ")
}

// timeText formats a time for a reason. It writes the time itself and not how far away it is, because a reason is stored and
// read later.
func (r *Run) timeText(at Time) string {
	if r.opts.TimeText != nil {
		return r.opts.TimeText(at)
	}
	return Duration(at).String()
}

// Reason returns why the run is in its state. It returns "" while the run simply runs.
func (r *Run) Reason() string {
	switch {
	case r.over && r.verdict == nil && r.rec.State.Terminal():
		return r.rec.Reason
	case r.verdict != nil:
		return r.verdict.Reason
	case r.rec.Ending != EndingNone:
		return r.endingReason()
	case r.rec.PausedBy != "":
		return "run paused by " + r.rec.PausedBy
	case r.leave != nil && !r.leave.Drained:
		return r.waitReason()
	default:
		return ""
	}
}

// waitReason returns the reason of the first waiting task in graph order.
func (r *Run) waitReason() string {
	for i := range r.nodes {
		found := ""
		r.nodes[i].tasks(func(t *task) {
			if found == "" && (t.State == TaskWaiting || t.State == TaskRetrying || t.State == TaskPaused) {
				found = fmt.Sprintf("step %s: %s", r.graph.TaskName(t.ID), r.Explain(t.ID))
			}
		})
		if found != "" {
			return found
		}
	}
	return ""
}
