package enumerate

import (
	"testing"
)

func TestRules_EndAsTheTableSays(t *testing.T) {
	t.Parallel()
	graphs := smallGraphs(3, false)[joinGraph : chainGraph+1]
	if *nightly {
		graphs = smallGraphs(3, true)
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

// ruleHistories multiplies, over the tasks: 9 rules if the task has parents; 3 outcomes, or 4 where an edge to a child is
// `finished`; and the states of the edges to its children.
func ruleHistories(parents [][]int) int {
	total := 1
	for i, ps := range parents {
		all, none := 1, 1 // products over the edges to its children: all states, and all states but `finished`
		for _, qs := range parents {
			for _, p := range qs {
				if p == i {
					all, none = 3*all, 2*none
				}
			}
		}
		total *= 4*(all-none) + 3*none
		if len(ps) > 0 {
			total *= 9
		}
	}
	return total
}
