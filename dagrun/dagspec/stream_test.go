package dagspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// A reference to a stream declares an output of the step and of its replacements that are commands, and of nothing else.
func TestCompile_CapturesOnlyReferredStreams(t *testing.T) {
	t.Parallel()
	steps := compiled(t, "streams.yaml")
	outputs := func(data any) []Output { return data.(*Step).Outputs }
	implied := func(stream, neededBy string) Output {
		return Output{Name: stream, Type: "string", From: stream, neededBy: neededBy}
	}
	text := []Output{implied("stdout", "steps.text.stdout in step asked"), implied("stderr", "steps.text.stderr in step asked")}
	replacements := steps["text"].OnError[0].With
	for what, diff := range map[string]string{
		"by an expression":       cmp.Diff(text, outputs(steps["text"].Data), compareOutputs),
		"of a replacement":       cmp.Diff(text, outputs(replacements[0].Data), compareOutputs),
		"not of a function":      cmp.Diff(0, len(outputs(replacements[1].Data))),
		"declared":               cmp.Diff([]string{"stdout", "report"}, namesOf(outputs(steps["parsed"].Data))),
		"by stdin":               cmp.Diff([]Output{implied("stdout", "steps.each.stdout in step uses")}, outputs(steps["each"].Data), compareOutputs),
		"by no reference":        cmp.Diff(0, len(outputs(steps["quiet"].Data))),
		"by a handler":           cmp.Diff([]Output{implied("stdout", "steps.asked.stdout in handler exit")}, outputs(steps["asked"].Data), compareOutputs),
		"by its publish":         cmp.Diff([]Output{implied("stderr", "steps.uses.stderr in step uses")}, outputs(steps["uses"].Data), compareOutputs),
		"the spec stays":         cmp.Diff(0, len(readGood(t)["streams.yaml"].Steps[0].Outputs)),
		"the path of a file":     cmp.Diff("out/report.json", outputs(steps["parsed"].Data)[1].File()),
		"of a body without file": cmp.Diff("", Output{From: "stdout"}.File()),
	} {
		if diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}

// Each place that may refer to a step makes the step keep the stream.
func TestCompile_FindsEachReferenceToAStream(t *testing.T) {
	t.Parallel()
	for _, uses := range []string{
		`run: echo, name: "${steps.a.stdout}"`,
		`run: echo, labels: {l: "${steps.a.stdout}"}`,
		`run: echo, env: {E: "x${steps.a.stdout | default(1)}"}`,
		`run: echo, stdin: "${steps.a.stdout}"`,
		`run: echo, stdin: {output: steps.a.stdout}`,
		`command: echo, args: [x, "${default(steps.a.stdout, null)}"]`,
		`action: my.func, with: {deep: [{text: "${steps.a.stdout}"}]}`,
		`action: approval, with: {prompt: "${steps.a.stdout}"}`,
		`run: echo, foreach: {items: ["${steps.a.stdout}"]}`,
		`run: echo, foreach: {items: '${= split(steps.a.stdout, ",")}'}`,
		`command: echo, args: ['x-${= upper(steps["a"].stdout)}']`,
		`run: echo, foreach: {items: "${steps.a.stdout.list}"}`,
		`run: echo, foreach: {items: [x], key: 'item + steps.a.stdout'}`,
		`run: echo, when: 'steps["a"].stdout == ""'`,
		`run: echo, when: 'default(steps.a["stdout"], "") matches "x"'`,
		`run: echo, priority: len(steps.a.stdout)`,
		`run: echo, cache: {key: steps.a.stdout}`,
		`run: echo, on_error: [{when: 'steps.a.stdout == ""', do: fail}]`,
		`run: echo, on_error: [{do: replace, with: {env: {E: "${steps.a.stdout}"}}}]`,
		`run: echo, publish: {command: echo, args: ["${steps.a.stdout}"]}`,
	} {
		outputs := "[]"
		if strings.Contains(uses, "stdout.list") {
			outputs = "[{name: stdout, from: stdout, type: json}]"
		}
		out, err := mustParse(t, "name: x\nsteps:\n- {id: a, run: echo, outputs: "+outputs+"}\n- {id: b, depends: [a], "+uses+"}\n").Compile()
		if err != nil {
			t.Fatal(err)
		}
		if got := out.Steps[0].Data.(*Step).Outputs; len(got) != 1 || got[0].From != "stdout" {
			t.Errorf("%s: %v", uses, got)
		}
	}
}

// A body keeps the end of its stderr if a rule of its on_error, or a replacement at any depth, refers to it.
func TestCompile_KeepsTheTailThatIsReferredTo(t *testing.T) {
	t.Parallel()
	for onError, want := range map[string]bool{
		`{when: 'error.stderr_tail contains "disk"', do: skip}`:                                                    true,
		`{do: replace, with: {env: {E: "${error.stderr_tail}"}}}`:                                                  true,
		`{do: replace, with: {command: echo, args: ["${= upper(error.stderr_tail)}"]}}`:                            true,
		`{do: replace, with: {run: echo, publish: {command: echo, args: ["${error.stderr_tail}"]}}}`:               true,
		`{do: replace, with: {run: echo, on_error: [{do: replace, with: {env: {E: "${error.stderr_tail}"}}}]}}`:    true,
		`{when: error.exit_code == 3, do: replace, with: {env: {E: "${error.message} ${error.duration} stderr"}}}`: false,
	} {
		out, err := mustParse(t, "name: x\nsteps:\n- {id: a, run: echo, on_error: ["+onError+"]}\n").Compile()
		if err != nil {
			t.Fatal(err)
		}
		if got := out.Steps[0].Data.(*Step).KeepsTail(); got != want {
			t.Errorf("%s: %v", onError, got)
		}
	}
}

// Texts and expressions of a replacement see what failed.
func TestResolve_ErrorOfAReplacement(t *testing.T) {
	t.Parallel()
	out, err := mustParse(t, `{name: x, steps: [{id: a, run: echo, on_error: [{do: replace, with: {command: x, args: [
		"${error.kind} ${error.exit_code} ${error.signal} ${error.timed_out} ${error.attempt}", "${error.message}|${error.stderr_tail}", "${error.duration}",
		"${= error.attempt + 1} ${= error.duration > duration('1m') ? 'slow' : 'fast'} ${= error.duration.Seconds()}"]}}]}]}`).Compile()
	if err != nil {
		t.Fatal(err)
	}
	body := out.Steps[0].OnError[0].With[0].Data.(*Step)
	got, err := body.Resolve(fakeScope{context: Context{}, failure: &dagrun.Failure{
		Kind: dagrun.KindTimeout, ExitCode: 124, Attempt: 2, Message: "timed out after 90s", Duration: 90_500, Stderr: "a\nb",
	}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"timeout 124 0 true 2", "timed out after 90s|a\nb", "1m30.5s", "3 slow 90.5"}, got.Args); diff != "" {
		t.Error(diff)
	}
}

// A step behind sees the replacements of a step as a list, and those of a foreach step as one list for each item.
func TestResolve_Replacements(t *testing.T) {
	t.Parallel()
	const replace = `on_error: [{do: replace, with: [{action: noop}, {run: echo}]}]`
	out, err := mustParse(t, `{name: x, steps: [{id: a, run: echo, `+replace+`}, {id: e, run: echo, foreach: {items: [1, 2]}, `+replace+`},
		{id: b, depends: [a, e], command: x, args: ["${steps.a.replacements}", "${steps.e.replacements}", "${= len(steps.a.replacements)} ${steps.a.replacements.1.outputs.n}"]}]}`).Compile()
	if err != nil {
		t.Fatal(err)
	}
	views := []dagrun.StepView{{State: dagrun.TaskFailed, Alt: 1}, {State: dagrun.TaskSucceeded, Alt: 3, Outputs: `{"n":7}`}}
	got, err := out.Steps[2].Data.(*Step).Resolve(fakeScope{
		context: Context{}, steps: map[string]dagrun.StepView{"a": {Replaced: views}, "e": {}},
		items: map[string][]dagrun.StepView{"e": {{Replaced: views[:1]}, {}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{
		`[{"outputs":{},"state":"failed","step":"a~1"},{"outputs":{"n":7},"state":"succeeded","step":"a~3"}]`,
		`[[{"outputs":{},"state":"failed","step":"e~1"}],[]]`, "2 7",
	}, got.Args); diff != "" {
		t.Error(diff)
	}
}

func TestSpec_SharedOutputsOfReplacements(t *testing.T) {
	t.Parallel()
	for with, want := range map[string][]SharedOutput{
		`[{run: echo}, {run: echo}]`:                                      {{"a", "n"}},
		`[{run: echo}, {run: echo}, {run: echo}]`:                         {{"a", "n"}},
		`[{run: echo}, {action: noop}]`:                                   nil,
		`[{run: echo, outputs: [m]}, {run: echo}]`:                        nil,
		`[{run: echo, outputs: [m]}, {action: my.func, outputs: [m]}]`:    {{"a", "m"}},
		`[{run: echo, outputs: []}, {run: echo}]`:                         nil,
		`{on_error: [{do: replace, with: [{run: echo}, {env: {A: b}}]}]}`: {{"a", "n"}},
	} {
		spec := mustParse(t, "name: x\nsteps: [{id: a, run: echo, outputs: [n], on_error: [{do: replace, with: "+with+"}]}]\n")
		if diff := cmp.Diff(want, spec.SharedOutputs()); diff != "" {
			t.Errorf("%s: %s", with, diff)
		}
	}
}

var compareOutputs = cmp.AllowUnexported(Output{})

func namesOf(outputs []Output) []string {
	var list []string
	for _, o := range outputs {
		list = append(list, o.Name)
	}
	return list
}

// A replacement that runs no command returns by name what the failed step would have read from a stream.
func TestCompile_ReplacementTakesNoSource(t *testing.T) {
	t.Parallel()
	out, err := mustParse(t, `
name: x
steps:
  - id: a
    run: echo
    outputs: [{name: hits, from: stdout, type: json}]
    on_error: [{do: replace, with: {action: my.func}}]
`).Compile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Output{{Name: "hits", Type: "json"}}, out.Steps[0].OnError[0].With[0].Data.(*Step).Outputs, compareOutputs); diff != "" {
		t.Error(diff)
	}
}

// A cached result lacks the streams to which nothing referred, and a declared stream keeps more white space.
func TestCacheKey_DependsOnStreams(t *testing.T) {
	t.Parallel()
	digests := map[string]string{}
	for name, use := range map[string]string{
		"none": "", "reference": ", when: steps.a.stdout != ''", "other step": ", env: {X: '${steps.a.stdout}'}",
	} {
		out, err := mustParse(t, "name: x\nsteps:\n- {id: a, run: echo, cache: {key: '\"k\"'}}\n- {id: b, depends: [a], run: echo"+use+"}\n").Compile()
		if err != nil {
			t.Fatal(err)
		}
		digests[name] = out.Steps[0].CacheKey.(cacheKey).body
	}
	declared, err := mustParse(t, "name: x\nsteps:\n- {id: a, run: echo, outputs: [{name: stdout, from: stdout}], cache: {key: '\"k\"'}}\n").Compile()
	if err != nil {
		t.Fatal(err)
	}
	digests["declared"] = declared.Steps[0].CacheKey.(cacheKey).body
	if digests["none"] == digests["reference"] || digests["reference"] != digests["other step"] || digests["declared"] == digests["reference"] {
		t.Errorf("digests: %v", digests)
	}
}

// References to streams have values as references to declared outputs do, in texts and in expressions.
func TestResolve_StreamsOfSteps(t *testing.T) {
	t.Parallel()
	out, err := readGood(t)["streams.yaml"].Compile()
	if err != nil {
		t.Fatal(err)
	}
	scope := fakeScope{
		context: Context{},
		steps: map[string]dagrun.StepView{
			"text":   {State: dagrun.TaskSucceeded, Outputs: `{"stdout":"yes","stderr":""}`},
			"parsed": {State: dagrun.TaskSucceeded, Outputs: `{"stdout":["x"],"report":null}`},
			"asked":  {State: dagrun.TaskSkipped},
			"each":   {State: dagrun.TaskSucceeded},
		},
		items: map[string][]dagrun.StepView{"each": {{Outputs: `{"stdout":"a"}`}, {}}},
	}
	for _, step := range out.Steps {
		if step.Name == "asked" {
			if ok, err := step.When.Eval(scope); !ok || err != nil {
				t.Errorf("when: %v, %v", ok, err)
			}
		}
		if step.Name != "uses" {
			continue
		}
		got, err := step.Data.(*Step).Resolve(scope)
		if err != nil {
			t.Fatal(err)
		}
		if got.Env["FIRST"] != "x" || *got.Stdin != `["a",null]` {
			t.Errorf("env %v, stdin %s", got.Env, *got.Stdin)
		}
	}
	handler, err := out.Handlers[0].Data.(*Step).Resolve(scope)
	if err != nil || handler.Args[0] != "" {
		t.Errorf("handler: %v, %v", handler, err)
	}
}
