package graphview

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fold returns a smaller view. In each fan (nodes of one kind with the same parents and the same children) of at least keep+2 nodes
// it keeps keep nodes, and replaces the others by one node "… n more". It keeps the nodes that need attention most: failed before
// running before succeeded. v stays as it is.
func Fold(v View, keep int) View {
	out, in := v.neighbours()
	fans := map[string][]int{}
	for i := range v.Nodes {
		key := v.fanKey(i, out[i], in[i])
		fans[key] = append(fans[key], i)
	}
	hidden := map[int][]int{} // by the first of the hidden nodes, which stands for all of them
	gone := make([]bool, len(v.Nodes))
	for _, fan := range fans {
		if len(fan) < keep+2 { // a fold of one node saves nothing
			continue
		}
		rest := leastUrgent(v, fan, max(keep, 0))
		hidden[rest[0]] = rest
		for _, i := range rest[1:] {
			gone[i] = true
		}
	}
	return v.without(gone, hidden)
}

func (v View) fanKey(i int, out, in []int) string {
	ends := make([]string, 0, len(out)+len(in)+1)
	for _, e := range in {
		ends = append(ends, fmt.Sprint("<", v.Edges[e].From, v.Edges[e].State, v.Edges[e].Replaces))
	}
	for _, e := range out {
		ends = append(ends, fmt.Sprint(">", v.Edges[e].To, v.Edges[e].State, v.Edges[e].Replaces))
	}
	slices.Sort(ends)
	return string(v.Nodes[i].Kind) + strings.Join(ends, " ")
}

// leastUrgent returns the nodes of a fan except the keep most urgent ones, in the order of the view.
func leastUrgent(v View, fan []int, keep int) []int {
	order := slices.Clone(fan)
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(lookFor(v.Nodes[a].State).urgency, lookFor(v.Nodes[b].State).urgency)
	})
	rest := order[keep:]
	slices.Sort(rest)
	return rest
}

func (v View) without(gone []bool, hidden map[int][]int) View {
	var keep []int
	for i := range v.Nodes {
		if !gone[i] {
			keep = append(keep, i)
		}
	}
	small := v.pick(keep)
	for i, old := range keep {
		if rest := hidden[old]; rest != nil {
			small.Nodes[i] = v.foldNode(rest)
		}
	}
	return small
}

func (v View) foldNode(rest []int) Node {
	n := Node{ID: v.Nodes[rest[0]].ID, Label: fmt.Sprintf("… %d more", len(rest)), Kind: Folded}
	count := map[string]int{}
	for _, i := range rest {
		count[v.Nodes[i].State]++
	}
	for _, l := range looks {
		if c := count[l.state]; c > 0 {
			n.Badges = append(n.Badges, fmt.Sprintf("%d %s", c, l.state))
		}
	}
	return n
}
