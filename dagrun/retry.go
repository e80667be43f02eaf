package dagrun

import (
	"cmp"
	"fmt"
	"slices"
)

// forever limits every delay to a thousand years, so that no sum of times overflows.
const forever Duration = 1000 * 365 * 24 * 3600 * 1000

// finalKinds are the failure kinds that a policy retries only if it names them.
var finalKinds = []FailureKind{KindOutput, KindConfig, KindPublish, KindLost, KindRejected, KindChild}

// allows reports whether the policy retries a failed body that was retried the given number of times.
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

// allowsPublish is allows for a publish. KindPublish, which allows would treat as final, is retried.
func (p *RetryPolicy) allowsPublish(res Result, tries int) bool {
	if res.Kind == KindPublish {
		return !res.Permanent && tries < p.Limit
	}
	return p.allows(res, tries)
}

// retry schedules the next attempt after a failed one.
func (r *Run) retry(t *task, res Result) {
	r.closeAttempt(t, TaskFailed, res)
	t.NextAt, t.Deadline, t.Ref = after(r.now, r.backoff(t, t.Retries)), 0, ""
	t.Retries++
	r.to(t, TaskRetrying)
}

// backoff returns the delay before the next retry, after the given number of retries.
func (r *Run) backoff(t *task, retries int) Duration {
	p := &t.step.Retry
	return p.jitter(p.delay(retries), hash(r.opts.Seed, r.graph.TaskName(t.ID), t.Attempt+retries))
}

// delay returns the interval, multiplied by Backoff for each retry, up to MaxInterval.
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

// jitter changes a delay by up to the share Jitter in either direction, by an amount that the hash selects.
func (p *RetryPolicy) jitter(d Duration, hash uint64) Duration {
	share := float64(p.Jitter * float64(d))
	unit := float64(hash>>11) / (1 << 53) // 0 ≤ unit < 1
	return max(d+Duration(float64(share*(2*unit-1))), 0)
}

// hash is FNV-1a with a final mix. It gives the same number for the same attempt of the same run on every machine.
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

// after returns t + d and does not overflow.
func after(t Time, d Duration) Time { return t + Time(min(d, forever)) }

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
	if !slices.ContainsFunc(picked, func(f fate) bool { return f != keep }) && !r.handlersFailed() && r.open == 0 {
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

// fateOfFailed returns the effect of RetryFailed on one step. A foreach that ended while some of its items were open, because the
// store ended the run, has to run again for these items.
func (r *Run) fateOfFailed(n *node) fate {
	if n.each == nil && r.toRetry(n.main) {
		return anew
	}
	f := keep
	endedOpen := n.each != nil && (n.main.State.Terminal() || r.wasReset(n.main))
	n.tasks(func(t *task) {
		if t != n.main && (r.toRetry(t) || endedOpen && !t.State.Terminal()) {
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

// defaultRetries limits "do: retry" if retry_policy sets no limit.
const defaultRetries = 3

// matchRule returns the index of the first on_error rule with a condition that holds, or -1.
func (r *Run) matchRule(t *task) (int, error) {
	for i := range t.step.OnError {
		cond := t.step.OnError[i].When
		if cond == nil {
			return i, nil
		}
		s := r.scope(t)
		s.failure = &Failure{Kind: t.Kind, ExitCode: t.ExitCode, Signal: t.Signal, Attempt: t.Attempt}
		holds, err := cond.Eval(s)
		if err != nil {
			return 0, err
		}
		if holds {
			return i, nil
		}
	}
	return -1, nil
}

// applyErrorRule carries out an on_error rule.
func (r *Run) applyErrorRule(t *task, rule int, res Result) {
	do := t.step.OnError[rule].Do
	switch {
	case do == DoSkip:
		r.skip(t, "on_error: "+t.Reason)
	case do == DoContinue:
		r.failAs(t, true)
	case do == DoRetry && !r.stopping(t) && !res.Permanent && t.Retries < cmp.Or(t.step.Retry.Limit, defaultRetries):
		r.retry(t, res)
	case do == DoReplace && !r.stopping(t):
		r.replace(t, rule)
	default:
		r.fail(t)
	}
}

// replace replaces a failed task by the bodies that an on_error rule names.
func (r *Run) replace(t *task, rule int) {
	with, g := t.step.OnError[rule].With, t.group
	if len(g.alts)+len(with) > MaxReplacements {
		r.note(t, "replace", fmt.Sprintf("failed instead: more than %d replacements", MaxReplacements))
		r.fail(t)
		return
	}
	if r.total+len(with) > MaxTasks {
		r.misconfigured(t, fmt.Sprintf("on_error: the run would have more than %d tasks", MaxTasks))
		return
	}
	t.Growth = &Growth{Generation: r.rec.Generation, Rule: rule, FirstAlt: len(g.alts) + 1, Count: len(with)}
	first := len(g.alts)
	r.growAlts(t)
	r.to(t, TaskReplaced)
	for _, alt := range g.alts[first:] {
		r.enqueue(alt)
	}
}

// growAlts makes the replacements that the Growth of a task describes.
func (r *Run) growAlts(t *task) {
	with, g := t.step.OnError[t.Growth.Rule].With, t.group
	block := make([]task, len(with))
	for i := range with {
		alt := &block[i]
		g.alts = append(g.alts, alt)
		r.adopt(alt, t.node, g, TaskID{t.ID.Step, t.ID.Item, len(g.alts)}, &with[i])
		alt.index = t.index
	}
}
