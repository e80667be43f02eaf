package dagspec

import (
	"fmt"
	"slices"
	"strings"
)

// links is the graph of the steps that could be read, by index. -1 stands for a parent that could not be read.
type links struct {
	parents  [][]edge
	children [][]edge
}

type edge struct {
	to        int
	succeeded bool
	at        *node
}

// graph checks ids, dependencies and references between steps.
func (c *checker) graph(steps []*node) {
	index := make(map[string]int, len(steps))
	seen := make(map[string]pos, len(steps))
	for i := range c.spec.Steps {
		id := c.spec.Steps[i].ID
		if id == "" || c.twice(seen, id, steps[i].get("id"), "step") {
			continue
		}
		index[id] = i
	}
	g := links{make([][]edge, len(steps)), make([][]edge, len(steps))}
	for i := range c.spec.Steps {
		c.depends(i, steps[i], index, &g)
	}
	if c.cycles(&g) {
		return // with a cycle, there is no order of steps to check references by
	}
	c.reach(index, &g)
}

func (c *checker) depends(i int, n *node, index map[string]int, g *links) {
	nodes := slices.Collect(n.get("depends").list())
	seen := map[string]pos{}
	for k, d := range c.spec.Steps[i].Depends {
		at := nodes[k]
		if at.kind == kindMap {
			at = at.get("step")
		}
		parent, ok := index[d.Step]
		switch {
		case at == nil || !ok && (c.names.vague.ids[d.Step] || c.names.vague.steps):
		case !ok:
			c.unknownStep(at, d.Step, index)
		case parent == i:
			c.add(at.pos(), "remove it", "step %q depends on itself", d.Step)
		case c.twice(seen, d.Step, at, "dependency"):
		default:
			g.parents[i] = append(g.parents[i], edge{parent, d.State == "succeeded", at})
			g.children[parent] = append(g.children[parent], edge{i, d.State == "succeeded", at})
		}
	}
}

func (c *checker) unknownStep(at *node, id string, index map[string]int) {
	hint := ""
	if !c.full() {
		hint = knownHint(id, sortedKeys(index), "")
	}
	c.add(at.pos(), hint, "unknown step %q", id)
}

// cycles reports one cycle from each group of steps that wait for each other.
func (c *checker) cycles(g *links) bool {
	missing := make([]int, len(g.parents))
	var free []int
	for i := range g.parents {
		if missing[i] = len(g.parents[i]); missing[i] == 0 {
			free = append(free, i)
		}
	}
	g.release(free, missing)
	found := false
	for i := range missing {
		if missing[i] <= 0 {
			continue
		}
		path := g.cycle(i, missing)
		c.add(path[0].at.pos(), "remove one of these dependencies", "steps wait for each other: %s", c.printCycle(path))
		found, free = true, nil
		for _, e := range path {
			missing[e.to] = 0
			free = append(free, e.to)
		}
		g.release(free, missing)
	}
	return found
}

// release marks steps as free, and every step that waits only for free steps.
func (g *links) release(free, missing []int) {
	for k := 0; k < len(free); k++ {
		for _, child := range g.children[free[k]] {
			if missing[child.to]--; missing[child.to] == 0 {
				free = append(free, child.to)
			}
		}
	}
}

// cycle walks from child to parent until it meets a step again. It ends because each step that waits has a parent that
// waits.
func (g *links) cycle(start int, missing []int) []edge {
	at, seen := start, map[int]int{}
	var path []edge
	for {
		if first, again := seen[at]; again {
			return path[first:]
		}
		seen[at] = len(path)
		k := slices.IndexFunc(g.parents[at], func(e edge) bool { return missing[e.to] > 0 })
		path = append(path, g.parents[at][k])
		at = g.parents[at][k].to
	}
}

// printCycle formats a cycle in execution order, beginning with the step that comes first in the file.
func (c *checker) printCycle(path []edge) string {
	order := make([]int, len(path))
	for i, e := range path {
		order[len(path)-1-i] = e.to
	}
	first := slices.Index(order, slices.Min(order))
	var b strings.Builder
	for i := range order {
		b.WriteString(c.spec.Steps[order[(first+i)%len(order)]].ID + " -> ")
	}
	return b.String() + c.spec.Steps[order[first]].ID
}

// reach reports references to steps that may not have run. The referring step must depend on the other step, directly or
// not. For an output one of the edges between them must be of state succeeded.
func (c *checker) reach(index map[string]int, g *links) {
	byTarget := map[int][]use{}
	for _, u := range c.uses {
		from, okFrom := index[u.from]
		to, okTo := index[u.ref.step()]
		if !okFrom || !okTo || c.names.vague.ids[u.from] || slices.ContainsFunc(g.parents[from], func(e edge) bool { return e.to == to && e.succeeded }) {
			continue
		}
		byTarget[to] = append(byTarget[to], u)
	}
	for to, uses := range byTarget {
		after, succeeded := g.below(to)
		for _, u := range uses {
			from := index[u.from]
			switch {
			case !after[from]:
				c.problem(u.in, problem{
					u.ref.part, fmt.Sprintf("step %q does not depend on %q", u.from, u.ref.step()),
					"add depends: [" + u.ref.step() + "] to " + u.from,
				})
			case u.ref.isOutput() && !succeeded[from]:
				c.problem(u.in, problem{
					u.ref.part, fmt.Sprintf("step %q may run before %q has succeeded and has outputs", u.from, u.ref.step()),
					"depend on it in state succeeded",
				})
			}
		}
	}
}

// below returns all dependants of a step, and the dependants over a path with a succeeded edge.
func (g *links) below(top int) (after, succeeded []bool) {
	after, succeeded = make([]bool, len(g.parents)), make([]bool, len(g.parents))
	type visit struct {
		step int
		good bool
	}
	todo := []visit{{top, false}}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range g.children[at.step] {
			good := at.good || e.succeeded
			if after[e.to] && (succeeded[e.to] || !good) {
				continue
			}
			after[e.to] = true
			succeeded[e.to] = succeeded[e.to] || good
			todo = append(todo, visit{e.to, good})
		}
	}
	return after, succeeded
}
