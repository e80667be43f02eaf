package dagrun

import (
	"strings"
	"testing"
)

// spec makes a Spec of lines like "c rule=one_success <- a, b:started". Names that begin with @ are handlers.
func spec(lines ...string) Spec {
	var s Spec
	for _, line := range lines {
		head, depends, _ := strings.Cut(line, "<-")
		words := strings.Fields(head)
		step := Step{Name: words[0]}
		for _, w := range words[1:] {
			setting(&step, w)
		}
		for d := range strings.SplitSeq(depends, ",") {
			if d = strings.TrimSpace(d); d != "" {
				parent, state, _ := strings.Cut(d, ":")
				e := Edge{Step: parent}
				if state != "" {
					e.State = must(ParseEdgeState(state))
				}
				step.Depends = append(step.Depends, e)
			}
		}
		if strings.HasPrefix(step.Name, "@") {
			s.Handlers = append(s.Handlers, step)
		} else {
			s.Steps = append(s.Steps, step)
		}
	}
	return s
}

func setting(s *Step, word string) {
	key, value, _ := strings.Cut(word, "=")
	switch key {
	case "noop", "approval":
		s.Body = must(ParseBody(key))
	case "rule":
		s.Rule = must(ParseRule(value))
	case "each":
		var keys items
		for key := range strings.SplitSeq(value, "+") {
			keys = append(keys, Item{Key: key, Value: JSON(`"` + key + `"`)})
		}
		s.Foreach = &Foreach{Items: keys}
	case "replace": // replace=xx replaces by two bodies
		s.OnError = []ErrorRule{{Do: DoReplace, With: make([]Step, len(value))}}
	default:
		panic("unknown word " + word)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type (
	items []Item
	text  string
)

func (i items) Expand(Scope) ([]Item, error) { return i, nil }
func (s text) Text(Scope) (string, error)    { return string(s), nil }

// begun starts a run and gives it events, all at one time. Nothing is committed.
func begun(tb testing.TB, s Spec, events ...Event) *Run {
	tb.Helper()
	g, err := Compile(s)
	if err != nil {
		tb.Fatal(err)
	}
	r := New(g, Options{})
	for _, e := range append([]Event{{Kind: EvBegin}}, events...) {
		e.At = 1
		if err := r.Step(e); err != nil {
			tb.Fatalf("step %s of %s: %v", e.Kind, g.TaskName(e.Task), err)
		}
	}
	return r
}

var exit3 = Result{Kind: KindExit, ExitCode: 3, HasExit: true}

// finish runs a run to its end, or until it parks. Bodies end as ends says by task, and succeed otherwise. It returns the
// stored rows.
func finish(tb testing.TB, r *Run, ends map[string]Result) Saved {
	tb.Helper()
	var saved Saved
	settle(tb, r, func(a Action) Result { return ends[r.graph.TaskName(a.Task)] }, func(rec Records) {
		saved.Tasks = append(saved.Tasks, rec.Tasks...)
		if rec.Run != nil {
			saved.Run = *rec.Run
		}
	})
	latest := map[TaskID]TaskRecord{}
	for _, row := range saved.Tasks {
		latest[row.ID] = row
	}
	saved.Tasks = saved.Tasks[:0]
	for _, row := range latest {
		saved.Tasks = append(saved.Tasks, row)
	}
	return saved
}

func stateOf(r *Run, name string) TaskRecord {
	row, _ := r.Task(must(r.graph.ParseTask(name)))
	return row
}
