package dagrun

import (
	"cmp"
	"fmt"
	"slices"
)

// timeoutExit is the exit code of every body that timed out.
const timeoutExit = 124

// finished applies EvFinished: the end of a body, of a wait or of a publish.
func (r *Run) finished(t *task, e *Event) error {
	waits := t.waits() && t.step.Body != BodyApproval
	switch {
	case t.Attempt != e.Attempt || !t.underWay() && !waits:
		return ErrStale
	case e.Result == nil:
		return ErrEvent
	case t.phase == phasePublishing:
		t.late = t.late && e.At >= t.deadline
		r.publishEnded(t, *e.Result)
	default:
		if t.Request == RequestTimeout && r.inTime(t, e.At) {
			t.Request = RequestNone
		}
		r.bodyEnded(t, *e.Result)
	}
	return nil
}

// inTime reports whether a body ended before the timeout that was to stop it, although the caller stepped its end later. The
// timeout is the task's own, or the run's.
func (r *Run) inTime(t *task, at Time) bool {
	limit := t.deadline
	if r.rec.Ending == EndingTimeout {
		limit = earliest(limit, r.rec.Deadline)
	}
	return at < limit
}

// gaveUp applies EvLost: this driver will not see how an attempt ends.
func (r *Run) gaveUp(t *task, e *Event) error {
	if !t.underWay() || t.Attempt != e.Attempt {
		return ErrStale
	}
	if t.phase == phasePublishing && t.Request == RequestNone {
		r.landAgain(t)
		return nil
	}
	r.bodyEnded(t, lost(e.Text))
	return nil
}

// landAgain starts the publish of a task again, because this driver will not see how the current one ends.
func (r *Run) landAgain(t *task) {
	r.move(t, phaseNone)
	r.setAlarm(t)
	r.enqueue(t)
}

// committed reports whether the body's effects are durable together with its success, so that no request can undo them.
func (res Result) committed() bool {
	return res.Settled && res.Kind == KindNone && res.SnoozeUntil == 0
}

func lost(why string) Result {
	reason := "lost"
	if why != "" {
		reason += ": " + why
	}
	return Result{Kind: KindLost, Reason: reason}
}

// bodyEnded decides what the end of an attempt means, in the order of the language reference. It handles requests, snoozes
// and lost attempts, and leaves the rest to classifyResult.
func (r *Run) bodyEnded(t *task, res Result) {
	if res.committed() {
		t.Request, t.RequestBy, t.Marked = RequestNone, "", TaskPending // too late to stop it
	}
	switch {
	case t.Request != RequestNone:
		r.applyRequest(t, res)
	case res.SnoozeUntil > 0:
		r.snooze(t, res)
	case res.Unstarted || res.Kind == KindLost && t.step.OnLost == LostRetry:
		r.lostAttempt(t, res)
	default:
		r.classifyResult(t, res)
	}
}

// applyRequest carries out the request that ended the attempt.
func (r *Run) applyRequest(t *task, res Result) {
	reason, finishing := t.Reason, t.State == TaskFinishing
	switch t.Request {
	case RequestPause:
		t.Request, t.RequestBy = RequestNone, ""
		r.closeAttempt(t, TaskPaused, Result{Reason: reason})
		r.to(t, TaskPaused)
	case RequestCancel:
		t.take(res)
		r.end(t, TaskCanceled, reason)
	case RequestMark:
		r.mark(t, t.Marked, reason)
	case RequestTimeout:
		t.Request = RequestNone
		if res = timedOut(reason); finishing {
			t.take(res)
			r.fail(t)
			return
		}
		r.classifyResult(t, res)
	}
}

func timedOut(reason string) Result {
	return Result{Kind: KindTimeout, ExitCode: timeoutExit, HasExit: true, Reason: reason}
}

// snooze ends an attempt for a while: the next attempt begins at SnoozeUntil and does not count as a retry.
func (r *Run) snooze(t *task, res Result) {
	t.Reason = res.Reason
	r.closeAttempt(t, TaskWaiting, Result{Reason: res.Reason})
	t.NextAt, t.Deadline, t.Ref = res.SnoozeUntil, 0, ""
	r.move(t, phaseNone)
	r.to(t, TaskWaiting)
}

// lostAttempt starts a lost attempt again, which does not count as a retry.
func (r *Run) lostAttempt(t *task, res Result) {
	r.note(t, "lost", fmt.Sprintf("attempt %d %s", t.Attempt, res.Reason))
	t.take(res)
	r.closeAttempt(t, TaskFailed, res)
	r.again(t)
}

// again sends a task back to pending, so that its dependencies are judged again before it starts.
func (r *Run) again(t *task) {
	t.NextAt, t.Deadline, t.Ref = 0, 0, ""
	r.to(t, TaskPending)
	r.enqueue(t)
}

// classifyResult judges a result that no request overrules.
func (r *Run) classifyResult(t *task, res Result) {
	switch {
	case t.step.skips(res):
		t.take(res)
		r.skip(t, fmt.Sprintf("skip exit code %d", res.ExitCode))
	case res.Kind == KindNone && !res.Settled && r.overflows(t, res.Outputs):
		r.bodyFailed(t, Result{
			Kind: KindOutput, HasExit: res.HasExit, ExitCode: res.ExitCode,
			Reason: fmt.Sprintf("the outputs of the run have more than %d bytes: put large data elsewhere and output its address", MaxRunOutputs),
		})
	case res.Kind == KindNone:
		r.bodySucceeded(t, res)
	default:
		r.bodyFailed(t, res)
	}
}

// MaxRunOutputs limits the bytes of outputs of all steps of a run together, because each driver loads all of them. The
// output lists of foreach steps do not count: the core builds them on demand.
const MaxRunOutputs = 4 << 20

func (r *Run) overflows(t *task, outputs JSON) bool {
	return t.ID.Item == "" && r.bytes-t.weight()+len(outputs) > MaxRunOutputs
}

// OutputBytes returns the bytes of outputs of all other tasks, as MaxRunOutputs counts them. It returns 0 for an item,
// because items do not count.
func (r *Run) OutputBytes(id TaskID) int {
	t := r.find(id)
	if t == nil || id.Item != "" {
		return 0
	}
	return r.bytes - t.weight()
}

// weight returns the bytes of a task's outputs that count toward MaxRunOutputs.
func (t *task) weight() int {
	if t.ID.Item != "" {
		return 0
	}
	return len(t.Outputs)
}

// put replaces the outputs of a task; "" removes them.
func (r *Run) put(t *task, outputs JSON) {
	r.bytes -= t.weight()
	t.Outputs = outputs
	r.bytes += t.weight()
}

// skips reports whether a body ended by itself with an exit code that means "nothing to do".
func (s *Step) skips(res Result) bool {
	byItself := res.Kind == KindNone || res.Kind == KindExit
	return byItself && res.HasExit && slices.Contains(s.SkipExit, res.ExitCode)
}

// skip ends a task that has nothing to do, by its condition or its exit code.
func (r *Run) skip(t *task, reason string) {
	r.note(t, "skip", reason)
	r.end(t, TaskSkipped, reason)
}

func (r *Run) bodySucceeded(t *task, res Result) {
	t.take(res)
	r.put(t, res.Outputs)
	t.Reason = cmp.Or(res.Reason, "ran")
	if !t.step.Publish {
		r.to(t, TaskSucceeded)
		return
	}
	r.move(t, phaseNone)
	t.NextAt, t.Deadline = 0, 0
	r.to(t, TaskFinishing)
	r.enqueue(t)
}

func (r *Run) bodyFailed(t *task, res Result) {
	t.take(res)
	if res.Kind == KindConfig {
		r.fail(t)
		return
	}
	rule, err := r.matchRule(t)
	switch {
	case err != nil:
		r.misconfigured(t, "on_error: "+err.Error())
	case rule >= 0:
		r.applyErrorRule(t, rule, res)
	case !r.stopping(t) && t.step.Retry.allows(res, t.Retries):
		r.retry(t, res)
	default:
		r.fail(t)
	}
}

// misconfigured fails a task for a mistake in its spec, which a retry cannot cure.
func (r *Run) misconfigured(t *task, reason string) {
	t.take(Result{Kind: KindConfig, Reason: reason})
	r.fail(t)
}

// fail ends a task as failed, unless continue_on tolerates the failure.
func (r *Run) fail(t *task) {
	c := t.step.ContinueOn
	r.failAs(t, c.Failed || t.HasExit && slices.Contains(c.ExitCodes, t.ExitCode))
}

func (r *Run) failAs(t *task, tolerated bool) {
	r.put(t, "")
	if tolerated && t.step.ContinueOn.MarkSuccess {
		t.CacheKey = ""
		r.end(t, TaskSucceeded, "marked")
		return
	}
	t.Tolerated = tolerated
	r.to(t, TaskFailed)
}

// end moves a task to a state with a reason.
func (r *Run) end(t *task, s State, reason string) {
	t.Reason = reason
	r.to(t, s)
}

// take copies the end of a body into the task's row.
func (t *task) take(res Result) {
	t.Kind, t.ExitCode, t.HasExit, t.Signal = res.Kind, res.ExitCode, res.HasExit, res.Signal
	t.Reason = res.reason()
}

// reason returns the reason that the result brings. A failure without one gets a description of its kind.
func (res Result) reason() string {
	if res.Kind == KindNone {
		return res.Reason
	}
	return cmp.Or(res.Reason, res.String())
}

// String describes in a few words how a body ended.
func (res Result) String() string {
	switch {
	case res.Kind == KindNone:
		return "ran"
	case res.Kind == KindExit && res.HasExit:
		return fmt.Sprintf("exit %d", res.ExitCode)
	case res.Kind == KindSignal:
		return fmt.Sprintf("signal %d", res.Signal)
	case res.Kind == KindTimeout:
		return "timed out"
	default:
		return string(res.Kind)
	}
}

// closeAttempt records an attempt that did not end the task.
func (r *Run) closeAttempt(t *task, s State, res Result) {
	r.attempts = append(r.attempts, AttemptRecord{
		ID: t.ID, Attempt: t.Attempt, Generation: t.Generation, State: s,
		Kind: res.Kind, ExitCode: res.ExitCode, HasExit: res.HasExit, Signal: res.Signal, Reason: res.reason(),
		StartedAt: t.AttemptAt, FinishedAt: r.now,
	})
	t.AttemptAt = 0
}

// land starts the publish of a finishing task, or waits until the publish may start.
func (r *Run) land(t *task) {
	switch {
	case r.stopping(t):
		r.endTask(t, r.endingReason())
	case r.halted():
		r.move(t, phaseBlocked)
	case t.step.PublishPool != "":
		t.since = r.now
		r.want(t, phaseQueuedPublish)
	default:
		r.publish(t)
	}
}

func (r *Run) publish(t *task) {
	t.deadline, t.late = 0, false
	r.move(t, phasePublishing)
	r.setAlarm(t)
	r.act(t, Action{Kind: ActStart, Attempt: t.Attempt, Publish: true})
}

// publishEnded decides what the end of a publish means. Of the policies only retry_policy applies, with a separate budget.
func (r *Run) publishEnded(t *task, res Result) {
	if t.late {
		res = timedOut("timed out after " + t.step.PublishTimeout.String())
	}
	switch {
	case t.Request != RequestNone:
		r.applyRequest(t, res)
	case res.Kind == KindNone:
		r.to(t, TaskSucceeded)
	case res.Unstarted:
		r.landAgain(t)
	case !r.stopping(t) && t.step.Retry.allowsPublish(res, t.PublishTries):
		r.retryPublish(t, res)
	default:
		t.take(res)
		t.Reason = "publish: " + t.Reason
		t.Kind = KindPublish
		r.fail(t)
	}
}

// publishLate stops a publish that has exceeded its time. The timeout is not recorded: if this driver is lost, the next
// driver starts the publish again.
func (r *Run) publishLate(t *task) {
	t.late = true
	r.act(t, Action{Kind: ActKill, Attempt: t.Attempt, Cause: RequestTimeout})
}

// retryPublish schedules the next try of a publish. The attempt and its outputs stay, because the body has succeeded.
func (r *Run) retryPublish(t *task, res Result) {
	t.NextAt = after(r.now, r.backoff(t, t.PublishTries))
	t.PublishTries++
	t.Publishing = true
	t.Reason = "publish: " + res.reason()
	r.note(t, "publish", fmt.Sprintf("publish of attempt %d, try %d: %s; tries again in %s", t.Attempt, t.PublishTries, res.reason(), Duration(t.NextAt-r.now)))
	r.to(t, TaskRetrying)
}

func (r *Run) publishAgain(t *task) {
	t.Publishing, t.NextAt, t.Reason = false, 0, "ran"
	r.to(t, TaskFinishing)
	r.enqueue(t)
}

// settle updates a group's result from its members.
func (g *group) settle() { g.state, g.class = g.result() }

// result combines the members: F wins over C, C over S, and K needs all. A tolerated failure counts as succeeded.
func (g *group) result() (State, class) {
	if len(g.alts) == 0 {
		if g.main.Tolerated {
			return TaskSucceeded, classS
		}
		return g.main.State, classOf(g.main)
	}
	var n tally
	allSkipped := true
	for _, t := range g.alts {
		if t.State != TaskReplaced {
			n[classOf(t)]++
			allSkipped = allSkipped && t.State == TaskSkipped
		}
	}
	switch {
	case n[classOpen] > 0:
		return g.main.State, classOpen
	case n[classF] > 0:
		return TaskFailed, classF
	case n[classC] > 0:
		return TaskCanceled, classC
	}
	state, class := TaskSucceeded, classS
	if allSkipped {
		state = TaskSkipped
	}
	if n[classS] == 0 {
		class = classK
	}
	return state, class
}

// finished returns the class that counts for an edge of state finished: S as soon as only publishes are still to end.
func (g *group) finished() class {
	if g.class != classOpen {
		return g.class
	}
	near := true
	g.members(func(t *task) {
		c := classOf(t)
		near = near && (t.State == TaskFinishing || t.State == TaskReplaced || c == classS || c == classK)
	})
	if near {
		return classS
	}
	return classOpen
}

// startedOr returns the class that counts for an edge of state started.
func (g *group) startedOr() class {
	if g.main.StartedAt != 0 {
		return classS
	}
	return g.class
}

// contributes returns the class that counts for the node's children, by the state of their edges.
func (n *node) contributes() [3]class {
	return [3]class{OnSucceeded: n.class, OnFinished: n.finished(), OnStarted: n.startedOr()}
}

// spread passes a change of a task on to its group, its foreach node, and the children of its step.
func (r *Run) spread(t *task) {
	was := t.group.class
	t.group.settle()
	switch {
	case t.ID.Item == "":
		r.spreadNode(t.node)
	case was == classOpen && t.group.class != classOpen:
		r.itemSettled(t)
	}
}

// itemSettled counts an item that settled, and closes the node after its last item.
func (r *Run) itemSettled(t *task) {
	each := t.node.each
	each.states[t.group.state]++
	if each.open--; each.open == 0 {
		r.closeForeach(t.node)
	}
}

// spreadNode updates the classes that a node contributes, and has each child judged again for which its class changed.
func (r *Run) spreadNode(n *node) {
	was, gives := n.gives, n.contributes()
	if gives == was {
		return
	}
	n.gives = gives
	for _, l := range r.graph.children.of(n.index) {
		if was[l.State] != gives[l.State] {
			r.shift(&r.nodes[l.Step], was[l.State], gives[l.State])
		}
	}
}

// shift moves one parent of a node from one class to another, and has the node judged again.
func (r *Run) shift(n *node, from, to class) {
	r.effort++
	n.tally[from]--
	n.tally[to]++
	if n.main.State <= TaskReady {
		r.enqueue(n.main)
	}
}

// retally computes all contributions from scratch, for a restored or reset run.
func (r *Run) retally() {
	for i := range r.nodes {
		n := &r.nodes[i]
		n.settle()
		n.retallyItems()
		n.gives, n.tally = n.contributes(), tally{}
	}
	for i := range r.nodes {
		for _, l := range r.graph.parents.of(i) {
			r.nodes[i].tally[r.nodes[l.Step].gives[l.State]]++
		}
	}
}

func (n *node) retallyItems() {
	if n.each == nil {
		return
	}
	n.each.open, n.each.states = 0, [TaskReplaced + 1]int{}
	for _, g := range n.each.items {
		if g.settle(); g.class == classOpen {
			n.each.open++
		} else {
			n.each.states[g.state]++
		}
	}
}

// conclude decides whether the drive ends here. The decision is a proposal until Advance.
func (r *Run) conclude() {
	r.leave, r.verdict = nil, nil
	switch {
	case r.finishedAll():
		state := r.outcome()
		r.verdict = &Verdict{State: state, Reason: r.outcomeReason(state), Tolerated: r.rec.Tolerated}
	case !r.begun:
	case r.draining && r.idle():
		r.leave = &Leave{Drained: true}
	case r.parks():
		r.leave = &Leave{WakeAt: r.parkedUntil()}
	}
}

func (r *Run) finishedAll() bool {
	if r.rec.Ending == EndingRefused {
		return true
	}
	return r.begun && r.open == 0 && r.turn == nil
}

// idle reports whether no body and no publish is under way.
func (r *Run) idle() bool { return r.sets[phaseRunning].len()+r.sets[phasePublishing].len() == 0 }

// parks reports whether the run has nothing to do for so long that the drive should give its claim back.
func (r *Run) parks() bool {
	switch {
	case !r.idle():
		return false
	case r.rec.PausedBy != "":
		return true
	case len(r.work) > 0:
		return false
	case r.sets[phaseProbing].len()+r.sets[phaseOpening].len()+r.sets[phaseOffered].len()+r.sets[phaseQueuedPublish].len() > 0:
		return false
	}
	first := r.timers.first()
	return first == nil || first.alarm >= after(r.now, r.opts.ParkAfter)
}

func (r *Run) parkedUntil() Time {
	if first := r.timers.first(); first != nil && r.rec.PausedBy == "" {
		return first.alarm
	}
	return 0
}

// record returns the run's row. If the drive ends, the row has its final values.
func (r *Run) record() RunRecord {
	rec := r.rec
	rec.Counts = r.counts
	switch {
	case r.verdict != nil:
		rec.State, rec.Reason, rec.FinishedAt = r.verdict.State, r.verdict.Reason, r.now
		rec.Deadline = 0
		n := r.leftOutCount()
		rec.Counts.Total, rec.Counts.Skipped = rec.Counts.Total+n, rec.Counts.Skipped+n
	case r.leave == nil:
	case r.leave.Drained:
		rec.State = RunQueued
	default:
		rec.WakeAt, rec.Reason = r.leave.WakeAt, r.Reason()
		if rec.State == RunRunning {
			rec.State = RunWaiting
		}
		if r.timed() {
			rec.Left = max(Duration(rec.Deadline-r.now), 1)
		}
		rec.Deadline = 0
	}
	return rec
}

// outcome returns the verdict as far as it can be known now.
func (r *Run) outcome() RunState {
	switch {
	case r.canceled():
		return RunCanceled
	case r.rec.Ending != EndingNone && r.rec.Ending != EndingFailFast, r.failed():
		return RunFailed
	case r.counts.Canceled > 0:
		return RunCanceled
	default:
		return RunSucceeded
	}
}

func (r *Run) outcomeReason(s RunState) string {
	switch {
	case s == RunSucceeded && r.allSkipped():
		return "nothing to do"
	case s == RunSucceeded:
		return ""
	case r.rec.Ending != EndingNone && r.rec.Ending != EndingFailFast:
		return r.endingReason()
	case s == RunCanceled:
		return r.firstOf(TaskCanceled, "canceled")
	case len(r.failures) > 0:
		return r.failureReason()
	default:
		return r.firstOf(TaskUpstreamFailed, "failed")
	}
}

func (r *Run) allSkipped() bool {
	for i := range r.graph.plain {
		if r.nodes[i].state != TaskSkipped {
			return false
		}
	}
	return true
}

// firstOf describes the first task in a state, in graph order. It returns otherwise if there is none.
func (r *Run) firstOf(s State, otherwise string) string {
	for i := range r.nodes {
		found := ""
		r.nodes[i].tasks(func(t *task) {
			if found == "" && t.State == s && !t.grows() {
				found = fmt.Sprintf("step %s %s", r.graph.TaskName(t.ID), cmp.Or(t.Reason, s.String()))
			}
		})
		if found != "" {
			return found
		}
	}
	return otherwise
}

// failureReason describes the earliest failure.
func (r *Run) failureReason() string {
	first := r.sortedFailures()[0]
	reason := fmt.Sprintf("step %s failed: %s", r.graph.TaskName(first.ID), first.Reason)
	if more := len(r.failures) - 1; more > 0 {
		reason += fmt.Sprintf(" (and %d more)", more)
	}
	return reason
}

// sortedFailures returns the failures by time. Failures of the same time are in graph order, so that a restored run returns
// the same order.
func (r *Run) sortedFailures() []*task {
	slices.SortFunc(r.failures, func(a, b *task) int {
		return cmp.Or(cmp.Compare(a.FinishedAt, b.FinishedAt), inOrder(a, b))
	})
	return r.failures
}
