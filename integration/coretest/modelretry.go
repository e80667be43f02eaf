package coretest

import (
	"maps"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// retryRun opens a new generation and resets the tasks that the mode names.
func (m *Model) retryRun(ct dagrun.Control) dagrun.Outcome {
	if m.begun || m.run.State != dagrun.RunQueued || m.opts.Generation < 2 || ct.Generation != m.opts.Generation {
		return dagrun.Refused
	}
	tasks, steps, ok := m.targets(ct)
	if !ok {
		return dagrun.Refused
	}
	m.widen(tasks, steps, ct.Mode)
	if len(tasks)+len(steps) == 0 && !m.handlersFailed(ct) && !m.unstarted() {
		return dagrun.Refused
	}
	for i := range m.steps {
		if steps[i] || i >= m.plain && m.node(i).stored {
			m.resetStep(i, ct)
		}
	}
	for c := range tasks {
		if !steps[c.ID.Step] {
			m.resetTask(c, ct)
		}
	}
	m.run = dagrun.RunRecord{Generation: m.opts.Generation, State: dagrun.RunQueued}
	return dagrun.Applied
}

// handlersFailed reports whether the handlers alone are a reason to run again.
func (m *Model) handlersFailed(ct dagrun.Control) bool {
	return slices.ContainsFunc(m.sorted(), func(c *cell) bool {
		return m.isHandler(c) && (c.class() == F || c.class() == C || already(c, ct))
	})
}

// unstarted reports whether the run ended before a step of it began.
func (m *Model) unstarted() bool {
	return slices.ContainsFunc(m.sorted(), func(c *cell) bool { return !m.isHandler(c) && c.State < dagrun.TaskSucceeded })
}

// targets returns the tasks and the whole steps to reset, without their dependants.
func (m *Model) targets(ct dagrun.Control) (tasks map[*cell]bool, steps map[int]bool, ok bool) {
	tasks, steps = map[*cell]bool{}, map[int]bool{}
	if ct.Mode == dagrun.RetryFrom || ct.Mode == dagrun.RetryStep {
		if ct.Task == nil || ct.Task.Step >= m.plain || m.cells[*ct.Task] == nil || m.barred(ct.Task.Step, ct) {
			return nil, nil, false
		}
		if ct.Task.Item == "" {
			steps[ct.Task.Step] = true
		}
		tasks[m.cells[dagrun.TaskID{Step: ct.Task.Step, Item: ct.Task.Item}]] = true // its replacements are laid aside
		return tasks, steps, true
	}
	for _, c := range m.sorted() {
		switch {
		case m.isHandler(c):
		case ct.Mode == dagrun.RetryAll:
			steps[c.ID.Step] = true
		case already(c, ct), c.class() == F, c.class() == C:
			if c.grown() {
				continue // the items decide which of them to reset
			}
			tasks[c] = true
			if c.ID.Item == "" && c.ID.Alt == 0 {
				steps[c.ID.Step] = true
			}
		}
	}
	return tasks, steps, true
}

// already reports whether this control has reset the task before, and only the decision about the control was lost.
func already(c *cell, ct dagrun.Control) bool { return ct.ID > 0 && c.ResetBy >= ct.ID }

// overtaken reports whether a later control has reset the task.
func overtaken(c *cell, ct dagrun.Control) bool { return ct.ID > 0 && c.ResetBy > ct.ID }

// widen adds the dependants that no other task blocks.
func (m *Model) widen(tasks map[*cell]bool, steps map[int]bool, mode dagrun.RetryMode) {
	if mode == dagrun.RetryStep {
		return
	}
	touched := maps.Clone(steps)
	for c := range tasks {
		touched[c.ID.Step] = true
	}
	for changed := true; changed; {
		changed = false
		for i := range m.plain {
			if !steps[i] && m.follows(i, touched) {
				steps[i], touched[i], changed = true, true, true
			}
		}
	}
}

// follows reports whether a step depends on a reset one, and no failed parent that stays blocks it.
func (m *Model) follows(i int, touched map[int]bool) bool {
	after, blocked := false, false
	for _, e := range m.steps[i].Depends {
		if touched[m.stepIndex(e.Step)] {
			after = true
		} else if m.contribution(e) == F {
			blocked = true
		}
	}
	blocked = blocked && m.node(i).State == dagrun.TaskUpstreamFailed
	switch m.steps[i].Rule {
	case dagrun.AllSuccess, dagrun.NoneFailed, dagrun.NoneFailedMinOneSuccess:
		return after && !blocked
	}
	return after
}

// resetStep resets a step as if it had never run, except for the attempt numbers.
func (m *Model) resetStep(i int, ct dagrun.Control) {
	if already(m.node(i), ct) {
		return
	}
	found := m.found(m.node(i))
	for _, c := range m.sorted() {
		if c.ID.Step == i && c != m.node(i) {
			m.shelve(c)
		}
	}
	m.reset(m.node(i), ct, found)
}

// resetTask resets an item or a replacement. Its foreach step keeps the same items.
func (m *Model) resetTask(c *cell, ct dagrun.Control) {
	found := m.found(c)
	if !already(c, ct) && c.ID.Item != "" && c.ID.Alt == 0 {
		for _, o := range m.group(c.ID.Step, c.ID.Item) {
			if o.ID.Alt > 0 {
				m.shelve(o)
			}
		}
	}
	m.reset(c, ct, found)
	if n := m.node(c.ID.Step); c.ID.Item != "" && n.State != dagrun.TaskRunning && !already(n, ct) {
		old := n.TaskRecord
		m.reset(n, ct, n.State)
		n.fresh = false
		n.State, n.Growth, n.StartedAt = dagrun.TaskRunning, old.Growth, old.StartedAt
	}
}

// reset resets a task that the control found in the given state.
func (m *Model) reset(c *cell, ct dagrun.Control, found dagrun.State) {
	if already(c, ct) {
		return
	}
	m.closeRow(c)
	c.TaskRecord = dagrun.TaskRecord{ID: c.ID, Attempt: c.Attempt, Generation: m.opts.Generation, ResetBy: ct.ID, ResetFrom: found}
	c.fresh, c.settled = ct.Generation == 0, nil
}

// found returns the state of a task, or the one that its replacements give it.
func (m *Model) found(c *cell) dagrun.State {
	group := m.group(c.ID.Step, c.ID.Item)
	if c.State != dagrun.TaskReplaced || c.ID.Alt > 0 {
		return c.State
	}
	switch r := result(group); {
	case r == F:
		return dagrun.TaskFailed
	case r == C:
		return dagrun.TaskCanceled
	case r == 0 || allSkipped(group):
		return dagrun.TaskSkipped
	}
	return dagrun.TaskSucceeded
}

// closeRow records the attempt that a row describes, before the row is overwritten.
func (m *Model) closeRow(c *cell) {
	if c.AttemptAt != 0 {
		m.closeAttempt(c, c.State, dagrun.Result{Kind: c.Kind, ExitCode: c.ExitCode, HasExit: c.HasExit, Signal: c.Signal}, c.Reason)
		last := &m.Attempts[len(m.Attempts)-1]
		last.FinishedAt = c.FinishedAt
		if c.State == dagrun.TaskReplaced {
			last.State = dagrun.TaskFailed
			if c.Kind == dagrun.KindNone {
				last.State = dagrun.TaskSucceeded // it was asked, and chose
			}
		}
		if c.State == dagrun.TaskSucceeded && c.ExitCode != 0 {
			last.State = dagrun.TaskSkipped // marked as succeeded: the core may choose the state of this attempt
		}
	}
}

// shelve takes a cell out of the run and keeps its row for the next expansion.
func (m *Model) shelve(c *cell) {
	m.shelf[c.ID] = c.TaskRecord
	delete(m.cells, c.ID)
}
