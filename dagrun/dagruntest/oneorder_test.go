package dagruntest

import (
	"slices"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// TestEveryRuleAndEdge is product (b): all graphs of 3 tasks, all trigger rules, all edge states, all outcomes, in one
// order and without a crash.
func TestEveryRuleAndEdge(t *testing.T) {
	t.Parallel()
	count := 0
	graphs := Graphs(3, true)
	if underRace || testing.Short() {
		graphs = Graphs(3, false)[3:6]
	}
	for _, g := range graphs {
		for o := NewOdometer(); ; {
			spec := chosenSpec(o, g)
			compiled, err := dagrun.Compile(spec)
			if err != nil {
				t.Fatal(err)
			}
			for outcomes := NewOdometer(); ; {
				classes := []Class{S, F, K}
				picked := []Class{classes[outcomes.N(3)], classes[outcomes.N(3)], classes[outcomes.N(3)]}
				count++
				checkOneOrder(t, compiled, spec, picked)
				if !outcomes.Next() {
					break
				}
			}
			if !o.Next() {
				break
			}
		}
	}
	t.Logf("%d graphs: %d histories", len(graphs), count)
}

// chosenSpec turns answers into rules and edge states.
func chosenSpec(o *Odometer, g [][]int) dagrun.Spec {
	spec := SpecOf(g)
	for i := range spec.Steps {
		s := &spec.Steps[i]
		if len(s.Depends) > 0 {
			s.Rule = dagrun.Rule(o.N(int(dagrun.NoneSkipped) + 1))
		}
		for k := range s.Depends {
			s.Depends[k].State = dagrun.EdgeState(o.N(3))
		}
	}
	return spec
}

func checkOneOrder(t *testing.T, g *dagrun.Graph, spec dagrun.Spec, outcomes []Class) {
	t.Helper()
	states, verdict, err := OneOrder(g, outcomes)
	if err != nil {
		t.Fatalf("%+v outcomes %c: %v", spec.Steps, outcomes, err)
	}
	wantStates, wantVerdict := OneOrderByHand(spec.Steps, outcomes)
	if !slices.Equal(states, wantStates) || verdict != wantVerdict {
		t.Fatalf("outcomes %c\n%s\n%s\n%s\n  core    %v, run %s\n  by hand %v, run %s", outcomes,
			describe(spec.Steps[0]), describe(spec.Steps[1]), describe(spec.Steps[2]), states, verdict, wantStates, wantVerdict)
	}
}
