package enumerate

import (
	"flag"
	"sync"
	"testing"
)

var nightly = flag.Bool("nightly", false, "play every graph, and more crashes: takes an hour")

// Indexes of graphs among those of 3 tasks that are numbered parents first.
const (
	joinGraph  = 3 // 0 and 1, then 2
	chainGraph = 5 // 0, then 1, then 2
)

// play sums up the counts of many graphs, on two goroutines.
func play(t *testing.T, graphs [][][]int, one func([][]int) (Count, error)) Count {
	t.Helper()
	const lanes = 2
	var (
		wg     sync.WaitGroup
		counts [lanes]Count
	)
	for lane := range lanes {
		wg.Go(func() {
			for i := lane; i < len(graphs) && !t.Failed(); i += lanes {
				n, err := one(graphs[i])
				if err != nil {
					t.Error(err)
				}
				counts[lane].Add(n)
			}
		})
	}
	wg.Wait()
	counts[0].Add(counts[1])
	return counts[0]
}

func TestCrashes_EndDependsOnGraphAndOutcomesAlone(t *testing.T) {
	t.Parallel()
	type set struct {
		name    string
		graphs  [][][]int
		want    int // number of graphs
		crashes int
	}
	sets := []set{{"3 tasks in one order", smallGraphs(3, false), 8, 2}}
	if *nightly {
		sets = []set{
			{"3 tasks in all orders", smallGraphs(3, true), 25, 2},
			{"4 tasks in all orders", smallGraphs(4, true), 543, 2},
		}
	}
	for _, s := range sets {
		if len(s.graphs) != s.want {
			t.Errorf("%s: %d graphs, want %d", s.name, len(s.graphs), s.want)
		}
		got, want := play(t, s.graphs, func(g [][]int) (Count, error) { return Crashes(g, s.crashes) }), 0
		for _, g := range s.graphs {
			want += histories(g, s.crashes)
		}
		if got.Histories != want {
			t.Errorf("%s: %d histories, want %d", s.name, got.Histories, want)
		}
		t.Logf("%s, up to %d crashes: %d graphs, %+v", s.name, s.crashes, len(s.graphs), got)
	}
}

// Without crashes there is one history for each order in which the bodies can end.
func TestCrashes_PlaysEveryOrder(t *testing.T) {
	t.Parallel()
	for _, graphs := range [][][][]int{smallGraphs(3, true), smallGraphs(4, *nightly)} {
		want := 0
		for _, g := range graphs {
			for fails := range 1 << len(g) {
				want += orders(g, fails, 0)
			}
		}
		got := play(t, graphs, func(g [][]int) (Count, error) { return Crashes(g, 0) })
		if got.Histories != want {
			t.Errorf("%d histories of %d graphs, want %d", got.Histories, len(graphs), want)
		}
		t.Logf("%d graphs: %d orders", len(graphs), got.Histories)
	}
}

// orders counts the orders in which the remaining bodies can end. fails and ended are sets of tasks, as bits.
func orders(parents [][]int, fails, ended int) int {
	total := 0
	for i, ps := range parents {
		may := ended>>i&1 == 0
		for _, p := range ps {
			may = may && (ended&^fails)>>p&1 == 1
		}
		if may {
			total += orders(parents, fails, ended|1<<i)
		}
	}
	return max(total, 1)
}

func TestControls_EndAsTheLanguageSays(t *testing.T) {
	t.Parallel()
	const crashes = 1
	graphs := smallGraphs(3, false)[chainGraph : chainGraph+1]
	if *nightly {
		graphs = smallGraphs(3, true)
	}
	got := play(t, graphs, func(g [][]int) (Count, error) { return Controls(g, crashes) })
	const outcomes, controls = 8, 5 + 3*8 // controls of the run, and of each task
	if want := len(graphs) * outcomes * controls; got.Cases != want {
		t.Errorf("%d cases, want %d", got.Cases, want)
	}
	t.Logf("one control, up to %d crashes: %d graphs, %+v", crashes, len(graphs), got)
}
