package dagrun

import (
	"fmt"
	"slices"
)

// retryRun resets the tasks that a retry of a finished run starts again. The caller steps the control before EvBegin. After
// a crash the caller steps the same control again: tasks that are in the new generation already count as reset, and keep
// their progress.
func (r *Run) retryRun(c *Control) Decision {
	switch {
	case r.begun || r.rec.State != RunQueued:
		return r.refused("the run is active: wait for its end, or cancel it")
	case r.rec.Generation < 2 || c.Generation != r.rec.Generation:
		return r.refused(fmt.Sprintf("the retry is for generation %d, the run is at %d", c.Generation, r.rec.Generation))
	}
	picked, problem := r.pick(c)
	if problem != "" {
		return r.refused(problem)
	}
	if !slices.ContainsFunc(picked, func(f fate) bool { return f != keep }) && !r.handlersFailed() {
		return r.refused("nothing to reset: no task failed or was canceled")
	}
	r.resetSteps(picked, c)
	r.resetHandlers()
	r.rec = RunRecord{State: RunQueued, Generation: r.rec.Generation}
	r.retally()
	r.recountAll()
	return r.decision(Applied)
}

// fate is the effect of a retry on a step.
type fate uint8

const (
	keep   fate = iota
	partly      // only some of its items or replacements are reset
	anew        // the step starts from scratch, without its former items and replacements
)

// pick decides the fate of every step. It returns a problem for the sender of the control, or "".
func (r *Run) pick(c *Control) (fates []fate, problem string) {
	fates = make([]fate, r.graph.plain)
	switch c.Mode {
	case RetryAll:
		for i := range fates {
			fates[i] = anew
		}
		return fates, ""
	case RetryFailed:
		for i := range fates {
			fates[i] = r.fateOfFailed(&r.nodes[i])
		}
		r.pickDependants(fates)
		return fates, ""
	}
	if problem := r.pickStep(fates, c.Task); problem != "" {
		return nil, problem
	}
	if problem := r.whyNotPass(c.Task.Step, c); problem != "" {
		return nil, problem
	}
	if c.Mode == RetryFrom {
		r.pickDependants(fates)
	}
	return fates, ""
}

// pickStep picks one step, or one item of a step. It returns a problem for the sender of the control, or "".
func (r *Run) pickStep(fates []fate, id *TaskID) (problem string) {
	if id == nil || id.Step < 0 || id.Step >= len(fates) {
		return "say which step to retry"
	}
	if id.Item == "" {
		fates[id.Step] = anew
		return ""
	}
	if r.find(TaskID{Step: id.Step, Item: id.Item}) == nil {
		return "the step has no such item"
	}
	fates[id.Step] = partly
	return ""
}

// fateOfFailed returns the effect of RetryFailed on one step.
func (r *Run) fateOfFailed(n *node) fate {
	if n.each == nil && r.toRetry(n.main) {
		return anew
	}
	f := keep
	n.tasks(func(t *task) {
		if t != n.main && r.toRetry(t) {
			f = partly
		}
	})
	return f
}

// toRetry reports whether RetryFailed resets a task.
func (r *Run) toRetry(t *task) bool {
	c := classOf(t)
	return c == classF || c == classC || r.wasReset(t)
}

// wasReset reports whether an earlier try of this retry, which a crash interrupted, has reset a task already.
func (r *Run) wasReset(t *task) bool { return t.stored && t.Generation == r.rec.Generation }

// pickDependants adds every step that depends on a picked step. It leaves out steps that a failure elsewhere still blocks.
func (r *Run) pickDependants(fates []fate) {
	for _, i := range r.graph.order {
		depends, blocked := false, false
		for _, l := range r.graph.parents.of(int(i)) {
			depends = depends || fates[l.Step] != keep
			blocked = blocked || fates[l.Step] == keep && r.nodes[l.Step].gives[l.State] == classF
		}
		t := r.nodes[i].main
		if depends && !(blocked && t.State == TaskUpstreamFailed && t.step.Rule.hopeless()) {
			fates[i] = anew
		}
	}
}

// handlersFailed reports whether a handler or a replacement of a handler failed.
func (r *Run) handlersFailed() bool {
	failed := false
	for i := r.graph.plain; i < len(r.nodes); i++ {
		r.nodes[i].tasks(func(t *task) { failed = failed || r.toRetry(t) })
	}
	return failed
}

func (r *Run) resetSteps(fates []fate, c *Control) {
	for i, f := range fates {
		switch n := &r.nodes[i]; f {
		case anew:
			r.resetNode(n)
		case partly:
			r.resetPart(n, c)
		}
	}
}

// resetHandlers resets every handler that has a stored row, so that it runs again.
func (r *Run) resetHandlers() {
	for i := r.graph.plain; i < len(r.nodes); i++ {
		if n := &r.nodes[i]; n.main.stored {
			r.resetNode(n)
		}
	}
}

func (r *Run) resetNode(n *node) {
	if n.each != nil && !r.wasReset(n.main) {
		for _, g := range n.each.items {
			g.members(r.layAside)
		}
		n.each = nil
	}
	r.resetGroup(&n.group)
}

// resetPart resets one item, or all items that failed. The foreach node then runs again with the items that it has.
func (r *Run) resetPart(n *node, c *Control) {
	if c.Mode == RetryFailed {
		n.tasks(func(t *task) {
			if t != n.main && r.toRetry(t) {
				r.reset(t)
			}
		})
	} else {
		r.resetGroup(r.find(TaskID{Step: c.Task.Step, Item: c.Task.Item}).group)
	}
	if t := n.main; n.each != nil && !r.wasReset(t) {
		t.State, t.Generation = TaskRunning, r.rec.Generation
		r.clearResult(t)
		r.changed(t)
	}
}

func (r *Run) resetGroup(g *group) {
	if r.wasReset(g.main) {
		return
	}
	for _, t := range g.alts {
		r.layAside(t)
	}
	g.alts = nil
	r.reset(g.main)
}

// layAside removes a task from the run but keeps its row in r.left. If the task grows again, takeLeft records the last
// attempt of that row. Until then the row is the only record of that attempt.
func (r *Run) layAside(t *task) { r.left[t.ID] = &t.TaskRecord }

func (r *Run) reset(t *task) {
	if r.wasReset(t) {
		return
	}
	r.closeOld(&t.TaskRecord)
	t.TaskRecord = TaskRecord{ID: t.ID, Generation: r.rec.Generation, Attempt: t.Attempt}
	r.changed(t)
}

// closeOld adds the last attempt of a row to the records, before the caller overwrites the row.
func (r *Run) closeOld(row *TaskRecord) {
	if row.AttemptAt == 0 {
		return
	}
	r.attempts = append(r.attempts, AttemptRecord{
		ID: row.ID, Attempt: row.Attempt, Generation: row.Generation, State: attemptState(row),
		Kind: row.Kind, ExitCode: row.ExitCode, HasExit: row.HasExit, Signal: row.Signal, Reason: row.Reason,
		StartedAt: row.AttemptAt, FinishedAt: row.FinishedAt,
	})
}

// attemptState derives from a task's row how its last attempt ended.
func attemptState(row *TaskRecord) State {
	switch {
	case row.State == TaskCanceled || row.State == TaskFailed:
		return row.State
	case row.Kind != KindNone || row.ExitCode != 0 || !row.State.Terminal():
		return TaskFailed
	default:
		return TaskSucceeded
	}
}
