package coretest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

var outcomes = []string{dagrun.SuccessHandler, dagrun.FailureHandler, dagrun.AbortHandler}

// isOpen reports whether the run has reached the phase in which this task may start: init, the steps, one outcome
// handler, exit.
func (m *Model) isOpen(c *cell) bool {
	now := m.phase()
	if !m.isHandler(c) {
		return now == "steps"
	}
	return now == m.steps[c.ID.Step].Name
}

// phase returns "steps", the name of the handler that is in turn, or "" when nothing is left.
func (m *Model) phase() string {
	if m.run.Ending == dagrun.EndingRefused {
		return ""
	}
	if init := m.handler(dagrun.InitHandler); init != nil && !m.groupSettled(init) {
		return dagrun.InitHandler
	}
	if !m.stepsSettled() {
		return "steps"
	}
	if h := m.outcome(); h != "" {
		return h
	}
	if exit := m.handler(dagrun.ExitHandler); exit != nil && !m.groupSettled(exit) && (m.run.Ending != dagrun.EndingNow || begun(exit)) {
		return dagrun.ExitHandler
	}
	return ""
}

// initDone reports whether the steps may be judged.
func (m *Model) initDone() bool {
	init := m.handler(dagrun.InitHandler)
	if init == nil {
		return true
	}
	r := result(m.group(init.ID.Step, ""))
	return r == S || r == K
}

func (m *Model) groupSettled(c *cell) bool { return result(m.group(c.ID.Step, c.ID.Item)) != 0 }

// begun reports whether a handler has begun.
func begun(c *cell) bool {
	return c.StartedAt != 0 || (c.State != dagrun.TaskPending && c.State != dagrun.TaskReady)
}

// outcome returns the outcome handler that is in turn, "" when that phase is over.
func (m *Model) outcome() string {
	ran := false
	for _, name := range outcomes {
		h := m.handler(name)
		if h == nil || !begun(h) {
			continue
		}
		if !m.groupSettled(h) {
			return name
		}
		ran = true
	}
	exit := m.handler(dagrun.ExitHandler)
	if m.run.Ending == dagrun.EndingNow || (exit != nil && begun(exit)) {
		return ""
	}
	state, _ := m.verdict()
	want := map[dagrun.RunState]string{
		dagrun.RunCanceled: dagrun.AbortHandler, dagrun.RunFailed: dagrun.FailureHandler,
		dagrun.RunSucceeded: dagrun.SuccessHandler,
	}[state]
	if ran && m.run.Ending != dagrun.EndingCancel {
		return ""
	}
	if h := m.handler(want); h == nil || begun(h) {
		return ""
	}
	return want
}

// stepsSettled reports whether every step has ended.
func (m *Model) stepsSettled() bool {
	for _, c := range m.cells {
		if !m.isHandler(c) && !c.State.Terminal() {
			return false
		}
	}
	return true
}

// settleInit cancels the steps if the init handler failed or was canceled. It reports whether anything changed.
func (m *Model) settleInit() bool {
	init := m.handler(dagrun.InitHandler)
	if init == nil || m.stepsSettled() {
		return false
	}
	switch result(m.group(init.ID.Step, "")) {
	case F:
		if m.run.Ending < dagrun.EndingInit {
			m.run.Ending = dagrun.EndingInit
		}
		return m.cancelSteps("init failed", "", false)
	case C:
		return m.cancelSteps("init canceled", "", false)
	}
	return false
}

// verdict returns the state that the run would end in if nothing else happened.
func (m *Model) verdict() (dagrun.RunState, string) {
	e := m.run.Ending
	failed := m.failures()
	canceled, blocked := false, false
	for _, c := range m.cells {
		canceled = canceled || c.State == dagrun.TaskCanceled
		blocked = blocked || c.State == dagrun.TaskUpstreamFailed
	}
	switch {
	case e == dagrun.EndingCancel || e == dagrun.EndingNow:
		return dagrun.RunCanceled, m.endingReason()
	case e > dagrun.EndingFailFast:
		return dagrun.RunFailed, m.endingReason()
	case len(failed) > 0:
		first := failed[0]
		if first.Kind == dagrun.KindConfig || first.Reason == anyWords {
			return dagrun.RunFailed, "" // the language defines no text for this reason
		}
		reason := fmt.Sprintf("step %s failed: %s", m.name(first), first.Reason)
		if n := len(failed) - 1; n > 0 {
			reason += fmt.Sprintf(" (and %d more)", n)
		}
		return dagrun.RunFailed, reason
	case blocked || e == dagrun.EndingFailFast || m.nodeFailed():
		return dagrun.RunFailed, ""
	case canceled:
		return dagrun.RunCanceled, ""
	}
	for i := range m.plain {
		if !allSkipped(m.group(i, "")) {
			return dagrun.RunSucceeded, ""
		}
	}
	return dagrun.RunSucceeded, "nothing to do"
}

// failures returns the tasks that failed for good, in the order of their failures. A foreach step fails with its items.
func (m *Model) failures() []*cell {
	failed := slices.DeleteFunc(m.sorted(), func(c *cell) bool {
		return c.State != dagrun.TaskFailed || c.Tolerated || c.grown()
	})
	slices.SortStableFunc(failed, func(a, b *cell) int { return cmp.Compare(a.FinishedAt, b.FinishedAt) })
	return failed
}

func (m *Model) nodeFailed() bool {
	return slices.ContainsFunc(m.sorted(), func(c *cell) bool { return c.grown() && c.class() == F })
}

// cancelSteps cancels every step and reports whether that changed anything.
func (m *Model) cancelSteps(reason, by string, now bool) bool {
	changed := false
	for _, c := range m.sorted() {
		if !m.isHandler(c) {
			state, request := c.State, c.Request
			m.cancel(c, reason, by, now)
			changed = changed || state != c.State || request != c.Request
		}
	}
	return changed
}

// cancel cancels one task, at once if nothing of it is under way. It reports whether the task has ended.
func (m *Model) cancel(c *cell, reason, by string, now bool) bool {
	running := c.State == dagrun.TaskRunning || (c.State == dagrun.TaskFinishing && c.published)
	child := c.State == dagrun.TaskWaiting && c.step.Body == dagrun.BodyChild && c.AttemptAt != 0
	switch {
	case c.State.Terminal() || c.grown():
		return c.State.Terminal()
	case (running || child) && c.Request == dagrun.RequestCancel:
		if now && running {
			m.kill(c, true)
		} else if now {
			m.requestChild(c, c.Request, c.RequestBy, "", true)
		}
		return false
	case running:
		c.Request, c.RequestBy, c.Reason = dagrun.RequestCancel, by, reason
		m.kill(c, now)
		return false
	case child:
		m.requestChild(c, dagrun.RequestCancel, by, reason, now)
		return false
	}
	m.end(c, dagrun.TaskCanceled, reason)
	return true
}

// cancelRun handles a user's cancel of the run.
func (m *Model) cancelRun(by string, now bool) {
	now = now || m.run.Ending >= dagrun.EndingCancel
	reason := "canceled by " + by
	late := m.run.Ending < dagrun.EndingCancel
	m.run.Ending = dagrun.EndingCancel
	if now {
		m.run.Ending = dagrun.EndingNow
	}
	if late {
		m.run.EndingBy = by
	}
	m.run.PausedBy = ""
	if m.begun {
		m.run.State = dagrun.RunRunning
	}
	m.cancelSteps(reason, by, now)
	m.cancelHandlers(reason, by, now)
	for _, c := range m.sorted() {
		if m.isHandler(c) && c.State == dagrun.TaskReady && !m.isOpen(c) {
			m.unready(c) // the handler is judged again in its turn, if that comes
			c.State = dagrun.TaskPending
		}
	}
	m.reopenWaits()
}

// cancelHandlers cancels the handlers that have begun. The handlers abort and exit go on, or still start, unless now is
// set. An init handler that has not ended is canceled for good.
func (m *Model) cancelHandlers(reason, by string, now bool) {
	exit := m.handler(dagrun.ExitHandler)
	exiting := exit != nil && begun(exit)
	for i := m.plain; i < len(m.steps); i++ {
		name := m.steps[i].Name
		last := name == dagrun.AbortHandler || name == dagrun.ExitHandler
		toCome := name == dagrun.InitHandler || (now && last && !(exiting && name == dagrun.AbortHandler))
		for _, c := range m.group(i, "") {
			if toCome || (begun(m.node(i)) && (now || !last)) {
				m.cancel(c, reason, by, now)
			}
		}
	}
}

// giveUpDrives ends the run because too many drivers were lost. If the steps were over already, the handlers that have
// not run end too.
func (m *Model) giveUpDrives(steps bool) {
	if m.run.Ending == dagrun.EndingDrives {
		m.run.EndingText = m.giveUp
	}
	reason := m.giveUp
	m.cancelSteps(reason, "", false)
	last := []string{m.outcome(), dagrun.ExitHandler}
	if steps {
		last = []string{dagrun.InitHandler}
	}
	for _, name := range last {
		if h := m.handler(name); h != nil {
			for _, c := range m.group(h.ID.Step, "") {
				m.cancel(c, reason, "", false)
			}
		}
	}
	m.giveUp = ""
}

// refuse ends the run at once.
func (m *Model) refuse(text string) {
	m.run.Ending, m.run.EndingText, m.run.PausedBy = dagrun.EndingRefused, text, ""
	for _, c := range m.sorted() {
		if c.State == dagrun.TaskRunning && c.settled != nil {
			m.bodyEnds(c, *c.settled, "ran")
		}
		switch {
		case m.isHandler(c) && !begun(m.node(c.ID.Step)):
			m.unready(c)
			continue
		case c.State.Terminal() || c.grown():
			continue
		case c.State == dagrun.TaskRunning, c.State == dagrun.TaskFinishing && c.published:
			c.Request = dagrun.RequestCancel
			m.kill(c, true)
		case c.State == dagrun.TaskWaiting && c.Ref != "":
			m.act(dagrun.Action{Kind: dagrun.ActCancelChild, Task: c.ID, Ref: c.Ref, Now: true})
		}
		m.end(c, dagrun.TaskCanceled, text)
	}
}

// proposal returns how the drive would end now: with a leave, with a verdict, or not at all.
func (m *Model) proposal() (*dagrun.Leave, *dagrun.Verdict) {
	if !m.begun {
		return nil, nil
	}
	if m.phase() == "" && !m.busy() {
		state, reason := m.verdict()
		return nil, &dagrun.Verdict{State: state, Reason: reason, Tolerated: m.tolerated()}
	}
	if m.busy() {
		return nil, nil
	}
	if m.drain {
		return &dagrun.Leave{Drained: true}, nil
	}
	if m.run.PausedBy != "" {
		return &dagrun.Leave{}, nil
	}
	if m.fresh() {
		return nil, nil
	}
	for _, c := range m.cells {
		full := c.cleared && !c.offered // the task waits for a limit that child runs fill
		if c.State == dagrun.TaskReady && !full || c.State == dagrun.TaskFinishing {
			return nil, nil
		}
	}
	first := dagrun.Time(0)
	if all := m.taskTimers(); len(all) > 0 {
		first = all[0].at
	}
	if first != 0 && first < m.now+dagrun.Time(m.opts.ParkAfter) {
		return nil, nil
	}
	return &dagrun.Leave{WakeAt: first}, nil
}

// busy reports whether something of this drive is still under way.
func (m *Model) busy() bool {
	for _, c := range m.cells {
		switch {
		case c.State == dagrun.TaskRunning && !c.isNode(), c.State == dagrun.TaskFinishing && c.published:
			return true
		case !m.held() && (c.opening || c.probing): // an answer is still to come
			return true
		}
	}
	return false
}

func (m *Model) tolerated() int {
	n := 0
	for _, c := range m.cells {
		if c.State == dagrun.TaskFailed && c.Tolerated {
			n++
		}
	}
	return n
}

// Run returns the run's own row, without the counts.
func (m *Model) Run() dagrun.RunRecord {
	r := m.run
	switch leave, verdict := m.proposal(); {
	case verdict != nil:
		r.State, r.Deadline = verdict.State, 0
	case leave != nil && leave.Drained:
		r.State = dagrun.RunQueued
	case leave != nil:
		r.State, r.WakeAt = dagrun.RunWaiting, leave.WakeAt
		if r.PausedBy != "" {
			r.State = dagrun.RunPaused
		}
		if m.timeoutCounts() {
			r.Left = max(1, dagrun.Duration(r.Deadline-m.now))
		}
		r.Deadline = 0
	}
	return r
}
