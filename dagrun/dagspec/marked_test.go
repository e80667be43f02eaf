package dagspec

import (
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
)

func TestStep_GivesMarkedOutputsTheirTypes(t *testing.T) {
	t.Parallel()
	spec := mustParse(t, `{name: x, steps: [
		{id: a, run: "true", outputs: [{name: rows, type: number}, {name: j, type: json, optional: true}, {name: note, optional: true}]},
		{id: b, depends: [a], run: "true", env: {X: "${steps.a.stdout}"}}, {id: free, run: "true"}]}`)
	graph, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	step := func(name string) *Step {
		i, _ := graph.StepIndex(name)
		return graph.Step(i).Data.(*Step)
	}
	for _, c := range []struct{ step, given, want, problem string }{
		{"free", `{"any": 1}`, `{"any": 1}`, ""},
		{"a", `{"rows": "9007199254740993", "stdout": "x", "j": "{\"a\":[1]}"}`, `{"j":{"a":[1]},"rows":9007199254740993,"stdout":"x"}`, ""},
		{"a", `{"rows": 7.5, "stdout": "", "j": "a text", "note": null}`, `{"j":"a text","note":null,"rows":7.5,"stdout":""}`, ""},
		{"a", `{"rows": "\"7\"", "stdout": ""}`, "", `output rows must be a number, not "\"7\""`},
		{"a", `{"rows": "1e999", "stdout": ""}`, "", `output rows must be a number, not "1e999"`},
		{"a", `{"rows": true, "stdout": ""}`, "", "output rows must be a number, not true"},
		{"a", `{"rows": 1, "note": 7, "stdout": ""}`, "", "output note must be a text, not 7"},
		{"a", `{"rows": 1, "nots": "", "stdout": ""}`, "", "the step has no output nots: it has j, note, rows, stdout"},
		{"a", `{"rows": null, "stdout": ""}`, "", "the step needs the output rows: give it with the mark (--value rows=…)"},
		{"a", `{"rows": 1}`, "", "the step needs the output stdout, for steps.a.stdout in step b: give it with the mark (--value stdout=…)"},
		{"a", "", "", "the step needs the output rows: give it with the mark (--value rows=…)"},
	} {
		got, err := step(c.step).MarkedOutputs(dagrun.JSON(c.given))
		problem := ""
		if err != nil {
			problem, got = err.Error(), ""
		}
		if string(got) != c.want || problem != c.problem {
			t.Errorf("%s: got %s, %q", c.given, got, problem)
		}
	}
}
