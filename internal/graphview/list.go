package graphview

import (
	"slices"
	"strings"
)

const (
	maxIndent   = 12 // levels; a deeper graph becomes a flat list
	listLabel   = 40
	minLabel    = 16 // columns that a tree must leave for a label
	listParents = 12 // most parents named in a line
)

// list writes a view to the page as lines with one node each. A shallow graph becomes a tree, with each node below its lowest
// parent. A deeper graph becomes a flat list, parents first. A node with several parents names its parents.
func (t texter) list(page *canvas, v View) {
	out, in := v.neighbours()
	layer, forward := layering(v)
	l := lister{t: t, v: v, in: in, children: make([][]int, len(v.Nodes))}
	var roots []int
	depth := 0
	for i := range v.Nodes {
		depth = max(depth, layer[i])
		if p := lastParent(v, in[i], layer, forward); p >= 0 {
			l.children[p] = append(l.children[p], i)
		} else {
			roots = append(roots, i)
		}
	}
	if depth > maxIndent || depth*3+minLabel > t.o.Width {
		order, _ := topological(v, out, in)
		for _, i := range order {
			l.line(page, i, "", 0)
		}
		return
	}
	for _, i := range roots {
		l.tree(page, i, "", "")
	}
}

func lastParent(v View, in, layer []int, forward []bool) int {
	best := -1
	for _, e := range in {
		p := v.Edges[e].From
		if forward[e] && (best < 0 || layer[p] > layer[best]) {
			best = p
		}
	}
	return best
}

type lister struct {
	t        texter
	v        View
	in       [][]int
	children [][]int
}

// tree writes node i and the nodes below it, one a line. branch stands before the node, and rails before the nodes below it. tree
// recurses as deep as the graph, which is shallow.
func (l lister) tree(page *canvas, i int, branch, rails string) {
	l.line(page, i, branch, 1)
	for n, child := range l.children[i] {
		if n == len(l.children[i])-1 {
			l.tree(page, child, rails+l.t.set.last, rails+l.t.set.gap)
		} else {
			l.tree(page, child, rails+l.t.set.tee, rails+l.t.set.rail)
		}
	}
}

// line writes node i with its badges as a new line of the page, after the text branch. shown is the number of parents that the tree
// shows by its branches, 1 or 0. line names the parents if there are more, or if the edge from the only one is not the default.
func (l lister) line(page *canvas, i int, branch string, shown int) {
	n, y := l.v.Nodes[i], len(page.rows)
	page.at(0, y)
	x := page.write(0, y, branch, styleEdge)
	if n.State != "" {
		look := lookFor(n.State)
		x = page.write(x, y, l.t.sign(look), look.ansi) + 1
	}
	t := l.t
	t.detail = min(listLabel, l.t.o.Width-x)
	style := styleTitle
	if n.Kind == Folded {
		style = styleFaint
	}
	x = page.write(x, y, t.fit(n.title()), style)
	rest := ""
	if len(n.Badges) > 0 {
		rest = "[" + strings.Join(n.Badges, ", ") + "]"
	}
	if names := l.parents(i); len(names) > shown || len(names) == 1 && strings.HasSuffix(names[0], ")") {
		rest += " " + t.set.arrow + " " + strings.Join(names, ", ")
	}
	if t.detail = l.t.o.Width - x - 2; rest != "" && t.detail > 3 {
		page.write(x+2, y, t.fit(rest), styleFaint)
	}
}

// parents returns the names of a node's parents, each once, with the meaning of an edge that is not the default: a (once finished).
// After listParents names an ellipsis stands for the rest.
func (l lister) parents(i int) (names []string) {
	for _, e := range l.in[i] {
		edge := l.v.Edges[e]
		name := l.v.Nodes[edge.From].title()
		if m := edge.manner().means(); m != "" {
			name += " (" + m + ")"
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if len(names) == listParents && len(l.in[i]) > listParents {
			names = append(names, l.t.set.ellipsis)
			break
		}
	}
	return names
}
