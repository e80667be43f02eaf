package graphview

import (
	"maps"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// View is a graph to draw.
type View struct {
	Name  string // of the DAG; free text
	Nodes []Node
	Edges []Edge
}

const lineOfRemarks = 36 // characters in a line of remarks, in a drawing without a width of its own

// Kind is the kind of a Node.
type Kind string

// The kinds of nodes, in the words of `status -o json`.
const (
	Step        Kind = "step"
	Foreach     Kind = "foreach"
	Handler     Kind = "handler"
	Replacement Kind = "replacement"

	Folded Kind = "folded" // stands for nodes that Fold removed
)

// Node is a step, a handler or a replacement.
type Node struct {
	ID     string
	Label  string // free text for people; "" shows the ID
	Kind   Kind
	State  string   // of its task, in the words of dagrun.State; "" outside a run
	Badges []string // short remarks: its trigger rule, slots, …
}

// Edge leads from a parent to a child, by index.
type Edge struct {
	From, To int
	State    dagrun.EdgeState
	Replaces bool // To took the place of From
}

// manner distinguishes edges between the same nodes.
type manner struct {
	state    dagrun.EdgeState
	replaces bool
}

func (e Edge) manner() manner { return manner{e.State, e.Replaces} }

func (n Node) title() string {
	if n.Label != "" {
		return n.Label
	}
	return n.ID
}

// remarks returns the state of a node, if it has one, and its badges.
func (n Node) remarks() []string {
	if n.State == "" {
		return n.Badges
	}
	return append([]string{n.State}, n.Badges...)
}

// pack joins parts, in order, to as few lines of at most limit columns as possible, with the text between in between. A part longer
// than a line gets a line of its own.
func pack(parts []string, between string, limit int) []string {
	var lines []string
	for _, p := range parts {
		last := len(lines) - 1
		if last >= 0 && textWidth(lines[last]+between+p) <= limit {
			lines[last] += between + p
		} else {
			lines = append(lines, p)
		}
	}
	return lines
}

// within reports whether both ends of the edge are nodes of v, and two different ones.
func (e Edge) within(v View) bool {
	n := len(v.Nodes)
	return e.From >= 0 && e.To >= 0 && e.From < n && e.To < n && e.From != e.To
}

// split returns the view without its handlers, and the handlers.
func (v View) split() (steps View, handlers []Node) {
	keep := make([]int, 0, len(v.Nodes))
	for i, n := range v.Nodes {
		if n.Kind == Handler {
			handlers = append(handlers, n)
		} else {
			keep = append(keep, i)
		}
	}
	return v.pick(keep), handlers
}

// pick returns a view of the nodes keep alone, in that order, and of the edges among them.
func (v View) pick(keep []int) View {
	at := make(map[int]int, len(keep))
	part := View{Name: v.Name, Nodes: make([]Node, len(keep))}
	for i, old := range keep {
		at[old] = i
		part.Nodes[i] = v.Nodes[old]
	}
	for _, e := range v.Edges {
		from, ok := at[e.From]
		to, ok2 := at[e.To]
		if ok && ok2 {
			e.From, e.To = from, to
			part.Edges = append(part.Edges, e)
		}
	}
	return part
}

// neighbours returns the edges out of and into every node, by index in Edges. It leaves out edges to nowhere and from a node
// to itself.
func (v View) neighbours() (out, in [][]int) {
	out, in = make([][]int, len(v.Nodes)), make([][]int, len(v.Nodes))
	for i, e := range v.Edges {
		if e.within(v) {
			out[e.From] = append(out[e.From], i)
			in[e.To] = append(in[e.To], i)
		}
	}
	return out, in
}

// Around returns the node with this id, its ancestors and its descendants up to a number of edges away, and the edges among them.
// It leaves out other children of an ancestor. It returns the whole view if there is no such node.
func (v View) Around(id string, edges int) View {
	out, in := v.neighbours()
	near := map[int]bool{}
	for i, n := range v.Nodes {
		if n.ID == id {
			near[i] = true
		}
	}
	if len(near) == 0 {
		return v
	}
	up, down := maps.Clone(near), maps.Clone(near)
	for range edges {
		up, down = v.step(up, in), v.step(down, out)
		maps.Copy(near, up)
		maps.Copy(near, down)
	}
	keep := slices.Sorted(maps.Keys(near))
	return v.pick(keep)
}

// step returns the nodes at both ends of the edges of the nodes from. edges is a result of neighbours: in leads up, and out leads
// down.
func (v View) step(from map[int]bool, edges [][]int) map[int]bool {
	next := map[int]bool{}
	for i := range from {
		for _, e := range edges[i] {
			next[v.Edges[e].From] = true
			next[v.Edges[e].To] = true
		}
	}
	return next
}
