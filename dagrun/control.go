package dagrun

import (
	"cmp"
	"fmt"
	"strings"
)

// control decides a request from outside, and adds the decision and a note to the records. It returns ErrStale for a control that
// this drive has decided before, and ErrEvent for nil. A request that is refused is no error.
func (r *Run) control(c *Control) error {
	if c == nil {
		return ErrEvent
	}
	if r.decided[c.ID] {
		return ErrStale
	}
	r.decided[c.ID] = true
	d := r.decide(c)
	d.ID = c.ID
	r.decisions = append(r.decisions, d)
	r.noteControl(c, d)
	return nil
}

func (r *Run) decide(c *Control) Decision {
	switch {
	case c.Refusal != "":
		return r.refused(c.Refusal)
	case c.Verb > VerbChildEnded:
		return r.refused("this version of the worker does not know the request")
	case c.Verb == VerbRetry && c.Generation != 0:
		return r.retryRun(c)
	case c.Verb == VerbRetry:
		return r.retryLive(c)
	case c.Task == nil:
		return r.decideRun(c)
	}
	t := r.find(*c.Task)
	if t == nil {
		return r.refused(r.noSuchTask(*c.Task))
	}
	return r.decideTask(t, c)
}

func (r *Run) decideRun(c *Control) Decision {
	if r.rec.Ending == EndingRefused {
		return r.refused("the run has failed already")
	}
	switch c.Verb {
	case VerbCancel:
		return r.cancelRun(c)
	case VerbPause:
		return r.pauseRun(c)
	case VerbResume:
		return r.resumeRun()
	default:
		return r.refused("the request names no step")
	}
}

// cancelRun ends the run as canceled. The abort and exit handlers still run, unless c.Now is set or the run was canceled before.
// The decision is always accepted.
func (r *Run) cancelRun(c *Control) Decision {
	ending, by := EndingCancel, c.By
	if c.Now {
		ending = EndingNow
	}
	if r.canceled() {
		ending, by = EndingNow, r.rec.EndingBy
	}
	r.endRun(ending, by, c.Text)
	return r.decision(Accepted)
}

// pauseRun pauses the run: nothing new starts, and bodies under way run to their end. A run that is paused stays as it is. The
// request is refused if the run is ending.
func (r *Run) pauseRun(c *Control) Decision {
	if r.rec.Ending != EndingNone || r.verdict != nil {
		return r.refused("the run is ending")
	}
	paused := Decision{Outcome: Applied, State: RunPaused.String()} // a run that has not begun takes this state when it begins
	if r.rec.PausedBy != "" {
		return paused
	}
	r.rec.PausedBy = cmp.Or(c.By, "somebody") // PausedBy must not be empty: it marks the run as paused
	if r.begun {
		r.rec.State = RunPaused
	}
	r.hold()
	return paused
}

// resumeRun lifts the pause of the run. Tasks that the pause held back are judged again, and timers that came due meanwhile fire.
// The request is refused if the run is not paused.
func (r *Run) resumeRun() Decision {
	if r.rec.PausedBy == "" {
		return r.refused("the run is not paused")
	}
	r.unpause()
	return Decision{Outcome: Applied, State: RunRunning.String()} // if the run has not begun, it takes this state when it begins
}

func (r *Run) unpause() {
	r.rec.PausedBy = ""
	if r.begun {
		r.rec.State = RunRunning
	}
	r.release()
}

// decision returns the answer to a control of the run, with the outcome and the present state of the run.
func (r *Run) decision(o Outcome) Decision {
	return Decision{Outcome: o, State: r.rec.State.String()}
}

// refused returns a refusal of a control of the run; why tells the sender the reason.
func (r *Run) refused(why string) Decision {
	d := r.decision(Refused)
	d.Message = why
	return d
}

// noteControl adds a note with the sender and the decision of a control. It adds none if a child run's end was applied, because the
// row of the task that waited for the child run shows that.
func (r *Run) noteControl(c *Control, d Decision) {
	if c.Verb == VerbChildEnded && d.Outcome == Applied {
		return
	}
	text := fmt.Sprintf("%s: %s", byWhom(c.Verb.String(), c.By), d.Outcome)
	if d.Message != "" {
		text += ": " + d.Message
	}
	var t *task
	if c.Task != nil {
		t = r.find(*c.Task)
	}
	r.note(t, "control", text)
}

func (r *Run) decideTask(t *task, c *Control) Decision {
	if c.overtaken(t) && c.Verb != VerbChildEnded {
		return taskRefused(t, overtakenReason)
	}
	switch c.Verb {
	case VerbCancel:
		return r.cancelTask(t, c)
	case VerbPause:
		return r.pauseTask(t, c)
	case VerbResume:
		return r.resumeTask(t)
	case VerbApprove, VerbReject:
		return r.answerApproval(t, c)
	case VerbMark:
		return r.markTask(t, c)
	default:
		return r.endChild(t, c)
	}
}

// taskDecision returns the answer to a control of a task, with the outcome and the present state of the task.
func taskDecision(t *task, o Outcome) Decision { return Decision{Outcome: o, State: t.State.String()} }

func taskRefused(t *task, why string) Decision {
	d := taskDecision(t, Refused)
	d.Message = why
	return d
}

// settledBy returns the answer to a control that ends a task: applied if it has ended the task, accepted if a body, publish or
// child run must end first.
func settledBy(t *task) Decision {
	if t.Request != RequestNone {
		return taskDecision(t, Accepted)
	}
	return taskDecision(t, Applied)
}

// cancelTask cancels a task, or all items of a foreach node, and all its dependants that have not started. It refuses a task that
// has ended and a handler before its turn. The dependants' records come before the control's: if a crash stores only part
// of the batch, the control is still undecided and the next driver decides it again.
func (r *Run) cancelTask(t *task, c *Control) Decision {
	if why := r.whyNotCancel(t); why != "" {
		return taskRefused(t, why)
	}
	reason := canceledBy(c.By)
	r.cancelDependants(t.node, reason)
	if t.grown() {
		return r.cancelItems(t, c.By, reason, c.Now)
	}
	r.stop(t, c.By, reason, c.Now)
	if t.State == TaskCanceled {
		t.Marked = TaskCanceled
	}
	return settledBy(t)
}

// whyNotCancel returns the reason why a task cannot be canceled: it has ended, or is a handler and its turn has not come. It
// returns "" if it can.
func (r *Run) whyNotCancel(t *task) string {
	switch {
	case t.State.Terminal():
		return "the step is " + t.State.String()
	case !r.hasCome(t):
		return "the step's turn has not come"
	default:
		return ""
	}
}

// hasCome reports whether a handler has its turn or has had it in this generation. For other tasks it is always true.
func (r *Run) hasCome(t *task) bool { return !t.node.handler || t.known || t.node == r.turn }

// cancelItems cancels all items of the foreach node t. The answer is accepted while some of them must still end, and applied
// otherwise; then the node has ended too.
func (r *Run) cancelItems(t *task, by, reason string, now bool) Decision {
	t.node.tasks(func(item *task) {
		if item != t {
			r.stop(item, by, reason, now)
		}
	})
	if t.node.each.open > 0 {
		return taskDecision(t, Accepted)
	}
	r.closeForeach(t.node) // needed if a former driver was lost before it closed the node
	return taskDecision(t, Applied)
}

// cancelDependants cancels the direct and indirect dependants of a step that have not started. It passes through a dependant that
// has started, and cancels the steps behind that one as well.
func (r *Run) cancelDependants(n *node, reason string) {
	seen := make(map[int]bool)
	reach := []int{n.index}
	for k := 0; k < len(reach); k++ {
		for _, l := range r.graph.children.of(reach[k]) {
			if !seen[l.Step] {
				seen[l.Step] = true
				reach = append(reach, l.Step)
			}
		}
	}
	for _, i := range reach[1:] {
		t := r.nodes[i].main
		if !t.State.Terminal() && t.StartedAt == 0 && !t.grown() {
			r.cancel(t, reason)
		}
	}
}

// pauseTask pauses a task. A task without a running body is paused at once. A running body is stopped first, and the task begins a
// new attempt when it is resumed. For a foreach node it pauses the items. It refuses what whyNotPause forbids, for instance a task
// that waits.
func (r *Run) pauseTask(t *task, c *Control) Decision {
	if t.grown() {
		return r.pauseItems(t, c.By)
	}
	if why := r.whyNotPause(t); why != "" {
		return taskRefused(t, why)
	}
	r.pause(t, c.By)
	return settledBy(t)
}

// whyNotPause returns the reason why a task cannot be paused: it belongs to a handler, waits, publishes, has ended, is paused or
// being stopped, or the run is ending. It returns "" if it can.
func (r *Run) whyNotPause(t *task) string {
	switch {
	case t.node.handler:
		return "handlers cannot be paused: pause the run"
	case r.stopping(t):
		return "the run is ending"
	case t.State == TaskPaused:
		return "the step is paused already"
	case t.State == TaskWaiting || t.State == TaskFinishing || t.State.Terminal():
		return "the step is " + t.State.String()
	case t.Request != RequestNone:
		return "the step is being stopped already"
	default:
		return ""
	}
}

func (r *Run) pause(t *task, by string) {
	reason := byWhom("paused", by)
	if t.State == TaskRunning {
		r.request(t, RequestPause, by, reason, false)
		return
	}
	t.Reason = reason
	r.to(t, TaskPaused)
}

// pauseItems pauses all items of the foreach node t that can be paused. The answer is accepted if a body must end first, applied if
// none must, and refused if no item can be paused.
func (r *Run) pauseItems(t *task, by string) Decision {
	paused, stopping := 0, 0
	t.node.tasks(func(item *task) {
		if item == t || r.whyNotPause(item) != "" {
			return
		}
		r.pause(item, by)
		if item.State == TaskPaused {
			paused++
		} else {
			stopping++
		}
	})
	switch {
	case stopping > 0:
		return taskDecision(t, Accepted)
	case paused > 0:
		return taskDecision(t, Applied)
	default:
		return taskRefused(t, "no item of the step can be paused")
	}
}

// resumeTask resumes a paused task, or all paused items of a foreach node. It refuses a task that is not paused or is still being
// stopped.
func (r *Run) resumeTask(t *task) Decision {
	if t.grown() {
		return r.resumeItems(t)
	}
	switch {
	case t.State == TaskPaused:
		r.resume(t)
		return taskDecision(t, Applied)
	case t.Request == RequestPause:
		return taskRefused(t, "the step is still stopping: try again when the step is paused")
	default:
		return taskRefused(t, "the step is not paused but "+t.State.String())
	}
}

func (r *Run) resumeItems(t *task) Decision {
	d := taskRefused(t, "no item of the step is paused")
	t.node.tasks(func(item *task) {
		if item.State == TaskPaused {
			r.resume(item)
			d = taskDecision(t, Applied)
		}
	})
	return d
}

// resume continues a paused task. A task that was between attempts waits for the rest of its backoff; any other is judged again.
func (r *Run) resume(t *task) {
	t.Reason = ""
	if t.NextAt != 0 {
		r.to(t, TaskRetrying)
		return
	}
	r.again(t)
}

// markTask ends a task in the state that the sender asks for, with the sender's outputs: at once, or after its body, publish or
// child run has been stopped. A task that failed or was canceled is reset first, see markEnded. It refuses what whyNotMark and the
// approvals in front of the step forbid.
func (r *Run) markTask(t *task, c *Control) Decision {
	if t.failedGroup() && (c.As == TaskSucceeded || c.As == TaskSkipped) || c.wasReset(t) {
		return r.markEnded(t, c)
	}
	if why := cmp.Or(r.whyNotMark(t, c.As), r.whyNotPass(t.ID.Step, c)); why != "" {
		return taskRefused(t, why)
	}
	reason := byWhom("marked", c.By)
	r.put(t, c.Outputs)
	if t.engaged() {
		t.Marked = c.As
		r.request(t, RequestMark, c.By, reason, false)
	} else {
		r.mark(t, c.As, reason)
	}
	return settledBy(t)
}

// mark ends a task as succeeded, failed or skipped, and keeps none of the last attempt's result. The outputs in the row are the
// sender's; a state other than succeeded drops them.
func (r *Run) mark(t *task, as State, reason string) {
	outputs := t.Outputs
	r.clearResult(t)
	r.put(t, outputs)
	t.CacheKey = "" // a user's claim is not a result that other runs may take from the cache
	r.end(t, as, reason)
	t.Marked = as
}

func markable(as State) bool { return as == TaskSucceeded || as == TaskFailed || as == TaskSkipped }

// whyNotMark returns the reason why a task cannot be marked with a state: the state is none that users may ask for, or the task has
// ended, has items, is being stopped, or is a handler and its turn has not come. It returns "" if it can.
func (r *Run) whyNotMark(t *task, as State) string {
	switch {
	case !markable(as):
		return "a task can be marked succeeded, failed or skipped"
	case t.State.Terminal():
		return whyNotMarkEnded(t)
	case t.grown():
		return "the step has items: mark the items"
	case !r.hasCome(t):
		return "the step's turn has not come"
	case t.Request != RequestNone && t.Request != RequestPause:
		return "the step is being stopped already"
	default:
		return ""
	}
}

// whyNotMarkEnded returns the reason why a task that has ended cannot be marked with the state that was asked for.
func whyNotMarkEnded(t *task) string {
	ended := "the step is " + t.State.String()
	if t.failedGroup() {
		return ended + ": it can be marked only succeeded or skipped"
	}
	return ended + ": while the run is under way, only a step that failed or was canceled can be marked (oarlock retry RUN --from STEP repeats a step that succeeded)"
}

// noSuchTask returns the reason for the refusal of a control that names an item or a replacement which the run does not have.
func (r *Run) noSuchTask(id TaskID) string {
	main := TaskID{Step: id.Step, Item: id.Item}
	switch {
	case id.Step < 0 || id.Step >= r.graph.Len():
		return "the run has no such step"
	case r.find(main) == nil:
		return fmt.Sprintf("step %s has no item %s", r.graph.StepName(id.Step), id.Item)
	default:
		return fmt.Sprintf("step %s has no replacement %d", r.graph.TaskName(main), id.Alt)
	}
}

// endChild ends the attempt of a task that waits for a child run, with the child run's result. It refuses a control that names
// another child run, has no result, or addresses a task that waits for none.
func (r *Run) endChild(t *task, c *Control) Decision {
	if !t.childRuns() || t.Ref != "" && t.Ref != c.Ref {
		return taskRefused(t, "the step does not wait for this child run")
	}
	if c.Result == nil {
		return taskRefused(t, "the control does not say how the child run ended")
	}
	t.Ref = c.Ref
	r.bodyEnded(t, *c.Result)
	return taskDecision(t, Applied)
}

// request stores a request to end a task in its row, and has the caller end the body, publish or child run; now asks to do so
// without grace. The request is carried out once that has ended. A task with a request has no alarm.
func (r *Run) request(t *task, q Request, by, reason string, now bool) {
	t.Request, t.RequestBy, t.Reason = q, by, reason
	r.changed(t)
	r.setAlarm(t)
	r.halt(t, now)
}

// halt has the caller end the body, publish or child run of a task, without grace if now is set. It does nothing for a child run
// with a Ref that is not known yet: waits calls halt again after EvWaits has named it.
func (r *Run) halt(t *task, now bool) {
	switch {
	case t.underWay():
		r.act(t, Action{Kind: ActKill, Attempt: t.Attempt, Cause: t.Request, Now: now})
	case t.childRuns() && t.Ref != "" && (r.begun || r.rec.Ending == EndingRefused):
		r.act(t, Action{Kind: ActCancelChild, Attempt: t.Attempt, Ref: t.Ref, Now: now})
	}
}

// childRuns reports whether the task waits for a child run, which ends by a VerbChildEnded control.
func (t *task) childRuns() bool { return t.waits() && t.step.Body == BodyChild }

// engaged reports whether a body, a publish or a child run must end before the task can. Before EvBegin this includes a task
// recorded as running, because EvBegin closes its attempt.
func (t *task) engaged() bool {
	return t.underWay() || t.childRuns() || t.runs()
}

// cancel ends a task that has nothing under way as canceled.
func (r *Run) cancel(t *task, reason string) { r.end(t, TaskCanceled, reason) }

// stop cancels a task: at once, or after its body, publish or child run has been stopped. If it is being canceled already, now asks
// for its end without grace. stop does nothing to a task that has ended or to a foreach node with items.
func (r *Run) stop(t *task, by, reason string, now bool) {
	switch {
	case t.State.Terminal() || t.grown():
	case !t.engaged():
		r.cancel(t, reason)
	case t.Request != RequestCancel:
		r.request(t, RequestCancel, by, reason, now)
	case now:
		r.halt(t, true)
	}
}

// askPeople begins the attempt of an approval, which waits until a control decides it or its timeout comes. If the prompt cannot be
// filled in, askPeople fails the task.
func (r *Run) askPeople(t *task) {
	asks, err := r.asks(t)
	if err != nil {
		r.misconfigured(t, err.Error())
		return
	}
	r.attempt(t)
	if t.step.Timeout > 0 {
		t.Deadline = after(r.now, t.step.Timeout)
	}
	t.asks, t.Reason = asks, t.step.waitsForApproval()
	r.to(t, TaskWaiting)
}

// asks returns the question of an approval step with its prompt filled in and cut to what a store accepts. It returns an error if
// the prompt cannot be filled in.
func (r *Run) asks(t *task) (*Asks, error) {
	a, asks := t.step.Approval, &Asks{Open: true}
	if a == nil {
		return asks, nil
	}
	asks.Inputs, asks.Approvers = a.Inputs, a.Approvers
	if a.Prompt == nil {
		return asks, nil
	}
	prompt, err := a.Prompt.Text(r.scope(t))
	asks.Prompt = storedPrompt(prompt)
	return asks, err
}

// cutMark ends a prompt that was cut.
const cutMark = "…"

// storedPrompt returns a prompt in a form that every store accepts. It replaces NUL and invalid UTF-8, and cuts the prompt to at
// most MaxPromptBytes, with cutMark at the end.
func storedPrompt(prompt string) string {
	const replacement = "\ufffd"
	prompt = strings.ToValidUTF8(strings.ReplaceAll(prompt, "\x00", replacement), replacement)
	if len(prompt) <= MaxPromptBytes {
		return prompt
	}
	return strings.ToValidUTF8(prompt[:MaxPromptBytes-len(cutMark)], "") + cutMark
}

// waitsForApproval returns the reason for the row of an approval that waits: "waits for approval", with "by" and the approvers if
// the step lists any.
func (s *Step) waitsForApproval() string {
	if !s.Reserved() {
		return "waits for approval"
	}
	return "waits for approval by " + anyOf(s.Approval.Approvers)
}

// question returns the Asks for the next record of a task: open while an approval waits, closed once it waits no more. It
// returns nil, which leaves the stored question as it is, for other tasks and for an approval that waits since an earlier
// drive.
func (t *task) question() *Asks {
	switch {
	case t.step.Body != BodyApproval || t.grows():
		return nil
	case t.waits():
		return t.asks
	default:
		return &Asks{}
	}
}

// answerApproval ends a waiting approval by an approve or reject control: as a success with the sender's outputs, or as a failure
// of kind rejected. It refuses the control for a task that does not wait for an approval.
func (r *Run) answerApproval(t *task, c *Control) Decision {
	if !t.waits() || t.step.Body != BodyApproval {
		return taskRefused(t, "the step does not wait for an approval but is "+t.State.String())
	}
	if c.Verb == VerbApprove {
		r.classifyResult(t, Result{Outputs: c.Outputs, Reason: byWhom("approved", c.By)})
	} else {
		reason := byWhom("rejected", c.By)
		if c.Text != "" {
			reason += ": " + c.Text
		}
		r.classifyResult(t, Result{Kind: KindRejected, Reason: reason})
	}
	return taskDecision(t, Applied)
}

// endRun sets the run's ending, lifts a pause if the ending is a cancel or a refusal, and ends open steps and handlers by endSteps
// and endHandlers. It does nothing if the run has a stronger ending already. An equal ending replaces by and text.
func (r *Run) endRun(e Ending, by, text string) {
	if e < r.rec.Ending {
		return
	}
	r.rec.Ending, r.rec.EndingBy, r.rec.EndingText = e, by, text
	if e >= EndingCancel && r.rec.PausedBy != "" {
		r.unpause()
	}
	r.endSteps()
	r.endHandlers()
}

// endSteps ends all open tasks of steps, each by endTask. It leaves handlers alone.
func (r *Run) endSteps() {
	reason := r.endingReason()
	for i := range r.graph.plain {
		r.nodes[i].tasks(func(t *task) { r.endTask(t, reason) })
	}
}

// endTask ends one open task in the way of the run's ending. A refusal cancels it without waiting for its body. A timeout makes a
// task that is under way or waits fail as timed out. Any other ending cancels it, after its body has been stopped.
func (r *Run) endTask(t *task, reason string) {
	switch r.rec.Ending {
	case EndingRefused:
		r.drop(t, reason)
	case EndingTimeout:
		r.timeOut(t, reason)
	default:
		r.stop(t, r.rec.EndingBy, reason, r.rec.Ending == EndingNow)
	}
}

// timeOut ends a task when the run's timeout has come. A task that is under way or waits fails as timed out, after its body,
// publish or child run has been stopped. Any other open task is canceled. A task that is already being canceled, marked or timed
// out keeps that request.
func (r *Run) timeOut(t *task, reason string) {
	switch {
	case !t.runs() && t.State != TaskFinishing && t.State != TaskWaiting:
		r.stop(t, "", reason, false)
	case t.Request != RequestNone && t.Request != RequestPause:
	case t.engaged():
		r.request(t, RequestTimeout, "", reason, false)
	case t.State == TaskFinishing:
		t.take(timedOut(reason))
		r.fail(t)
	default:
		r.classifyResult(t, timedOut(reason))
	}
}

// drop cancels a task at once, without waiting for its body or its child run to end. A result that a former driver settled is
// applied first. drop does nothing to a task that has ended or to a foreach node with items.
func (r *Run) drop(t *task, reason string) {
	if t.runs() && t.settled != nil {
		r.bodyEnded(t, *t.settled)
	}
	if t.State.Terminal() || t.grown() {
		return
	}
	if t.engaged() {
		t.Request = RequestCancel
		r.halt(t, true)
	}
	r.cancel(t, reason)
}

// refuse applies EvRefuse: it ends the run as failed, at once and without handlers. It returns ErrStale if the run was refused
// before.
func (r *Run) refuse(text string) error {
	if r.rec.Ending == EndingRefused {
		return ErrStale
	}
	r.endRun(EndingRefused, "", text)
	return nil
}

// stopping reports whether the run is ending and the task must not start. It is always false for the task of a handler.
func (r *Run) stopping(t *task) bool { return r.rec.Ending != EndingNone && !t.node.handler }

// endingReason returns the reason for the rows of tasks that the run's ending cancels or fails, and for the run itself. The run
// must have an ending.
func (r *Run) endingReason() string {
	switch r.rec.Ending {
	case EndingFailFast:
		return "fail fast: step " + r.rec.EndingText + " failed"
	case EndingInit:
		return "init failed"
	case EndingTimeout:
		return "run timed out after " + r.graph.spec.Timeout.String()
	case EndingDrives:
		return gaveUp(r.rec.EndingText)
	case EndingRefused:
		return r.rec.EndingText
	default:
		return canceledBy(r.rec.EndingBy)
	}
}

func gaveUp(text string) string { return cmp.Or(text, "gave up after too many lost drives") }

func canceledBy(by string) string { return byWhom("canceled", by) }

func byWhom(done, by string) string {
	if by == "" {
		return done
	}
	return fmt.Sprintf("%s by %s", done, by)
}

// failFast reacts to a failure of t that was not tolerated. If t is of an item and fail_fast is set for the foreach step, it stops
// the node's other items. If fail_fast is set for the run and t is of a step, it ends the run.
func (r *Run) failFast(t *task) {
	if f := t.node.main.step.Foreach; f != nil && f.FailFast && t.ID.Item != "" && t.node.class == classOpen {
		r.stopItems(t.node, "fail fast: step "+r.graph.TaskName(t.ID)+" failed")
	}
	if r.graph.spec.FailFast && r.rec.Ending == EndingNone && !t.node.handler {
		r.endRun(EndingFailFast, "", r.graph.TaskName(t.ID))
	}
}

func (r *Run) stopItems(n *node, reason string) {
	n.tasks(func(t *task) {
		if t != n.main {
			r.stop(t, "", reason, false)
		}
	})
}
