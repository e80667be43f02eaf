package dagrun

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// look is a condition that remembers what it saw.
type look struct{ see func(Scope) }

func (l look) Eval(s Scope) (bool, error) { l.see(s); return true, nil }
func (l look) String() string             { return "look" }

func TestScope_ShowsTheRun(t *testing.T) {
	t.Parallel()
	var got string
	s := spec("a", "b each=x+y", "c replace=x", "d rule=all_done <- a, b, c")
	s.Steps[3].When = look{func(s Scope) {
		a, _ := s.Step("a")
		c, _ := s.Step("c")
		_, unknown := s.Step("z")
		_, item := s.Item()
		_, failure := s.Failure()
		got = fmt.Sprint(s.Context(), a.State, a.Outputs, c.State, c.Outputs, len(a.Replaced), c.Alt, c.Replaced[0].Alt, c.Replaced[0].Outputs, unknown, item, failure, s.Run())
		for _, v := range s.Items("b") {
			got += fmt.Sprint(" ", v.Item, v.State, v.Outputs, v.ExitCode)
		}
	}}
	finish(t, New(must(Compile(s)), Options{Context: "ctx"}), map[string]Result{
		"a": {Outputs: `{"n":1}`}, "b/x": exit3, "b/y": {Outputs: `{"n":2}`}, "c": exit3, "c~1": {Outputs: `{"n":3}`},
	})
	want := `ctxsucceeded{"n":1}succeeded{"n":3}0 0 1{"n":3}false false false {failed [b/x] 1} xfailed3 ysucceeded{"n":2}0`
	if strip(got) != strip(want) {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

func TestScope_ShowsAFailureToItsRules(t *testing.T) {
	t.Parallel()
	var got Failure
	s := spec("a")
	s.Steps[0].OnError = []ErrorRule{{Do: DoFail, When: look{func(s Scope) { got, _ = s.Failure() }}}}
	finish(t, New(must(Compile(s)), Options{}), map[string]Result{"a": exit3})
	if !reflect.DeepEqual(got, Failure{Kind: KindExit, ExitCode: 3, Attempt: 1, Message: "exit 3"}) {
		t.Errorf("%+v", got)
	}
}

// A replacement sees the failure that it replaces, and sees the same after a restore.
func TestScope_ShowsReplacementsWhatFailed(t *testing.T) {
	t.Parallel()
	var rule Failure
	s := spec("a replace=x")
	first := &s.Steps[0].OnError[0].With[0]
	first.OnError = []ErrorRule{{Do: DoReplace, With: []Step{{Name: "y"}}, When: look{func(s Scope) { rule, _ = s.Failure() }}}}
	g := must(Compile(s))
	r := begun(t, s)
	ends := func(alt int, at Time, res Result) {
		for ready, more := r.Ready(); more; ready, more = r.Ready() {
			wants := slices.Clone(ready.Wants)
			r.Advance()
			for _, w := range wants {
				_ = r.Step(Event{Kind: EvGranted, At: at - 1000, Task: w.Task})
			}
		}
		if err := r.Step(Event{Kind: EvFinished, At: at, Task: TaskID{Alt: alt}, Attempt: 1, Result: &res}); err != nil {
			t.Fatal(err)
		}
	}
	ends(0, 2000, Result{Kind: KindExit, ExitCode: 3, HasExit: true, Stderr: "no room"})
	ends(1, 4000, Result{Kind: KindSignal, Signal: 9, Reason: "killed", Stderr: "worse"})
	var rows []TaskRecord
	for row := range r.Tasks() {
		rows = append(rows, row)
	}
	again := must(Restore(g, Options{}, Saved{Run: RunRecord{State: RunRunning}, Tasks: rows}))
	for alt, want := range []Failure{{}, {KindExit, 3, 0, 1, "exit 3", 1000, "no room", nil}, {KindSignal, 0, 9, 1, "killed", 1000, "worse", nil}} {
		for what, r := range map[string]*Run{"first": r, "restored": again} {
			if got, ok := r.Scope(TaskID{Alt: alt}).Failure(); !reflect.DeepEqual(got, want) || ok != (alt > 0) {
				t.Errorf("%s, ~%d: got %+v, want %+v", what, alt, got, want)
			}
		}
		if alt == 2 && !reflect.DeepEqual(rule, want) {
			t.Errorf("in when: got %+v, want %+v", rule, want)
		}
	}
}

func strip(s string) string {
	out := ""
	for _, r := range s {
		if r != ' ' {
			out += string(r)
		}
	}
	return out
}
