package queue

import (
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

func TestDefinition_BindKeepsTheLastGraph(t *testing.T) {
	t.Parallel()
	def := definitionOf(t, "name: x\nparams: [{name: limit, default: 1m}, {name: other}]\nsteps: [{id: a, run: x, timeout: '${params.limit}'}]\n")
	def.Path = "x.yaml"
	bind := func(given map[string]any) *Definition {
		t.Helper()
		params, err := def.Spec.Params(given)
		if err != nil {
			t.Fatal(err)
		}
		bound, err := def.Bind(params)
		if err != nil {
			t.Fatal(err)
		}
		return bound
	}
	first, equal, other := bind(nil), bind(map[string]any{"other": "x"}), bind(map[string]any{"limit": "2s"})
	if first.Graph != equal.Graph || first.Path != "x.yaml" {
		t.Errorf("runs with equal values share no graph, or the path %q is lost", first.Path)
	}
	for _, c := range []struct {
		def  *Definition
		want dagrun.Duration
	}{{first, 60_000}, {other, 2000}, {bind(nil), 60_000}, {def, 0}} {
		if got := c.def.Graph.Step(0).Timeout; got != c.want {
			t.Errorf("the timeout is %s, want %s", got, c.want)
		}
	}
	plain := definitionOf(t, "name: x\nsteps: [{id: a, run: x}]\n")
	if bound, err := plain.Bind(nil); bound != plain || err != nil {
		t.Errorf("a DAG without such params is copied: %v", err)
	}
	if _, err := def.Bind(map[string]any{"limit": "soon"}); err == nil {
		t.Error("a text that is no duration is bound")
	}
}

func definitionOf(t *testing.T, file string) *Definition {
	t.Helper()
	spec, err := dagspec.Parse("x.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	graph, err := spec.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return NewDefinition(spec, graph)
}
