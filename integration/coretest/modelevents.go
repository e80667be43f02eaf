package coretest

import (
	"cmp"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

func (m *Model) apply(ev dagrun.Event) error {
	early := ev.Kind == dagrun.EvSettled || ev.Kind == dagrun.EvDriveLimit
	either := ev.Kind == dagrun.EvRefuse || ev.Kind == dagrun.EvControl
	if !either && m.begun == (early || ev.Kind == dagrun.EvBegin) {
		return dagrun.ErrEvent
	}
	c := m.cells[ev.Task]
	switch ev.Kind {
	case dagrun.EvBegin:
		m.begin()
	case dagrun.EvTick:
	case dagrun.EvDrain:
		if m.drain {
			return dagrun.ErrStale
		}
		m.drainNow()
	case dagrun.EvRefuse:
		if m.run.Ending == dagrun.EndingRefused {
			return dagrun.ErrStale
		}
		m.refuse(ev.Text)
	case dagrun.EvDriveLimit:
		m.giveUp = cmp.Or(ev.Text, "gave up after too many lost drives")
	case dagrun.EvControl:
		return m.control(*ev.Control)
	case dagrun.EvGranted:
		return m.granted(c)
	case dagrun.EvQueued:
		if c == nil || !c.offered && (c.State != dagrun.TaskReady || !c.cleared || m.held()) {
			return dagrun.ErrStale
		}
	default:
		return m.taskEvent(c, ev)
	}
	return nil
}

// taskEvent handles an event about one attempt. An event about another attempt is stale.
func (m *Model) taskEvent(c *cell, ev dagrun.Event) error {
	if c == nil {
		return dagrun.ErrStale
	}
	if ev.Kind == dagrun.EvProbed {
		return m.probed(c, ev.Result)
	}
	if ev.Attempt < 1 {
		return dagrun.ErrEvent
	}
	if c.Attempt != ev.Attempt || c.AttemptAt == 0 || c.isNode() {
		return dagrun.ErrStale
	}
	var r dagrun.Result
	if ev.Result != nil {
		r = *ev.Result
	}
	running := c.State == dagrun.TaskRunning
	publishing := c.State == dagrun.TaskFinishing && c.published
	switch ev.Kind {
	case dagrun.EvStarted:
		if publishing && c.killAt == 0 && c.step.PublishTimeout > 0 {
			c.killAt = m.now + dagrun.Time(c.step.PublishTimeout)
		}
		return m.started(c, running, publishing)
	case dagrun.EvSettled:
		if !running || c.settled != nil {
			return dagrun.ErrStale
		}
		r.Settled, c.settled = true, &r
	case dagrun.EvFinished:
		return m.finished(c, r, running, publishing)
	case dagrun.EvLost:
		return m.givenUp(c, ev.Text, running, publishing)
	case dagrun.EvWaits:
		return m.waits(c, ev)
	}
	return nil
}

func (m *Model) started(c *cell, running, publishing bool) error {
	if publishing {
		return nil
	}
	if !running || c.started {
		return dagrun.ErrStale
	}
	c.started = true
	if c.step.Timeout > 0 {
		c.killAt = m.now + dagrun.Time(c.step.Timeout)
	}
	return nil
}

func (m *Model) finished(c *cell, r dagrun.Result, running, publishing bool) error {
	waiting := c.State == dagrun.TaskWaiting && c.step.Body != dagrun.BodyApproval
	switch {
	case publishing:
		c.gone = true
		m.publishEnded(c, r)
	case running, waiting:
		c.gone = true
		m.bodyEnds(c, r, "ran")
	default:
		return dagrun.ErrStale
	}
	return nil
}

func (m *Model) givenUp(c *cell, text string, running, publishing bool) error {
	switch {
	case publishing:
		c.published, c.gone, c.late, c.killAt = false, true, false, 0
		if c.Request != dagrun.RequestNone {
			m.publishEnded(c, dagrun.Result{Kind: dagrun.KindLost})
		}
	case running:
		c.gone = true
		m.lost(c, text)
	default:
		return dagrun.ErrStale
	}
	return nil
}

// waits notes until when an opened body waits, or the name of its child run.
func (m *Model) waits(c *cell, ev dagrun.Event) error {
	if c.State != dagrun.TaskWaiting || !c.opening {
		return dagrun.ErrStale
	}
	c.opening, c.answered = false, true
	c.NextAt, c.Ref = ev.Until, cmp.Or(ev.Ref, c.Ref)
	if c.step.Body == dagrun.BodyChild && c.Request != dagrun.RequestNone && c.Ref != "" {
		m.requestChild(c, c.Request, c.RequestBy, "", m.run.Ending == dagrun.EndingNow)
	}
	return nil
}

func (m *Model) probed(c *cell, r *dagrun.Result) error {
	if !c.probing {
		return dagrun.ErrStale
	}
	c.probing = false
	if r == nil {
		c.cleared = true
		if !c.limited() {
			m.body(c)
		}
		return nil
	}
	m.beginAttempt(c)
	c.CacheKey = "" // the outputs come from the cache
	m.bodyEnds(c, *r, "cached")
	return nil
}

// begin starts a drive.
func (m *Model) begin() {
	m.begun = true
	m.run.StartedAt = cmp.Or(m.run.StartedAt, m.now)
	m.run.State, m.run.WakeAt = dagrun.RunRunning, 0
	if m.run.PausedBy != "" {
		m.run.State = dagrun.RunPaused
	}
	if m.spec.Timeout > 0 && m.run.Deadline == 0 {
		m.run.Deadline = m.now + dagrun.Time(cmp.Or(m.run.Left, m.spec.Timeout))
	}
	m.run.Left = 0
	m.unsaid()
	m.settleNodes()
	steps := !m.stepsSettled() || m.phase() == dagrun.InitHandler
	if m.giveUp != "" {
		m.run.Ending = max(m.run.Ending, dagrun.EndingDrives)
	}
	for _, c := range m.sorted() {
		m.orphan(c)
	}
	if m.giveUp != "" {
		m.giveUpDrives(steps)
	}
}

// unsaid derives what a former driver had no time to record from the rows that it did record.
func (m *Model) unsaid() {
	if m.run.PausedBy == "" && m.giveUp == "" && m.timeoutCounts() && m.run.Deadline <= m.now {
		m.runTimeout()
	}
	for _, c := range m.failures() {
		if c.Generation == m.run.Generation {
			m.failFast(c)
		}
	}
}

// orphan handles a task that a former drive left under way.
func (m *Model) orphan(c *cell) {
	c.gone = true
	m.actions = slices.DeleteFunc(m.actions, func(a dagrun.Action) bool { return a.Kind == dagrun.ActKill && a.Task == c.ID })
	switch {
	case c.isNode():
	case c.State == dagrun.TaskReady:
		c.State = dagrun.TaskPending
	case c.State == dagrun.TaskRunning && c.settled != nil:
		m.bodyEnds(c, *c.settled, "ran")
	case c.State == dagrun.TaskRunning:
		m.lost(c, "")
	case c.State == dagrun.TaskFinishing:
		m.orphanPublish(c)
	case c.State == dagrun.TaskWaiting && c.AttemptAt != 0:
		m.orphanWait(c)
	}
}

func (m *Model) orphanPublish(c *cell) {
	r := dagrun.Result{Kind: dagrun.KindLost}
	switch {
	case c.Request == dagrun.RequestTimeout:
		m.publishEnded(c, r)
	default:
		m.requested(c, &r)
	}
}

func (m *Model) orphanWait(c *cell) {
	switch {
	case c.step.Body == dagrun.BodyWait && (c.NextAt == 0 || c.NextAt <= m.now) && !m.held():
		c.NextAt = 0
		m.open(c)
	case c.step.Body == dagrun.BodyChild && c.Ref == "":
		if !m.held() {
			m.open(c)
		}
	case c.step.Body == dagrun.BodyChild && c.Request != dagrun.RequestNone:
		m.requestChild(c, c.Request, c.RequestBy, "", m.run.Ending == dagrun.EndingNow)
	}
}

// withdraw takes back offers and cache requests. A ready task has to ask for them again.
func (m *Model) withdraw() {
	for _, c := range m.cells {
		c.offered = false
		if c.State == dagrun.TaskReady {
			m.unready(c)
			c.State = dagrun.TaskPending
		}
	}
}

// drainNow takes back offers and starts nothing more.
func (m *Model) drainNow() {
	m.drain = true
	m.withdraw()
}
