package coretest

import (
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// retryLive resets a task of a run under way, and the steps behind it that could not start because of it.
func (m *Model) retryLive(ct dagrun.Control) dagrun.Outcome {
	if ct.Mode != dagrun.RetryFrom && ct.Mode != dagrun.RetryStep || ct.Task == nil || ct.Task.Step >= m.plain {
		return dagrun.Refused
	}
	c := m.cells[dagrun.TaskID{Step: ct.Task.Step, Item: ct.Task.Item}]
	if c == nil || overtaken(c, ct) || !already(c, ct) && m.ruledOut(c) || !m.repeatLive(c, ct) {
		return dagrun.Refused
	}
	return dagrun.Applied
}

// ruledOut reports whether the parents of a step keep it from starting.
func (m *Model) ruledOut(c *cell) bool {
	j, _ := m.judge(c)
	return j == Skips || j == Fails
}

// markEnded ends a task anew that went wrong.
func (m *Model) markEnded(c *cell, ct dagrun.Control) dagrun.Outcome {
	again := already(c, ct)
	if !m.repeatLive(c, ct) {
		return dagrun.Refused
	}
	if !again {
		m.marked(c, ct.As, ct.By, ct.Outputs)
	}
	return dagrun.Applied
}

// repeatLive resets a task and its dependants, and reports whether that is allowed. A control that was applied before a crash stays
// so.
func (m *Model) repeatLive(c *cell, ct dagrun.Control) bool {
	again := already(c, ct)
	if !again && (!m.repeatable(c, ct) || m.barred(c.ID.Step, ct)) {
		return false
	}
	steps, ok := m.heldUp(c, ct)
	if !ok && !again {
		return false
	}
	n := m.node(c.ID.Step)
	switch {
	case c == n:
		m.resetStep(c.ID.Step, ct)
	case c.ID.Alt == 0:
		m.resetTask(c, ct)
	default:
		m.reset(c, ct, c.State)
		if c.ID.Item != "" && n.State.Terminal() && !already(n, ct) {
			old := n.TaskRecord
			m.reset(n, ct, n.State)
			n.fresh, n.State, n.Growth, n.StartedAt = false, dagrun.TaskRunning, old.Growth, old.StartedAt
		}
	}
	for i := range steps {
		m.resetStep(i, ct)
	}
	return true
}

// repeatable reports whether a task has ended in a way that the control repeats, and steps may still start.
func (m *Model) repeatable(c *cell, ct dagrun.Control) bool {
	for i := m.plain; i < len(m.steps); i++ {
		h := m.node(i)
		if m.steps[i].Name != dagrun.InitHandler && begun(h) || m.steps[i].Name == dagrun.InitHandler && result(m.group(i, "")) == C {
			return false
		}
	}
	retry := ct.Verb == dagrun.VerbRetry
	group := m.group(c.ID.Step, c.ID.Item)
	switch {
	case m.isHandler(c), m.run.Ending != dagrun.EndingNone, !retry && c.grown():
		return false
	case c.ID.Alt == 0 && result(group) == 0, !c.State.Terminal():
		return false
	case retry && c.ID.Item != "" && c.step.Foreach.FailFast && m.siblingFailed(c):
		return false
	}
	return retry && ct.Mode == dagrun.RetryFrom || m.wentWrong(c)
}

func (m *Model) siblingFailed(c *cell) bool {
	return slices.ContainsFunc(m.node(c.ID.Step).Growth.Items, func(it dagrun.Item) bool {
		return it.Key != c.ID.Item && result(m.group(c.ID.Step, it.Key)) == F
	})
}

// wentWrong reports whether a task failed, even if that is tolerated, or was canceled; of a replaced task, whether its replacements
// did.
func (m *Model) wentWrong(c *cell) bool {
	if c.State == dagrun.TaskReplaced && c.ID.Alt == 0 {
		r := result(m.group(c.ID.Step, c.ID.Item))
		return r == F || r == C
	}
	return slices.Contains([]dagrun.State{dagrun.TaskFailed, dagrun.TaskUpstreamFailed, dagrun.TaskCanceled}, c.State)
}

// heldUp returns the steps behind a task that its reset resets, too. It reports false if one of them is under way and must not be.
func (m *Model) heldUp(c *cell, ct dagrun.Control) (steps map[int]bool, ok bool) {
	from := ct.Verb == dagrun.VerbRetry && ct.Mode == dagrun.RetryFrom
	steps, ok = map[int]bool{}, true
	reached := map[int]bool{c.ID.Step: true}
	for changed := true; changed; {
		changed = false
		for i := range m.plain {
			d := m.node(i)
			if reached[i] || !m.follows(i, reached) {
				continue
			}
			open := result(m.group(i, "")) == 0
			waits := d.State == dagrun.TaskPending || d.State == dagrun.TaskReady
			reset := already(d, ct) || from && !open
			if !from && d.StartedAt == 0 && d.Marked == dagrun.TaskPending {
				reset = reset || d.State == dagrun.TaskUpstreamFailed || d.State == dagrun.TaskSkipped ||
					d.State == dagrun.TaskCanceled && m.behindCanceled(i, reached, ct)
			}
			if from && open && !waits && !already(d, ct) {
				ok = false
			}
			if reset {
				steps[i] = true
			}
			if reset || from && waits {
				reached[i], changed = true, true
			}
		}
	}
	return steps, ok
}

// behindCanceled reports whether a step depends on a reached one that was canceled.
func (m *Model) behindCanceled(i int, reached map[int]bool, ct dagrun.Control) bool {
	return slices.ContainsFunc(m.steps[i].Depends, func(e dagrun.Edge) bool {
		p := m.stepIndex(e.Step)
		n := m.node(p)
		if ct.Task.Step == p && ct.Task.Alt > 0 && ct.Task.Item == "" { // a replacement is marked
			c := m.cells[*ct.Task]
			return reached[p] && (c.State == dagrun.TaskCanceled || already(c, ct) && c.ResetFrom == dagrun.TaskCanceled)
		}
		if already(n, ct) {
			return reached[p] && n.ResetFrom == dagrun.TaskCanceled
		}
		return reached[p] && (n.State == dagrun.TaskCanceled || n.State == dagrun.TaskReplaced && result(m.group(p, "")) == C)
	})
}
