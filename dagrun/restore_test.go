package dagrun

import (
	"strings"
	"testing"
)

func TestRestore_RefusesRowsThatDoNotFit(t *testing.T) {
	t.Parallel()
	g := must(Compile(spec("a replace=x", "b each=k")))
	for want, row := range map[string]TaskRecord{
		"a row for step 7":            {ID: TaskID{Step: 7}},
		"task a in state unknown(40)": {State: 40},
		"foreach node b is running":   {ID: TaskID{Step: 1}, State: TaskRunning},
		"with request unknown(9)":     {State: TaskRunning, Request: 9},
		"mark as running":             {State: TaskRunning, Request: RequestMark, Marked: TaskRunning},
		"on_error[3] with 1":          {State: TaskReplaced, Growth: &Growth{Rule: 3, FirstAlt: 1, Count: 1}},
		"but not by what its step":    {State: TaskReplaced},
	} {
		_, err := Restore(g, Options{}, Saved{Tasks: []TaskRecord{row}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A store knows the start of a run from its claim on. The worker that claimed the run may be lost before its first commit.
func TestRestore_ArmsATimeoutThatNobodyStored(t *testing.T) {
	t.Parallel()
	s := spec("a")
	s.Timeout = 100
	for _, c := range []struct{ saved, want RunRecord }{
		{RunRecord{Generation: 1}, RunRecord{StartedAt: 1000, Deadline: 1100}},
		{RunRecord{Generation: 1, StartedAt: 700}, RunRecord{StartedAt: 700, Deadline: 1100}},
		{RunRecord{Generation: 1, StartedAt: 700, Deadline: 1050}, RunRecord{StartedAt: 700, Deadline: 1050}},
		{RunRecord{Generation: 1, StartedAt: 700, Left: 30}, RunRecord{StartedAt: 700, Deadline: 1030}},
	} {
		r := must(Restore(must(Compile(s)), Options{}, Saved{Run: c.saved}))
		if err := r.Step(Event{Kind: EvBegin, At: 1000}); err != nil {
			t.Fatal(err)
		}
		ready, _ := r.Ready()
		if got := ready.Records.Run; got == nil || got.StartedAt != c.want.StartedAt || got.Deadline != c.want.Deadline {
			t.Errorf("%+v begins as %+v", c.saved, got)
		}
	}
}

// Rows come in any order and in any prefix of a commit. A row of an item waits until its node has grown.
func TestRestore_ItemsWithoutTheirNodeWait(t *testing.T) {
	t.Parallel()
	g := must(Compile(spec("a each=x+y")))
	r := must(Restore(g, Options{}, Saved{Run: RunRecord{Generation: 2}, Tasks: []TaskRecord{
		{ID: TaskID{Item: "x"}, Generation: 1, State: TaskSucceeded, Attempt: 3, AttemptAt: 5, FinishedAt: 6},
		{ID: TaskID{Item: "gone"}, Generation: 1, State: TaskFailed, Attempt: 1},
	}}))
	if err := r.Step(Event{Kind: EvBegin, At: 10}); err != nil {
		t.Fatal(err)
	}
	x, _ := r.Task(TaskID{Item: "x"})
	if _, gone := r.Task(TaskID{Item: "gone"}); x.State != TaskReady || x.Attempt != 3 || gone {
		t.Errorf("%+v %v", x, gone)
	}
}
