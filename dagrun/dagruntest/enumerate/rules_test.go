package enumerate

import (
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun/dagruntest"
)

func TestRules_EndAsTheTableSays(t *testing.T) {
	t.Parallel()
	graphs := dagruntest.Graphs(3, true)
	if underRace {
		graphs = dagruntest.Graphs(3, false)
	}
	want := 0
	for _, g := range graphs {
		want += ruleHistories(g)
	}
	got := play(t, graphs, Rules)
	if got.Histories != want {
		t.Errorf("%d histories, want %d", got.Histories, want)
	}
	t.Logf("every rule and edge state: %d graphs, %+v", len(graphs), got)
}

// ruleHistories counts task by task: 9 rules where there are parents; 2 outcomes, or 3 for the states of the edges to its
// children of which one at least is `finished`.
func ruleHistories(parents [][]int) int {
	total := 1
	for i, ps := range parents {
		all, none := 1, 1 // the states of the edges to its children, and those without `finished`
		for _, qs := range parents {
			for _, p := range qs {
				if p == i {
					all, none = 3*all, 2*none
				}
			}
		}
		total *= 3*(all-none) + 2*none
		if len(ps) > 0 {
			total *= 9
		}
	}
	return total
}
