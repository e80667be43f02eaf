package dagrun

import "fmt"

// judge looks at a task that may have become able to start, or unable.
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

// hasTurn says whether the run has come to where a task belongs: init, the steps, the handlers one by one.
func (r *Run) hasTurn(t *task) bool {
	if t.node.handler {
		return t.node == r.turn
	}
	init := r.handler(handlerInit)
	return init == nil || init.class == classS || init.class == classK
}

// edges asks the trigger rule. Items and replacements have no edges of their own, nor do handlers.
func (r *Run) edges(t *task) answer {
	if t != t.node.main {
		return yes
	}
	return t.step.Rule.judge(t.node.tally)
}

// unready takes a task back that is about to start.
func (r *Run) unready(t *task) {
	if t.State == TaskReady {
		r.to(t, TaskPending)
	}
	if t.State == TaskPending {
		r.move(t, nowhere)
	}
}

// ruledOut ends a task whose trigger rule says no.
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

// parentsOf names the parents that contribute a class.
func (r *Run) parentsOf(t *task, c class) []string {
	var names []string
	for _, l := range r.graph.parents.of(t.ID.Step) {
		if r.nodes[l.Step].gives[l.State] == c {
			names = append(names, r.graph.StepName(l.Step))
		}
	}
	return names
}
