package worker_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// answer makes a control, and returns what has become of it five seconds later.
func (s *stepped) answer(t *testing.T, ask queue.Ask) queue.Control {
	t.Helper()
	asked, err := s.Control(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	pass(5 * time.Second)
	all, err := s.Controls(t.Context(), ask.Run)
	if err != nil {
		t.Fatal(err)
	}
	return all[slices.IndexFunc(all, func(got queue.Control) bool { return got.ID == asked.ID })]
}

// The driver refuses an answer that the pattern of an input refuses, and takes a right one: also while nothing else happens in a run
// that is running.
func TestDriver_ReadsPatternsOfInputs(t *testing.T) {
	t.Parallel()
	t.Run("waiting", func(t *testing.T) { readsPatterns(t, "waiting", "", "succeeded") })
	t.Run("running", func(t *testing.T) { readsPatterns(t, "running", "  - {id: long, run: hold}\n", "running") })
}

// readsPatterns answers an approval in a run that has other steps too, and is in a state before the answers and in another
// afterwards.
func readsPatterns(t *testing.T, before, others, after string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := hourAhead(t, "name: d\nsteps:\n  - {id: ask, action: approval, with: {inputs: [{name: code, pattern: '^[A-Z]+$'}]}}\n"+others)
		s.ahead.Store(0)
		s.works(t, "w")
		id := s.enqueue(t, "d")
		s.takes(t, id, before)
		for _, c := range []struct {
			ask     queue.Ask
			outcome dagrun.Outcome
			message string
		}{
			{queue.Ask{Verb: dagrun.VerbApprove, Outputs: map[string]string{"code": "abc"}}, dagrun.Refused, `input code must match ^[A-Z]+$, not "abc"`},
			{queue.Ask{Verb: dagrun.VerbMark, As: dagrun.TaskSucceeded, Outputs: map[string]string{"code": "abc"}}, dagrun.Refused, `input code must match ^[A-Z]+$, not "abc"`},
			{queue.Ask{Verb: dagrun.VerbApprove, Outputs: map[string]string{"code": "ABC"}}, dagrun.Applied, ""},
		} {
			c.ask.Run, c.ask.Step = id, "ask"
			if got := s.answer(t, c.ask); got.Outcome != c.outcome || got.Message != c.message {
				t.Errorf("%s %v: %s %q", c.ask.Verb, c.ask.Outputs, got.Outcome, got.Message)
			}
		}
		s.takes(t, id, after)
	})
}

// The driver gives the outputs of a mark their declared types, and refuses outputs that do not fit.
func TestDriver_ReadsOutputsOfMarks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := hourAhead(t, `{name: d, steps: [{id: a, run: hold, outputs: [{name: rows, type: number}, {name: note, optional: true}]}, {id: b, run: "out {}", depends: [a], when: "steps.a.outputs.rows > 6"}]}`)
		s.ahead.Store(0)
		s.works(t, "w")
		id := s.enqueue(t, "d")
		<-s.bodies.started
		for _, c := range []struct {
			outputs map[string]string
			outcome dagrun.Outcome
			message string
		}{
			{map[string]string{"rows": "7", "row": "8"}, dagrun.Refused, "the step has no output row: it has note, rows"},
			{map[string]string{"rows": "many"}, dagrun.Refused, `output rows must be a number, not "many"`},
			{map[string]string{"note": "x"}, dagrun.Refused, "the step needs the output rows: give it with the mark (--value rows=…)"},
			{map[string]string{"rows": "7"}, dagrun.Accepted, ""},
		} {
			got := s.answer(t, queue.Ask{Run: id, Step: "a", Verb: dagrun.VerbMark, As: dagrun.TaskSucceeded, Outputs: c.outputs})
			if got.Outcome != c.outcome || got.Message != c.message {
				t.Errorf("mark with %v: %s %q", c.outputs, got.Outcome, got.Message)
			}
		}
		s.takes(t, id, "succeeded")
		if len(s.bodies.started) != 1 {
			t.Error("step b, which compares the number, has not begun")
		}
	})
}

// Each drive of a run has the durations that the params of the run give: the drive that begins the approval, and the one that ends
// it.
func TestDriver_BindsEachDriveToTheParams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := hourAhead(t, "name: d\nparams: [{name: patience, default: 10m}]\nsteps:\n  - {id: ask, action: approval, with: {timeout: '${params.patience}'}}\n")
		s.ahead.Store(0)
		s.works(t, "w")
		wantTook(t, "the timeout", s.takes(t, s.enqueue(t, "d"), "failed"), 10*time.Minute, 10*time.Minute+20*time.Second)
	})
}
