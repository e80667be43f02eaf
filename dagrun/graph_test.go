package dagrun

import (
	"strings"
	"testing"
)

func TestCompile_RefusesWithEveryProblem(t *testing.T) {
	t.Parallel()
	set := func(s Spec, change func(*Spec)) Spec {
		change(&s)
		return s
	}
	for _, c := range []struct {
		name string
		spec Spec
		want string // lines, each of which the error has
	}{
		{"nothing", Spec{}, "there are no steps"},
		{"a circle of one", spec("a <- a"), "in a circle: a -> a"},
		{"a circle", spec("x", "b <- a, x", "a <- b"), "in a circle: b -> a -> b"},
		{"a circle behind others", spec("a", "b <- a, d", "c <- b", "d <- c", "e <- d"), "in a circle: b -> c -> d -> b"},
		{"unknown parent", spec("a <- b"), `step "a": depends on "b", which is no step`},
		{"handler as parent", spec("a <- @init", "@init"), `step "a": depends on "@init", which is no step`},
		{"parent twice", spec("a", "b <- a, a:started"), `step "b": depends on "a" twice`},
		{"name twice", spec("a", "a"), `step "a": two steps have this name`},
		{"bad name", spec("a/b"), `step "a/b": a name must not`},
		{"unknown handler", spec("a", "@later"), `handler "@later": use one of @init`},
		{"rule without parents", spec("a rule=one_failed"), `step "a": trigger rule one_failed needs dependencies`},
		{"handler with parents", spec("a", "@exit <- a"), `handler "@exit": a handler has no depends`},
		{"slots of a noop", set(spec("a noop"), func(s *Spec) { s.Steps[0].Slots = 1 }), "a noop takes no slots"},
		{"foreach without items", set(spec("a"), func(s *Spec) { s.Steps[0].Foreach = &Foreach{} }), "foreach has no items"},
		{"negative retries", set(spec("a"), func(s *Spec) { s.Steps[0].Retry.Limit = -1 }), "retry_policy.limit is negative"},
		{
			"replace by nothing", set(spec("a"), func(s *Spec) { s.Steps[0].OnError = []ErrorRule{{Do: DoReplace}} }),
			`step "a": on_error[0]: do: replace needs a replacement`,
		},
		{"all at once", spec("a rule=one_done", "b <- c", "b"), "trigger rule one_done\nwhich is no step\ntwo steps have this name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := Compile(c.spec)
			if err == nil {
				t.Fatal("compiled")
			}
			for want := range strings.SplitSeq(c.want, "\n") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in\n%v", want, err)
				}
			}
		})
	}
}

func TestGraph_KnowsItsEdgesInBothDirections(t *testing.T) {
	t.Parallel()
	g := must(Compile(spec("d <- b:started, c", "b <- a", "c <- a:finished", "a", "@exit")))
	if got := g.Parents(0); len(got) != 2 || got[0] != (Link{1, OnStarted}) || got[1] != (Link{2, OnSucceeded}) {
		t.Error(got)
	}
	if got := g.Children(3); len(got) != 2 || got[0] != (Link{1, OnSucceeded}) || got[1] != (Link{2, OnFinished}) {
		t.Error(got)
	}
	if i, ok := g.StepIndex(ExitHandler); !ok || i != 4 || g.Len() != 5 || g.StepName(4) != ExitHandler {
		t.Error(i, ok)
	}
}

func TestTaskName_ReadsBack(t *testing.T) {
	t.Parallel()
	g := must(Compile(spec("a", "@exit")))
	for want, id := range map[string]TaskID{
		"a": {}, "a~2": {Alt: 2}, "a/k": {Item: "k"}, "a/k~10": {Item: "k", Alt: 10}, "@exit": {Step: 1},
		"a/x/y": {Item: "x/y"}, "a/k~1~0": {Item: "k~1"}, "a/k~1~2": {Item: "k~1", Alt: 2}, "a/~": {Item: "~"}, "a/~x": {Item: "~x"},
	} {
		if got := g.TaskName(id); got != want {
			t.Errorf("%+v is named %q, want %q", id, got, want)
		}
		if got, err := g.ParseTask(want); err != nil || got != id {
			t.Errorf("%q reads as %+v, %v", want, got, err)
		}
	}
	for _, bad := range []string{"", "b", "a/", "/k", "~1"} {
		if id, err := g.ParseTask(bad); err == nil {
			t.Errorf("%q reads as %+v", bad, id)
		}
	}
}

func TestWords_ReadBack(t *testing.T) {
	t.Parallel()
	for s := TaskPending; s <= TaskReplaced; s++ {
		if got, err := ParseState(s.String()); got != s || err != nil {
			t.Error(s, got, err)
		}
	}
	for v := VerbCancel; v <= VerbChildEnded; v++ {
		if got, err := ParseVerb(v.String()); got != v || err != nil {
			t.Error(v, got, err)
		}
	}
	if r, err := ParseRule("always"); r != AllDone || err != nil {
		t.Error(r, err)
	}
	if _, err := ParseRule("some"); err == nil || !strings.Contains(err.Error(), "none_skipped") {
		t.Error(err)
	}
	if got := State(99).String(); got != "unknown(99)" {
		t.Error(got)
	}
}
