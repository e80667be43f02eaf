package graphview

import "slices"

// Limits of the layout's work. Once long edges have maxBends bends in all, further long edges are not bent.
const (
	maxBends  = 20_000
	maxSweeps = 8
	sweepWork = 4_000_000 // cells and links visited by all sweeps together
)

// sketch is the layout of a connected part of a view: cells in layers, and links from each layer to deeper ones.
type sketch struct {
	cells  []cell
	links  []link
	layers [][]int // cells, from left to right
	routes [][]int // for every edge of the view the links along it; nil for an edge that closes a cycle
}

// cell is a node, or the bend of a long edge.
type cell struct {
	node     int // -1 for a bend
	layer    int
	pos      int // position in its layer
	size     float64
	x        float64 // of the cell's centre
	down, up []int   // links
}

func (c cell) bend() bool { return c.node < 0 }

// link is a piece of an edge. Edges of one manner from the same node share their pieces as long as they run together.
type link struct {
	from, to int
	manner   manner
	weight   float64
}

// newSketch assigns the nodes of a connected view to layers and orders them. The caller then sets the sizes of the cells and
// calls place.
func newSketch(v View) *sketch {
	layer, forward := layering(v)
	s := &sketch{cells: make([]cell, len(v.Nodes)), routes: make([][]int, len(v.Edges))}
	depth := 0
	for i := range v.Nodes {
		s.cells[i] = cell{node: i, layer: layer[i]}
		depth = max(depth, layer[i]+1)
	}
	s.layers = make([][]int, depth)
	s.bend(v, forward)
	for i, c := range s.cells {
		s.layers[c.layer] = append(s.layers[c.layer], i)
	}
	s.renumber()
	s.order()
	return s
}

func (s *sketch) renumber() {
	for _, row := range s.layers {
		for pos, c := range row {
			s.cells[c].pos = pos
		}
	}
}

// layering returns the layer of each node, 0 at the top, and whether each edge leads down (forward). Every node is below its
// parents, and a node without parents is right above its highest child. An edge that closes a cycle is not forward, and layering
// ignores it.
func layering(v View) (layer []int, forward []bool) {
	out, in := v.neighbours()
	order, forward := topological(v, out, in)
	layer = make([]int, len(v.Nodes))
	for _, i := range order {
		for _, e := range out[i] {
			if forward[e] {
				to := v.Edges[e].To
				layer[to] = max(layer[to], layer[i]+1)
			}
		}
	}
	for i := range v.Nodes {
		if len(in[i]) == 0 {
			layer[i] = lowest(v, out[i], layer, forward)
		}
	}
	return layer, forward
}

func lowest(v View, out, layer []int, forward []bool) int {
	best := -1
	for _, e := range out {
		if to := layer[v.Edges[e].To] - 1; forward[e] && (best < 0 || to < best) {
			best = to
		}
	}
	return max(best, 0)
}

// topological returns the nodes, parents first, and whether each edge leads forward in that order. An edge that closes a cycle does
// not. In a cycle the first node in the order of the view goes first. out and in are the results of neighbours.
func topological(v View, out, in [][]int) (order []int, forward []bool) {
	missing := make([]int, len(v.Nodes))
	done := make([]bool, len(v.Nodes))
	forward = make([]bool, len(v.Edges))
	for i := range v.Nodes {
		missing[i] = len(in[i])
	}
	visit := func(i int) {
		done[i] = true
		order = append(order, i)
		for head := len(order) - 1; head < len(order); head++ {
			for _, e := range out[order[head]] {
				to := v.Edges[e].To
				missing[to]--
				if forward[e] = !done[to]; forward[e] && missing[to] == 0 {
					done[to] = true
					order = append(order, to)
				}
			}
		}
	}
	for i := range v.Nodes {
		if missing[i] == 0 && !done[i] {
			visit(i)
		}
	}
	for i := range v.Nodes { // only nodes on a cycle or behind one are left
		if !done[i] {
			visit(i)
		}
	}
	return order, forward
}

// bend makes s.links, and in s.routes the route of each forward edge. It adds a cell to s, a bend, in every layer that a long edge
// passes. Once there are maxBends of these, a long edge goes straight through the layers.
func (s *sketch) bend(v View, forward []bool) {
	type pass struct {
		from, layer int
		manner      manner
	}
	type piece struct {
		from, to int
		manner   manner
	}
	bends, pieces := map[pass]int{}, map[piece]int{}
	left := maxBends
	join := func(from, to int, m manner) int {
		key := piece{from, to, m}
		if l, ok := pieces[key]; ok {
			return l
		}
		pieces[key] = len(s.links)
		s.connect(from, to, m)
		return len(s.links) - 1
	}
	for i, e := range v.Edges {
		if !e.within(v) || !forward[i] {
			continue
		}
		m := e.manner()
		at := e.From
		for l := s.cells[at].layer + 1; l < s.cells[e.To].layer && left > 0; l++ {
			left--
			next, ok := bends[pass{e.From, l, m}]
			if !ok {
				next = len(s.cells)
				bends[pass{e.From, l, m}] = next
				s.cells = append(s.cells, cell{node: -1, layer: l, size: 1})
			}
			s.routes[i] = append(s.routes[i], join(at, next, m))
			at = next
		}
		s.routes[i] = append(s.routes[i], join(at, e.To, m))
	}
}

// connect adds a link from the upper cell from to the lower cell to: to s.links, and to both cells. A link between two bends has
// the largest weight, because long edges should be straight.
func (s *sketch) connect(from, to int, m manner) {
	w := 4.0
	if a, b := s.cells[from].bend(), s.cells[to].bend(); a && b {
		w = 8
	} else if a || b {
		w = 1
	}
	s.cells[from].down = append(s.cells[from].down, len(s.links))
	s.cells[to].up = append(s.cells[to].up, len(s.links))
	s.links = append(s.links, link{from, to, m, w})
}

// components returns the connected parts of a view, each as a view of its own. Nodes keep their order, and the parts are ordered by
// their first nodes. Edges to nowhere are left out.
func components(v View) []View {
	out, in := v.neighbours()
	part, place := make([]int, len(v.Nodes)), make([]int, len(v.Nodes))
	for i := range part {
		part[i] = -1
	}
	n := 0
	for i := range v.Nodes {
		if part[i] < 0 {
			v.spread(i, n, part, out, in)
			n++
		}
	}
	parts := make([]View, n)
	for i, node := range v.Nodes {
		p := &parts[part[i]]
		place[i] = len(p.Nodes)
		p.Nodes = append(p.Nodes, node)
	}
	for _, e := range v.Edges {
		if e.within(v) {
			p := &parts[part[e.From]]
			e.From, e.To = place[e.From], place[e.To]
			p.Edges = append(p.Edges, e)
		}
	}
	return parts
}

// spread sets part to mark for the node from, and for all nodes that are connected to it. part is -1 for nodes without a mark. out
// and in are the results of neighbours.
func (v View) spread(from, mark int, part []int, out, in [][]int) {
	part[from] = mark
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		for _, e := range slices.Concat(out[at], in[at]) {
			next := v.Edges[e].From + v.Edges[e].To - at
			if part[next] < 0 {
				part[next] = mark
				queue = append(queue, next)
			}
		}
	}
}
