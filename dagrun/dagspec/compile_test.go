package dagspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun"
)

func compiled(t *testing.T, name string) map[string]dagrun.Step {
	t.Helper()
	out, err := readGood(t)[name].Compile()
	if err != nil {
		t.Fatal(err)
	}
	steps := map[string]dagrun.Step{}
	for _, s := range append(out.Steps, out.Handlers...) {
		steps[s.Name] = s
	}
	return steps
}

func TestGraph_CompilesEveryGoodFile(t *testing.T) {
	t.Parallel()
	for name, spec := range readGood(t) {
		g, err := spec.Graph()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i := range g.Len() {
			if _, ok := g.Step(i).Data.(*Step); !ok {
				t.Errorf("%s: step %s has data %T", name, g.StepName(i), g.Step(i).Data)
			}
		}
	}
}

func TestCompile_CarriesEveryFieldTheCoreDecidesBy(t *testing.T) {
	t.Parallel()
	steps := compiled(t, "everything.yaml")
	sum := steps["sum"]
	retry := dagrun.RetryPolicy{Limit: 3, Interval: 5000, Backoff: 1.5, MaxInterval: 60000, Jitter: 0.1, ExitCodes: []int{1, 2}, Kinds: []dagrun.FailureKind{"exit", "sql"}}
	for what, diff := range map[string]string{
		"edges":       cmp.Diff([]dagrun.Edge{{Step: "per-region"}, {Step: "fixed", State: dagrun.OnFinished}}, sum.Depends),
		"rule":        cmp.Diff(dagrun.AllDone, sum.Rule),
		"retry":       cmp.Diff(retry, sum.Retry),
		"continue_on": cmp.Diff(dagrun.ContinueOn{Failed: true, Skipped: true, ExitCodes: []int{7}, MarkSuccess: true}, sum.ContinueOn),
		"pool":        cmp.Diff([][]dagrun.PoolUse{nil, {{Pool: "heavy", Weight: 1}}}, [][]dagrun.PoolUse{sum.Pools, steps["extract"].Pools}),
		"timeout":     cmp.Diff([]dagrun.Duration{600_000, 0}, []dagrun.Duration{sum.Timeout, steps["uses"].Timeout}),
		"skip":        cmp.Diff([]int{99}, steps["extract"].SkipExit),
		"slots":       cmp.Diff([]int{2, 1, 0}, []int{steps["extract"].Slots, sum.Slots, steps["gate"].Slots}),
		"on_lost":     cmp.Diff([]dagrun.OnLost{dagrun.LostFail, dagrun.LostRetry}, []dagrun.OnLost{sum.OnLost, steps["uses"].OnLost}),
		"bodies": cmp.Diff([]dagrun.Body{dagrun.BodyTask, dagrun.BodyApproval, dagrun.BodyChild, dagrun.BodyTask, dagrun.BodyWait, dagrun.BodyNoop},
			[]dagrun.Body{sum.Body, steps["gate"].Body, steps["child"].Body, steps["later"].Body, steps["pause"].Body, steps["nothing"].Body}),
		"approval timeout": cmp.Diff(dagrun.Duration(2*day), steps["gate"].Timeout),
		"result":           cmp.Diff(&dagrun.Result{HasExit: true, Outputs: `{"answer":42}`}, steps["known"].Result),
		"publish":          cmp.Diff([]any{true, []dagrun.PoolUse{{Pool: "disk", Weight: 1}}}, []any{steps["per-region"].Publish, steps["per-region"].PublishPools}),
		"when":             cmp.Diff([]bool{true, false}, []bool{steps["per-region"].WhenPerItem, sum.WhenPerItem}),
		"foreach":          cmp.Diff([]any{2, 10, true}, []any{steps["per-region"].Foreach.MaxConcurrent, steps["per-region"].Foreach.MaxItems, steps["per-region"].Foreach.FailFast}),
		"priority":         cmp.Diff([]any{5, true}, []any{steps["extract"].Priority, steps["per-region"].PriorityExpr != nil}),
		"handlers":         cmp.Diff(dagrun.Duration(60_000), steps[dagrun.ExitHandler].Timeout),
	} {
		if diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if sum.CacheKey == nil || sum.When.String() == "" || len(sum.OnError) != 6 {
		t.Errorf("cache, when, on_error: %v, %v, %d", sum.CacheKey, sum.When, len(sum.OnError))
	}
}

func TestCompile_ReplacementsTakeWhatTheyDoNotSay(t *testing.T) {
	t.Parallel()
	spec := mustParse(t, `
name: x
steps:
  - id: a
    command: /bin/a
    args: [one]
    stdin: in
    env: {A: a, B: a}
    timeout: 5m
    pool: [p, {name: q, weight: 2}]
    slots: 3
    outputs: [n]
    kill: {grace: 1s}
    retry_policy: {limit: 4}
    on_error:
      - when: error.exit_code == 1
        do: replace
        with:
          - {env: {B: b}}
          - {command: /bin/b}
          - {run: echo, timeout: 0s, pool: '', slots: 1, retry_policy: {limit: 0}}
          - {run: echo, on_error: [{do: replace, with: {env: {C: c}}}]}
          - {args: {append: ['${error.kind}']}, on_error: [{do: replace, with: {command: /bin/b, args: {append: [z]}}}]}
          - {args: []}
      - {do: fail}
`)
	out, err := spec.Compile()
	if err != nil {
		t.Fatal(err)
	}
	alts := out.Steps[0].OnError[0].With
	same, other, script, chain := alts[0].Data.(*Step), alts[1].Data.(*Step), alts[2].Data.(*Step), alts[3].OnError[0].With[0].Data.(*Step)
	appends := func(with dagrun.Step) []string { return with.Data.(*Step).Args.List }
	for what, diff := range map[string]string{
		"appended":         cmp.Diff([]string{"one", "${error.kind}"}, appends(alts[4])),
		"appended again":   cmp.Diff([]string{"one", "${error.kind}", "z"}, appends(alts[4].OnError[0].With[0])),
		"without args":     cmp.Diff([]string{}, appends(alts[5])),
		"same body":        cmp.Diff([]string{"/bin/a", "one", "in", "a", "b"}, []string{same.Command, same.Args.List[0], same.Stdin.Text, same.Env["A"], same.Env["B"]}),
		"inherited":        cmp.Diff([]any{dagrun.Duration(300_000), out.Steps[0].Pools, 3, 4}, []any{alts[0].Timeout, alts[0].Pools, alts[0].Slots, alts[0].Retry.Limit}),
		"kill, outputs":    cmp.Diff([]any{second, "n"}, []any{same.Kill.Grace, same.Outputs[0].Name}),
		"same kind":        cmp.Diff([]string{"/bin/b", "one"}, []string{other.Command, other.Args.List[0]}),
		"other kind":       cmp.Diff([]any{"", 0, true}, []any{script.Command, len(script.Args.List), script.Stdin == nil}),
		"own":              cmp.Diff([]any{dagrun.Duration(0), 0, 1, 0}, []any{alts[2].Timeout, len(alts[2].Pools), alts[2].Slots, alts[2].Retry.Limit}),
		"never on_error":   cmp.Diff(0, len(alts[0].OnError)),
		"chain":            cmp.Diff([]string{"echo", "a", "c"}, []string{chain.Run, chain.Env["A"], chain.Env["C"]}),
		"name of replaced": cmp.Diff("a", same.ID),
	} {
		if diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

func TestCompile_JudgesWhenPerItemOnlyIfItNamesTheItem(t *testing.T) {
	t.Parallel()
	for when, want := range map[string]bool{`region == "eu"`: true, `params.x == "eu"`: false, `params.x == "region"`: false, `any(params.l, # == region)`: true} {
		out, err := mustParse(t, `
name: x
params: [{name: x, default: eu}, {name: l, type: json, default: []}]
steps: [{id: a, run: x, when: '`+when+`', foreach: {items: [eu], as: region}}]
`).Compile()
		if err != nil || out.Steps[0].WhenPerItem != want {
			t.Errorf("%s: %v, %v", when, out.Steps[0].WhenPerItem, err)
		}
	}
}

func TestCompile_LeavesTheSpecAlone(t *testing.T) {
	t.Parallel()
	for name, spec := range readGood(t) {
		before := mustMarshal(t, spec)
		if _, err := spec.Graph(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(before), string(mustMarshal(t, spec))); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestNeeds_NamesWhatMustBeThere(t *testing.T) {
	t.Parallel()
	specs := readGood(t)
	if diff := cmp.Diff([]string{"process"}, specs["smallest.json"].Needs()); diff != "" {
		t.Error(diff)
	}
	want := "action:approval action:dag.enqueue action:dag.run action:http.request action:my_func action:noop action:postgres.query " +
		"action:river.job action:wait cache process publish secrets:command secrets:env secrets:file"
	if diff := cmp.Diff(strings.Fields(want), specs["everything.yaml"].Needs()); diff != "" {
		t.Error(diff)
	}
}

// TestGraph_RunsInTheCore plays one run: a condition over an output, a foreach over another, a replacement.
func TestGraph_RunsInTheCore(t *testing.T) {
	t.Parallel()
	spec := mustParse(t, `
name: x
steps:
  - {id: a, run: x, outputs: [{name: l, type: json}, {name: go, type: number}]}
  - {id: b, run: x, depends: [a], when: steps.a.outputs.go > 1, foreach: {items: "${steps.a.outputs.l}", key: item}}
  - {id: c, run: x, depends: [a], when: steps.a.outputs.go > 5}
  - {id: d, run: x, depends: [b], when: steps.b.items.total == 2, on_error: [{when: error.exit_code == 7, do: replace, with: {action: noop}}]}
`)
	g, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	run := dagrun.New(g, dagrun.Options{Context: Context{}})
	results := map[string]dagrun.Result{"a": {Outputs: `{"l":["x","y"],"go":2}`}, "d": {Kind: dagrun.KindExit, ExitCode: 7, HasExit: true}}
	if got := play(t, g, run, results); got != "a b/x b/y d" {
		t.Errorf("ran %s", got)
	}
	states := map[string]string{}
	for task := range run.Tasks() {
		states[g.TaskName(task.ID)] = task.State.String()
	}
	want := map[string]string{"a": "succeeded", "b": "succeeded", "b/x": "succeeded", "b/y": "succeeded", "c": "skipped", "d": "replaced", "d~1": "succeeded"}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Error(diff)
	}
}

// play grants every want and ends every started body with its result. It returns the names of the started tasks.
func play(t *testing.T, g *dagrun.Graph, run *dagrun.Run, results map[string]dagrun.Result) string {
	t.Helper()
	events, started := []dagrun.Event{{Kind: dagrun.EvBegin, At: 1}}, []string{}
	for at := dagrun.Time(2); !run.Over(); at++ {
		for _, e := range events {
			if err := run.Step(e); err != nil {
				t.Fatal(err)
			}
		}
		events = nil
		ready, ok := run.Ready()
		if !ok {
			t.Fatal("the run stands still")
		}
		for _, w := range ready.Wants {
			events = append(events, dagrun.Event{Kind: dagrun.EvGranted, At: at, Task: w.Task})
		}
		for _, a := range ready.Actions {
			name := g.TaskName(a.Task)
			started = append(started, name)
			result := results[name]
			events = append(events, dagrun.Event{Kind: dagrun.EvStarted, At: at, Task: a.Task, Attempt: a.Attempt},
				dagrun.Event{Kind: dagrun.EvFinished, At: at, Task: a.Task, Attempt: a.Attempt, Result: &result})
		}
		run.Advance()
	}
	return strings.Join(started, " ")
}

func TestWidestStep_LooksIntoHandlersPublishesAndReplacements(t *testing.T) {
	t.Parallel()
	for step, want := range map[string]int{
		`steps: [{id: a, run: "true"}]`: 1,
		`steps: [{id: a, run: "true", slots: 2}, {id: b, run: "true", slots: 3}, {id: c, run: "true"}]`:         3,
		"steps: [{id: a, run: \"true\"}]\nhandler_on: {exit: {run: \"true\", slots: 4}}":                        4,
		`steps: [{id: a, run: "true", on_error: [{when: "true", do: replace, with: {run: "true", slots: 6}}]}]`: 6,
		`steps: [{id: a, run: "true", slots: 2, publish: {run: "true"}}]`:                                       2,
	} {
		spec, err := Parse("x.yaml", []byte("name: x\n"+step))
		if err != nil {
			t.Errorf("%s: %v", step, err)
			continue
		}
		if got := spec.WidestStep(); got != want {
			t.Errorf("%s: %d, want %d", step, got, want)
		}
	}
}
