package dagruntest

import (
	"flag"
	"testing"
)

var nightly = flag.Bool("nightly", false, "enumerate more")

// TestEveryOrderAndCrash is product (a): all graphs of 3 tasks in all index orders and of 4 tasks in one, all outcomes,
// all completion orders, up to 2 crashes after any row of any commit.
func TestEveryOrderAndCrash(t *testing.T) {
	t.Parallel()
	three, four := 2, 2
	classes := []Class{S, F}
	switch {
	case underRace || testing.Short(): // package enumerate plays all of it
		three, four = 1, 0
	case *nightly:
		three, four, classes = 3, 3, []Class{S, F, K}
	}
	runs, histories := 0, 0
	for _, g := range Graphs(3, true) {
		everyOutcome(t, g, classes, three, &runs, &histories)
	}
	for _, g := range Graphs(4, false) {
		everyOutcome(t, g, classes, four, &runs, &histories)
	}
	t.Logf("%d graphs of 3 and %d of 4 tasks: %d drives stand for %d histories", len(Graphs(3, true)), len(Graphs(4, false)), runs, histories)
}

func everyOutcome(t *testing.T, g [][]int, classes []Class, crashes int, runs, histories *int) {
	t.Helper()
	for o := NewOdometer(); ; {
		outcomes := make([]Class, len(g))
		for i := range outcomes {
			outcomes[i] = classes[o.N(len(classes))]
		}
		x, err := NewCrashes(g, outcomes)
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Explore(crashes); err != nil {
			t.Fatalf("parents %v outcomes %c: %v", g, outcomes, err)
		}
		*runs += x.Runs
		*histories += x.Histories
		if !o.Next() {
			return
		}
	}
}
