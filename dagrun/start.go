package dagrun

import (
	"cmp"
	"fmt"
)

// enter makes a pending task ready and takes the first step toward its start: it uses a precomputed result, makes the items of a
// foreach node, asks the cache, or starts the task. If the condition of the task does not hold, enter ends the task as skipped. If
// nothing may start now, it only marks the task as blocked.
func (r *Run) enter(t *task) {
	if r.halted() {
		r.move(t, phaseBlocked)
		return
	}
	r.move(t, phaseNone)
	if !r.when(t) {
		return
	}
	t.since = r.now
	r.to(t, TaskReady)
	switch res := r.precomputed(t); {
	case res != nil:
		r.finishWithoutBody(t, *res, "precomputed")
	case t.grows():
		r.grow(t)
	case t.step.CacheKey != nil:
		r.probe(t)
	default:
		r.start(t)
	}
}

// when evaluates the task's own condition and reports whether the task may start. If the condition does not hold, when ends the
// task as skipped; if it cannot be evaluated, as failed. A task without a condition, or with an earlier attempt in this generation,
// may always start.
func (r *Run) when(t *task) bool {
	cond := t.step.When
	if cond == nil || t.StartedAt != 0 || !t.conditional() {
		return true
	}
	holds, err := cond.Eval(r.scope(t))
	switch {
	case err != nil:
		r.misconfigured(t, "when: "+err.Error())
	case !holds:
		r.skip(t, "when: "+cond.String())
	}
	return holds && err == nil
}

// conditional reports whether the condition of the step is judged for this task. For a foreach step the condition is judged for
// each item if WhenPerItem is set, and otherwise for the node alone. For any other task, and for a replacement, it is always
// judged.
func (t *task) conditional() bool {
	if t.node.main.step.Foreach == nil || t.ID.Alt != 0 {
		return true
	}
	return t.step.WhenPerItem == (t.ID.Item != "")
}

// precomputed returns the result that a task ends with instead of running, or nil. A result given at enqueue wins over the result
// of the step; it does not apply to items, replacements and reserved approvals.
func (r *Run) precomputed(t *task) *Result {
	if t == t.node.main && !t.step.Reserved() {
		if res, ok := r.opts.Precomputed[t.step.Name]; ok {
			return &res
		}
	}
	return t.step.Result
}

// finishWithoutBody begins an attempt and ends it at once with res, as if a body had ended like that: a failure may be retried. The
// reason is used for a success that brings none. It ignores res.SnoozeUntil.
func (r *Run) finishWithoutBody(t *task, res Result, reason string) {
	r.attempt(t)
	res.SnoozeUntil = 0
	if res.Reason == "" && res.Kind == KindNone {
		res.Reason = reason
	}
	r.classifyResult(t, res)
}

// probe has the caller look for the task's outputs in the cache, before the task asks for a slot. The task continues with EvProbed.
// A task that had succeeded and was reset starts at once, because it would find its own outputs. If the cache key cannot be computed,
// probe fails the task.
func (r *Run) probe(t *task) {
	key, err := t.step.CacheKey.Text(r.scope(t))
	if err != nil {
		r.misconfigured(t, "cache key: "+err.Error())
		return
	}
	t.CacheKey = key
	if cmp.Or(t.ResetFrom, t.node.main.ResetFrom) == TaskSucceeded { // items and replacements that are made anew have no state of their own
		r.start(t)
		return
	}
	r.move(t, phaseProbing)
	r.act(t, Action{Kind: ActProbe, Key: key})
}

// probed applies EvProbed: a hit ends the task with that result, and nil, a miss, starts it. It returns ErrStale if the task has
// not asked the cache.
func (r *Run) probed(t *task, hit *Result) error {
	if t.phase != phaseProbing {
		return ErrStale
	}
	r.move(t, phaseNone)
	if hit != nil {
		t.CacheKey = "" // it is in the cache already
		r.finishWithoutBody(t, *hit, "cached")
		return nil
	}
	t.missed = true
	r.start(t)
	return nil
}

// start starts a ready task as its kind of body demands. A no-op succeeds at once. A task that runs a body or a child run waits in
// phaseHeld until the limits of the run and of its foreach node have room, see offer. An approval or a wait begins its attempt.
func (r *Run) start(t *task) {
	switch t.step.Body {
	case BodyNoop:
		r.finishWithoutBody(t, Result{}, "ran")
	case BodyTask, BodyChild:
		t.priority = r.priority(t)
		r.move(t, phaseHeld)
	case BodyApproval:
		r.askPeople(t)
	default:
		r.wait(t)
	}
}

// priority returns the priority of a task. If its expression fails, priority returns 0 and adds a note.
func (r *Run) priority(t *task) int {
	if t.step.PriorityExpr == nil {
		return t.step.Priority
	}
	p, err := t.step.PriorityExpr.Number(r.scope(t))
	if err != nil {
		r.note(t, "priority", "counts as 0: "+err.Error())
		return 0
	}
	return p
}

// granted applies EvGranted: it starts the body or the publish of a task that waited for its slot or its pools. It returns ErrStale
// if the task waits for neither.
func (r *Run) granted(t *task) error {
	switch t.phase {
	case phaseOffered:
		t.told = false
		r.move(t, phaseRunning)
		r.attempt(t)
		r.to(t, TaskRunning)
		r.act(t, Action{Kind: ActStart, Attempt: t.Attempt})
	case phaseQueuedPublish:
		t.told = false
		if t.Reason != ranReason { // the row may say why the publish waited, in this drive or in a former one
			t.Reason = ranReason
			r.changed(t)
		}
		r.publish(t)
	default:
		return ErrStale
	}
	return nil
}

// waitsInLine applies EvQueued: it stores in the task's row that the task is ready, and why it waits. For a task that waits for slots
// or pools, text is the reason; its publish may be what waits. For a task that a limit holds back, text is used only if a task ahead
// of it waits for a slot, and otherwise the limit is the reason. It returns ErrStale if the task waits for neither.
func (r *Run) waitsInLine(t *task, text string) error {
	switch t.phase {
	case phaseOffered, phaseQueuedPublish:
	case phaseHeld, phaseCapped:
		if text == "" || r.ahead(t) == nil {
			text = r.explainStart(t)
		}
	default:
		return ErrStale
	}
	t.Reason, t.shown = text, true
	r.changed(t)
	return nil
}

// attempt begins the next attempt of a task now: it counts the attempt up and clears all that the row and the task hold of the last
// one. The caller moves the task to its next state.
func (r *Run) attempt(t *task) {
	if t.StartedAt == 0 {
		t.StartedAt = r.now
		r.itemStarted(t)
	}
	t.Attempt++
	t.Generation, t.AttemptAt = r.rec.Generation, r.now
	r.clearResult(t)
	t.NextAt, t.Deadline, t.Ref = 0, 0, ""
	t.deadline, t.started, t.missed, t.shown = 0, false, false, false
}

// clearResult removes the result of the last attempt from the task's row: outputs, reason, kind, exit code and the time of the end.
// It does not add the row to the records.
func (r *Run) clearResult(t *task) {
	r.put(t, "")
	t.Reason, t.Kind, t.ExitCode, t.HasExit, t.Signal = "", KindNone, 0, false, 0
	t.Tolerated, t.FinishedAt = false, 0
}

// itemStarted marks the foreach node of an item as started when its first item starts. It does nothing for a task that is no item,
// or if the node has started already. The node's record comes before the item's.
func (r *Run) itemStarted(t *task) {
	if main := t.node.main; t != main && t.ID.Item != "" && main.StartedAt == 0 {
		main.StartedAt = r.now
		r.changed(main)
		r.spreadNode(t.node)
	}
}

// bodyStarted applies EvStarted: the timeout of the body or publish counts from now. It returns ErrStale if this attempt of the
// body is not running, or has been reported as started before. For a publish that has ended, or that was reported before, it does
// nothing and returns nil.
func (r *Run) bodyStarted(t *task, attempt int) error {
	timeout := t.step.Timeout
	switch {
	case t.State == TaskFinishing && t.Attempt == attempt:
		if timeout = t.step.PublishTimeout; t.phase != phasePublishing || t.deadline != 0 {
			return nil // the event is late: the publish has ended, or its deadline is set
		}
	case t.phase != phaseRunning || t.Attempt != attempt || t.started:
		return ErrStale
	default:
		t.started = true
	}
	if timeout > 0 {
		t.deadline = after(r.now, timeout)
		r.setAlarm(t)
	}
	return nil
}

// judge lets a task go on if it can: it starts a pending task, opens a wait or a child run again, or starts a publish. A pending
// task that can never start is ended instead. Tasks in other states stay as they are.
func (r *Run) judge(t *task) {
	r.effort++
	switch {
	case t.fresh: // Advance has it judged
	case t.State == TaskFinishing && t.phase == phaseNone:
		r.land(t)
	case t.State == TaskWaiting && t.phase == phaseNone:
		r.ask(t)
	case t.State <= TaskReady:
		r.judgeStart(t)
	}
}

// judgeStart cancels a pending or ready task if the run is ending, blocks it if its turn has not come, and otherwise judges its
// trigger rule.
func (r *Run) judgeStart(t *task) {
	switch {
	case r.stopping(t):
		r.cancel(t, r.endingReason())
	case !r.hasTurn(t):
		r.move(t, phaseBlocked)
	default:
		r.judgeEdges(t)
	}
}

// judgeEdges makes a pending task ready if its trigger rule holds, and ends it if the rule cannot hold any more. If the rule is
// undecided again, a ready task goes back to pending.
func (r *Run) judgeEdges(t *task) {
	switch r.edges(t) {
	case undecided:
		r.unready(t)
	case no:
		r.ruledOut(t)
	case yes:
		if t.State == TaskPending {
			r.enter(t)
		}
	}
}

// hasTurn reports whether it is the turn of a task. First comes the init handler if there is one, then the steps once init has
// succeeded or was skipped, and then the other handlers one by one.
func (r *Run) hasTurn(t *task) bool {
	if t.node.handler {
		return t.node == r.turn
	}
	init := r.handler(handlerInit)
	return init == nil || init.class == classS || init.class == classK
}

// edges returns whether the task's trigger rule lets it start, forbids that, or is undecided. Items and replacements have no edges
// of their own: for them the answer is always yes.
func (r *Run) edges(t *task) answer {
	if t != t.node.main {
		return yes
	}
	return t.step.Rule.judge(t.node.tally)
}

// unready sends a ready task back to pending, and takes any pending task out of its phase. It does nothing to a task in another
// state.
func (r *Run) unready(t *task) {
	if t.State == TaskReady {
		r.to(t, TaskPending)
	}
	if t.State == TaskPending {
		r.move(t, phaseNone)
	}
}

// ruledOut ends a task that its trigger rule does not let start: as upstream_failed if a parent counts as failed, and else as
// skipped. The reason names the parents.
func (r *Run) ruledOut(t *task) {
	if t.node.tally[classF] > 0 {
		r.end(t, TaskUpstreamFailed, "upstream failed: "+some(r.parentsOf(t, classF)))
		return
	}
	others := append(r.parentsOf(t, classK), r.parentsOf(t, classC)...)
	if len(others) == 0 {
		r.end(t, TaskSkipped, t.step.Rule.String()+": no parent failed")
		return
	}
	r.end(t, TaskSkipped, fmt.Sprintf("%s: skipped or canceled: %s", t.step.Rule, some(others)))
}

// parentsOf returns the names of the parents of t's step that count for t as class c. Which class a parent counts as depends on the
// state of the edge.
func (r *Run) parentsOf(t *task, c class) []string {
	var names []string
	for _, l := range r.graph.parents.of(t.ID.Step) {
		if r.nodes[l.Step].gives[l.State] == c {
			names = append(names, r.graph.StepName(l.Step))
		}
	}
	return names
}

// class is the result of a task or group as its dependants count it. The letters are from the language reference.
type class uint8

const (
	classOpen class = iota // not settled
	classS                 // succeeded, or tolerated
	classF                 // failed or upstream_failed
	classK                 // skipped
	classC                 // canceled
	classes
)

// classOf returns the class of a task, without regard to its replacements. A failure that was tolerated, and a skip that
// continue_on tolerates, count as a success. A replaced task is open: its replacements decide.
func classOf(t *task) class {
	switch t.State {
	case TaskSucceeded:
		return classS
	case TaskFailed:
		if t.Tolerated {
			return classS
		}
		return classF
	case TaskUpstreamFailed:
		return classF
	case TaskSkipped:
		if t.step.ContinueOn.Skipped {
			return classS
		}
		return classK
	case TaskCanceled:
		return classC
	default:
		return classOpen
	}
}

// tally counts parents by class.
type tally [classes]int32

// answer is the result of a trigger rule.
type answer uint8

const (
	undecided answer = iota
	yes
	no
)

// judge applies a rule to the numbers of parents in each class. It answers undecided until all parents have settled, but the rules
// one_success, one_failed and one_done say yes with the first parent that satisfies them. Without parents the answer is yes.
func (rule Rule) judge(n tally) answer {
	total := n[classOpen] + n[classS] + n[classF] + n[classK] + n[classC]
	if total == 0 || rule.early(n) {
		return yes
	}
	if n[classOpen] > 0 {
		return undecided
	}
	if rule.holds(n, total) {
		return yes
	}
	return no
}

// early reports whether the rule holds already, whatever becomes of the parents that are still open. Only the three rules that ask
// for one parent can hold early.
func (rule Rule) early(n tally) bool {
	switch rule {
	case OneSuccess:
		return n[classS] > 0
	case OneFailed:
		return n[classF] > 0
	case OneDone:
		return n[classS]+n[classF] > 0
	default:
		return false
	}
}

// holds reports whether the rule holds after all parents have settled; total is their number. The caller has asked early before, so
// holds returns false for the rules that early can answer.
func (rule Rule) holds(n tally, total int32) bool {
	switch rule {
	case AllSuccess:
		return n[classS] == total
	case AllDone:
		return true
	case AllFailed:
		return n[classF] == total
	case NoneFailed:
		return n[classF]+n[classC] == 0
	case NoneFailedMinOneSuccess:
		return n[classF]+n[classC] == 0 && n[classS] > 0
	case NoneSkipped:
		return n[classK] == 0
	default:
		return false
	}
}

// hopeless reports whether one failed parent means that a rule can never hold.
func (rule Rule) hopeless() bool {
	return rule == AllSuccess || rule == NoneFailed || rule == NoneFailedMinOneSuccess
}

// waits reports whether an attempt of the task is waiting: for an approval, a child run or a timer. It is false for a task that
// snoozes, because that one waits between two attempts.
func (t *task) waits() bool { return t.State == TaskWaiting && t.AttemptAt != 0 }

// wait begins an attempt of a wait or a child run, which has no body on this worker, and has the caller open it. The step's timeout
// counts from now.
func (r *Run) wait(t *task) {
	r.attempt(t)
	if t.step.Timeout > 0 {
		t.Deadline = after(r.now, t.step.Timeout)
	}
	r.to(t, TaskWaiting)
	r.ask(t)
}

// ask has the caller open the task's wait or child run by an ActOpen. If nothing may start now, it marks the task as blocked
// instead, and release has it judged again later.
func (r *Run) ask(t *task) {
	if r.halted() {
		r.move(t, phaseBlocked)
		return
	}
	r.move(t, phaseOpening)
	r.act(t, Action{Kind: ActOpen, Attempt: t.Attempt, Ref: t.Ref})
}

// waits applies EvWaits, the answer to an ActOpen: it stores until when the task waits, and the Ref of the child run. If the task
// was asked to stop while the answer was on its way, waits now has the child run stopped. It returns ErrStale if the task does not
// wait for this answer.
func (r *Run) waits(t *task, e *Event) error {
	if t.phase != phaseOpening || t.Attempt != e.Attempt {
		return ErrStale
	}
	r.rest(t)
	t.NextAt, t.Ref = e.Until, cmp.Or(e.Ref, t.Ref)
	if t.Request == RequestNone {
		t.Reason = cmp.Or(e.Text, t.Reason)
	}
	r.changed(t)
	r.setAlarm(t)
	if t.Request != RequestNone {
		r.halt(t, r.rec.Ending == EndingNow)
	}
	return nil
}

// rest moves a task, after the caller has opened its wait or child run, to phaseAwaitingChild if it waits for a child run, and to
// phaseNone if not.
func (r *Run) rest(t *task) {
	if t.step.Body == BodyChild {
		r.move(t, phaseAwaitingChild)
	} else {
		r.move(t, phaseNone)
	}
}

// wake handles the alarm of a waiting task. At the timeout, the attempt ends as timed out. After a snooze, the next attempt begins.
// At the time that EvWaits named, the wait is opened again.
func (r *Run) wake(t *task) {
	switch {
	case t.Deadline != 0 && (t.NextAt == 0 || t.Deadline <= t.NextAt):
		r.expire(t)
	case !t.waits():
		r.again(t)
	default:
		t.NextAt = 0
		r.changed(t)
		r.setAlarm(t)
		r.ask(t)
	}
}

// expire ends a waiting attempt with a failure of kind timeout, which may be retried. A child run is stopped first, and the attempt
// ends once the child run has.
func (r *Run) expire(t *task) {
	reason := "timed out after " + t.step.Timeout.String()
	if t.step.Body == BodyChild {
		r.request(t, RequestTimeout, "", reason, false)
		return
	}
	r.classifyResult(t, timedOut(reason))
}
