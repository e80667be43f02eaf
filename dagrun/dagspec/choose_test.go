package dagspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/dagrun"
)

func TestChooser_TakesOnlyDeclaredReplacements(t *testing.T) {
	t.Parallel()
	out, err := mustParse(t, `{name: x, steps: [{id: a, command: x, args: [y], env: {A: b}, on_error: [{do: ask, with: [{id: small}, {id: big}], ask: {command: planner}}]}]}`).Compile()
	if err != nil {
		t.Fatal(err)
	}
	rule := out.Steps[0].OnError[0]
	if body := rule.Ask.Data.(*Step); body.Command != "planner" || len(body.Args.List) != 0 || body.Env["A"] != "b" || body.Outputs[0].From != "stdout" {
		t.Errorf("the body that chooses is %+v", body)
	}
	for _, tt := range []struct {
		printed, wrong string
		want           []dagrun.Choice
	}{
		{`[]`, "", []dagrun.Choice{}},
		{`[{"use":"big","item":{"a":[1,"x"]}},{"use":"small"},{"use":"big","item":"w"}]`, "", []dagrun.Choice{{With: 1, Value: `{"a":[1,"x"]}`}, {With: 0, Value: `null`}, {With: 1, Value: `"w"`}}},
		{`{"use":"big"}`, `the program printed no list: print one such as [{"use": "small", "item": 7}]`, nil},
		{`null`, "the program printed no list", nil},
		{`["big"]`, `entry 0: it is no map such as {"use": "small"}`, nil},
		{`[{"use":"big"},{"item":1}]`, `entry 1: use is missing`, nil},
		{`[{"use":7}]`, `entry 0: use is missing`, nil},
		{`[{"use":"bigg"}]`, `entry 0: no replacement has the id "bigg": did you mean big?`, nil},
		{`[{"use":"/bin/sh -c reboot"}]`, `the replacements are small, big`, nil},
		{`[{"use":"big","command":"rm"}]`, `entry 0: "command" is unknown: an entry has use and item`, nil},
		{`[{"use":"big","item":"` + strings.Repeat("x", maxChoicesBytes) + `"}]`, `at most 65536`, nil},
	} {
		got, err := rule.Chooser.Choose(dagrun.JSON(`{"choices":` + tt.printed + `}`))
		if diff := cmp.Diff(tt.want, got); diff != "" || (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%.60s: %v %s", tt.printed, err, diff)
		}
	}
}

// Items of replacements by data have the names that their foreach gives them, at any depth, and hide equal names further out.
func TestResolve_ItemsOfReplacements(t *testing.T) {
	t.Parallel()
	out, err := mustParse(t, `
name: x
params: [{name: n, type: integer, default: 2}]
steps:
  - id: a
    foreach: {items: [[1, 2, 3]], as: item}
    command: x
    args: ['${item}']
    on_error:
      - do: replace
        with:
          foreach: {items: '${= [item[:params.n], item[params.n:], [error.exit_code]]}', as: half}
          args: {append: ['${half}', '${= len(half)}']}
          on_error:
            - when: half[0] == 3
              do: replace
              with:
                - foreach: {items: '${half}', as: item, batch: 2}
                  args: {append: ['${item}']}
                - {env: {H: '${half} ${item}'}}
`).Compile()
	if err != nil {
		t.Fatal(err)
	}
	first := out.Steps[0].OnError[0].With[0]
	inner := first.OnError[0]
	scope := fakeScope{
		context: Context{Params: map[string]any{"n": int64(2)}}, item: &dagrun.Item{Value: `[1,2,3]`},
		failure: &dagrun.Failure{ExitCode: 7},
	}
	expand := func(s dagrun.Step, chosen ...dagrun.JSON) (values []dagrun.JSON) {
		scope.failure.Chosen = chosen
		items, err := s.Foreach.Items.Expand(scope)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range items {
			values = append(values, item.Value)
		}
		return values
	}
	resolve := func(s dagrun.Step, chosen ...dagrun.JSON) *Resolved {
		scope.failure.Chosen = chosen
		got, err := s.Data.(*Step).Resolve(scope)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	scope.failure.Chosen = []dagrun.JSON{`[3]`}
	holds, err := inner.When.Eval(scope)
	if err != nil || !holds {
		t.Errorf("when: %v, %v", holds, err)
	}
	for what, diff := range map[string]string{
		"items":       cmp.Diff([]dagrun.JSON{`[1,2]`, `[3]`, `[7]`}, expand(first)),
		"batches":     cmp.Diff([]dagrun.JSON{`[3,4]`, `[5]`}, expand(inner.With[0], `[3,4,5]`)),
		"args":        cmp.Diff([]string{"[1,2,3]", "[3]", "1"}, resolve(first, `[3]`).Args),
		"hidden":      cmp.Diff([]string{"[8]", "[3]", "1", "[8]"}, resolve(inner.With[0], `[3]`, `[8]`).Args),
		"seen behind": cmp.Diff("[3] [1,2,3]", resolve(inner.With[1], `[3]`).Env["H"]),
	} {
		if diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
}
