package dagrun

import "cmp"

func (r *Run) decideTask(t *task, c *Control) Decision {
	switch c.Verb {
	case VerbCancel:
		return r.cancelTask(t, c)
	case VerbPause:
		return r.pauseTask(t, c)
	case VerbResume:
		return r.resumeTask(t)
	case VerbApprove, VerbReject:
		return r.answerApproval(t, c)
	case VerbMark:
		return r.markTask(t, c)
	default:
		return r.endChild(t, c)
	}
}

// taskDecision returns the answer to a control of a task.
func taskDecision(t *task, o Outcome) Decision { return Decision{Outcome: o, State: t.State.String()} }

func taskRefused(t *task, why string) Decision {
	d := taskDecision(t, Refused)
	d.Message = why
	return d
}

// settledBy returns the answer to a control that ends a task: applied, or accepted while the body or child run still has to
// end.
func settledBy(t *task) Decision {
	if t.Request != RequestNone {
		return taskDecision(t, Accepted)
	}
	return taskDecision(t, Applied)
}

// cancelTask cancels a task and all its dependants that have not started. The dependants' records come before the control's:
// if a crash stores only part of the batch, the control is still undecided and the next driver decides it again.
func (r *Run) cancelTask(t *task, c *Control) Decision {
	if why := r.whyNotCancel(t); why != "" {
		return taskRefused(t, why)
	}
	reason := canceledBy(c.By)
	r.cancelDependants(t.node, reason)
	if t.grown() {
		return r.cancelItems(t, c.By, reason, c.Now)
	}
	r.stop(t, c.By, reason, c.Now)
	return settledBy(t)
}

func (r *Run) whyNotCancel(t *task) string {
	switch {
	case t.State.Terminal():
		return "it is " + t.State.String()
	case !r.hasCome(t):
		return "its turn has not come"
	default:
		return ""
	}
}

// hasCome reports whether the turn of a handler has come. For other tasks it is always true.
func (r *Run) hasCome(t *task) bool { return !t.node.handler || t.known || t.node == r.turn }

func (r *Run) cancelItems(t *task, by, reason string, now bool) Decision {
	t.node.tasks(func(item *task) {
		if item != t {
			r.stop(item, by, reason, now)
		}
	})
	if t.node.each.open > 0 {
		return taskDecision(t, Accepted)
	}
	r.closeForeach(t.node) // needed if a former driver was lost before it closed the node
	return taskDecision(t, Applied)
}

// cancelDependants cancels the direct and indirect dependants of a step that have not started.
func (r *Run) cancelDependants(n *node, reason string) {
	seen := make(map[int]bool)
	reach := []int{n.index}
	for k := 0; k < len(reach); k++ {
		for _, l := range r.graph.children.of(reach[k]) {
			if !seen[l.Step] {
				seen[l.Step] = true
				reach = append(reach, l.Step)
			}
		}
	}
	for _, i := range reach[1:] {
		t := r.nodes[i].main
		if !t.State.Terminal() && t.StartedAt == 0 && !t.grown() {
			r.cancel(t, reason)
		}
	}
}

// pauseTask holds a task that has not begun, and stops a task that has.
func (r *Run) pauseTask(t *task, c *Control) Decision {
	if t.grown() {
		return r.pauseItems(t, c.By)
	}
	if why := r.whyNotPause(t); why != "" {
		return taskRefused(t, why)
	}
	r.pause(t, c.By)
	return settledBy(t)
}

func (r *Run) whyNotPause(t *task) string {
	switch {
	case t.node.handler:
		return "handlers cannot be paused: pause the run"
	case r.stopping(t):
		return "the run is ending"
	case t.State == TaskPaused:
		return "it is paused already"
	case t.State == TaskWaiting || t.State == TaskFinishing || t.State.Terminal():
		return "it is " + t.State.String()
	case t.Request != RequestNone:
		return "it is being stopped already"
	default:
		return ""
	}
}

func (r *Run) pause(t *task, by string) {
	reason := byWhom("paused", by)
	if t.State == TaskRunning {
		r.request(t, RequestPause, by, reason, false)
		return
	}
	t.Reason = reason
	r.to(t, TaskPaused)
}

// pauseItems pauses all items of a foreach node that can be paused.
func (r *Run) pauseItems(t *task, by string) Decision {
	paused, stopping := 0, 0
	t.node.tasks(func(item *task) {
		if item == t || r.whyNotPause(item) != "" {
			return
		}
		r.pause(item, by)
		if item.State == TaskPaused {
			paused++
		} else {
			stopping++
		}
	})
	switch {
	case stopping > 0:
		return taskDecision(t, Accepted)
	case paused > 0:
		return taskDecision(t, Applied)
	default:
		return taskRefused(t, "none of its items can be paused")
	}
}

func (r *Run) resumeTask(t *task) Decision {
	if t.grown() {
		return r.resumeItems(t)
	}
	switch {
	case t.State == TaskPaused:
		r.resume(t)
		return taskDecision(t, Applied)
	case t.Request == RequestPause:
		return taskRefused(t, "it is still stopping: try again when it is paused")
	default:
		return taskRefused(t, "it is not paused but "+t.State.String())
	}
}

func (r *Run) resumeItems(t *task) Decision {
	d := taskRefused(t, "none of its items is paused")
	t.node.tasks(func(item *task) {
		if item.State == TaskPaused {
			r.resume(item)
			d = taskDecision(t, Applied)
		}
	})
	return d
}

// resume continues a paused task: it waits for the rest of its backoff, or is judged again.
func (r *Run) resume(t *task) {
	t.Reason = ""
	if t.NextAt != 0 {
		r.to(t, TaskRetrying)
		return
	}
	r.again(t)
}

// markTask sets the state of a task that a user asks for, after its body or child run has ended.
func (r *Run) markTask(t *task, c *Control) Decision {
	if why := cmp.Or(r.whyNotMark(t, c.As), r.whyNotPass(t.ID.Step, c)); why != "" {
		return taskRefused(t, why)
	}
	reason := byWhom("marked", c.By)
	r.put(t, c.Outputs)
	if t.engaged() {
		t.Marked = c.As
		r.request(t, RequestMark, c.By, reason, false)
	} else {
		r.mark(t, c.As, reason)
	}
	return settledBy(t)
}

func (r *Run) mark(t *task, as State, reason string) {
	outputs := t.Outputs
	r.clearResult(t)
	r.put(t, outputs)
	t.CacheKey = "" // a user's claim is not a result that other runs may take from the cache
	r.end(t, as, reason)
}

func markable(as State) bool { return as == TaskSucceeded || as == TaskFailed || as == TaskSkipped }

func (r *Run) whyNotMark(t *task, as State) string {
	switch {
	case !markable(as):
		return "a task can be marked succeeded, failed or skipped"
	case t.State.Terminal():
		return "it is " + t.State.String() + ": retry the run instead"
	case t.grown():
		return "it has items: mark those"
	case !r.hasCome(t):
		return "its turn has not come"
	case t.Request != RequestNone && t.Request != RequestPause:
		return "it is being stopped already"
	default:
		return ""
	}
}

// endChild ends the attempt of a task that waits for a child run, with the child run's result.
func (r *Run) endChild(t *task, c *Control) Decision {
	if !t.childRuns() || t.Ref != "" && t.Ref != c.Ref {
		return taskRefused(t, "it does not wait for this child run")
	}
	if c.Result == nil {
		return taskRefused(t, "the control does not say how the child run ended")
	}
	t.Ref = c.Ref
	r.bodyEnded(t, *c.Result)
	return taskDecision(t, Applied)
}
