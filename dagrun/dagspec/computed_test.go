package dagspec

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun"
)

const computedDAG = `
name: computed
env: {BASE: '/data/${= params.n * 2}', UP: '${= upper(env.HOME)}'}
secrets: [{name: token, from: env, key: TOKEN}]
params:
  - {name: n, type: integer, default: 3}
  - {name: f, type: number, default: 2}
  - {name: full, type: boolean, default: true}
  - {name: files, type: json, default: [a.csv, b.csv]}
  - {name: maybe, type: integer}
steps:
  - {id: flip-coin, run: x, outputs: [side, {name: n, type: number}]}
  - id: t
    depends: [flip-coin]
    when: steps.flip-coin.outputs.side == "heads" && steps?.flip-coin.state == "succeeded"
    priority: steps.flip-coin.outputs.n-1
    action: http.request
    name: "${= params.full ? 'full' : 'delta'} load"
    labels: {next: "${= params.n + 1}"}
    env: {BASE: "${= env.BASE + '/x'}", KEY: "${secrets.token}-${= params.n + 1}", UP: "${env.UP}"}
    with:
      url: http://x/
      body: VALUE
`

// computedWith returns the step t of computedDAG with a value of with.body, and its scope.
func computedWith(t *testing.T, body string) (*Step, fakeScope) {
	t.Helper()
	spec := mustParse(t, strings.Replace(computedDAG, "VALUE", body, 1))
	params, err := spec.Params(nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	scope := evalScope()
	ctx := scope.context.(Context)
	ctx.Params = params
	scope.context = ctx
	scope.steps = map[string]dagrun.StepView{"flip-coin": {State: dagrun.TaskSucceeded, Outputs: `{"side":"heads","n":7}`}}
	return g.Step(1).Data.(*Step), scope
}

func TestComputed_KeepsTypes(t *testing.T) {
	t.Parallel()
	list := func(values ...any) []any { return append([]any{}, values...) }
	for body, want := range map[string]any{
		`"${= params.n + 1}"`:                                          int64(4),
		`"${= params.n / 2}"`:                                          1.5,
		`"${= params.n * 2.0}"`:                                        int64(6),
		`"${= params.f}"`:                                              int64(2),
		`"x${= params.n + 1}y${params.n}"`:                             "x4y3",
		`"${= params.n > 2}"`:                                          true,
		`"is ${= params.n > 2}"`:                                       "is true",
		`"${= params.full ? '--full' : '--delta'}"`:                    "--full",
		`"${= join(params.files, ',')}"`:                               "a.csv,b.csv",
		`"${= map(params.files, {upper(#)})}"`:                         list("A.CSV", "B.CSV"),
		`"l=${= [1, params.n, null]}"`:                                 "l=[1,3,null]",
		`{a: ["${= {'k': params.n, 'l': 1..2}}"]}`:                     map[string]any{"a": list(map[string]any{"k": int64(3), "l": list(int64(1), int64(2))})},
		`"${= run.logical_at}"`:                                        "2026-11-20T02:00:00Z",
		`"at ${= run.logical_at - duration('24h')}"`:                   "at 2026-11-19T02:00:00Z",
		`"${= duration('90m')}"`:                                       "1h30m0s",
		`"${= run.logical_at.Month()}"`:                                int64(11),
		`'${= format(run.logical_at, "2006/01/02")}'`:                  "2026/11/20",
		`"${= format(run.logical_at.AddDate(0, -1, 0), '2006-01')}"`:   "2026-10",
		`'${= format(date("2026-03-01") - duration("24h"), "Jan 2")}'`: "Feb 28",
		`"$${= params.n} $${x}"`:                                       "${= params.n} ${x}",
		"|-\n        ${= {\"a}\": 1}[\"a}\"] /* } \" */ + len(\"\\\"}\") + len(`}'`)}": int64(5),
		`"${= params.maybe ?? 5}"`:                                          int64(5),
		`"${= default(params.maybe, 'none')}"`:                              "none",
		`"${= steps.flip-coin.outputs.side}"`:                               "heads",
		`"${= steps.flip-coin.outputs.n-1}"`:                                int64(6),
		`"${= steps['flip-coin'].state}"`:                                   "succeeded",
		`"${= range(1, 4)}"`:                                                list(int64(1), int64(2), int64(3)),
		`"${= range(4, steps.flip-coin.outputs.n)}"`:                        list(int64(4), int64(5), int64(6)),
		`"${= range(2, 2)}"`:                                                list(),
		`"${= [1..3, range(-1, 1)]}"`:                                       list(list(int64(1), int64(2), int64(3)), list(int64(-1), int64(0))),
		`"${= groupBy([1, 2, 3], # > 1)}"`:                                  map[string]any{"false": list(int64(1)), "true": list(int64(2), int64(3))},
		`'${= map(matrix({v: 1..2, os: ["a", "b"]}), {.os + string(.v)})}'`: list("a1", "a2", "b1", "b2"),
		`'${= matrix({v: []})}'`:                                            list(),
		`'${= concat(filter(matrix({os: ["a", "b"], v: [1, 2]}), not (.os == "a" and .v == 2)), [{os: "c"}])}'`: list(
			map[string]any{"os": "a", "v": int64(1)}, map[string]any{"os": "b", "v": int64(1)}, map[string]any{"os": "b", "v": int64(2)}, map[string]any{"os": "c"}),
		"|-\n        ${= params.n +\n          1 // one more: }\n        }": int64(4),
		">-\n        ${= params.n +\n        1}":                            int64(4),
	} {
		step, scope := computedWith(t, body)
		got, err := step.Resolve(scope)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if diff := cmp.Diff(want, got.With["body"]); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
}

func TestComputed_FillsEveryField(t *testing.T) {
	t.Parallel()
	step, scope := computedWith(t, "x")
	scope.context = func() Context {
		ctx := scope.context.(Context)
		ctx.Env = func(name string) (string, bool) { return "/root", name == "HOME" }
		return ctx
	}()
	got, err := step.Resolve(scope)
	if err != nil {
		t.Fatal(err)
	}
	if got.Name != "full load" || got.Labels["next"] != "4" {
		t.Errorf("name %q, labels %v", got.Name, got.Labels)
	}
	want := map[string]string{"BASE": "/data/6/x", "UP": "/ROOT"} // KEY holds a secret, which this action takes in no variable
	if diff := cmp.Diff(want, got.Env); diff != "" {
		t.Error(diff)
	}
	when, problems := step.names.compile(step.When, wantBool)
	if when == nil {
		t.Fatal(problems)
	}
	if ok, err := when.Eval(scope); !ok || err != nil {
		t.Errorf("when: %v, %v", ok, err)
	}
}

func TestComputed_RefusesAtRunTime(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`"${= params.maybe}"`:                                     "with.body: ${= params.maybe}: params.maybe has no value: write default(params.maybe, …)",
		`"a ${= null}"`:                                           "null} has no value: write default(…, …) in it",
		`"${= params.full ? null : 1}"`:                           "has no value",
		`"${= params.n / 0}"`:                                     "a division by zero",
		`"${= join([params.f, 'a'])}"`:                            "join needs a text, not a number",
		`"${= format(params.files, '2006')}"`:                     "format needs a time, not a list",
		`"${= timezone('UTC')}"`:                                  "the value is a *time.Location, which is no value of JSON",
		`'${= fromBase64("AGE=")}'`:                               "must be UTF-8 without NUL",
		`"${= range(0, 300000)}"`:                                 "range makes 300000 numbers, more than 200000",
		`"${= range(0, 10000000)}"`:                               errCost.Error(),
		`"${= range(-9223372036854775807, 9223372036854775807)}"`: errCost.Error(),
		`"${= range('1', 3)}"`:                                    "range needs two whole numbers",
		`"${= range(0.5, 3)}"`:                                    "range needs two whole numbers",
		`"${= matrix({})}"`:                                       "matrix needs a map of lists",
		`"${= matrix({a: 1})}"`:                                   "matrix: a is not a list",
		`"${= matrix({a: 1..400, b: 1..300})}"`:                   "matrix makes more than 200000 values",
		`"${= matrix({a: 1..9000, b: 1..9000, c: 1..9000, d: 1..9000, e: 1..9000})}"`: errCost.Error(),
		`"${= reduce(1..600, [#acc], [])}"`:                                           "nested more than 500 deep",
	} {
		if !strings.Contains(body, "params.") {
			body = strings.Replace(body, "${= ", "${= params.n == 5 ? 1 : ", 1) // else the file is refused
		}
		step, scope := computedWith(t, body)
		if got, err := step.Resolve(scope); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v, want %q", body, got, err, want)
		}
	}
}

// A computed value without names fails in each run, or in none.
func TestComputed_RefusesConstantsThatHaveNoValue(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string]string{
		`1 / 0`:                   "a division by zero",
		`null`:                    "${= null} has no value",
		`matrix(["a"])`:           "matrix needs a map of lists",
		`matrix({os: "linux"})`:   "matrix: os is not a list",
		`duration("5 minutes")`:   `unknown unit " minutes"`,
		`date("03/01/2026")`:      "invalid date 03/01/2026",
		`range(1, 300000)`:        "range makes 299999 numbers, more than 200000",
		`join(["a", 1])`:          "join needs a text, not a whole number",
		`timezone("UTC")`:         "no value of JSON",
		`len(range(1, 190000))`:   "", // it has a value
		`range(0, 9000000)`:       "", // it costs too much to find out here
		`date(params.day ?? "x")`: "", // it depends on the run
	} {
		_, err := Parse("x.yaml", []byte("name: x\nparams: [{name: day, default: x}]\nsteps:\n  - id: a\n    command: echo\n    args:\n      - |-\n        ${= "+expression+"}\n"))
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "x.yaml:8:9: ")) {
			t.Errorf("%s: %v, want %q", expression, err, want)
		}
	}
}

// spender is a scope that counts costs.
type spender struct {
	fakeScope
	spent *int
}

func (s spender) Spend(units int) { *s.spent += units }

// All computed values of a task share one budget, and their cost counts toward the run.
func TestComputed_SharesOneBudget(t *testing.T) {
	t.Parallel()
	for body, fails := range map[string]bool{
		`["${= len(range(0, 199000))}"]`:                                 false,
		`[` + strings.Repeat(`"${= len(range(0, 199000))}", `, 12) + `]`: true,
	} {
		step, scope := computedWith(t, body)
		total := 0
		_, err := step.Resolve(spender{scope, &total})
		if fails != (err != nil && strings.Contains(err.Error(), errCost.Error())) {
			t.Errorf("%.40s: %v", body, err)
		}
		if total < 1_990_000 || total > exprUnits {
			t.Errorf("%.40s: %d units", body, total)
		}
	}
}

func TestComputed_ItemsOfForeach(t *testing.T) {
	t.Parallel()
	for items, want := range map[string]string{
		`'${= range(2, 5)}'`:                          "2=2 3=3 4=4",
		`'${= map(matrix({os: ["a", "b"]}), .os)}'`:   "a=\"a\" b=\"b\"",
		`['x${= params.n + 1}', '${= params.n + 1}']`: `x4="x4" 4=4`,
		`'${= params.j.no}'`:                          "foreach.items: ${= params.j.no} has no value: write default(…, …) in it to give a default",
		`'${= params.j.n}'`:                           "foreach.items: ${= params.j.n} is not a list",
	} {
		spec := mustParse(t, `
name: items
params: [{name: n, type: integer, default: 3}, {name: j, type: json, default: {n: 1}}]
steps: [{id: a, run: x, foreach: {items: `+items+`}}]
`)
		params, err := spec.Params(nil)
		if err != nil {
			t.Fatal(err)
		}
		g, err := spec.Graph()
		if err != nil {
			t.Fatal(err)
		}
		list, err := g.Step(0).Foreach.Items.Expand(fakeScope{context: Context{Params: params}})
		var got []string
		for _, item := range list {
			got = append(got, item.Key+"="+string(item.Value))
		}
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if text != want {
			t.Errorf("%s: %s, want %s", items, text, want)
		}
	}
}

func TestComputed_SecretsStayBesideIt(t *testing.T) {
	t.Parallel()
	spec := mustParse(t, `
name: s
params: [{name: n, type: integer, default: 3}]
env: {DAG: 'x${secrets.token}'}
secrets: [{name: token, from: env, key: TOKEN}]
steps: [{id: a, run: x, env: {KEY: '${= params.n + 1}-${secrets.token}'}}]
`)
	g, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	step := g.Step(0).Data.(*Step)
	scope := fakeScope{context: Context{Params: map[string]any{"n": int64(3)}}}
	got, err := step.Resolve(scope)
	if err != nil {
		t.Fatal(err)
	}
	if got.Reveal(map[string]string{"token": "s3cret"}); got.Env["KEY"] != "4-s3cret" {
		t.Errorf("%v", got.Env)
	}
	for _, source := range []string{`${= secrets.token}`, `${= env.DAG}`, `${= env["DAG"] + "x"}`, `${= let x = 1; secrets.token}`} {
		if e, problems := step.names.belowStep().compute(source, wantValue); e != nil {
			t.Errorf("%s was compiled: %v", source, problems)
		}
		step.Env = map[string]string{"KEY": source} // a text that was never compiled
		step.names.env = step.Env
		if got, err := step.Resolve(scope); err == nil {
			t.Errorf("%s: %v", source, got)
		}
	}
}

func TestReadSource_KeepsColumns(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`steps.a-b.state`:                           `steps["a-b"].state`,
		`"steps.a-b" + steps.é-b`:                   `"steps.a-b" + steps.é-b`,
		`"é" + steps . a-b.x + steps?.c-d-.y`:       `"é" + steps["a-b"].x + steps?.["c-d-"].y`,
		`item.steps.a-b + mysteps.a-b + $steps.a-b`: `item.steps.a-b + mysteps.a-b + $steps.a-b`,
		`steps.a.outputs.n-1 // steps.a-b`:          `steps.a.outputs.n-1 // steps.a-b`,
	} {
		src := readSource(text)
		if src.read != want {
			t.Errorf("%s is read as %s, want %s", text, src.read, want)
		}
		for _, word := range []string{"state", "x", "y", "+"} {
			if at := strings.LastIndex(want, word); at >= 0 {
				if got := src.from(len([]rune(want[:at]))); !strings.HasPrefix(got, word) {
					t.Errorf("%s: %s is at %q", text, word, got)
				}
			}
		}
	}
}

func TestComputed_HasALimitForEachDAG(t *testing.T) {
	t.Parallel()
	file := "name: many\nsteps: [{id: a, command: x, args: ['" + strings.Repeat("${=1}", maxComputed+2) + "']}]\n"
	_, err := Parse("f.yaml", []byte(file))
	if errs, ok := errors.AsType[Errors](err); !ok || len(errs) != 1 || errs[0].Msg != "the DAG has more than 5000 computed values" {
		t.Error(err)
	}
}

func TestComputed_WorksInEveryBody(t *testing.T) {
	t.Parallel()
	spec := mustParse(t, `
name: bodies
params: [{name: n, type: integer, default: 3}]
handler_on: {exit: {command: x, args: ['${= len(run.failed)}']}}
steps:
  - id: each
    command: x
    args: ['${= item * 2}']
    outputs: [{name: n, type: number}]
    foreach: {items: '${= range(0, 3)}'}
    publish: {run: y, env: {N: '${= steps.each.outputs.n + item}'}}
    on_error: [{do: replace, with: [{env: {M: '${= item + params.n}'}}]}]
  - {id: ask, action: approval, with: {prompt: 'all ${= params.n}?'}}
`)
	g, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	scope := spender{fakeScope{context: Context{Params: map[string]any{"n": int64(3)}}, item: &dagrun.Item{Value: "5"}, steps: map[string]dagrun.StepView{"each": {}}, run: dagrun.RunView{Failed: []string{"a"}}}, &total}
	resolve := func(data any) *Resolved {
		t.Helper()
		got, err := data.(*Step).Resolve(scope)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	alt := resolve(g.Step(0).OnError[0].With[0].Data)
	if body := resolve(g.Step(0).Data); body.Args[0] != "10" || alt.Args[0] != "10" || alt.Env["M"] != "8" {
		t.Errorf("body %v, replacement %v %v", body.Args, alt.Args, alt.Env)
	}
	if text, err := g.Step(1).Approval.Prompt.Text(scope); err != nil || text != "all 3?" {
		t.Errorf("prompt %q, %v", text, err)
	}
	if i, _ := g.StepIndex(dagrun.ExitHandler); resolve(g.Step(i).Data).Args[0] != "1" {
		t.Error("the handler computes something else")
	}
	total = 0
	if got, err := g.Step(0).Data.(*Step).ResolvePublish(scope, `{"n":4}`); err != nil || got.Env["N"] != "9" || total == 0 {
		t.Errorf("publish %+v, %v, %d units", got, err, total)
	}
}
