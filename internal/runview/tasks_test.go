package runview

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestSplitUrgent_KeepsTheOrder(t *testing.T) {
	t.Parallel()
	tasks := []queue.Task{
		{Step: "a", State: "succeeded"}, {Step: "b", State: "running"}, {Step: "c", State: "pending"}, {Step: "d", State: "failed"},
	}
	urgent, others := SplitUrgent(tasks, 2)
	if diff := cmp.Diff([]int{1, 3}, urgent); diff != "" {
		t.Errorf("urgent: - want, + got\n%s", diff)
	}
	if got, want := CountStates(others, 2), "3 pending, 1 succeeded"; got != want {
		t.Errorf("the others are %s, want %s", got, want)
	}
	if urgent, others = SplitUrgent(tasks, 4); len(urgent) != 4 || others != nil {
		t.Errorf("of four with room for four: %d, and %d others", len(urgent), len(others))
	}
}

func TestCountItems_CountsAgainstTheWholeList(t *testing.T) {
	t.Parallel()
	ended := noon(1)
	node := queue.Task{Step: "each", Kind: "foreach", Items: 200}
	items := []queue.Task{
		{Step: "each", Item: "a", FinishedAt: ended},
		{Step: "each", Item: "b", State: "replaced", FinishedAt: ended},
		{Step: "each~1", Item: "b"},
		{Step: "each", Item: "c", State: "replaced", FinishedAt: ended},
		{Step: "each~1", Item: "c", FinishedAt: ended},
	}
	if got, want := CountItems(&node, items), (ItemProgress{Total: 200, Ended: 2, Unlisted: 197}); got != want {
		t.Errorf("under way: %+v, want %+v", got, want)
	}
	node.FinishedAt = ended
	if got := CountItems(&node, items).Unlisted; got != 0 {
		t.Errorf("of a step that has ended, %d items are still to begin", got)
	}
}

func TestTaskNote_SaysTheUnusual(t *testing.T) {
	t.Parallel()
	run := &queue.Run{Reason: "step load failed: exit 3"}
	notFound, own := 127, 3
	for want, task := range map[string]queue.Task{
		"":                                    {Attempt: 1, Reason: "ran"},
		"attempt 2, exit 1, next at 12:00:30": {Attempt: 2, Reason: "exit 1", NextAttemptAt: noon(30)},
		"attempt 3, exit 3":                   {Attempt: 3, Reason: "exit 3", NextAttemptAt: noon(30), FinishedAt: noon(31)},
		"attempt 4":                           {Attempt: 4, Reason: run.Reason},
		"exit 127; a body starts in an empty folder: see docs/environment.md": {
			Attempt: 1, Reason: "exit 127", FailureKind: "exit", ExitCode: &notFound,
		},
		"exit 3":        {Attempt: 1, Reason: "exit 3", FailureKind: "exit", ExitCode: &own},
		"wrong outputs": {Attempt: 1, Reason: "wrong outputs", FailureKind: "output", ExitCode: &notFound},
	} {
		if got := TaskNote(run, &task); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTook_GoesOnUntilTheEnd(t *testing.T) {
	t.Parallel()
	for want, times := range map[string]queue.Run{
		"": {}, "9.0s": {StartedAt: noon(0)}, "3.0s": {StartedAt: noon(0), FinishedAt: noon(3)},
	} {
		task := queue.Task{StartedAt: times.StartedAt, FinishedAt: times.FinishedAt}
		if got := Took(&times, noon(9)); got != want {
			t.Errorf("a run took %q, want %q", got, want)
		}
		if got := TaskTime(&task, noon(9)); got != want {
			t.Errorf("a task took %q, want %q", got, want)
		}
	}
}

func TestDriverOf_FindsTheLast(t *testing.T) {
	t.Parallel()
	tasks := []queue.Task{{Worker: "w2", FinishedAt: noon(2)}, {Worker: "w1", FinishedAt: noon(1)}, {FinishedAt: noon(3)}}
	for want, run := range map[string]queue.Run{"w2": {}, "w9": {Worker: "w9"}} {
		if got := DriverOf(&run, tasks); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
