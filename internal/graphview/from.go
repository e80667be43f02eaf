package graphview

import (
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun"
)

const maxCondition = 34 // longest condition in a badge, in characters

// FromGraph returns the view of a compiled graph, without a name. Its nodes have no labels, so drawings show their ids.
func FromGraph(g *dagrun.Graph) View {
	var v View
	for i := range g.Len() {
		step := g.Step(i)
		v.Nodes = append(v.Nodes, Node{ID: step.Name, Kind: kindOf(step), Badges: badges(step)})
		for _, p := range g.Parents(i) {
			v.Edges = append(v.Edges, Edge{From: p.Step, To: i, State: p.State})
		}
	}
	return v
}

func kindOf(s *dagrun.Step) Kind {
	switch {
	case s.Foreach != nil:
		return Foreach
	case s.Name[0] == '@':
		return Handler
	}
	return Step
}

// badges returns a short remark on each property of a step that is not the default, such as "retry 3", the most important ones
// first.
func badges(s *dagrun.Step) []string {
	var list []string
	add := func(when bool, format string, args ...any) {
		if when {
			list = append(list, fmt.Sprintf(format, args...))
		}
	}
	add(s.Rule != dagrun.AllSuccess, "%s", s.Rule)
	if s.When != nil {
		add(true, "when %s", clip(clean(s.When.String()), maxCondition, "…"))
	}
	add(s.Body == dagrun.BodyChild, "child run")
	add(s.Body != dagrun.BodyTask && s.Body != dagrun.BodyChild, "%s", s.Body)
	add(s.Foreach != nil, "foreach")
	add(s.Result != nil, "precomputed")
	add(s.Slots > 1, "%d slots", s.Slots)
	add(len(s.Pools) > 0, "%s", dagrun.PoolNames(s.Pools))
	add(s.Retry.Limit > 0, "retry %d", s.Retry.Limit)
	add(replaces(s), "fallback")
	add(s.CacheKey != nil, "cache")
	add(s.Publish, "publish")
	return list
}

func replaces(s *dagrun.Step) bool {
	for _, r := range s.OnError {
		if r.Do == dagrun.DoReplace || r.Do == dagrun.DoAsk {
			return true
		}
	}
	return false
}

// Task is the part of a task's state that a drawing shows.
type Task struct {
	Step  string // id of its step
	Item  string // "" for the step itself
	Alt   int    // number of the replacement, 0 = original
	State string
	Items int // of a foreach node: number of its items
}

// With returns a copy of the view with the states of a run. A replacement stands below the node that it replaces and takes over its
// children. A foreach node gets a badge with how many of its items have ended, such as 3/5. A step without a task is pending. With
// leaves out tasks of steps that the view does not have.
func (v View) With(tasks []Task) View {
	w := View{Name: v.Name, Nodes: append([]Node(nil), v.Nodes...)}
	at := make(map[string]int, len(w.Nodes))
	for i := range w.Nodes {
		at[w.Nodes[i].ID] = i
		w.Nodes[i].State = dagrun.TaskPending.String()
	}
	items, grown := map[int]tally{}, map[int]int{}
	instead := map[int][]int{}
	for _, t := range tasks {
		i, ok := at[t.Step]
		switch {
		case !ok:
		case t.Item != "":
			items[i] = items[i].add(t)
		case t.Alt > 0:
			instead[i] = append(instead[i], len(w.Nodes))
			w.Nodes = append(w.Nodes, Node{ID: fmt.Sprintf("%s~%d", t.Step, t.Alt), Kind: Replacement, State: t.State})
		default:
			w.Nodes[i].State = t.State
			grown[i] = t.Items
		}
	}
	for i, c := range items {
		w.Nodes[i].Badges = append([]string{fmt.Sprintf("%d/%d", c.done(), max(len(c), grown[i]))}, w.Nodes[i].Badges...)
	}
	w.Edges = rewire(v.Edges, instead, len(v.Nodes))
	return w
}

// tally holds the progress of each item of a foreach node.
type tally map[string]int

const (
	itemReplaced = iota // the replacement is not known yet
	itemEnded
	itemOpen
)

func (c tally) add(t Task) tally {
	if c == nil {
		c = tally{}
	}
	at := itemOpen
	if s, err := dagrun.ParseState(t.State); err == nil && s == dagrun.TaskReplaced {
		at = itemReplaced
	} else if err == nil && s.Terminal() {
		at = itemEnded
	}
	c[t.Item] = max(c[t.Item], at)
	return c
}

func (c tally) done() int {
	n := 0
	for _, at := range c {
		if at == itemEnded {
			n++
		}
	}
	return n
}

// rewire returns the edges of a view with replacements. instead lists the replacements of a node, and nodes is the number of nodes
// without replacements. An edge leads from a node to each of its replacements. The edges to its children begin at the replacements
// instead.
func rewire(edges []Edge, instead map[int][]int, nodes int) []Edge {
	var out []Edge
	for i := range nodes {
		for _, alt := range instead[i] {
			out = append(out, Edge{From: i, To: alt, Replaces: true})
		}
	}
	for _, e := range edges {
		if instead[e.From] == nil {
			out = append(out, e)
		}
		for _, alt := range instead[e.From] {
			out = append(out, Edge{From: alt, To: e.To, State: e.State})
		}
	}
	return out
}
