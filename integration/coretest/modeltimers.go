package coretest

import (
	"cmp"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// timer is an event that the clock causes.
type timer struct {
	at dagrun.Time
	do func()
}

// timers returns all timers that may fire, earliest first: those of the tasks, and the run's own timeout.
func (m *Model) timers() []timer {
	all := m.taskTimers()
	if m.run.PausedBy == "" && m.timeoutCounts() {
		all = append(all, timer{m.run.Deadline, m.runTimeout})
	}
	return inOrder(all)
}

func inOrder(all []timer) []timer {
	slices.SortStableFunc(all, func(a, b timer) int { return cmp.Compare(a.at, b.at) })
	return all
}

// taskTimers returns the timers of the tasks, without timers that a pause or a drain holds back.
func (m *Model) taskTimers() []timer {
	var all []timer
	add := func(at dagrun.Time, do func()) {
		if at != 0 {
			all = append(all, timer{at, do})
		}
	}
	for _, c := range m.sorted() {
		switch {
		case c.State == dagrun.TaskRunning && c.Request == dagrun.RequestNone:
			add(c.killAt, func() { m.timeout(c, "timed out after "+span(c.step.Timeout)) })
		case c.State == dagrun.TaskFinishing && c.published && c.Request == dagrun.RequestNone && !c.late:
			add(c.killAt, func() {
				c.late = true
				m.act(dagrun.Action{Kind: dagrun.ActKill, Task: c.ID, Attempt: c.Attempt, Cause: dagrun.RequestTimeout})
			})
		case m.held():
		case c.State == dagrun.TaskRetrying:
			add(c.NextAt, func() { m.retryDue(c) })
		case c.State == dagrun.TaskWaiting:
			if c.Request == dagrun.RequestNone {
				add(c.Deadline, func() { m.timeout(c, "timed out after "+span(c.step.Timeout)) })
			}
			add(c.NextAt, func() { m.waitDue(c) })
		}
	}
	return inOrder(all)
}

// timeoutCounts reports whether the run's timeout can still end it.
func (m *Model) timeoutCounts() bool {
	return m.spec.Timeout > 0 && m.run.Ending < dagrun.EndingTimeout && !m.stepsSettled()
}

func (m *Model) fireTimers() {
	for {
		all := m.timers()
		if len(all) == 0 || all[0].at > m.now {
			return
		}
		all[0].do()
		m.settleNodes()
	}
}

func (m *Model) retryDue(c *cell) {
	if !c.Publishing {
		m.backToPending(c)
		return
	}
	c.State, c.Publishing, c.NextAt = dagrun.TaskFinishing, false, 0
}

func (m *Model) waitDue(c *cell) {
	c.NextAt = 0
	if c.AttemptAt == 0 { // the task was snoozed
		m.backToPending(c)
		return
	}
	m.open(c)
}

// timeout applies the timeout of one task: of its attempt, or of the run.
func (m *Model) timeout(c *cell, reason string) {
	switch {
	case c.State == dagrun.TaskRunning, c.State == dagrun.TaskFinishing && c.published:
		m.request(c, dagrun.RequestTimeout, "", reason)
	case c.State == dagrun.TaskWaiting && c.step.Body == dagrun.BodyChild && c.AttemptAt != 0:
		m.requestChild(c, dagrun.RequestTimeout, "", reason, false)
	default:
		m.bodyEnds(c, dagrun.Result{Kind: dagrun.KindTimeout, ExitCode: 124, HasExit: true, Reason: reason}, "")
	}
}

// request asks a body to stop.
func (m *Model) request(c *cell, r dagrun.Request, by, reason string) {
	c.Request, c.RequestBy = r, by
	c.Reason = cmp.Or(reason, c.Reason)
	m.kill(c, false)
}

func (m *Model) kill(c *cell, now bool) {
	m.act(dagrun.Action{Kind: dagrun.ActKill, Task: c.ID, Attempt: c.Attempt, Cause: c.Request, Now: now})
}

// requestChild asks a child run to stop. A child run without a name is asked as soon as it has one.
func (m *Model) requestChild(c *cell, r dagrun.Request, by, reason string, now bool) {
	c.Request, c.RequestBy = r, by
	c.Reason = cmp.Or(reason, c.Reason)
	if c.Ref != "" && (m.begun || m.run.Ending == dagrun.EndingRefused) {
		m.act(dagrun.Action{Kind: dagrun.ActCancelChild, Task: c.ID, Attempt: c.Attempt, Ref: c.Ref, Now: now})
	}
}

// runTimeout stops the steps of the run.
func (m *Model) runTimeout() {
	m.run.Ending = dagrun.EndingTimeout
	reason := m.endingReason()
	for _, c := range m.sorted() {
		switch {
		case m.isHandler(c) || c.State.Terminal() || c.grown():
		case c.State != dagrun.TaskRunning && c.State != dagrun.TaskFinishing && c.State != dagrun.TaskWaiting:
			m.end(c, dagrun.TaskCanceled, reason)
		case c.Request != dagrun.RequestNone && c.Request != dagrun.RequestPause:
		case c.State == dagrun.TaskFinishing && !c.published:
			m.fail(c, dagrun.Result{Kind: dagrun.KindTimeout, ExitCode: 124, HasExit: true, Reason: reason})
		default:
			m.timeout(c, reason)
		}
	}
}

// fresh reports whether tasks are to be judged that were reset while the run was under way.
func (m *Model) fresh() bool {
	for _, c := range m.cells {
		if c.fresh {
			return true
		}
	}
	return m.judges
}

// WakeAt returns when the next tick is needed, 0 for never.
func (m *Model) WakeAt() dagrun.Time {
	if m.fresh() {
		return max(m.now, 1)
	}
	if all := m.timers(); len(all) > 0 {
		return all[0].at
	}
	return 0
}
