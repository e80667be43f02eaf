package enumerate

import (
	"fmt"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// smallGraphs returns all graphs of n tasks: parents[i] are the tasks that task i depends on. With allOrders it returns a
// graph once for every numbering of its tasks, else only with tasks numbered parents first.
func smallGraphs(n int, allOrders bool) [][][]int {
	var all [][][]int
	for o := newOdometer(); ; {
		parents := make([][]int, n)
		for i := range n {
			for p := range n {
				if (p < i || (allOrders && p != i)) && o.N(2) == 1 {
					parents[i] = append(parents[i], p)
				}
			}
		}
		if acyclic(parents) {
			all = append(all, parents)
		}
		if !o.Next() {
			return all
		}
	}
}

func acyclic(parents [][]int) bool {
	done := make([]bool, len(parents))
	for range parents {
		for i := range parents {
			done[i] = !slices.ContainsFunc(parents[i], func(p int) bool { return !done[p] })
		}
	}
	return !slices.Contains(done, false)
}

// skipCode is the exit code with which a body asks for its task to be skipped.
const skipCode = 99

// specOf returns the spec of a graph, with default rules and edges.
func specOf(parents [][]int) dagrun.Spec {
	spec := dagrun.Spec{Steps: make([]dagrun.Step, len(parents))}
	for i, ps := range parents {
		spec.Steps[i].Name = stepName(i)
		spec.Steps[i].SkipExit = []int{skipCode}
		for _, p := range ps {
			spec.Steps[i].Depends = append(spec.Steps[i].Depends, dagrun.Edge{Step: stepName(p)})
		}
	}
	return spec
}

func stepName(i int) string { return fmt.Sprintf("s%d", i) }
