package dagrun

import (
	"cmp"
	"fmt"
)

// enter makes a pending task ready, or ends the task if its own condition does not hold.
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

// when evaluates the task's own condition before the first attempt, and reports whether the task may start. A further
// attempt does not evaluate it again.
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

// conditional reports whether the condition of the step applies to this task. The condition of a foreach step applies to the
// node, or to each of its items.
func (t *task) conditional() bool {
	if t.node.main.step.Foreach == nil || t.ID.Alt != 0 {
		return true
	}
	return t.step.WhenPerItem == (t.ID.Item != "")
}

func (r *Run) precomputed(t *task) *Result {
	if t == t.node.main && !t.step.Reserved() {
		if res, ok := r.opts.Precomputed[t.step.Name]; ok {
			return &res
		}
	}
	return t.step.Result
}

// finishWithoutBody ends a task with a result that needs no body.
func (r *Run) finishWithoutBody(t *task, res Result, reason string) {
	r.attempt(t)
	res.SnoozeUntil = 0
	if res.Reason == "" && res.Kind == KindNone {
		res.Reason = reason
	}
	r.classifyResult(t, res)
}

// probe asks the cache for the task's outputs, before the task asks for a slot.
func (r *Run) probe(t *task) {
	key, err := t.step.CacheKey.Text(r.scope(t))
	if err != nil {
		r.misconfigured(t, "cache key: "+err.Error())
		return
	}
	t.CacheKey = key
	r.move(t, phaseProbing)
	r.act(t, Action{Kind: ActProbe, Key: key})
}

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

// start starts a ready task, or has it wait for a slot.
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

// granted starts the body or the publish of a task that has been granted its slot or pool.
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
		r.publish(t)
	default:
		return ErrStale
	}
	return nil
}

// waitsInLine stores in the task's row that it is ready, with the reason why it waits.
func (r *Run) waitsInLine(t *task, text string) error {
	switch t.phase {
	case phaseOffered:
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

// attempt begins the next attempt of a task.
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

// clearResult removes the result of the last attempt from the task's row.
func (r *Run) clearResult(t *task) {
	r.put(t, "")
	t.Reason, t.Kind, t.ExitCode, t.HasExit, t.Signal = "", KindNone, 0, false, 0
	t.Tolerated, t.FinishedAt = false, 0
}

// itemStarted marks a foreach node as started when its first item starts. The node's record comes before the item's.
func (r *Run) itemStarted(t *task) {
	if main := t.node.main; t != main && t.ID.Item != "" && main.StartedAt == 0 {
		main.StartedAt = r.now
		r.changed(main)
		r.spreadNode(t.node)
	}
}

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

// judge decides whether a task can go on now: start, open its wait, or publish.
func (r *Run) judge(t *task) {
	r.effort++
	switch {
	case t.State == TaskFinishing && t.phase == phaseNone:
		r.land(t)
	case t.State == TaskWaiting && t.phase == phaseNone:
		r.ask(t)
	case t.State <= TaskReady:
		r.judgeStart(t)
	}
}

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

// hasTurn reports whether it is the turn of a task: first init, then the steps, then the other handlers one by one.
func (r *Run) hasTurn(t *task) bool {
	if t.node.handler {
		return t.node == r.turn
	}
	init := r.handler(handlerInit)
	return init == nil || init.class == classS || init.class == classK
}

// edges returns the answer of the task's trigger rule. Items and replacements have no edges of their own and may always
// start.
func (r *Run) edges(t *task) answer {
	if t != t.node.main {
		return yes
	}
	return t.step.Rule.judge(t.node.tally)
}

// unready sends a task that was about to start back to pending.
func (r *Run) unready(t *task) {
	if t.State == TaskReady {
		r.to(t, TaskPending)
	}
	if t.State == TaskPending {
		r.move(t, phaseNone)
	}
}

// ruledOut ends a task that its trigger rule does not let start.
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

// parentsOf returns the names of the parents that count as a class.
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

// classOf returns the class of a task by itself. A replaced task is open: its replacements decide.
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

// judge applies a rule to the classes of the parents. The order in which the parents settled does not matter.
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

// early reports whether the parents that have settled satisfy a rule, regardless of the others.
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

// holds applies a rule that did not hold early, after every parent has settled.
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

// waits reports whether an attempt of the task waits. A task that snoozes has no attempt under way.
func (t *task) waits() bool { return t.State == TaskWaiting && t.AttemptAt != 0 }

// wait begins an attempt that waits outside of this worker instead of running a body.
func (r *Run) wait(t *task) {
	r.attempt(t)
	if t.step.Timeout > 0 {
		t.Deadline = after(r.now, t.step.Timeout)
	}
	r.to(t, TaskWaiting)
	r.ask(t)
}

// ask has the caller open the task's wait or child run, or blocks the task if nothing may start.
func (r *Run) ask(t *task) {
	if r.halted() {
		r.move(t, phaseBlocked)
		return
	}
	r.move(t, phaseOpening)
	r.act(t, Action{Kind: ActOpen, Attempt: t.Attempt, Ref: t.Ref})
}

// waits applies EvWaits, the answer to an ActOpen.
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

// rest moves an opened task to the phase in which it waits.
func (r *Run) rest(t *task) {
	if t.step.Body == BodyChild {
		r.move(t, phaseAwaitingChild)
	} else {
		r.move(t, phaseNone)
	}
}

// wake handles the alarm of a waiting task.
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

// expire ends a wait after its timeout. A child run has to be stopped first.
func (r *Run) expire(t *task) {
	reason := "timed out after " + t.step.Timeout.String()
	if t.step.Body == BodyChild {
		r.request(t, RequestTimeout, "", reason, false)
		return
	}
	r.classifyResult(t, timedOut(reason))
}
