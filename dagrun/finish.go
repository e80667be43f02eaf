package dagrun

import (
	"cmp"
	"fmt"
	"slices"
)

// timeoutExit is the exit code of every body that timed out.
const timeoutExit = 124

// finished applies EvFinished: the end of a body, of a wait, of a child run or of a publish. It returns ErrStale if this attempt of
// the task is not under way, and ErrEvent if the event has no Result.
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

// inTime reports whether a body that ended at the given time ended before the timeout that was to stop it. The caller may learn of
// the end only after the timeout. The timeout is the task's own, or the run's if that is earlier and has ended the run.
func (r *Run) inTime(t *task, at Time) bool {
	limit := t.deadline
	if r.rec.Ending == EndingTimeout {
		limit = earliest(limit, r.rec.Deadline)
	}
	return at < limit
}

// gaveUp applies EvLost: this driver will not see how an attempt ends. A body ends as lost. A publish starts again, unless the task
// was asked to stop. It returns ErrStale if this attempt has neither under way.
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

// landAgain has the publish of a finishing task start again, without counting a try. The current try is over: its host could not
// start it, or this driver will not see how it ends.
func (r *Run) landAgain(t *task) {
	r.move(t, phaseNone)
	r.setAlarm(t)
	r.enqueue(t)
}

// committed reports whether the body succeeded for good and its effects are durable already. No request can undo these.
func (res Result) committed() bool {
	return res.Settled && res.Kind == KindNone && res.SnoozeUntil == 0
}

// lost returns the result of a lost attempt. The text why, if not empty, becomes part of its reason.
func lost(why string) Result {
	reason := "lost"
	if why != "" {
		reason += ": " + why
	}
	return Result{Kind: KindLost, Reason: reason}
}

// bodyEnded decides what the end of an attempt means, in the order of the language reference. A success that is durable already
// stands. Otherwise a pending request to pause, cancel, mark or time out the task decides, except that no pause holds after a
// permanent failure. Then comes a snooze, then an attempt that could not be started, or was lost and is not permanent. All other
// results go to classifyResult.
func (r *Run) bodyEnded(t *task, res Result) {
	if res.committed() {
		t.Request, t.RequestBy, t.Marked = RequestNone, "", TaskPending // too late to stop it
	} else if t.Request == RequestPause && res.Permanent {
		t.Request, t.RequestBy = RequestNone, "" // a resume would start the body again
	}
	switch {
	case t.Request != RequestNone:
		r.applyRequest(t, res)
	case res.SnoozeUntil > 0:
		r.snooze(t, res)
	case res.Unstarted || res.Kind == KindLost && t.step.OnLost == LostRetry && !res.Permanent:
		r.lostAttempt(t, res)
	default:
		r.classifyResult(t, res)
	}
}

// applyRequest carries out the task's request after its attempt has ended with res. A pause, a cancel and a mark move the task to
// their state. A timeout turns res into a failure, which may be retried if it is of a body; a publish that timed out fails the
// task.
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
		if res = res.tooLate(reason); finishing {
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

// tooLate returns the failure by timeout of a body or a publish that ended with res. It is permanent if res is, and its reason then
// has the one of res as well, because a person must know it before another attempt.
func (res Result) tooLate(reason string) Result {
	late := timedOut(reason)
	late.Stderr = res.Stderr
	if res.Permanent {
		late.Permanent, late.Reason = true, reason+": "+res.reason()
	}
	return late
}

// snooze closes an attempt and has the task wait. The next attempt begins at res.SnoozeUntil and does not count as a retry.
func (r *Run) snooze(t *task, res Result) {
	t.Reason = res.Reason
	r.closeAttempt(t, TaskWaiting, Result{Reason: res.Reason})
	t.NextAt, t.Deadline, t.Ref = res.SnoozeUntil, 0, ""
	r.move(t, phaseNone)
	r.to(t, TaskWaiting)
}

// lostAttempt records an attempt that was lost or could not be started as failed, and has the task start again. The next attempt
// does not count as a retry.
func (r *Run) lostAttempt(t *task, res Result) {
	r.note(t, "lost", fmt.Sprintf("attempt %d %s", t.Attempt, res.Reason))
	t.take(res)
	r.closeAttempt(t, TaskFailed, res)
	r.again(t)
}

// again sends a task back to pending and has it judged. Its next attempt begins only if its dependencies and the state of the run
// still allow it.
func (r *Run) again(t *task) {
	t.NextAt, t.Deadline, t.Ref = 0, 0, ""
	r.to(t, TaskPending)
	r.enqueue(t)
}

// classifyResult judges the result of an attempt that no request overrules: as a skip by its exit code, a success or a failure. A
// success fails with kind output if the outputs of the run would become too large, unless the outputs are durable already.
func (r *Run) classifyResult(t *task, res Result) {
	switch {
	case t.step.skips(res):
		t.take(res)
		r.skip(t, fmt.Sprintf("skip exit code %d", res.ExitCode))
	case res.Kind == KindNone && t.plans != nil:
		r.planned(t, res)
	case res.Kind == KindNone && !res.Settled && r.overflows(t, res.Outputs):
		r.bodyFailed(t, Result{
			Kind: KindOutput, HasExit: res.HasExit, ExitCode: res.ExitCode,
			Reason: fmt.Sprintf("the outputs of the run have more than %d bytes: put large data elsewhere, and output the address of the data", MaxRunOutputs),
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

// overflows reports whether the outputs of the run would exceed MaxRunOutputs if these replaced the task's present outputs.
func (r *Run) overflows(t *task, outputs JSON) bool {
	return t.ID.Item == "" && r.bytes-t.weight()+len(outputs) > MaxRunOutputs
}

// OutputBytes returns the bytes of outputs of all tasks other than id, as MaxRunOutputs counts them. It returns 0 for an item or a
// replacement of an item, because the limit does not apply to items, and for a task that the run does not have.
func (r *Run) OutputBytes(id TaskID) int {
	t := r.find(id)
	if t == nil || id.Item != "" {
		return 0
	}
	return r.bytes - t.weight()
}

// weight returns the bytes of the task's present outputs that count toward MaxRunOutputs. They are 0 for items.
func (t *task) weight() int {
	if t.ID.Item != "" {
		return 0
	}
	return len(t.Outputs)
}

// put replaces the outputs of a task and updates the run's count of their bytes. The value "" removes the outputs.
func (r *Run) put(t *task, outputs JSON) {
	r.bytes -= t.weight()
	t.Outputs = outputs
	r.bytes += t.weight()
}

// skips reports whether a result skips the task: the body ended by itself with an exit code that the step lists in SkipExit.
func (s *Step) skips(res Result) bool {
	byItself := res.Kind == KindNone || res.Kind == KindExit
	return byItself && res.HasExit && slices.Contains(s.SkipExit, res.ExitCode)
}

// skip ends a task as skipped and adds a note with the reason: its condition, its exit code or a rule of on_error.
func (r *Run) skip(t *task, reason string) {
	r.note(t, "skip", reason)
	r.end(t, TaskSkipped, reason)
}

// bodySucceeded ends a task as succeeded, or moves it to finishing if its step has a publish.
func (r *Run) bodySucceeded(t *task, res Result) {
	t.take(res)
	r.put(t, res.Outputs)
	t.Reason = cmp.Or(res.Reason, ranReason)
	if !t.step.Publish {
		r.to(t, TaskSucceeded)
		return
	}
	r.move(t, phaseNone)
	t.NextAt, t.Deadline = 0, 0
	r.to(t, TaskFinishing)
	r.enqueue(t)
}

// bodyFailed decides what follows from a failure. The first rule of on_error that applies decides, and else retry_policy. No step
// of an ending run is retried. A failure of kind config fails the task at once, without on_error.
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

// misconfigured fails a task with kind config, for a mistake in its spec. Neither on_error nor retry_policy applies.
func (r *Run) misconfigured(t *task, reason string) {
	t.take(Result{Kind: KindConfig, Reason: reason})
	r.fail(t)
}

// fail ends a task as failed. If continue_on lists the failure, it is tolerated: see failAs.
func (r *Run) fail(t *task) {
	c := t.step.ContinueOn
	r.failAs(t, c.Failed || t.HasExit && slices.Contains(c.ExitCodes, t.ExitCode))
}

// failAs ends a task as failed and removes its outputs. If the failure is tolerated, the task's children may start, and if
// continue_on has mark_success, the task ends as succeeded.
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

// end moves a task to a state, by Run.to, with a reason for its row.
func (r *Run) end(t *task, s State, reason string) {
	t.Reason = reason
	r.to(t, s)
}

// take copies the end of a body into the task's row: kind, exit code, signal and reason, but not the outputs.
func (t *task) take(res Result) {
	t.Kind, t.ExitCode, t.HasExit, t.Signal = res.Kind, res.ExitCode, res.HasExit, res.Signal
	t.Reason, t.stderr = res.reason(), res.Stderr
}

// reason returns the reason that the result brings. For a failure without a reason it returns a description such as "exit 1". For a
// success without a reason it returns "".
func (res Result) reason() string {
	if res.Kind == KindNone {
		return res.Reason
	}
	return cmp.Or(res.Reason, res.String())
}

// ranReason is the reason of a body that succeeded and says nothing itself.
const ranReason = "ran"

// String describes in a word or two how a body ended: "ran", "exit 1", "signal 9", "timed out", or the name of another kind.
func (res Result) String() string {
	switch {
	case res.Kind == KindNone:
		return ranReason
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

// closeAttempt adds an attempt that ended, but did not end its task, to the records. It takes s and res for the attempt's state and
// result, and clears the start of the attempt in the task's row.
func (r *Run) closeAttempt(t *task, s State, res Result) {
	r.attempts = append(r.attempts, AttemptRecord{
		ID: t.ID, Attempt: t.Attempt, Generation: t.Generation, State: s,
		Kind: res.Kind, ExitCode: res.ExitCode, HasExit: res.HasExit, Signal: res.Signal, Reason: res.reason(),
		StartedAt: t.AttemptAt, FinishedAt: r.now,
	})
	t.AttemptAt = 0
}

// land starts the publish of a finishing task, or asks for the pools that the publish needs. If the run is paused or
// drained, the task is marked as blocked. If the run is ending, the task ends.
func (r *Run) land(t *task) {
	switch {
	case r.stopping(t):
		r.endTask(t, r.endingReason())
	case r.halted():
		r.move(t, phaseBlocked)
	case len(t.step.PublishPools) > 0:
		t.since = r.now
		r.want(t, phaseQueuedPublish)
	default:
		r.publish(t)
	}
}

// publish has the caller run the publish of a task. Its timeout counts from its EvStarted.
func (r *Run) publish(t *task) {
	t.deadline, t.late = 0, false
	r.move(t, phasePublishing)
	r.setAlarm(t)
	r.act(t, Action{Kind: ActStart, Attempt: t.Attempt, Publish: true})
}

// publishEnded decides what the end of a publish means. A request to stop the task decides first. A failure is retried by
// retry_policy, with a budget separate from the one of the body. Otherwise it fails the task with kind publish; on_error and
// on_lost do not apply.
func (r *Run) publishEnded(t *task, res Result) {
	if t.late {
		res = res.tooLate("timed out after " + t.step.PublishTimeout.String())
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

// publishLate has the caller stop a publish that has exceeded its timeout. It stores nothing: if this driver is lost, the next
// driver starts the publish again.
func (r *Run) publishLate(t *task) {
	t.late = true
	r.act(t, Action{Kind: ActKill, Attempt: t.Attempt, Cause: RequestTimeout})
}

// retryPublish schedules the next try of a publish that ended with res. The attempt and its outputs stay as they are, because the
// body has succeeded.
func (r *Run) retryPublish(t *task, res Result) {
	t.NextAt = after(r.now, r.backoff(t, t.PublishTries))
	t.PublishTries++
	t.Publishing = true
	t.Reason = "publish: " + res.reason()
	r.note(t, "publish", fmt.Sprintf("publish of attempt %d, try %d: %s; the worker tries again in %s", t.Attempt, t.PublishTries, res.reason(), Duration(t.NextAt-r.now)))
	r.to(t, TaskRetrying)
}

func (r *Run) publishAgain(t *task) {
	t.Publishing, t.NextAt, t.Reason = false, 0, ranReason
	r.to(t, TaskFinishing)
	r.enqueue(t)
}

// settle computes the group's state and class anew from its members, and stores both in the group.
func (g *group) settle() { g.state, g.class = g.result() }

// result returns the state and class of a group. Without replacements these are the task's, and a tolerated failure is a success.
// With replacements, the ones that were not replaced themselves decide. While one is open, the group is. Then a failure wins over a
// cancel, and a cancel over successes and skips. Only if all are skipped, the group is.
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

// finished returns the class of a group for children that wait for state finished. A settled group has its own class. A group that
// is open counts as succeeded if all bodies have succeeded or been skipped and only publishes are still to end, and else as open.
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

// startedOr returns the class of a group for children that wait for state started: succeeded once its task has started, and the
// group's own class before that.
func (g *group) startedOr() class {
	if g.main.StartedAt != 0 {
		return classS
	}
	return g.class
}

// contributes returns the class that the node has for its children, by the state of the edge: the index is an EdgeState.
func (n *node) contributes() [3]class {
	return [3]class{OnSucceeded: n.class, OnFinished: n.finished(), OnStarted: n.startedOr()}
}

// spread passes a change of a task on: it computes the class of its group anew, counts an item that has now settled, and has the
// children of a step judged again if they see a change.
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

// itemSettled counts the item of a task as settled. After the last item it closes the foreach node.
func (r *Run) itemSettled(t *task) {
	each := t.node.each
	each.states[t.group.state]++
	if each.open--; each.open == 0 {
		r.closeForeach(t.node)
	}
}

// spreadNode computes anew which classes a node has for its children, and has each child judged again for which the class changed.
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

// shift moves one parent of n from one class to another in n.tally. If n is pending or ready, shift has it judged again.
func (r *Run) shift(n *node, from, to class) {
	r.effort++
	n.tally[from]--
	n.tally[to]++
	if n.main.State <= TaskReady {
		r.enqueue(n.main)
	}
}

// retally computes the classes of all groups, and the tallies of all nodes, from the states of the tasks. A new, restored or reset
// run needs it; later spread keeps them up to date.
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

// conclude decides whether the drive ends here. It sets r.verdict if the run is over, r.leave if the run parks or drains, and
// neither if the drive goes on. The decision is a proposal until Advance: each event makes it anew.
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

// finishedAll reports whether nothing is left to do in the run, handlers included, or the run was refused.
func (r *Run) finishedAll() bool {
	if r.rec.Ending == EndingRefused {
		return true
	}
	return r.begun && r.open == 0 && r.turn == nil
}

// idle reports whether no body and no publish is under way.
func (r *Run) idle() bool { return r.sets[phaseRunning].len()+r.sets[phasePublishing].len() == 0 }

// parks reports whether the drive should end and give the claim back, because no body or publish is under way and the run is
// paused, or has nothing to do for at least Options.ParkAfter.
func (r *Run) parks() bool {
	switch {
	case !r.idle():
		return false
	case r.rec.PausedBy != "":
		return true
	case len(r.work)+len(r.fresh) > 0:
		return false
	case r.sets[phaseProbing].len()+r.sets[phaseOpening].len()+r.sets[phaseOffered].len()+r.sets[phaseQueuedPublish].len() > 0:
		return false
	}
	first := r.timers.first()
	return first == nil || first.alarm >= after(r.now, r.opts.ParkAfter)
}

// parkedUntil returns the time when a parked run needs a driver again, or 0 if only a control can make it go on.
func (r *Run) parkedUntil() Time {
	if first := r.timers.first(); first != nil && r.rec.PausedBy == "" {
		return first.alarm
	}
	return 0
}

// record returns the run's row as it is to be stored. If conclude has decided that the drive ends, the row already shows the end:
// the verdict, or that the run is queued again or waits.
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

// outcome returns the state in which the run would end if nothing else failed or was canceled: RunSucceeded, RunFailed or
// RunCanceled.
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

// outcomeReason returns the reason for a run that ends in state s. A success has none, except "nothing to do" if every step was
// skipped.
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

// firstOf describes the first task in state s, in graph order, as "step NAME REASON". It passes over foreach nodes. If there is no
// such task, it returns otherwise.
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

// failureReason describes the earliest failure and says how many more there are. The run must have a failure.
func (r *Run) failureReason() string {
	first := r.sortedFailures()[0]
	reason := fmt.Sprintf("step %s failed: %s", r.graph.TaskName(first.ID), first.Reason)
	if more := len(r.failures) - 1; more > 0 {
		reason += fmt.Sprintf(" (and %d more)", more)
	}
	return reason
}

// sortedFailures sorts r.failures in place by the time of the failure, and returns it. Failures of the same time are in graph
// order, so that a restored run returns the same order.
func (r *Run) sortedFailures() []*task {
	slices.SortFunc(r.failures, func(a, b *task) int {
		return cmp.Or(cmp.Compare(a.FinishedAt, b.FinishedAt), inOrder(a, b))
	})
	return r.failures
}
