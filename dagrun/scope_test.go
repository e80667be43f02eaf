package dagrun

import (
	"fmt"
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
		got = fmt.Sprint(s.Context(), a.State, a.Outputs, c.State, c.Outputs, unknown, item, failure, s.Run())
		for _, v := range s.Items("b") {
			got += fmt.Sprint(" ", v.Item, v.State, v.Outputs, v.ExitCode)
		}
	}}
	finish(t, New(must(Compile(s)), Options{Context: "ctx"}), map[string]Result{
		"a": {Outputs: `{"n":1}`}, "b/x": exit3, "b/y": {Outputs: `{"n":2}`}, "c": exit3, "c~1": {Outputs: `{"n":3}`},
	})
	want := `ctxsucceeded{"n":1}succeeded{"n":3}false false false {failed [b/x] 1} xfailed3 ysucceeded{"n":2}0`
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
	if got != (Failure{Kind: KindExit, ExitCode: 3, Attempt: 1}) {
		t.Errorf("%+v", got)
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
