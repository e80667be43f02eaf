package dagrun

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Graph is a compiled Spec: steps by index, handlers after them, edges in both directions. A Graph is immutable: the caller
// must not change the Spec after Compile.
type Graph struct {
	spec     Spec
	plain    int // number of steps without handlers
	index    map[string]int
	parents  adjacency
	children adjacency
	order    []int32 // the plain steps, parents first
	handlers [handlerKinds]int32
	bounded  bool    // a limit of the run, or of a foreach step, may hold ready tasks back
	guards   []int32 // approvals with approvers, see guard.go
	passable []bool  // by guard: a step behind it may start although the approval was not given
}

// Link is one end of an edge, seen from the other end.
type Link struct {
	Step  int
	State EdgeState
}

// adjacency holds the links of all steps in one slice: the links of step i are links[start[i]:start[i+1]].
type adjacency struct {
	start []int32
	links []Link
}

func (a *adjacency) of(i int) []Link { return a.links[a.start[i]:a.start[i+1]:a.start[i+1]] }

// The kinds of handlers, as indexes of Graph.handlers.
const (
	handlerInit = iota
	handlerSuccess
	handlerFailure
	handlerAbort
	handlerExit
	handlerKinds
)

var handlerNames = [handlerKinds]string{InitHandler, SuccessHandler, FailureHandler, AbortHandler, ExitHandler}

// Compile checks a spec and turns it into a graph. The error joins every problem found.
func Compile(spec Spec) (*Graph, error) {
	g := &Graph{spec: spec, plain: len(spec.Steps)}
	err := errors.Join(checkSize(spec), g.nameSteps(), g.checkSteps(), g.checkHandlers())
	if err != nil {
		return nil, err
	}
	g.bounded = spec.MaxActive > 0 || slices.ContainsFunc(spec.Steps, func(s Step) bool { return s.Foreach != nil && s.Foreach.MaxConcurrent > 0 })
	g.link()
	if g.sort(); len(g.order) < g.plain {
		return nil, fmt.Errorf("steps depend on each other in a circle: %s", g.cycle())
	}
	g.findGuards()
	return g, nil
}

// Len returns the number of steps, handlers included.
func (g *Graph) Len() int { return g.plain + len(g.spec.Handlers) }

// Step returns the description of step i. The caller must not change it.
func (g *Graph) Step(i int) *Step {
	if i < g.plain {
		return &g.spec.Steps[i]
	}
	return &g.spec.Handlers[i-g.plain]
}

// StepName returns the name of step i.
func (g *Graph) StepName(i int) string { return g.Step(i).Name }

// StepIndex returns the index of a step or handler by name, and reports whether there is one.
func (g *Graph) StepIndex(name string) (int, bool) {
	i, ok := g.index[name]
	return i, ok
}

// Parents returns the steps that step i depends on, in the order written. The caller must not change the result.
func (g *Graph) Parents(i int) []Link { return g.parents.of(i) }

// Children returns the steps that depend on step i, in graph order. The caller must not change the result.
func (g *Graph) Children(i int) []Link { return g.children.of(i) }

// nameSteps fills the index. It refuses bad names and names given twice.
func (g *Graph) nameSteps() error {
	g.index = make(map[string]int, g.Len())
	for k := range g.handlers {
		g.handlers[k] = -1
	}
	var errs []error
	for i := range g.Len() {
		name := g.StepName(i)
		if _, twice := g.index[name]; twice {
			errs = append(errs, fmt.Errorf("step %q: the name is used twice", name))
			continue
		}
		g.index[name] = i
		if err := g.nameStep(i, name); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (g *Graph) nameStep(i int, name string) error {
	if i < g.plain {
		if name == "" || strings.ContainsAny(name, "/~@") {
			return fmt.Errorf("step %q: a name must not be empty nor contain any of / ~ @", name)
		}
		return nil
	}
	kind := slices.Index(handlerNames[:], name)
	if kind < 0 {
		return fmt.Errorf("handler %q: use one of %s", name, strings.Join(handlerNames[:], ", "))
	}
	g.handlers[kind] = int32(i)
	return nil
}

// link builds both adjacencies from the steps. Each parent is known to exist.
func (g *Graph) link() {
	n := g.Len()
	g.parents.start, g.children.start = make([]int32, n+1), make([]int32, n+1)
	edges := 0
	for i := range g.Len() {
		edges += len(g.Step(i).Depends)
	}
	g.parents.links, g.children.links = make([]Link, 0, edges), make([]Link, edges)
	for i := range g.Len() {
		for _, e := range g.Step(i).Depends {
			p := g.index[e.Step]
			g.parents.links = append(g.parents.links, Link{p, e.State})
			g.children.start[p+1]++
		}
		g.parents.start[i+1] = int32(len(g.parents.links))
	}
	for i := range n {
		g.children.start[i+1] += g.children.start[i]
	}
	next := slices.Clone(g.children.start)
	for i := range n {
		for _, l := range g.parents.of(i) {
			g.children.links[next[l.Step]] = Link{i, l.State}
			next[l.Step]++
		}
	}
}

// sort fills order with every plain step that is neither on a cycle nor behind one.
func (g *Graph) sort() {
	g.order = make([]int32, 0, g.plain)
	missing := make([]int32, g.plain)
	for i := range g.plain {
		if missing[i] = int32(len(g.Parents(i))); missing[i] == 0 {
			g.order = append(g.order, int32(i))
		}
	}
	for k := 0; k < len(g.order); k++ {
		for _, c := range g.Children(int(g.order[k])) {
			if missing[c.Step]--; missing[c.Step] == 0 {
				g.order = append(g.order, int32(c.Step))
			}
		}
	}
}

// cycle formats one cycle of a graph that sort could not order, from its first step in graph order.
func (g *Graph) cycle() string {
	stuck := make([]bool, g.plain)
	for i := range stuck {
		stuck[i] = true
	}
	for _, i := range g.order {
		stuck[i] = false
	}
	at, seen := slices.Index(stuck, true), map[int]int{}
	var path []int
	for {
		if first, again := seen[at]; again {
			path = path[first:]
			break
		}
		seen[at] = len(path)
		path = append(path, at)
		// A step that sort could not place has a parent that it could not place either.
		p := slices.IndexFunc(g.Parents(at), func(l Link) bool { return stuck[l.Step] })
		at = g.Parents(at)[p].Step
	}
	return g.printCycle(path)
}

// printCycle formats a path that was walked from child to parent.
func (g *Graph) printCycle(path []int) string {
	slices.Reverse(path)
	low := slices.Index(path, slices.Min(path))
	var b strings.Builder
	for k := range path {
		b.WriteString(g.StepName(path[(low+k)%len(path)]) + " -> ")
	}
	return b.String() + g.StepName(path[low])
}
