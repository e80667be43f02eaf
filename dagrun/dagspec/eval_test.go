package dagspec

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// fakeScope is a fixed Scope of a task.
type fakeScope struct {
	context any
	steps   map[string]dagrun.StepView
	items   map[string][]dagrun.StepView
	item    *dagrun.Item
	failure *dagrun.Failure
	run     dagrun.RunView
}

func (s fakeScope) Context() any                             { return s.context }
func (s fakeScope) Items(name string) []dagrun.StepView      { return s.items[name] }
func (s fakeScope) Run() dagrun.RunView                      { return s.run }
func (s fakeScope) Step(name string) (dagrun.StepView, bool) { v, ok := s.steps[name]; return v, ok }
func (s fakeScope) Item() (dagrun.Item, bool)                { return deref(s.item) }
func (s fakeScope) Failure() (dagrun.Failure, bool)          { return deref(s.failure) }
func deref[T any](p *T) (T, bool)                            { return value(p), p != nil }

const evalDAG = `
name: eval
env: {GREETING: "hello ${params.who}", BASE: /base, PATH: "${env.PATH}:/dag"}
params:
  - {name: who, default: world}
  - {name: n, type: integer, default: 3}
  - {name: f, type: number, default: 2}
  - {name: on, type: boolean, default: true}
  - {name: obj, type: json, default: {a: {b: [10, 20]}, list: [1, x, null]}}
  - {name: maybe, type: integer}
steps:
  - {id: ok, run: x, outputs: [text, {name: num, type: number}, {name: data, type: json}]}
  - {id: bad, run: x, outputs: [text]}
  - {id: many-items, run: x, outputs: [{name: n, type: number}], foreach: {items: [a, b, c]}}
  - id: t
    depends: [ok, bad, many-items]
    name: "${params.who} ${run.id}"
    labels: {who: "${params.who}"}
    command: x
    args: ["${params.n}", "a${params.obj.a}b", "$${literal} $HOME", "${steps.ok.outputs.data.k}", "${params.obj.a.b.1}"]
    env: {PATH: "${env.PATH}:/step", TEXT: "${steps.ok.outputs.text}", OLD: "${env.GREETING}"}
    stdin: {output: steps.ok.outputs.data}
  - id: typed
    depends: [ok, bad, many-items]
    action: fn
    with:
      int: "${params.n}"
      text: "n=${params.n}"
      obj: "${params.obj}"
      list: ["${params.on}", "${params.f}", 7]
      gathered: "${steps.many-items.outputs.n}"
      count: "${steps.many-items.items.failed}"
      orelse: '${steps.bad.outputs.text | default({"x": [1]})}'
      call: "${default(params.maybe, null)}"
      time: "${run.logical_at}"
      code: "${steps.bad.exit_code}"
      schedule: "${run.schedule}"
      previous: "${run.previous_logical_at | default(null)}"
  - {id: missing, depends: [bad], action: fn, with: {x: "${steps.bad.outputs.text}"}}
  - {id: unset, command: x, args: ["${env.NOPE}"]}
  - {id: each, run: x, env: {IT: "${host}", NAME: "${host.name}"}, foreach: {items: "${params.obj.list}", as: host}}
`

func evalScope() fakeScope {
	at := time.Date(2026, 11, 20, 3, 0, 0, 0, time.FixedZone("", 3600))
	env := map[string]string{"PATH": "/bin", "HOME": "/root"}
	return fakeScope{
		context: Context{RunID: 41, DAG: "eval", LogicalAt: at, Schedule: "nightly", PreviousLogicalAt: at.AddDate(0, 0, -1), Env: func(k string) (string, bool) { v, ok := env[k]; return v, ok }},
		steps: map[string]dagrun.StepView{
			"ok":         {State: dagrun.TaskSucceeded, Outputs: `{"text":" a b ","num":4.5,"data":{"k":"v","big":9007199254740993}}`, HasExit: true, Attempt: 2},
			"bad":        {State: dagrun.TaskFailed, ExitCode: 3, HasExit: true, Attempt: 1},
			"many-items": {State: dagrun.TaskFailed},
		},
		items: map[string][]dagrun.StepView{"many-items": {
			{State: dagrun.TaskSucceeded, Outputs: `{"n":1}`}, {State: dagrun.TaskFailed}, {State: dagrun.TaskSucceeded, Outputs: `{"n":3}`},
		}},
		run: dagrun.RunView{State: dagrun.RunFailed, Failed: []string{"bad"}, Generation: 2},
	}
}

// evalStep returns a compiled step of evalDAG and its scope.
func evalStep(t *testing.T, id string) (*Step, fakeScope) {
	t.Helper()
	spec := mustParse(t, evalDAG)
	params, err := spec.Params(nil)
	if err != nil {
		t.Fatal(err)
	}
	scope := evalScope()
	ctx := scope.context.(Context)
	ctx.Params = params
	scope.context = &ctx
	g, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	i, ok := g.StepIndex(id)
	if !ok {
		t.Fatalf("no step %s", id)
	}
	return g.Step(i).Data.(*Step), scope
}

func secretStep(t *testing.T, body string) *Step {
	t.Helper()
	spec := mustParse(t, `
name: s
params: [{name: p}]
env: {FROM_DAG: '${secrets.top}', PLAIN: x}
secrets: [{name: top, from: env, key: TOP}, {name: token, from: env, key: TOKEN}]
steps:
  - {id: all, run: x, secrets: all}
  - `+body+"\n")
	g, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return g.Step(1).Data.(*Step)
}

func secretNames(r *Resolved) (names []string) {
	for _, s := range r.Secrets {
		names = append(names, s.Name)
	}
	return names
}

func TestResolve_SecretsStaySealedUntilTheyAreRead(t *testing.T) {
	t.Parallel()
	values := map[string]string{"top": "t0p!", "token": "s3cret", "OWN": "mine"}
	scope := fakeScope{context: Context{Params: map[string]any{"p": "${secrets.token}"}}}
	for _, tt := range []struct {
		name, body string
		wanted     []string
		env        map[string]string
		variables  map[string]string
	}{
		{"named", `{id: a, run: x, secrets: [token]}`, []string{"token", "top"}, map[string]string{"FROM_DAG": "t0p!", "PLAIN": "x"}, map[string]string{"token": "s3cret"}},
		{
			"referred to", `{id: a, command: psql, env: {PGPASSWORD: 'x${secrets.token}y', FROM_DAG: none, P: '${params.p}'}}`,
			[]string{"token"},
			map[string]string{"PGPASSWORD": "xs3crety", "FROM_DAG": "none", "PLAIN": "x", "P": "${secrets.token}"},
			map[string]string{},
		},
		{
			"through another variable", `{id: a, run: x, env: {URL: 'u:${env.FROM_DAG}@h', FROM_DAG: ''}}`,
			[]string{"top"},
			map[string]string{"URL": "u:t0p!@h", "FROM_DAG": "", "PLAIN": "x"},
			map[string]string{},
		},
		{
			"its own", `{id: a, run: x, secrets: [{name: OWN, from: file, key: /own}], env: {FROM_DAG: '${secrets.OWN}'}}`,
			[]string{"OWN"},
			map[string]string{"FROM_DAG": "mine", "PLAIN": "x"},
			map[string]string{"OWN": "mine"},
		},
		{
			"all", `{id: a, run: x, secrets: all, env: {FROM_DAG: ''}}`,
			[]string{"token", "top"},
			map[string]string{"FROM_DAG": "", "PLAIN": "x"},
			map[string]string{"token": "s3cret", "top": "t0p!"},
		},
		{"a body without an environment", `{id: a, action: noop}`, nil, map[string]string{"PLAIN": "x"}, map[string]string{}},
	} {
		got, err := secretStep(t, tt.body).Resolve(scope)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if diff := cmp.Diff(tt.wanted, secretNames(got)); diff != "" {
			t.Errorf("%s: wanted: %s", tt.name, diff)
		}
		for name, value := range got.Env {
			if strings.Contains(value, "s3cret") || strings.Contains(value, "t0p!") {
				t.Errorf("%s: %s holds a secret before it was read", tt.name, name)
			}
		}
		variables := got.Reveal(values)
		if diff := cmp.Diff(tt.env, got.Env); diff != "" {
			t.Errorf("%s: env: %s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.variables, variables); diff != "" {
			t.Errorf("%s: variables: %s", tt.name, diff)
		}
	}
}

func TestResolve_SecretsGoWhereTheyAreSentOnly(t *testing.T) {
	t.Parallel()
	scope := fakeScope{context: Context{Params: map[string]any{"p": "${secrets.token}"}}}
	step := secretStep(t, `{id: a, action: http.request, with: {url: "http://x/${params.p}", headers: {A: "Bearer ${secrets.token}"}, body: {t: ["${secrets.token}", "${params.p}"]}}}`)
	got, err := step.Resolve(scope)
	if err != nil {
		t.Fatal(err)
	}
	got.Reveal(map[string]string{"token": "s3cret"})
	want := map[string]any{
		"url": "http://x/${secrets.token}", "headers": map[string]any{"A": "Bearer s3cret"},
		"body": map[string]any{"t": []any{"s3cret", "${secrets.token}"}}, // text from a submitter stays a text
	}
	if diff := cmp.Diff(want, got.With); diff != "" {
		t.Error(diff)
	}
	for _, place := range []func(*Step){ // without the checks of Parse
		func(s *Step) { s.With = map[string]any{"method": "${secrets.token}"} },
		func(s *Step) { s.Args.List = []string{"${secrets.token}"} },
		func(s *Step) { s.Args.List = []string{"${env.T}"} },
		func(s *Step) { s.Name = "${secrets.token}" },
		func(s *Step) { s.Labels = map[string]string{"l": "${env.T}"} },
		func(s *Step) { s.Stdin = &Stdin{Text: "${secrets.token}"} },
		func(s *Step) { s.With = map[string]any{"headers": "${secrets.none}"} },
	} {
		step := secretStep(t, `{id: a, action: http.request, with: {url: "http://x/"}, env: {T: "${secrets.token}"}}`)
		place(step)
		if _, err := step.Resolve(scope); err == nil {
			t.Errorf("a secret went where it may not: %+v", step)
		}
	}
}

func TestResolve_URLIsShownWithReferences(t *testing.T) {
	t.Parallel()
	scope := fakeScope{context: Context{Params: map[string]any{"p": "day"}}}
	for url, want := range map[string][2]string{
		"${secrets.token}":                      {"s3cret", "${secrets.token}"},
		"http://x/${params.p}?k=${env.T}&l=1":   {"http://x/day?k=bs3cret&l=1", "http://x/day?k=b${secrets.token}&l=1"},
		"http://x/${params.p}/$${secrets.none}": {"http://x/day/${secrets.none}", ""},
	} {
		step := secretStep(t, `{id: a, action: http.request, with: {url: "`+url+`"}, env: {T: "b${secrets.token}"}}`)
		got, err := step.Resolve(scope)
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := got.With["url"].(string); ok && strings.Contains(text, "s3cret") {
			t.Errorf("%s holds a secret before it was read", url)
		}
		got.Reveal(map[string]string{"token": "s3cret"})
		if diff := cmp.Diff(want, [2]string{got.With["url"].(string), got.ShownURL}); diff != "" {
			t.Errorf("%s: %s", url, diff)
		}
	}
}

// A reference to the variable that a secret is read from must not put the secret into a forbidden place.
func TestResolve_TakesNoTextFromWhereASecretIs(t *testing.T) {
	t.Parallel()
	env := func(name string) (string, bool) { return "s3cret", name == "TOKEN" || name == "OTHER" }
	scope := fakeScope{context: Context{Env: env}}
	step := secretStep(t, `{id: a, command: x, args: ['${env.OTHER} ${env.TOKEN | default("none")}']}`)
	got, err := step.Resolve(scope)
	if err != nil || got.Args[0] != "s3cret none" {
		t.Errorf("%+v, %v", got, err)
	}
}

// The publish and the replacements of a step inherit the fields that they do not set.
func TestResolve_SecretsOfAStepAreThoseOfItsOtherBodies(t *testing.T) {
	t.Parallel()
	step := secretStep(t, `{id: a, run: x, env: {FROM_DAG: ''}, secrets: [token], publish: {run: y}, on_error: [{do: replace, with: [{run: z}, {run: z, secrets: []}]}]}`)
	for i, tt := range []struct {
		body *Step
		want []string
	}{{step, []string{"token"}}, {step.Publish, []string{"token"}}} {
		got, err := tt.body.Resolve(fakeScope{context: Context{}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, secretNames(got)); diff != "" {
			t.Errorf("body %d: %s", i, diff)
		}
	}
	for i, want := range []string{"token", ""} {
		alt := step.OnError[0].With[i].replacing(step)
		alt.names = step.names
		if got := strings.Join(alt.named(), " "); got != want {
			t.Errorf("replacement %d gets %q, want %q", i, got, want)
		}
	}
}

func TestResolve_FillsTexts(t *testing.T) {
	t.Parallel()
	step, scope := evalStep(t, "t")
	got, err := step.Resolve(scope)
	if err != nil {
		t.Fatal(err)
	}
	stdin := `{"big":9007199254740993,"k":"v"}`
	want := &Resolved{
		Name: "world 41", Labels: map[string]string{"who": "world"},
		Args:  []string{"3", `a{"b":[10,20]}b`, "${literal} $HOME", "v", "20"},
		Env:   map[string]string{"GREETING": "hello world", "BASE": "/base", "PATH": "/bin:/dag:/step", "TEXT": " a b ", "OLD": "hello world"},
		Stdin: &stdin,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Resolved{})); diff != "" {
		t.Error(diff)
	}
}

func TestResolve_KeepsTypesInWith(t *testing.T) {
	t.Parallel()
	step, scope := evalStep(t, "typed")
	got, err := step.Resolve(scope)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"int": int64(3), "text": "n=3", "list": []any{true, 2.0, int64(7)},
		"obj":      map[string]any{"a": map[string]any{"b": []any{int64(10), int64(20)}}, "list": []any{int64(1), "x", nil}},
		"gathered": []any{int64(1), nil, int64(3)}, "count": int64(1), "orelse": map[string]any{"x": []any{int64(1)}}, "call": nil,
		"time": "2026-11-20T02:00:00Z", "code": int64(3),
		"schedule": "nightly", "previous": "2026-11-19T02:00:00Z",
	}
	if diff := cmp.Diff(want, got.With); diff != "" {
		t.Error(diff)
	}
}

func TestResolve_RefusesWhatHasNoValue(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"missing": "with.x: steps.bad.outputs.text has no value: write ${steps.bad.outputs.text | default(…)}",
		"unset":   "args: env.NOPE has no value",
	} {
		step, scope := evalStep(t, id)
		if _, err := step.Resolve(scope); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", id, err)
		}
	}
}

func TestResolve_NeedsAContext(t *testing.T) {
	t.Parallel()
	step, scope := evalStep(t, "t")
	scope.context = "nothing"
	if _, err := step.Resolve(scope); err == nil {
		t.Error("no error")
	}
}

func TestResolve_SeesTheItem(t *testing.T) {
	t.Parallel()
	step, scope := evalStep(t, "each")
	scope.item = &dagrun.Item{Key: "0", Value: `{"name":"n1","x":[1, 2]}`}
	got, err := step.Resolve(scope)
	if err != nil {
		t.Fatal(err)
	}
	if got.Env["IT"] != `{"name":"n1","x":[1,2]}` || got.Env["NAME"] != "n1" {
		t.Errorf("%v", got.Env)
	}
}

func TestResolvePublish_SeesTheOutputsOfItsBody(t *testing.T) {
	t.Parallel()
	spec := mustParse(t, `
name: p
shell: [/bin/bash]
steps:
  - {id: a, run: x, env: {A: a}, outputs: [n], foreach: {items: [1]}, publish: {run: y, env: {N: "${steps.a.outputs.n}"}}}
`)
	g, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	step := g.Step(0).Data.(*Step)
	got, err := step.ResolvePublish(fakeScope{context: Context{}, item: &dagrun.Item{Value: "1"}, steps: map[string]dagrun.StepView{"a": {}}}, `{"n":"five"}`)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"A": "a", "N": "five"}, got.Env); diff != "" || step.Publish.Shell[0] != "/bin/bash" {
		t.Error(diff, step.Publish.Shell)
	}
}

func TestExpressions_Evaluate(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]any{
		`params.n == 3 && params.on`:                                      true,
		`params.f == 2 && params.f < 2.5`:                                 true,
		`params.who matches "^w" and not (params.who == "x")`:             true,
		`params.obj.a.b[1] == 20`:                                         true,
		`params["obj"].list[1] == "x" && params.obj.list[2] == nil`:       true,
		`steps.ok.outputs.text == " a b "`:                                true,
		`steps.ok.outputs.num > 4`:                                        true,
		`steps.ok.outputs.num + 1 == 5.5`:                                 true,
		`steps.ok.outputs.data.k == "v"`:                                  true,
		`steps.ok.state == "succeeded" && steps.ok.attempt == 2`:          true,
		`steps.bad.exit_code == 3`:                                        true,
		`steps["many-items"].items.failed == 1`:                           true,
		`len(steps["many-items"].outputs.n) == 3`:                         true,
		`steps["many-items"].outputs.n[1] == nil`:                         true,
		`sum(filter(steps["many-items"].outputs.n, # != nil)) == 4`:       true,
		`steps.bad.outputs.text | default("none") == "none"`:              true,
		`default(steps.bad.outputs.text, "none") == "none"`:               true,
		`(steps.bad.outputs.text ?? "none") == "none"`:                    true,
		`steps.bad.outputs.text == nil`:                                   true,
		`nil != steps.ok.outputs.text`:                                    true,
		`default(steps.ok.outputs.data.nope, 5) == 5`:                     true,
		`default(steps.ok.outputs.data.nope.deeper, 5) == 5`:              true,
		`steps.bad.state == "succeeded" && steps.bad.outputs.text == "x"`: false,
		`default(params.maybe, 7) == 7`:                                   true,
		`env.HOME == "/root" && env.GREETING == "hello world"`:            true,
		`default(env.NOPE, "") == ""`:                                     true,
		`run.id == 41 && run.dag == "eval" && run.generation == 2`:        true,
		`run.state == "failed" && run.failed == ["bad"]`:                  true,
		`run.logical_at.Format("2006-01-02") == "2026-11-20"`:             true,
		`run.logical_at - duration("24h") < date("2026-11-20")`:           true,
		`run.logical_at.In(timezone("Europe/Paris")).Hour() == 3`:         true,
		`run.schedule == "nightly" && run.schedule != null`:               true,
		`run.previous_logical_at.Format("2006-01-02") == "2026-11-19"`:    true,
		`let x = params.n; x > 2`:                                         true,
		`join(keys({"b": 1, "a": 2}), "") == "ab"`:                        true,
		`toPairs({"b": 1, "a": 2})[0][0] == "a"`:                          true,
		`"who" in params`:                                                 true,
		`any(params.obj.list, # == "x")`:                                  true,
	} {
		e, scope := evalExpression(t, expression, wantBool)
		got, err := e.Eval(scope)
		if err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", expression, got, err, want)
		}
	}
}

func TestExpressions_CompareWithTheTimeBefore(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{
		`run.previous_logical_at == null || run.logical_at - run.previous_logical_at == duration("24h")`,
		`default(run.previous_logical_at, run.logical_at) < run.logical_at`,
	} {
		e, scope := evalExpression(t, expression, wantBool)
		if got, err := e.Eval(scope); got != true || err != nil {
			t.Errorf("%s: %v, %v", expression, got, err)
		}
	}
}

// A run that no schedule made has no schedule name and no previous time.
func TestExpressions_KnowRunsOfNoSchedule(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]any{
		`run.schedule == null && run.schedule != "nightly"`:                                            true,
		`null == run.previous_logical_at`:                                                              true,
		`run.previous_logical_at == null || run.logical_at - run.previous_logical_at > duration("1h")`: true,
		`default(run.previous_logical_at, run.logical_at) == run.logical_at`:                           true,
		`(run.schedule ?? "by hand") == "by hand"`:                                                     true,
		`run.previous_logical_at.Year() == 2026`:                                                       "run.previous_logical_at has no value: write default(run.previous_logical_at, …)",
	} {
		e, _ := evalExpression(t, expression, wantBool)
		scope := fakeScope{context: Context{LogicalAt: time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)}}
		got, err := e.Eval(scope)
		if text, ok := want.(string); ok {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v, %v, want %q", expression, got, err, text)
			}
		} else if err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", expression, got, err, want)
		}
	}
}

func evalExpression(t *testing.T, text string, want wanted) (*expression, dagrun.Scope) {
	t.Helper()
	step, scope := evalStep(t, "t")
	e, problems := step.names.compile(text, want)
	if len(problems) > 0 {
		t.Fatalf("%s: %v", text, problems)
	}
	return e, scope
}

func TestExpressions_RefuseAtRunTime(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`steps.bad.outputs.text == "x"`:                               "steps.bad.outputs.text has no value: write default(steps.bad.outputs.text, …)",
		`steps.ok.outputs.data.k`:                                     "the value is a text, not true or false",
		`params.maybe > 3`:                                            "params.maybe has no value",
		`env.NOPE == "x"`:                                             "env.NOPE has no value",
		`steps.ok.outputs.data.k > 3`:                                 "invalid operation",
		`len(1..900000) > 3`:                                          "memory budget exceeded",
		`run.logical_at.In(timezone("Lo" + "cal")) == null`:           "the worker's time zone must not decide",
		`date("2026-11-20", "2006-01-02", "Lo" + "cal") == null`:      "the worker's time zone must not decide",
		`any(params.obj.list, any(1..150000, any(1..150000, # < 0)))`: "memory budget exceeded",
	} {
		e, scope := evalExpression(t, expression, wantBool)
		if got, err := e.Eval(scope); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v, want %q", expression, got, err, want)
		}
	}
}

func TestExpressions_GiveNumbersAndTexts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{`params.n * 10`: 30, `params.on ? -5 : 5`: -5, `steps.ok.attempt`: 2, `100.0`: 100} {
		e, scope := evalExpression(t, text, wantNumber)
		if got, err := e.Number(scope); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{`params.n / 2`, `params.n * 1000`, `params.obj.a`, `default(params.maybe, "x")`} {
		e, scope := evalExpression(t, text, wantNumber)
		if got, err := e.Number(scope); err == nil {
			t.Errorf("%s is a priority: %d", text, got)
		}
	}
	for text, want := range map[string]string{`params.who + "/" + string(params.n)`: "world/3", `params.n`: "3", `params.obj.a`: `{"b":[10,20]}`} {
		e, scope := evalExpression(t, text, wantText)
		if got, err := e.Text(scope); err != nil || got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{`""`, `params.obj.nope`} {
		e, scope := evalExpression(t, text, wantText)
		if got, err := e.Text(scope); err == nil {
			t.Errorf("%s is a key: %q", text, got)
		}
	}
}
