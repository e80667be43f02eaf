package dagrun

import (
	"slices"
	"testing"
)

// checkRun compares what the run keeps in step with what follows from its tasks.
func checkRun(tb testing.TB, r *Run) {
	fresh := make([]node, len(r.nodes))
	for i := range r.nodes {
		fresh[i].tally, fresh[i].gives = r.nodes[i].tally, r.nodes[i].gives
	}
	counts, open, tolerated, failures, bytes := r.counts, r.open, r.rec.Tolerated, len(r.failures), r.bytes
	r.retally()
	for i := range fresh {
		if fresh[i].tally != r.nodes[i].tally || fresh[i].gives != r.nodes[i].gives {
			tb.Fatalf("step %d: tally %v gives %v, should be %v %v", i, fresh[i].tally, fresh[i].gives, r.nodes[i].tally, r.nodes[i].gives)
		}
	}
	r.recountAll()
	if counts != r.counts || open != r.open || tolerated != r.rec.Tolerated || failures != len(r.failures) || bytes != r.bytes {
		tb.Fatalf("counts %+v %d %d %d %d, should be %+v %d %d %d %d",
			counts, open, tolerated, failures, bytes, r.counts, r.open, r.rec.Tolerated, len(r.failures), r.bytes)
	}
	for i := range r.nodes {
		active := 0
		r.nodes[i].tasks(func(t *task) {
			active += active1(t)
			if b, ok := r.container(t).(*bag); ok && b != nil && b.tasks[t.pos] != t {
				tb.Fatalf("%s is not where it should be", r.graph.TaskName(t.ID))
			}
			if at, clock := r.alarm(t); r.begun && (at != t.alarm || clock != t.clock) && !r.halted() && !t.Publishing && !r.over {
				tb.Fatalf("%s: alarm %d, should be %d", r.graph.TaskName(t.ID), t.alarm, at)
			}
			checkTask(tb, r, t)
		})
		if e := r.nodes[i].each; e != nil && (e.active != active || e.limit > 0 && active > e.limit) {
			tb.Fatalf("step %d: %d active, should be %d, limit %d", i, e.active, active, e.limit)
		}
	}
	if busy := r.bags[flying].len() + r.bags[landing].len(); busy > 0 && (r.leave != nil || r.verdict != nil && r.rec.Ending != EndingRefused) {
		tb.Fatalf("the drive ends while %d bodies run", busy)
	}
	if r.verdict != nil && r.counts.Open > 0 {
		tb.Fatalf("the run ends with %+v", r.counts)
	}
	if limit := r.graph.spec.MaxActive; limit > 0 && r.bags[offered].len()+r.bags[flying].len()+r.bags[away].len() > limit {
		tb.Fatal("max_active_steps exceeded")
	}
}

func active1(t *task) int { return t.active(t.place) }

func checkTask(tb testing.TB, r *Run, t *task) {
	name := r.graph.TaskName(t.ID)
	fits := map[place][]State{
		blocked: {TaskPending, TaskFinishing, TaskWaiting}, probing: {TaskReady}, held: {TaskReady},
		capped: {TaskReady}, offered: {TaskReady}, flying: {TaskRunning}, opening: {TaskWaiting}, away: {TaskWaiting},
		wanting: {TaskFinishing}, landing: {TaskFinishing},
	}
	if t.place != nowhere && !slices.Contains(fits[t.place], t.State) {
		tb.Fatalf("%s: %s in place %d", name, t.State, t.place)
	}
	if r.begun && r.rec.Ending != EndingNone && !t.node.handler && t.State <= TaskReady {
		tb.Fatalf("%s: %s while the run ends", name, t.State)
	}
	if r.begun && t.place == nowhere && !t.grows() && (t.State == TaskReady || t.State == TaskRunning || t.State == TaskFinishing) {
		tb.Fatalf("%s: %s nowhere", name, t.State)
	}
	if t.queued && r.begun {
		tb.Fatalf("%s: left over in the queue", name)
	}
}
