package dagrun

import (
	"cmp"
	"fmt"
)

// A retry or a mark may reset tasks of a run that is under way, in the same generation. Other tasks go on meanwhile. A crash may
// store any first part of a batch, and then the next driver decides the control again, before EvBegin. Three rules make it come to
// the same end:
//
//   - The row of the control's target is the first of its batch. So either nothing of the control is durable, or the target's row says
//     by ResetBy that the control was applied, and it is never refused afterwards. If the row has the ID of a later control, the
//     control is refused: it may have been refused before, and if not, the later one has overridden it.
//   - A task keeps its progress if this control has reset it before. ResetFrom still says which dependants the control has to reset.
//   - No task that was reset is judged before Advance. So none of them ends, and no handler begins, in the batch that resets it.

// retryLive resets the task that a retry of a run under way names, and dependants of it. It refuses what target and whyNotAgain
// forbid.
func (r *Run) retryLive(c *Control) Decision {
	t, why := r.target(c)
	if why != "" {
		return r.refused(why)
	}
	if c.overtaken(t) {
		return taskRefused(t, overtakenReason)
	}
	if !c.wasReset(t) {
		if why := cmp.Or(r.whyNotAgain(t, c), r.whyNotStart(t), r.whyNotPass(t.ID.Step, c)); why != "" {
			return taskRefused(t, why)
		}
	}
	if why := r.resetLive(t, c); why != "" {
		return taskRefused(t, why)
	}
	return taskDecision(t, Applied)
}

// target returns the task that a retry of a run under way resets: a step, or one item of it. It returns a problem to tell the sender
// of the control if there is none.
func (r *Run) target(c *Control) (t *task, problem string) {
	switch {
	case !c.Mode.NamesStep():
		return nil, "the run is under way: name the step to repeat (oarlock retry RUN --step STEP), or wait for the end of the run"
	case c.Task == nil || c.Task.Step < 0 || c.Task.Step >= r.graph.Len():
		return nil, "the retry names no step"
	case c.Task.Step >= r.graph.plain:
		return nil, "a handler cannot be repeated while the run is under way: retry the run when it has ended"
	}
	if t = r.find(TaskID{Step: c.Task.Step, Item: c.Task.Item}); t == nil {
		return nil, r.noSuchTask(TaskID{Step: c.Task.Step, Item: c.Task.Item})
	}
	return t, ""
}

// markEnded ends a task that failed, or was canceled, in the state that the sender asks for, and resets the dependants that it kept
// from starting. It refuses what whyNotAgain and the approvals in front of the step forbid.
func (r *Run) markEnded(t *task, c *Control) Decision {
	if c.wasReset(t) {
		_ = r.resetLive(t, c)
		return taskDecision(t, Applied)
	}
	if why := cmp.Or(r.whyNotAgain(t, c), r.whyNotPass(t.ID.Step, c)); why != "" {
		return taskRefused(t, why)
	}
	_ = r.resetLive(t, c)
	r.put(t, c.Outputs)
	r.mark(t, c.As, byWhom("marked", c.By))
	return taskDecision(t, Applied)
}

// whyNotAgain returns the reason why a task must not be reset while the run is under way: no step of the run may start any more, the
// task has not ended, or not in a way that the control repeats. It returns "" if the task may be reset.
func (r *Run) whyNotAgain(t *task, c *Control) string {
	const afterwards = ": retry the run when it has ended"
	begun := ""
	for kind := range handlerKinds {
		if n := r.handler(kind); kind != handlerInit && n.begun() {
			begun = r.graph.StepName(n.index)
		}
	}
	switch {
	case t.node.handler:
		return "a handler cannot be repeated while the run is under way" + afterwards
	case r.rec.Ending != EndingNone:
		return "the run is ending (" + r.endingReason() + ")" + afterwards
	case begun != "":
		return "the run is ending (handler " + begun + " has begun)" + afterwards
	case r.graph.handlers[handlerInit] >= 0 && r.handler(handlerInit).class == classC:
		return "init was canceled, so no step can start" + afterwards
	case c.Verb == VerbMark && t == t.node.main && t.node.each != nil:
		return "the step has items: mark the items"
	case c.Verb == VerbRetry && t.ID.Item != "" && t.step.Foreach.FailFast && r.otherItemFailed(t):
		return "the foreach step has fail_fast, and another item of it has failed: retry that item first, or the step"
	}
	return whyNotRepeat(t, c)
}

// whyNotRepeat returns the reason why a task is not in a state from which a control may reset it. It returns "" if it is.
func whyNotRepeat(t *task, c *Control) string {
	ended := t.State.Terminal()
	if t == t.group.main {
		ended = t.group.class != classOpen
	}
	switch {
	case t.grown():
		return "the step is running: retry an item of it (--step STEP/ITEM), or wait for its end"
	case t.State <= TaskReady:
		return "the step is " + t.State.String() + ": there is nothing to repeat"
	case t.State == TaskPaused:
		return "the step is paused: resume it"
	case t.State == TaskReplaced && !ended:
		return "a replacement of the step is under way: wait for its end, or cancel it"
	case !ended:
		return "the step is " + t.State.String() + ": wait for its end, or cancel it"
	case c.Verb == VerbRetry && c.Mode == RetryFrom || t.failedGroup():
		return ""
	default:
		return "the step is " + t.State.String() + ": repeat it together with the steps that depend on it (oarlock retry RUN --from STEP)"
	}
}

// whyNotStart returns the reason why a step would end again at once if a retry reset it: its parents rule it out, and they stay as
// they are. It names the parent to repeat first. It returns "" if the step may start now or later.
func (r *Run) whyNotStart(t *task) string {
	if r.edges(t) != no {
		return ""
	}
	n := t.node
	for _, c := range []class{classF, classC, classK} {
		if parent := r.parentAs(t.node, c); parent != nil {
			n = parent
			break
		}
	}
	for n.state == TaskUpstreamFailed && r.parentAs(n, classF) != nil {
		n = r.parentAs(n, classF)
	}
	if n == t.node {
		return "no parent of the step failed, and its trigger rule is " + t.step.Rule.String()
	}
	mode := RetryStep
	if n.state == TaskSkipped {
		mode = RetryFrom
	}
	name := n.main.step.Name
	return fmt.Sprintf("step %s is %s and keeps the step from starting: repeat step %s (oarlock retry RUN --%s %s)", name, n.state, name, mode, name)
}

// parentAs returns the first parent of a step that counts for the step as class c, or nil if there is none.
func (r *Run) parentAs(n *node, c class) *node {
	for _, l := range r.graph.parents.of(n.index) {
		if parent := &r.nodes[l.Step]; parent.gives[l.State] == c {
			return parent
		}
	}
	return nil
}

// failedGroup reports whether the task failed, tolerated or not, is upstream_failed or was canceled. For a replaced task the
// replacements decide.
func (t *task) failedGroup() bool {
	if t.State == TaskReplaced && t == t.group.main {
		return t.group.class == classF || t.group.class == classC
	}
	return t.State == TaskFailed || t.State == TaskUpstreamFailed || t.State == TaskCanceled
}

// otherItemFailed reports whether an item of t's foreach step other than t has failed. A retry of t would be stopped by fail_fast
// after a crash, because the rows do not tell which of the two came later.
func (r *Run) otherItemFailed(t *task) bool {
	for _, g := range t.node.each.items {
		if g != t.group && g.class == classF {
			return true
		}
	}
	return false
}

// resetLive resets t, which a control of a run under way names, and the dependants that pickLive finds, and has all steps that have
// not started judged again. It takes time linear in the size of the run. If a dependant is under way, it changes nothing and returns
// the reason for a refusal, and else "".
func (r *Run) resetLive(t *task, c *Control) (problem string) {
	fates := make([]fate, r.graph.plain)
	fates[t.ID.Step] = anew
	if t != t.node.main {
		fates[t.ID.Step] = partly
	}
	if problem := r.pickLive(fates, t, c); problem != "" {
		return problem
	}
	if !c.wasReset(t) && !t.pinned {
		t.pinned = true
		r.pinned = append(r.pinned, t)
	}
	if t.ID.Alt > 0 {
		r.reset(t, c)
	}
	r.resetSteps(fates, c)
	r.retally()
	r.recountAll()
	for i := range r.graph.plain {
		if n := &r.nodes[i]; n.main.State <= TaskReady {
			r.enqueue(n.main)
		}
	}
	return ""
}

// pickLive sets the fates of the steps that depend, directly or not, on the target t of a control. RetryFrom resets all of them that
// have ended. It is refused if one of them is under way, unless a try before a crash was applied. Other controls reset the ones
// that ended without having started: because a step that is reset failed, or because a cancel of it canceled them too. A step stays
// upstream_failed if another failed parent is enough for that, and as it is if a person marked or canceled this very step.
func (r *Run) pickLive(fates []fate, t *task, c *Control) (problem string) {
	from, again := c.Verb == VerbRetry && c.Mode == RetryFrom, c.wasReset(t)
	for _, i := range r.graph.order {
		n := &r.nodes[i]
		switch d := n.main; {
		case n == t.node || !r.follows(n, fates):
		case c.wasReset(d):
			fates[i] = anew
		case from && d.State <= TaskReady:
			fates[i] = passed
		case from && n.class == classOpen && !again:
			return fmt.Sprintf("step %s depends on the step and is %s: wait for its end, or cancel it", d.step.Name, d.State)
		case n.class == classOpen:
		case from:
			fates[i] = anew
		case d.StartedAt != 0 || d.Marked != TaskPending:
		case d.State == TaskUpstreamFailed, d.State == TaskSkipped, d.State == TaskCanceled && r.followsCanceled(n, fates, t, c):
			fates[i] = anew
		}
	}
	return ""
}

// followsCanceled reports whether a parent of a step is picked that the control c found canceled. If target is a replacement of that
// parent, the state of target itself counts, because after a crash no row has the former state of the parent.
func (r *Run) followsCanceled(n *node, fates []fate, target *task, c *Control) bool {
	for _, l := range r.graph.parents.of(n.index) {
		parent := &r.nodes[l.Step]
		was := c.found(parent.main, parent.state)
		if parent == target.node && target.ID.Alt > 0 && target.ID.Item == "" {
			was = c.found(target, target.State)
		}
		if fates[l.Step] != keep && was == TaskCanceled {
			return true
		}
	}
	return false
}

// found returns the state in which the control found a task: the given one, unless the control has reset the task already.
func (c *Control) found(t *task, state State) State {
	if c.wasReset(t) {
		return t.ResetFrom
	}
	return state
}

// refresh has the tasks judged that were reset while the run is under way, because the resets are durable now.
func (r *Run) refresh() {
	for _, t := range r.fresh {
		t.fresh = false
		r.enqueue(t)
	}
	for _, t := range r.pinned {
		t.pinned = false
	}
	clear(r.fresh)
	clear(r.pinned)
	r.fresh, r.pinned = r.fresh[:0], r.pinned[:0]
}
