package dagrun

import (
	"fmt"
	"slices"
)

// forever limits every delay to a thousand years, so that no sum of times overflows.
const forever Duration = 1000 * 365 * 24 * 3600 * 1000

// finalKinds are the failure kinds that a policy retries only if it names them.
var finalKinds = []FailureKind{KindOutput, KindConfig, KindPublish, KindLost, KindRejected, KindChild}

// allows reports whether the policy retries a body that failed with res after it was retried the given number of times. Nothing is
// retried beyond Limit, and no permanent failure or failure of kind config. The kind must be in Kinds, or outside finalKinds if
// Kinds is nil. A failure by exit code must be in ExitCodes if that list is not empty.
func (p *RetryPolicy) allows(res Result, retries int) bool {
	switch {
	case res.Permanent || res.Kind == KindConfig || retries >= p.Limit:
		return false
	case p.Kinds == nil && slices.Contains(finalKinds, res.Kind), p.Kinds != nil && !slices.Contains(p.Kinds, res.Kind):
		return false
	default:
		return res.Kind != KindExit || len(p.ExitCodes) == 0 || slices.Contains(p.ExitCodes, res.ExitCode)
	}
}

// allowsPublish reports the same as allows for a publish that was tried again the given number of times. Unlike allows, it retries
// a failure of kind publish, unless that is permanent.
func (p *RetryPolicy) allowsPublish(res Result, tries int) bool {
	if res.Kind == KindPublish {
		return !res.Permanent && tries < p.Limit
	}
	return p.allows(res, tries)
}

// retry records the attempt that failed with res, and schedules the next one after the delay of backoff. It counts toward the retry
// budget.
func (r *Run) retry(t *task, res Result) {
	r.closeAttempt(t, TaskFailed, res)
	t.NextAt, t.Deadline, t.Ref = after(r.now, r.backoff(t, t.Retries)), 0, ""
	t.Retries++
	r.to(t, TaskRetrying)
}

// backoff returns the delay before the next retry of a task that was retried the given number of times. It is the same in every
// drive.
func (r *Run) backoff(t *task, retries int) Duration {
	p := &t.step.Retry
	return p.jitter(p.delay(retries), hash(r.opts.Seed, r.graph.TaskName(t.ID), t.Attempt+retries))
}

// delay returns the interval, multiplied by Backoff once for each retry that went before, and at most MaxInterval. If MaxInterval
// is 0, the delay is at most forever. A Backoff below 1 counts as 1.
func (p *RetryPolicy) delay(retries int) Duration {
	most := float64(forever)
	if p.MaxInterval > 0 {
		most = float64(p.MaxInterval)
	}
	d := float64(p.Interval)
	for i := 0; i < retries && p.Backoff > 1 && d > 0 && d < most; i++ {
		d = float64(d * p.Backoff)
	}
	return Duration(min(d, most))
}

// jitter lengthens or shortens a delay by at most the share Jitter of it, and never below 0. The hash decides by how much.
func (p *RetryPolicy) jitter(d Duration, hash uint64) Duration {
	share := float64(p.Jitter * float64(d))
	unit := float64(hash>>11) / (1 << 53) // 0 ≤ unit < 1
	return max(d+Duration(float64(share*(2*unit-1))), 0)
}

// hash mixes its arguments into a number by FNV-1a and a final mix. Equal arguments give the same number on every machine.
func hash(seed uint64, name string, n int) uint64 {
	h := uint64(14695981039346656037) ^ seed
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	h ^= uint64(n) * 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// after returns t + d. It limits d to forever, so that the sum does not overflow.
func after(t Time, d Duration) Time { return t + Time(min(d, forever)) }

// retryRun resets the tasks that a retry of a finished run starts again, and the run's row. The caller steps the control before
// EvBegin. After a crash the caller steps the same control again: tasks that it has reset already keep their progress. The request is
// refused if the run is active, is of another generation, or has nothing to reset.
func (r *Run) retryRun(c *Control) Decision {
	switch {
	case r.begun || r.rec.State != RunQueued:
		return r.refused("the run is active: wait for its end, or cancel it")
	case r.rec.Generation < 2 || c.Generation != r.rec.Generation:
		return r.refused(fmt.Sprintf("the retry is for generation %d, but the run is at generation %d", c.Generation, r.rec.Generation))
	}
	picked, problem := r.pick(c)
	if problem != "" {
		return r.refused(problem)
	}
	if !slices.ContainsFunc(picked, func(f fate) bool { return f != keep }) && !r.handlersFailed(c) && r.open == 0 {
		return r.refused("there is nothing to repeat: no task failed or was canceled")
	}
	r.resetSteps(picked, c)
	r.resetHandlers(c)
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
	passed      // the step has not started and stays as it is, but steps that depend on it are picked
)

// pick decides which effect a retry has on every step, by step index. If the request cannot be met, it returns a problem to tell
// the sender of the control, and else "".
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
			fates[i] = r.fateOfFailed(&r.nodes[i], c)
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

// pickStep sets the fate of one step: anew, or partly if id names an item of it. It returns a problem to tell the sender of the
// control if there is no such step or item, and else "".
func (r *Run) pickStep(fates []fate, id *TaskID) (problem string) {
	switch {
	case id == nil || id.Step < 0 || id.Step >= r.graph.Len():
		return "the retry names no step"
	case id.Step >= len(fates):
		return "a handler cannot be repeated alone: retry the run"
	case id.Item == "":
		fates[id.Step] = anew
	case r.find(TaskID{Step: id.Step, Item: id.Item}) == nil:
		return r.noSuchTask(TaskID{Step: id.Step, Item: id.Item})
	default:
		fates[id.Step] = partly
	}
	return ""
}

// fateOfFailed returns the effect of RetryFailed on one step: anew if its task failed, partly if only some of its items or
// replacements did, and else keep. A foreach that ended while some of its items were open, because the store ended the run, has to
// run again for these items.
func (r *Run) fateOfFailed(n *node, c *Control) fate {
	if n.each == nil && toRetry(n.main, c) {
		return anew
	}
	f := keep
	endedOpen := n.each != nil && (n.main.State.Terminal() || c.wasReset(n.main))
	n.tasks(func(t *task) {
		if t != n.main && (toRetry(t, c) || endedOpen && !t.State.Terminal()) {
			f = partly
		}
	})
	return f
}

// toRetry reports whether RetryFailed resets a task: it failed without being tolerated, is upstream_failed or canceled, or was
// reset already.
func toRetry(t *task, c *Control) bool {
	class := classOf(t)
	return class == classF || class == classC || c.wasReset(t)
}

// wasReset reports whether this control, or a later one, has reset a task already. A crash may have stored that and not the decision
// about the control. The caller then keeps the task as it is.
func (c *Control) wasReset(t *task) bool { return t.ResetBy >= c.ID && c.ID > 0 }

// overtaken reports whether a later control has reset a task. Then a crash lost the decision about this one.
func (c *Control) overtaken(t *task) bool { return t.ResetBy > c.ID && c.ID > 0 }

const overtakenReason = "a later request has reset the step"

// pickDependants sets the fate of every step that depends, directly or not, on a picked step to anew, see follows.
func (r *Run) pickDependants(fates []fate) {
	for _, i := range r.graph.order {
		if r.follows(&r.nodes[i], fates) {
			fates[i] = anew
		}
	}
}

// follows reports whether a parent of a step is picked, so that the step may have to run again. It is false for a step that is
// upstream_failed because of another parent, which is not picked and counts as failed, if its trigger rule needs that parent.
func (r *Run) follows(n *node, fates []fate) bool {
	picked, blocked := false, false
	for _, l := range r.graph.parents.of(n.index) {
		picked = picked || fates[l.Step] != keep
		blocked = blocked || fates[l.Step] == keep && r.nodes[l.Step].gives[l.State] == classF
	}
	return picked && !(blocked && n.main.State == TaskUpstreamFailed && n.main.step.Rule.hopeless())
}

// handlersFailed reports whether a task of a handler, replacements included, has to run again: it failed, was canceled, or was
// reset already.
func (r *Run) handlersFailed(c *Control) bool {
	failed := false
	for i := r.graph.plain; i < len(r.nodes); i++ {
		r.nodes[i].tasks(func(t *task) { failed = failed || toRetry(t, c) })
	}
	return failed
}

// resetSteps resets every step as its fate says: wholly, in part, or not at all.
func (r *Run) resetSteps(fates []fate, c *Control) {
	for i, f := range fates {
		switch n := &r.nodes[i]; f {
		case anew:
			r.resetNode(n, c)
		case partly:
			r.resetPart(n, c)
		}
	}
}

// resetHandlers resets every handler that has a stored row, so that it runs again.
func (r *Run) resetHandlers(c *Control) {
	for i := r.graph.plain; i < len(r.nodes); i++ {
		if n := &r.nodes[i]; n.main.stored {
			r.resetNode(n, c)
		}
	}
}

// resetNode resets a step to pending, without items and replacements. Their rows are laid aside for tasks that may grow again.
func (r *Run) resetNode(n *node, c *Control) {
	if n.each != nil && !c.wasReset(n.main) {
		for _, g := range n.each.items {
			g.members(r.layAside)
		}
		n.each = nil
	}
	r.resetGroup(&n.group, c)
}

// resetPart resets the tasks of a step that failed, or the one item that c names. Its foreach node runs again with the items that
// it has.
func (r *Run) resetPart(n *node, c *Control) {
	switch {
	case c.Verb == VerbMark && c.Task.Alt > 0: // the caller resets the replacement
	case c.Mode == RetryFailed && c.Verb == VerbRetry:
		n.tasks(func(t *task) {
			if t != n.main && toRetry(t, c) {
				r.reset(t, c)
			}
		})
	default:
		r.resetGroup(r.find(TaskID{Step: c.Task.Step, Item: c.Task.Item}).group, c)
	}
	if t := n.main; n.each != nil && !c.wasReset(t) && (t.State != TaskRunning || t.Generation != r.rec.Generation) {
		t.ResetBy, t.ResetFrom = c.ID, t.State
		t.State, t.Generation = TaskRunning, r.rec.Generation
		r.clearResult(t)
		r.changed(t)
	}
}

// resetGroup resets the task of a group to pending, and lays its replacements aside. A group that this control has reset before
// stays as it is.
func (r *Run) resetGroup(g *group, c *Control) {
	if c.wasReset(g.main) {
		return
	}
	for _, t := range g.alts {
		r.layAside(t)
	}
	g.alts = nil
	r.reset(g.main, c)
}

// layAside keeps the row of a task in r.left; the caller removes the task from the run. If the task grows again, takeLeft records
// the last attempt of that row. Until then the row is the only record of that attempt.
func (r *Run) layAside(t *task) { r.left[t.ID] = &t.TaskRecord }

// reset sets a task to pending in the present generation, and records its last attempt. The row keeps only the attempt number. A task
// that this control has reset before stays as it is. In a run under way the task is not judged before the reset is durable.
func (r *Run) reset(t *task, c *Control) {
	if c.wasReset(t) {
		return
	}
	from := t.State
	if from == TaskReplaced && t == t.group.main {
		from = t.group.state
	}
	r.closeOld(&t.TaskRecord)
	t.TaskRecord = TaskRecord{ID: t.ID, Generation: r.rec.Generation, Attempt: t.Attempt, ResetBy: c.ID, ResetFrom: from}
	t.settled = nil
	r.changed(t)
	if c.Generation == 0 && !t.fresh {
		t.fresh = true
		r.fresh = append(r.fresh, t)
	}
}

// closeOld adds the last attempt of a row to the records, before the caller overwrites the row. It adds nothing if the row has no
// attempt that is not recorded yet.
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

// attemptState returns the state for the record of a row's last attempt. A failed or canceled task passes its state on. Otherwise
// the attempt failed if the row has a failure kind or an exit code other than 0, or is not final; else it succeeded.
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
