package dagrun

import (
	"fmt"
	"iter"
	"strings"
)

// find returns the task with an ID, or nil if the run has none or has not made it yet.
func (r *Run) find(id TaskID) *task {
	if id.Step < 0 || id.Step >= len(r.nodes) {
		return nil
	}
	g := &r.nodes[id.Step].group
	if id.Item != "" {
		each := r.nodes[id.Step].each
		if each == nil {
			return nil
		}
		i, ok := each.byKey[id.Item]
		if !ok {
			return nil
		}
		g = each.items[i]
	}
	switch {
	case id.Alt == 0:
		return g.main
	case id.Alt < 0 || id.Alt > len(g.alts):
		return nil
	default:
		return g.alts[id.Alt-1]
	}
}

// Task returns the present row of a task, whether that is stored or not. It returns false if the run has no such task.
func (r *Run) Task(id TaskID) (TaskRecord, bool) {
	t := r.find(id)
	if t == nil {
		return TaskRecord{}, false
	}
	return t.TaskRecord, true
}

// Tasks yields the present rows of all tasks in graph order: for each step its own, its replacements' and its items'. A handler is
// left out until its turn has come. The caller must not step events during the loop.
func (r *Run) Tasks() iter.Seq[TaskRecord] {
	return func(yield func(TaskRecord) bool) {
		for i := range r.nodes {
			more := true
			r.nodes[i].tasks(func(t *task) {
				here := t.known || t.node == r.turn
				more = more && (!here || yield(t.TaskRecord))
			})
			if !more {
				return
			}
		}
	}
}

// Bounded reports whether a limit of the run, or of a foreach step, may hold ready tasks back.
func (r *Run) Bounded() bool { return r.graph.bounded }

// Held returns the IDs of ready tasks that max_active_steps or max_concurrent holds back, that became ready at or before by, and
// that are not stored as ready yet. The result is cut to the given number of IDs. The caller steps an EvQueued for each to have its
// row show why it waits.
func (r *Run) Held(by Time, most int) (ids []TaskID) {
	add := func(tasks []*task) {
		for _, t := range tasks {
			if len(ids) < most && t.since <= by && !t.shown {
				ids = append(ids, t.ID)
			}
		}
	}
	add(r.held.tasks)
	for i := range r.nodes {
		if each := r.nodes[i].each; each != nil {
			add(each.capped.tasks)
		}
	}
	return ids
}

// Ahead returns the task that a task from Held waits behind: one that counts toward the same limit and itself waits for a slot.
// Then slots are scarce, and not the limit is to blame. It returns false if all tasks that fill the limit have begun, or the run
// has no task with this ID.
func (r *Run) Ahead(id TaskID) (TaskID, bool) {
	t := r.find(id)
	if t == nil {
		return TaskID{}, false
	}
	o := r.ahead(t)
	if o == nil {
		return TaskID{}, false
	}
	return o.ID, true
}

// Spec returns the description of a task's body: its step, or the description of the replacement if the task is one. It returns nil
// if the run has no such task. The caller must not change the result.
func (r *Run) Spec(id TaskID) *Step {
	t := r.find(id)
	if t == nil {
		return nil
	}
	return t.step
}

// Scope returns the run as the expressions of a task see it, or nil if the run has no such task. The scope is not a copy: it always
// shows the present state of the run.
func (r *Run) Scope(id TaskID) Scope {
	t := r.find(id)
	if t == nil {
		return nil
	}
	return r.scope(t)
}

// Item returns the foreach item that a task is for. It returns false if the task is for none, or does not exist.
func (r *Run) Item(id TaskID) (Item, bool) {
	t := r.find(id)
	if t == nil {
		return Item{}, false
	}
	return t.item()
}

// Idle reports whether no body and no publish is under way.
func (r *Run) Idle() bool { return r.idle() }

// scope is the run as the expressions of one task see it.
type scope struct {
	run     *Run
	task    *task
	failure *Failure
}

func (r *Run) scope(t *task) *scope { return &scope{run: r, task: t} }

// Spend implements Spender: it adds the cost of an expression to the costs since the last Ready, which judgeAll limits.
func (s *scope) Spend(units int) { s.run.spent += units }

func (s *scope) Context() any { return s.run.opts.Context }

func (s *scope) Step(name string) (StepView, bool) {
	i, ok := s.run.graph.index[name]
	if !ok {
		return StepView{}, false
	}
	return s.run.nodes[i].view(), true
}

func (s *scope) Items(name string) []StepView {
	i, ok := s.run.graph.index[name]
	if !ok || s.run.nodes[i].each == nil {
		return nil
	}
	items := s.run.nodes[i].each.items
	views := make([]StepView, len(items))
	for k, g := range items {
		views[k] = g.view()
	}
	return views
}

func (s *scope) Item() (Item, bool) { return s.task.item() }

func (s *scope) Failure() (Failure, bool) {
	if s.failure != nil {
		return *s.failure, true
	}
	if t := s.task.replaces; t != nil && t.Growth != nil {
		f := t.failure(t.Growth.Stderr, t.FinishedAt)
		f.Chosen = s.task.chosen()
		return f, true
	}
	return Failure{}, false
}

func (s *scope) Run() RunView {
	view := RunView{State: s.run.outcome(), Generation: s.run.rec.Generation}
	if view.State == RunSucceeded && s.run.open > 0 {
		view.State = RunRunning // succeeded is not certain before every step has ended
	}
	for _, t := range s.run.sortedFailures() {
		view.Failed = append(view.Failed, s.run.graph.TaskName(t.ID))
	}
	return view
}

// view returns the group as expressions see it. Without replacements it shows the task. With replacements it shows the last one
// that succeeded, or else the last one, with the state of the group once that has settled.
func (g *group) view() StepView {
	t := g.main
	for _, alt := range g.alts {
		if alt.State == TaskSucceeded || t.State != TaskSucceeded {
			t = alt
		}
	}
	v := t.view()
	v.Alt = 0
	if len(g.alts) > 0 && g.class != classOpen {
		v.State = g.state
	}
	for _, alt := range g.alts {
		if alt.State != TaskReplaced {
			v.Replaced = append(v.Replaced, alt.view())
		}
	}
	return v
}

// view returns the task alone as expressions see it.
func (t *task) view() StepView {
	v := StepView{State: t.State, ExitCode: t.ExitCode, HasExit: t.HasExit, Attempt: t.Attempt, Item: t.ID.Item, Alt: t.ID.Alt}
	if t.State == TaskSucceeded {
		v.Outputs = t.Outputs
	}
	return v
}

func (t *task) item() (Item, bool) {
	if t.ID.Item == "" {
		return Item{}, false
	}
	return t.node.main.Growth.Items[t.index], true
}

// Explain returns in a few words for people why a task is not running, since when it runs, or how it ended. It returns "no such
// task" for an ID that the run does not have.
func (r *Run) Explain(id TaskID) string {
	t := r.find(id)
	if t == nil {
		return "no such task"
	}
	if t.State.Terminal() {
		return t.Reason
	}
	if t.Request != RequestNone {
		return r.explainRequest(t)
	}
	switch t.State {
	case TaskPending, TaskReady:
		return r.explainStart(t)
	case TaskRunning:
		return r.explainRunning(t)
	case TaskFinishing:
		return r.explainPublish(t)
	case TaskRetrying:
		return fmt.Sprintf("%s; retries at %s", t.Reason, r.timeText(t.NextAt))
	case TaskWaiting:
		return r.explainWait(t)
	default:
		return t.Reason
	}
}

func (r *Run) explainRequest(t *task) string {
	switch t.Request {
	case RequestPause:
		return "being paused: " + t.Reason
	case RequestMark:
		return "being marked: " + t.Reason
	case RequestTimeout:
		return "being stopped: " + t.Reason
	default:
		return "being canceled: " + t.Reason
	}
}

// explainStart returns why a pending or ready task has not started: the cache, a limit, a slot, a parent or the state of the run.
func (r *Run) explainStart(t *task) string {
	switch t.phase {
	case phaseProbing:
		return "looks for a result in the cache"
	case phaseCapped, phaseHeld:
		if ahead := r.ahead(t); ahead != nil {
			return r.explainStart(ahead)
		}
		if t.phase == phaseCapped {
			return fmt.Sprintf("the limit max_concurrent %d of %s is reached", t.node.each.limit, t.node.main.step.Name)
		}
	case phaseOffered:
		if t.Reason != "" {
			return t.Reason
		}
		if len(t.step.Pools) > 0 {
			return PoolNames(t.step.Pools)
		}
		return "waits for a slot"
	}
	if names := r.parentsOf(t, classOpen); len(names) > 0 && t == t.node.main {
		return "waits for: " + some(names)
	}
	return r.explainHeld(t)
}

// ahead returns a task that counts toward the limit which holds t back, and that itself waits for a slot. Then slots are the
// bottleneck of the run, and a higher limit would start nothing. It returns nil if all tasks that fill the limit have begun, or if
// no limit holds t back.
func (r *Run) ahead(t *task) *task {
	for _, o := range r.sets[phaseOffered].tasks {
		if t.phase == phaseHeld && !r.room() || t.phase == phaseCapped && o.node == t.node {
			return o
		}
	}
	return nil
}

// explainHeld returns why the run, rather than the task itself, keeps a task from starting. It returns "about to start" if nothing
// does.
func (r *Run) explainHeld(t *task) string {
	switch {
	case r.rec.PausedBy != "":
		return "run paused by " + r.rec.PausedBy
	case r.draining:
		return "this worker is draining: another worker will go on"
	case !r.begun:
		return "waits for a worker"
	case t.node.handler && t.node != r.turn:
		return "waits for the steps"
	case !t.node.handler && r.handler(handlerInit).isOpen():
		return "waits for: " + InitHandler
	case t.phase == phaseHeld && !r.room():
		return fmt.Sprintf("the limit max_active_steps %d is reached", r.graph.spec.MaxActive)
	default:
		return "about to start"
	}
}

func (r *Run) explainRunning(t *task) string {
	if t.grows() {
		each := t.node.each
		return fmt.Sprintf("%d of %d items are open", each.open, len(each.items))
	}
	return "running since " + r.timeText(t.AttemptAt)
}

func (r *Run) explainPublish(t *task) string {
	switch t.phase {
	case phasePublishing:
		return "publishing"
	case phaseQueuedPublish:
		if t.shown {
			return t.Reason
		}
		return PoolNames(t.step.PublishPools)
	default:
		return "publish held: " + r.explainHeld(t)
	}
}

func (r *Run) explainWait(t *task) string {
	var parts []string
	switch {
	case !t.waits():
		return strings.TrimPrefix(t.Reason+"; goes on at "+r.timeText(t.NextAt), "; ")
	case t.step.Body == BodyApproval:
		parts = append(parts, t.step.waitsForApproval())
	case t.step.Body == BodyChild && t.Ref != "":
		parts = append(parts, "child run "+t.Ref)
	case t.step.Body == BodyChild:
		parts = append(parts, "the child run is being made")
	case t.NextAt != 0:
		parts = append(parts, "waits until "+r.timeText(t.NextAt))
	default:
		parts = append(parts, "waits")
	}
	if t.Deadline != 0 {
		parts = append(parts, "times out at "+r.timeText(t.Deadline))
	}
	return strings.Join(parts, ", ")
}

// timeText formats a time for a reason by Options.TimeText, or as the span since 1970 without that. A reason shows the time itself
// and not how far away it is, because it is stored and read later.
func (r *Run) timeText(at Time) string {
	if r.opts.TimeText != nil {
		return r.opts.TimeText(at)
	}
	return Duration(at).String()
}

// Reason returns why the run ended, is ending, is paused or waits. It returns "" for a run that simply runs or that has succeeded;
// only a run in which all steps were skipped has "nothing to do" as its reason.
func (r *Run) Reason() string {
	switch {
	case r.over && r.verdict == nil && r.rec.State.Terminal():
		return r.rec.Reason
	case r.verdict != nil:
		return r.verdict.Reason
	case r.rec.Ending != EndingNone:
		return r.endingReason()
	case r.rec.PausedBy != "":
		return "run paused by " + r.rec.PausedBy
	case r.leave != nil && !r.leave.Drained:
		return r.waitReason()
	default:
		return ""
	}
}

// waitReason describes the first task in graph order that waits, is paused or is between attempts, as "step NAME: REASON". It
// returns "" if there is none.
func (r *Run) waitReason() string {
	for i := range r.nodes {
		found := ""
		r.nodes[i].tasks(func(t *task) {
			if found == "" && (t.State == TaskWaiting || t.State == TaskRetrying || t.State == TaskPaused) {
				found = fmt.Sprintf("step %s: %s", r.graph.TaskName(t.ID), r.Explain(t.ID))
			}
		})
		if found != "" {
			return found
		}
	}
	return ""
}
