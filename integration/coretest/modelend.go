package coretest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// end gives a task its last state of this generation, and then applies fail_fast.
func (m *Model) end(c *cell, state dagrun.State, reason string) {
	m.unready(c)
	c.State, c.Reason, c.FinishedAt, c.Generation = state, reason, m.now, m.run.Generation
	c.Request, c.RequestBy, c.Marked, c.NextAt, c.Deadline, c.killAt = 0, "", 0, 0, 0, 0
	c.published, c.opening, c.settled, c.Publishing = false, false, nil, false
	if state != dagrun.TaskSucceeded {
		c.Outputs = ""
	}
	if state != dagrun.TaskFailed && state != dagrun.TaskReplaced {
		c.Kind = ""
	}
	if state == dagrun.TaskSucceeded {
		c.StartedAt = cmp.Or(c.StartedAt, m.now)
	}
	if state == dagrun.TaskFailed && !c.Tolerated {
		m.failFast(c)
	}
}

// endingReason returns the reason for the tasks that an ending of the run ends.
func (m *Model) endingReason() string {
	switch m.run.Ending {
	case dagrun.EndingFailFast:
		return "fail fast: step " + m.run.EndingText + " failed"
	case dagrun.EndingInit:
		return "init failed"
	case dagrun.EndingTimeout:
		return "run timed out after " + span(m.spec.Timeout)
	case dagrun.EndingDrives:
		return cmp.Or(m.run.EndingText, "gave up after too many lost drives")
	case dagrun.EndingRefused:
		return m.run.EndingText
	}
	return "canceled by " + m.run.EndingBy
}

// failFast cancels the rest of a node, then the rest of the run, where the spec asks for it.
func (m *Model) failFast(c *cell) {
	reason := "fail fast: step " + m.name(c) + " failed"
	if n := m.node(c.ID.Step); c.ID.Item != "" && n.step.Foreach.FailFast {
		for _, o := range m.sorted() {
			if o.ID.Step == c.ID.Step && o.ID.Item != "" {
				m.cancel(o, reason, "", false)
			}
		}
	}
	if m.spec.FailFast && !m.isHandler(c) && m.run.Ending == dagrun.EndingNone {
		m.run.Ending, m.run.EndingText = dagrun.EndingFailFast, m.name(c)
		m.cancelSteps(reason, "", false)
	}
}

// bodyEnds follows the section "when a body ends" of the language, from the top.
func (m *Model) bodyEnds(c *cell, r dagrun.Result, how string) {
	if r.Settled && r.Kind == dagrun.KindNone && r.SnoozeUntil == 0 { // the result is committed, and no request undoes it
		c.Request, c.RequestBy, c.Marked, c.killAt = 0, "", 0, 0
	}
	if m.requested(c, &r) {
		return
	}
	if r.SnoozeUntil > 0 {
		m.closeAttempt(c, dagrun.TaskWaiting, r, cmp.Or(r.Reason, "snoozed"))
		c.State, c.NextAt, c.Ref, c.Deadline = dagrun.TaskWaiting, r.SnoozeUntil, "", 0
		return
	}
	if r.Unstarted { // the body never began, so on_lost does not apply
		m.note(c, r)
		m.closeAttempt(c, dagrun.TaskFailed, r, r.Reason)
		m.backToPending(c)
		return
	}
	m.note(c, r)
	if (r.Kind == dagrun.KindExit || r.Kind == dagrun.KindNone) && r.HasExit && slices.Contains(c.step.SkipExit, r.ExitCode) {
		m.end(c, dagrun.TaskSkipped, fmt.Sprintf("skip exit code %d", r.ExitCode))
		return
	}
	switch {
	case r.Kind == dagrun.KindNone && c.plans != nil:
		m.planned(c, r)
	case r.Kind == dagrun.KindNone:
		m.bodySucceeded(c, r, how)
	case r.Kind == dagrun.KindConfig:
		m.fail(c, r)
	default:
		m.bodyFailed(c, r)
	}
}

// note writes how the body ended into the row.
func (m *Model) note(c *cell, r dagrun.Result) {
	c.Kind, c.ExitCode, c.HasExit, c.Signal = r.Kind, r.ExitCode, r.HasExit, r.Signal
}

func (m *Model) bodySucceeded(c *cell, r dagrun.Result, how string) {
	c.Outputs, c.Reason = r.Outputs, cmp.Or(r.Reason, how)
	switch frozen := m.run.Ending != dagrun.EndingNone && !m.isHandler(c); {
	case !c.step.Publish:
		m.end(c, dagrun.TaskSucceeded, c.Reason)
		return
	case frozen && m.run.Ending == dagrun.EndingTimeout:
		m.fail(c, dagrun.Result{Kind: dagrun.KindTimeout, ExitCode: 124, HasExit: true, Reason: m.endingReason()})
		return
	case frozen: // a publish counts as a start
		m.end(c, dagrun.TaskCanceled, m.endingReason())
		return
	}
	c.State, c.published, c.killAt, c.opening, c.NextAt, c.Deadline = dagrun.TaskFinishing, false, 0, false, 0, 0
}

// requested applies the open request of a task under way. For a timeout it only turns the result into a failure and
// returns false.
func (m *Model) requested(c *cell, r *dagrun.Result) bool {
	switch c.Request {
	case dagrun.RequestPause:
		if r.Permanent { // the body must not start again after a resume
			c.Request, c.RequestBy, c.killAt = 0, "", 0
			return false
		}
		m.closeAttempt(c, dagrun.TaskPaused, dagrun.Result{}, "")
		m.pauseNow(c, c.RequestBy)
	case dagrun.RequestCancel:
		if c.State == dagrun.TaskRunning {
			m.note(c, *r)
		}
		m.end(c, dagrun.TaskCanceled, c.Reason)
	case dagrun.RequestMark:
		m.marked(c, c.Marked, c.RequestBy, c.Outputs)
	case dagrun.RequestTimeout:
		*r = timedOut(*r, c.Reason)
		c.Request, c.RequestBy = 0, ""
		return false
	default:
		return false
	}
	return true
}

// timedOut is what a timeout makes of the end r of a body. What must not be repeated stays so, and says why.
func timedOut(r dagrun.Result, reason string) dagrun.Result {
	if r.Permanent {
		reason += ": " + reasonOf(r)
	}
	return dagrun.Result{Kind: dagrun.KindTimeout, ExitCode: 124, HasExit: true, Reason: reason, Permanent: r.Permanent}
}

func (m *Model) pauseNow(c *cell, by string) {
	m.unready(c)
	c.State, c.Reason, c.Request, c.RequestBy, c.killAt = dagrun.TaskPaused, "paused by "+by, 0, "", 0
}

func (m *Model) marked(c *cell, as dagrun.State, by string, outputs dagrun.JSON) {
	c.Kind, c.ExitCode, c.HasExit, c.Signal, c.Outputs = "", 0, false, 0, outputs
	c.CacheKey = "" // the user supplied the outputs, so they are not cached
	m.end(c, as, "marked by "+by)
	c.Marked = as
}

// closeAttempt records an attempt that is not the end of its task.
func (m *Model) closeAttempt(c *cell, state dagrun.State, r dagrun.Result, reason string) {
	m.Attempts = append(m.Attempts, dagrun.AttemptRecord{
		ID: c.ID, Attempt: c.Attempt, Generation: c.Generation, State: state,
		Kind: r.Kind, ExitCode: r.ExitCode, HasExit: r.HasExit, Signal: r.Signal, Reason: reason,
		StartedAt: c.AttemptAt, FinishedAt: m.now,
	})
	c.AttemptAt, c.killAt, c.opening = 0, 0, false
}

// lost ends an attempt because its driver is gone or gave it up.
func (m *Model) lost(c *cell, reason string) {
	r := dagrun.Result{Kind: dagrun.KindLost, Reason: "lost"}
	if reason != "" {
		r.Reason += ": " + reason
	}
	if m.requested(c, &r) {
		return
	}
	if r.Kind == dagrun.KindLost && c.step.OnLost == dagrun.LostRetry && m.giveUp == "" {
		m.note(c, r)
		m.closeAttempt(c, dagrun.TaskFailed, r, r.Reason)
		m.backToPending(c)
		return
	}
	m.note(c, r)
	if r.Kind == dagrun.KindLost && m.giveUp != "" {
		r.Reason = anyWords
		m.fail(c, r)
		return
	}
	m.bodyFailed(c, r)
}

// backToPending prepares a task for another attempt, for any reason: its edges are judged again.
func (m *Model) backToPending(c *cell) {
	m.unready(c)
	c.State, c.NextAt, c.Reason = dagrun.TaskPending, 0, ""
	if m.run.Ending != dagrun.EndingNone && !m.isHandler(c) {
		m.end(c, dagrun.TaskCanceled, m.endingReason())
	}
}

// bodyFailed asks on_error, then retry_policy.
func (m *Model) bodyFailed(c *cell, r dagrun.Result) {
	m.note(c, r)
	f := c.failure()
	frozen := m.run.Ending != dagrun.EndingNone && !m.isHandler(c)
	for i, rule := range c.step.OnError {
		yes := true
		if rule.When != nil {
			var err error
			if yes, err = rule.When.Eval(failureScope{m.scope(c), f}); err != nil {
				m.fail(c, dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()})
				return
			}
		}
		if yes {
			m.onError(c, r, i, frozen)
			return
		}
	}
	if p := c.step.Retry; !frozen && retryable(p, r) && c.Retries < p.Limit {
		m.retry(c, r)
		return
	}
	m.fail(c, r)
}

func (m *Model) onError(c *cell, r dagrun.Result, i int, frozen bool) {
	switch rule := c.step.OnError[i]; rule.Do {
	case dagrun.DoSkip:
		m.end(c, dagrun.TaskSkipped, anyWords)
	case dagrun.DoContinue:
		m.tolerate(c, r)
	case dagrun.DoRetry:
		if !frozen && !r.Permanent && c.Retries < cmp.Or(c.step.Retry.Limit, 3) {
			m.retry(c, r)
			return
		}
		m.fail(c, r)
	case dagrun.DoReplace, dagrun.DoAsk:
		m.replace(c, r, i, frozen)
	default:
		m.fail(c, r)
	}
}

// replace puts the replacements of a rule in the place of a failed task, or the body that the rule asks.
func (m *Model) replace(c *cell, r dagrun.Result, i int, frozen bool) {
	rule := c.step.OnError[i]
	n, byData := len(rule.With), false
	var choices []dagrun.Choice
	for k := range rule.With {
		if rule.With[k].Foreach == nil {
			choices = append(choices, dagrun.Choice{With: k})
			continue
		}
		byData = true
		items, err := rule.With[k].Foreach.Items.Expand(failureScope{m.scope(c), c.failure()})
		if limit := rule.With[k].Foreach.MaxItems; !frozen && (err != nil || limit > 0 && len(items) > limit) {
			m.fail(c, dagrun.Result{Kind: dagrun.KindConfig, Reason: anyWords})
			return
		}
		for _, it := range items {
			choices = append(choices, dagrun.Choice{With: k, Value: it.Value})
		}
	}
	switch {
	case rule.Do == dagrun.DoAsk:
		n, choices = 1, nil
	case byData:
		n = len(choices)
	default:
		choices = nil
	}
	switch {
	case frozen:
		m.fail(c, r)
	case n == 0:
		r.Reason = anyWords
		m.fail(c, r)
	case !m.fits(c, n):
		m.fail(c, r)
	default:
		m.end(c, dagrun.TaskReplaced, reasonOf(r))
		m.replaceBy(c, dagrun.Growth{Rule: i, Count: n, Choices: choices})
	}
}

// fits reports whether a task may get so many more replacements.
func (m *Model) fits(c *cell, n int) bool {
	return len(m.group(c.ID.Step, c.ID.Item))-1+n <= dagrun.MaxReplacements && len(m.cells)+n <= dagrun.MaxTasks
}

func (m *Model) replaceBy(c *cell, grew dagrun.Growth) {
	grew.Generation, grew.ResetBy, grew.FirstAlt = m.run.Generation, c.ResetBy, len(m.group(c.ID.Step, c.ID.Item))
	c.Growth = &grew
	m.sprout(c)
}

// planned starts what a body chose that a rule asked.
func (m *Model) planned(c *cell, r dagrun.Result) {
	choices, err := c.plans.Chooser.Choose(r.Outputs)
	frozen := m.run.Ending != dagrun.EndingNone && !m.isHandler(c)
	switch failed := c.replaces; {
	case err != nil || !m.fits(c, len(choices)):
		m.bodyFailed(c, dagrun.Result{Kind: dagrun.KindOutput, HasExit: r.HasExit, ExitCode: r.ExitCode, Reason: anyWords})
	case frozen:
		m.end(c, dagrun.TaskCanceled, m.endingReason())
	case len(choices) == 0:
		m.fail(c, dagrun.Result{Kind: failed.Kind, ExitCode: failed.ExitCode, HasExit: failed.HasExit, Signal: failed.Signal, Reason: anyWords})
	default:
		m.note(c, r)
		m.end(c, dagrun.TaskReplaced, anyWords)
		m.replaceBy(c, dagrun.Growth{Count: len(choices), Choices: choices})
	}
}

var neverRetried = []dagrun.FailureKind{
	dagrun.KindOutput, dagrun.KindConfig, dagrun.KindPublish, dagrun.KindLost,
	dagrun.KindRejected, dagrun.KindChild,
}

func retryable(p dagrun.RetryPolicy, r dagrun.Result) bool {
	switch {
	case r.Permanent:
		return false
	case p.Kinds == nil && slices.Contains(neverRetried, r.Kind),
		p.Kinds != nil && !slices.Contains(p.Kinds, r.Kind):
		return false
	}
	return r.Kind != dagrun.KindExit || len(p.ExitCodes) == 0 || slices.Contains(p.ExitCodes, r.ExitCode)
}

func (m *Model) retry(c *cell, r dagrun.Result) {
	m.closeAttempt(c, dagrun.TaskFailed, r, reasonOf(r))
	c.State, c.NextAt, c.Reason = dagrun.TaskRetrying, m.now+delay(c.step.Retry, c.Retries), reasonOf(r)
	c.Retries++
	c.Ref, c.Deadline = "", 0
}

// delay returns the pause before the next attempt, without jitter.
func delay(p dagrun.RetryPolicy, retries int) dagrun.Time {
	d := float64(p.Interval) * math.Pow(max(1, p.Backoff), float64(retries))
	if p.MaxInterval > 0 {
		d = min(d, float64(p.MaxInterval))
	}
	return dagrun.Time(d)
}

// fail ends a task as failed, unless continue_on tolerates the failure.
func (m *Model) fail(c *cell, r dagrun.Result) {
	co := c.step.ContinueOn
	if co.Failed || (r.HasExit && slices.Contains(co.ExitCodes, r.ExitCode)) {
		m.tolerate(c, r)
		return
	}
	m.note(c, r)
	m.end(c, dagrun.TaskFailed, reasonOf(r))
}

func (m *Model) tolerate(c *cell, r dagrun.Result) {
	m.note(c, r)
	if c.step.ContinueOn.MarkSuccess {
		c.CacheKey = ""
		c.Outputs = ""
		m.end(c, dagrun.TaskSucceeded, "marked")
		return
	}
	c.Tolerated = true
	m.end(c, dagrun.TaskFailed, reasonOf(r))
}

// publishEnded handles the end of a publish.
func (m *Model) publishEnded(c *cell, r dagrun.Result) {
	if c.late {
		r = timedOut(r, "timed out after "+span(c.step.PublishTimeout))
	}
	c.published, c.late, c.killAt = false, false, 0
	late := c.Request == dagrun.RequestTimeout
	if m.requested(c, &r) {
		return
	}
	switch p := c.step.Retry; {
	case r.Kind == dagrun.KindNone:
		m.end(c, dagrun.TaskSucceeded, c.Reason)
	case r.Unstarted: // another driver publishes
	case late:
		m.fail(c, r)
	case retryable(p, r) && c.PublishTries < p.Limit && (m.run.Ending == 0 || m.isHandler(c)):
		c.State, c.Publishing, c.NextAt = dagrun.TaskRetrying, true, m.now+delay(p, c.PublishTries)
		c.PublishTries++
	default:
		m.fail(c, dagrun.Result{Kind: dagrun.KindPublish, ExitCode: r.ExitCode, HasExit: r.HasExit, Signal: r.Signal, Reason: anyWords})
	}
}

// anyWords is a reason that is not compared, because the language defines no text for it.
const anyWords = "*"

// reasonOf explains how a body failed.
func reasonOf(r dagrun.Result) string {
	switch {
	case r.Reason != "":
		return r.Reason
	case r.Kind == dagrun.KindExit:
		return fmt.Sprintf("exit %d", r.ExitCode)
	case r.Kind == dagrun.KindSignal:
		return fmt.Sprintf("signal %d", r.Signal)
	}
	return string(r.Kind)
}

func span(d dagrun.Duration) string { return (time.Duration(d) * time.Millisecond).String() }
