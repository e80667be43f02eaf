package dagrun

import "fmt"

// judge decides whether a task can go on now: start, open its wait, or publish.
func (r *Run) judge(t *task) {
	r.effort++
	switch {
	case t.State == TaskFinishing && t.place == nowhere:
		r.land(t)
	case t.State == TaskWaiting && t.place == nowhere:
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
		r.move(t, blocked)
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
		r.move(t, nowhere)
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
