package graphview

import (
	"fmt"
	"testing"
)

// Counts, and not a clock, limit the cost of a large graph.
func TestLayout_BoundsItsWorkOnLargeGraphs(t *testing.T) {
	t.Parallel()
	drawn := largeViews(1000)
	for name, v := range largeViews(10_000) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSketch(v)
			if limit := len(v.Nodes) + maxBends; len(s.cells) > limit {
				t.Errorf("%d cells, more than %d", len(s.cells), limit)
			}
			steps := 0
			for _, r := range s.routes {
				steps += len(r)
			}
			if limit := len(v.Edges) + maxBends; len(s.links) > limit || steps > limit {
				t.Errorf("%d links and %d steps along them, more than %d", len(s.links), steps, limit)
			}
			if work := s.sweeps() * (len(s.cells) + len(s.links)); work > sweepWork && s.sweeps() > 1 {
				t.Errorf("sweeps visit %d cells and links", work)
			}
			v = drawn[name]
			for _, d := range []string{Text(v, TextOptions{}), SVG(v), DOT(v), Mermaid(v)} {
				if d == "" {
					t.Error("nothing drawn")
				}
			}
		})
	}
}

// largeViews returns views of n nodes each; n must be a multiple of a hundred.
func largeViews(n int) map[string]View {
	chain, fan, comb, ladder, mesh, pairs := nodes(n), nodes(n), nodes(n), nodes(n), nodes(n), nodes(n)
	for i := 1; i < n; i++ {
		chain.edge(i-1, i)
		fan.edge(0, i)
		comb.edge(i-1, i)
		comb.edge(0, i)
		pairs.edge(i&^1, i)
	}
	for i := 100; i < n; i++ {
		ladder.edge(i-100, i)
		for k := range 3 {
			mesh.edge(i-i%100-100+(i*7+k*13)%100, i)
		}
	}
	return map[string]View{"chain": chain, "fan": fan, "comb": comb, "ladder": ladder, "mesh": mesh, "pairs": pairs, "lonely": nodes(n)}
}

func nodes(n int) View {
	v := View{Nodes: make([]Node, n)}
	for i := range v.Nodes {
		v.Nodes[i] = Node{ID: fmt.Sprint("step-", i), Kind: Step}
	}
	return v
}

func (v *View) edge(from, to int) { v.Edges = append(v.Edges, Edge{From: from, To: to}) }
