package coretest

import (
	"cmp"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// control decides a request. A second request with the same id is stale.
func (m *Model) control(ct dagrun.Control) error {
	if m.asked[ct.ID] {
		return dagrun.ErrStale
	}
	m.asked[ct.ID] = true
	m.Decisions = append(m.Decisions, dagrun.Decision{ID: ct.ID, Outcome: m.decide(ct)})
	return nil
}

func (m *Model) decide(ct dagrun.Control) dagrun.Outcome {
	if ct.Verb == dagrun.VerbRetry && ct.Generation == 0 {
		return m.retryLive(ct)
	}
	if ct.Verb == dagrun.VerbRetry {
		return m.retryRun(ct)
	}
	if ct.Task == nil {
		return m.decideRun(ct)
	}
	c := m.cells[*ct.Task]
	if c == nil || overtaken(c, ct) && ct.Verb != dagrun.VerbChildEnded {
		return dagrun.Refused
	}
	switch ct.Verb {
	case dagrun.VerbCancel:
		return m.cancelTask(c, ct.By, ct.Now)
	case dagrun.VerbPause:
		return m.pauseTask(c, ct.By)
	case dagrun.VerbResume:
		return m.resumeTask(c)
	case dagrun.VerbApprove, dagrun.VerbReject:
		return m.approve(c, ct)
	case dagrun.VerbMark:
		return m.mark(c, ct)
	}
	return m.childEnded(c, ct)
}

func (m *Model) decideRun(ct dagrun.Control) dagrun.Outcome {
	switch ct.Verb {
	case dagrun.VerbCancel:
		if m.run.Ending == dagrun.EndingRefused {
			return dagrun.Refused
		}
		m.cancelRun(ct.By, ct.Now)
		return dagrun.Accepted
	case dagrun.VerbPause:
		return m.pauseRun(ct.By)
	case dagrun.VerbResume:
		if m.run.PausedBy == "" {
			return dagrun.Refused
		}
		m.run.PausedBy = ""
		if m.begun {
			m.run.State = dagrun.RunRunning
		}
		m.reopenWaits()
		return dagrun.Applied
	}
	return dagrun.Refused
}

// reopenWaits opens, after a pause, the waits that the pause held back since EvBegin.
func (m *Model) reopenWaits() {
	for _, c := range m.sorted() {
		unanswered := c.NextAt == 0 && c.Ref == "" && !c.opening && !c.answered && c.step.Body != dagrun.BodyApproval
		if m.begun && c.State == dagrun.TaskWaiting && c.AttemptAt != 0 && unanswered {
			m.open(c)
		}
	}
}

func (m *Model) pauseRun(by string) dagrun.Outcome {
	if m.run.Ending != dagrun.EndingNone || (m.begun && m.phase() == "") {
		return dagrun.Refused
	}
	m.run.PausedBy = cmp.Or(m.run.PausedBy, by)
	if m.begun {
		m.run.State = dagrun.RunPaused
	}
	m.withdraw()
	return dagrun.Applied
}

// dependants returns all steps that depend on a step, directly or not.
func (m *Model) dependants(step int) map[int]bool {
	after := map[int]bool{}
	for changed := true; changed; {
		changed = false
		for i, s := range m.steps {
			for _, e := range s.Depends {
				if p := m.stepIndex(e.Step); !after[i] && (p == step || after[p]) {
					after[i], changed = true, true
				}
			}
		}
	}
	return after
}

func (m *Model) cancelTask(c *cell, by string, now bool) dagrun.Outcome {
	if c.State.Terminal() || !m.hadItsTurn(c) {
		return dagrun.Refused
	}
	reason := "canceled by " + by
	ended := true
	if c.grown() {
		for _, it := range c.Growth.Items {
			for _, o := range m.group(c.ID.Step, it.Key) {
				ended = m.cancel(o, reason, by, now) && ended
			}
		}
	} else {
		ended = m.cancel(c, reason, by, now)
		if ended {
			c.Marked = dagrun.TaskCanceled
		}
	}
	for i := range m.dependants(c.ID.Step) {
		if d := m.node(i); d.StartedAt == 0 && !d.State.Terminal() && !d.grown() {
			m.cancel(d, reason, by, now)
		}
	}
	if ended {
		return dagrun.Applied
	}
	return dagrun.Accepted
}

// hadItsTurn reports whether a handler has begun or may begin now.
func (m *Model) hadItsTurn(c *cell) bool {
	return !m.isHandler(c) || begun(c) || (m.begun && m.isOpen(c))
}

func (m *Model) pauseTask(c *cell, by string) dagrun.Outcome {
	if m.isHandler(c) {
		return dagrun.Refused
	}
	if c.grown() {
		outcome := dagrun.Refused
		for _, o := range m.sorted() {
			if o.ID.Step == c.ID.Step && o.ID.Item != "" {
				outcome = stronger(outcome, m.pauseTask(o, by))
			}
		}
		return outcome
	}
	switch c.State {
	case dagrun.TaskPending, dagrun.TaskReady, dagrun.TaskRetrying:
		m.pauseNow(c, by)
		return dagrun.Applied
	case dagrun.TaskRunning:
		if c.Request != dagrun.RequestNone {
			return dagrun.Refused
		}
		m.request(c, dagrun.RequestPause, by, "")
		return dagrun.Accepted
	}
	return dagrun.Refused
}

func (m *Model) resumeTask(c *cell) dagrun.Outcome {
	if c.grown() {
		outcome := dagrun.Refused
		for _, o := range m.sorted() {
			if o.ID.Step == c.ID.Step && o.ID.Item != "" && o.State == dagrun.TaskPaused {
				outcome = m.resumeTask(o)
			}
		}
		return outcome
	}
	if c.State != dagrun.TaskPaused {
		return dagrun.Refused
	}
	if c.NextAt > 0 {
		c.State, c.Reason = dagrun.TaskRetrying, ""
		return dagrun.Applied
	}
	m.backToPending(c)
	return dagrun.Applied
}

func (m *Model) approve(c *cell, ct dagrun.Control) dagrun.Outcome {
	if c.State != dagrun.TaskWaiting || c.step.Body != dagrun.BodyApproval || c.AttemptAt == 0 {
		return dagrun.Refused
	}
	if ct.Verb == dagrun.VerbApprove {
		m.bodyEnds(c, dagrun.Result{Outputs: ct.Outputs, Reason: "approved by " + ct.By}, "")
		return dagrun.Applied
	}
	reason := "rejected by " + ct.By
	if ct.Text != "" {
		reason += ": " + ct.Text
	}
	m.bodyEnds(c, dagrun.Result{Kind: dagrun.KindRejected, Reason: reason}, "")
	return dagrun.Applied
}

func (m *Model) mark(c *cell, ct dagrun.Control) dagrun.Outcome {
	if again := already(c, ct); again || m.wentWrong(c) && (ct.As == dagrun.TaskSucceeded || ct.As == dagrun.TaskSkipped) {
		return m.markEnded(c, ct)
	}
	as := []dagrun.State{dagrun.TaskSucceeded, dagrun.TaskFailed, dagrun.TaskSkipped}
	free := c.Request == dagrun.RequestNone || c.Request == dagrun.RequestPause
	if !slices.Contains(as, ct.As) || c.grown() || c.State.Terminal() || !free {
		return dagrun.Refused
	}
	if !m.hadItsTurn(c) || m.barred(c.ID.Step, ct) {
		return dagrun.Refused
	}
	running := c.State == dagrun.TaskRunning || (c.State == dagrun.TaskFinishing && c.published)
	child := c.State == dagrun.TaskWaiting && c.step.Body == dagrun.BodyChild && c.AttemptAt != 0
	if !running && !child {
		m.marked(c, ct.As, ct.By, ct.Outputs)
		return dagrun.Applied
	}
	c.Marked, c.Outputs = ct.As, ct.Outputs
	if child {
		m.requestChild(c, dagrun.RequestMark, ct.By, "", false)
	} else {
		m.request(c, dagrun.RequestMark, ct.By, "")
	}
	return dagrun.Accepted
}

func (m *Model) childEnded(c *cell, ct dagrun.Control) dagrun.Outcome {
	if c.State != dagrun.TaskWaiting || c.step.Body != dagrun.BodyChild || c.AttemptAt == 0 || (c.Ref != "" && c.Ref != ct.Ref) {
		return dagrun.Refused
	}
	var r dagrun.Result
	if ct.Result != nil {
		r = *ct.Result
	}
	m.bodyEnds(c, r, "ran")
	return dagrun.Applied
}

// stronger returns the outcome for both: accepted wins over applied, applied wins over refused.
func stronger(a, b dagrun.Outcome) dagrun.Outcome {
	if a == dagrun.Accepted || (a == dagrun.Applied && b == dagrun.Refused) {
		return a
	}
	return b
}
