package world

import (
	"fmt"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// The invariants. A broken one panics with its name; Run turns that into an error with the history.
//
//	S1 a task succeeds at most once per generation; what is terminal in a generation stays as it is
//	S2 nothing changes in a finished run (a claim is needed to write, and a finished run has none)
//	S4 a finished run has no open task, and its verdict follows from its tasks
//	S5 no task starts before its edges allow it
//	S6 every run ends once the faults have stopped (World.Run)
//	S8 attempts are numbered without a gap, and one that is over was closed before the next began
//	W1 no body of a task runs while another one does
//	W2 no body starts that is not recorded as running
//	A2 a control is decided once, and a cancel that was accepted wins

// checkTask looks at one row on its way in; old is the zero row when there was none.
func (s *store) checkTask(r *row, old taskRow, rec dagrun.TaskRecord) {
	name := r.graph.TaskName(rec.ID)
	same := old.Generation == rec.Generation
	if same && old.State.Terminal() && old.State != rec.State {
		panic(fmt.Sprintf("S1: run %d: %s was %s and becomes %s", r.id, name, old.State, rec.State))
	}
	if same && old.State == dagrun.TaskSucceeded && old.Attempt != rec.Attempt {
		panic(fmt.Sprintf("S1: run %d: %s succeeded in attempt %d and again in %d", r.id, name, old.Attempt, rec.Attempt))
	}
	if rec.Attempt < old.Attempt || rec.Attempt > old.Attempt+1 {
		panic(fmt.Sprintf("S8: run %d: %s goes from attempt %d to %d", r.id, name, old.Attempt, rec.Attempt))
	}
	if _, closed := r.attempts[attemptKey{rec.ID, old.Attempt}]; rec.Attempt > old.Attempt && old.Attempt > 0 && !closed {
		panic(fmt.Sprintf("S8: run %d: %s begins attempt %d, and %d was not closed", r.id, name, rec.Attempt, old.Attempt))
	}
	_, closed := r.attempts[attemptKey{rec.ID, rec.Attempt}]
	if closed && rec.State == dagrun.TaskRunning && !r.foreachNode(rec.ID) {
		panic(fmt.Sprintf("S8: run %d: %s runs attempt %d, which is closed", r.id, name, rec.Attempt))
	}
}

func (r *row) foreachNode(id dagrun.TaskID) bool {
	return r.graph.Step(id.Step).Foreach != nil && id.Item == "" && id.Alt == 0
}

// checkEdges looks, after a batch, at a task that started: under the default rule with default edges all parents have
// succeeded, were tolerated or replaced by such.
func (s *store) checkEdges(r *row, rec dagrun.TaskRecord) {
	step := r.graph.Step(rec.ID.Step)
	if rec.ID.Item != "" || rec.ID.Alt != 0 || rec.State != dagrun.TaskRunning || step.Rule != dagrun.AllSuccess {
		return
	}
	if rec.StartedAt != s.world.now && rec.AttemptAt != s.world.now { // judged when it starts
		return
	}
	for _, e := range r.graph.Parents(rec.ID.Step) {
		parent := r.tasks[dagrun.TaskID{Step: e.Step}]
		ok := parent.State.Terminal() && parent.State != dagrun.TaskUpstreamFailed && parent.State != dagrun.TaskCanceled &&
			(parent.State != dagrun.TaskFailed || parent.Tolerated) &&
			(parent.State != dagrun.TaskSkipped || r.graph.Step(e.Step).ContinueOn.Skipped)
		if e.State == dagrun.OnSucceeded && !ok {
			panic(fmt.Sprintf("S5: run %d: %s starts, and its parent %s is %s", r.id, r.graph.TaskName(rec.ID),
				r.graph.StepName(e.Step), parent.State))
		}
	}
}

// checkVerdict looks at a run that just ended.
func (s *store) checkVerdict(r *row, v *dagrun.Verdict) {
	s.world.log("run %d is over: %s %q", r.id, v.State, v.Reason)
	if r.rec.State != v.State {
		panic(fmt.Sprintf("S4: run %d is recorded as %s, the verdict is %s", r.id, r.rec.State, v.State))
	}
	bad := false
	for i := range r.spec.Steps {
		row, known := r.tasks[dagrun.TaskID{Step: i}]
		if !known || !row.State.Terminal() {
			panic(fmt.Sprintf("S4: run %d is over, and %s is %s\n%s", r.id, r.graph.StepName(i), row.State, r.describe()))
		}
		bad = bad || row.State == dagrun.TaskUpstreamFailed || row.State == dagrun.TaskFailed && !row.Tolerated && row.Growth == nil
	}
	for id, row := range sorted(r.tasks) {
		if id.Step >= len(r.spec.Steps) && !row.State.Terminal() {
			panic(fmt.Sprintf("S4: run %d is over, and handler %s is %s\n%s", r.id, r.graph.TaskName(id), row.State, r.describe()))
		}
	}
	if bad && v.State == dagrun.RunSucceeded {
		panic(fmt.Sprintf("S4: run %d succeeded although a step failed\n%s", r.id, r.describe()))
	}
	for _, c := range r.controls {
		accepted := c.Verb == dagrun.VerbCancel && c.Task == nil && c.decision != nil && c.decision.Outcome == dagrun.Accepted
		if accepted && c.Generation == 0 && v.State != dagrun.RunCanceled && !r.retriedSince(c) {
			panic(fmt.Sprintf("A2: run %d: the cancel %d was accepted, and the run is %s", r.id, c.ID, v.State))
		}
	}
}

// retriedSince says whether a new generation was opened after a control.
func (r *row) retriedSince(c *request) bool {
	for _, later := range r.controls {
		if later.ID > c.ID && later.Verb == dagrun.VerbRetry && later.decision != nil && later.decision.Outcome != dagrun.Refused {
			return true
		}
	}
	return r.rec.Generation > 1 && c.Generation == 0 && !r.sinceLastGeneration(c)
}

// sinceLastGeneration says whether a control came after the newest generation was asked for.
func (r *row) sinceLastGeneration(c *request) bool {
	for _, later := range r.controls {
		if later.Verb == dagrun.VerbRetry && later.Control.Generation == r.rec.Generation && later.ID > c.ID {
			return false
		}
	}
	return true
}

// checkStart looks at a body about to start.
func (d *driver) checkStart(a dagrun.Action) {
	name := d.row.graph.TaskName(a.Task)
	row := d.row.tasks[a.Task]
	want := dagrun.TaskRunning
	if a.Publish {
		want = dagrun.TaskFinishing
	}
	if row.State != want || row.Attempt != a.Attempt {
		panic(fmt.Sprintf("W2: run %d: %s starts attempt %d, recorded is %s #%d", d.row.id, name, a.Attempt, row.State, row.Attempt))
	}
	for _, k := range d.world.workers {
		for _, other := range k.drivers {
			for _, b := range other.bodies {
				if other.row == d.row && b.task == a.Task {
					panic(fmt.Sprintf("W1: run %d: %s starts at worker %d while it runs at %d", d.row.id, name, d.worker.id, k.id))
				}
			}
		}
	}
}

// checkEnd looks at everything once all runs are over.
func (s *store) checkEnd() {
	for _, r := range s.runs {
		for id, t := range sorted(r.tasks) {
			if grown := r.grown(id); grown && !t.State.Terminal() {
				panic(fmt.Sprintf("S4: run %d is over, and %s is %s\n%s", r.id, r.graph.TaskName(id), t.State, r.describe()))
			}
		}
	}
}

// grown says whether a row belongs to what its node grew to last; others are left over from an earlier growth.
func (r *row) grown(id dagrun.TaskID) bool {
	if id.Item == "" && id.Alt == 0 {
		return true
	}
	node := r.tasks[dagrun.TaskID{Step: id.Step}]
	if id.Item == "" {
		return node.State == dagrun.TaskReplaced
	}
	if node.Growth == nil || id.Alt != 0 {
		return false
	}
	for _, it := range node.Growth.Items {
		if it.Key == id.Item {
			return true
		}
	}
	return false
}

func (r *row) describe() string {
	var b strings.Builder
	for id, t := range sorted(r.tasks) {
		fmt.Fprintf(&b, "  %s: %s #%d gen %d %q next %d request %s ref %q\n", r.graph.TaskName(id), t.State, t.Attempt, t.Generation, t.Reason,
			t.NextAt, t.Request, t.Ref)
	}
	return b.String()
}

// count looks at a record for the interesting things.
func (w *World) count(t dagrun.TaskRecord) {
	switch {
	case t.Growth != nil && t.State == dagrun.TaskReplaced:
		w.Counts.Replaced++
	case t.Growth != nil && t.State == dagrun.TaskRunning:
		w.Counts.Grown++
	case t.State == dagrun.TaskFinishing:
		w.Counts.Published++
	case t.State == dagrun.TaskCanceled:
		w.Counts.Cancels++
	}
}
