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
	guards   []int32 // approvals with approvers, which barrier collects
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

// Compile checks a spec and turns it into a graph. The error joins every problem found, except that a circle of dependencies is
// looked for only in a spec without other problems, and only one circle is reported. The graph keeps the spec: the caller must not
// change its steps afterwards.
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

// Step returns the description of step i, where handlers follow the steps. The caller must not change it.
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

// Parents returns a link to each step that step i depends on, in the order of Step.Depends. The caller must not change the result.
func (g *Graph) Parents(i int) []Link { return g.parents.of(i) }

// Children returns a link to each step that depends on step i, in graph order. The State of a link is the state of step i that the
// child waits for. The caller must not change the result.
func (g *Graph) Children(i int) []Link { return g.children.of(i) }

// nameSteps fills g.index with the names of all steps and handlers, and g.handlers with the indexes of handlers, -1 for a missing
// one. The error joins one error for each name that is not allowed or is used twice.
func (g *Graph) nameSteps() error {
	g.index = make(map[string]int, g.Len())
	for k := range g.handlers {
		g.handlers[k] = -1
	}
	var errs []error
	for i := range g.Len() {
		name := g.StepName(i)
		if _, twice := g.index[name]; twice {
			errs = append(errs, fmt.Errorf("step %q: two steps have this name", name))
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

// link fills g.parents and g.children from the Depends of the steps. The caller must have checked that every parent exists.
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

// sort fills g.order with the plain steps, each behind all its parents. Steps on a cycle, and steps that depend on these, are
// missing in it: the caller detects a cycle by the length of g.order.
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

// cycle returns one cycle of the graph as "a -> b -> a": b depends on a, and a is the first of its steps in graph order. The caller
// must have found that sort left a step out of g.order, because cycle panics in a graph without a cycle.
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

// printCycle formats a cycle for cycle. In path each step is followed by one of its parents, and the first step is a parent of the
// last. printCycle reverses path in place.
func (g *Graph) printCycle(path []int) string {
	slices.Reverse(path)
	low := slices.Index(path, slices.Min(path))
	var b strings.Builder
	for k := range path {
		b.WriteString(g.StepName(path[(low+k)%len(path)]) + " -> ")
	}
	return b.String() + g.StepName(path[low])
}

func checkSize(spec Spec) error {
	depends := 0
	for i := range spec.Steps {
		depends += len(spec.Steps[i].Depends)
	}
	return errors.Join(
		unless(len(spec.Steps) > 0, "there are no steps: give at least one"),
		unless(len(spec.Steps)+len(spec.Handlers) <= MaxTasks, "%d steps are too many: at most %d", len(spec.Steps), MaxTasks),
		unless(depends <= MaxDepends, "%d dependencies are too many: at most %d", depends, MaxDepends),
		unless(spec.Timeout >= 0, "the timeout is negative"),
		unless(spec.MaxActive >= 0, "max_active_steps is negative"),
	)
}

func (g *Graph) checkSteps() error {
	var errs []error
	listed := make([]int, g.plain) // by parent: 1 + the last step that lists it, 0 = none
	for i := range g.plain {
		s := g.Step(i)
		err := errors.Join(g.checkDepends(i, listed), checkRule(s), checkForeach(s), checkBody(s))
		if err != nil {
			errs = append(errs, prefix(fmt.Sprintf("step %q", s.Name), err))
		}
	}
	return errors.Join(errs...)
}

func (g *Graph) checkHandlers() error {
	var errs []error
	for i := g.plain; i < g.Len(); i++ {
		s := g.Step(i)
		plain := len(s.Depends) == 0 && s.Foreach == nil && s.Rule == AllSuccess && !s.WhenPerItem
		err := errors.Join(unless(plain, "a handler has no depends, foreach or trigger rule"), checkBody(s))
		if err != nil {
			errs = append(errs, prefix(fmt.Sprintf("handler %q", s.Name), err))
		}
	}
	return errors.Join(errs...)
}

func (g *Graph) checkDepends(i int, listed []int) error {
	var errs []error
	for _, e := range g.spec.Steps[i].Depends {
		p, ok := g.index[e.Step]
		switch {
		case !ok || p >= g.plain:
			errs = append(errs, fmt.Errorf("depends on %q, which is no step", e.Step))
		case listed[p] == i+1:
			errs = append(errs, fmt.Errorf("depends on %q twice", e.Step))
		default:
			listed[p] = i + 1
		}
		if e.State > OnStarted {
			errs = append(errs, fmt.Errorf("depends on %q in state %s", e.Step, e.State))
		}
	}
	return errors.Join(errs...)
}

func checkRule(s *Step) error {
	if len(s.Depends) > 0 {
		return unless(s.Rule <= NoneSkipped, "trigger rule %s", s.Rule)
	}
	return unless(s.Rule == AllSuccess || s.Rule == AllDone, "trigger rule %s needs dependencies", s.Rule)
}

func checkForeach(s *Step) error {
	if s.Foreach == nil {
		return unless(!s.WhenPerItem, "a condition per item works only in a step with foreach")
	}
	return errors.Join(
		unless(s.Foreach.Items != nil, "foreach has no items"),
		unless(s.Foreach.MaxConcurrent >= 0, "foreach.max_concurrent is negative"),
		unless(s.Foreach.MaxItems >= 0, "foreach.max_items is negative"),
		unless(s.Result == nil, "foreach and a precomputed result exclude each other"),
	)
}

// checkBody checks the fields that steps, handlers and replacements have in common, on_error with its replacements included. The
// error joins every problem found, and is nil if there is none.
func checkBody(s *Step) error {
	errs := []error{
		unless(s.Body <= BodyChild, "body %s", s.Body),
		unless(s.OnLost <= LostFail, "on_lost %s", s.OnLost),
		unless(s.Slots >= 0, "slots is negative"),
		unless(s.Slots == 0 || s.Body == BodyTask, "a %s takes no slots", s.Body),
		unless(s.Approval == nil || s.Body == BodyApproval, "a %s asks for no approval", s.Body),
		unless(s.Timeout >= 0 && s.PublishTimeout >= 0, "the timeout is negative"),
		unless(s.Publish || len(s.PublishPools) == 0, "the step has a pool for publish, but no publish"),
		unless(!slices.ContainsFunc(slices.Concat(s.Pools, s.PublishPools), func(u PoolUse) bool { return u.Pool == "" || u.Weight < 1 }), "a pool lacks its name, or a weight above 0"),
		unless(s.Result == nil || s.Result.SnoozeUntil == 0, "a precomputed result cannot snooze"),
		unless(!s.Reserved() || s.Result == nil && s.CacheKey == nil, "an approval that names approvers has neither a precomputed result nor a cache"),
		checkRetry(s.Retry),
	}
	for i := range s.OnError {
		if err := checkErrorRule(&s.OnError[i]); err != nil {
			errs = append(errs, prefix(fmt.Sprintf("on_error[%d]", i), err))
		}
	}
	return errors.Join(errs...)
}

func checkRetry(p RetryPolicy) error {
	return errors.Join(
		unless(p.Limit >= 0, "retry_policy.limit is negative"),
		unless(p.Interval >= 0 && p.MaxInterval >= 0, "retry_policy has a negative interval"),
		unless(p.Backoff >= 0 && p.Backoff <= 1000, "retry_policy.backoff must be from 0 to 1000"),
		unless(p.Jitter >= 0 && p.Jitter <= 1, "retry_policy.jitter must be from 0 to 1"),
	)
}

func checkErrorRule(rule *ErrorRule) error {
	errs := []error{
		unless(rule.Do <= DoAsk, "do %s", rule.Do),
		unless(rule.Do >= DoReplace || len(rule.With) == 0, "only do: replace takes replacements"),
		unless(rule.Do < DoReplace || len(rule.With) > 0, "do: %s needs a replacement", rule.Do),
		unless(len(rule.With) <= MaxWith, "at most %d replacements", MaxWith),
		checkAsk(rule),
	}
	for i := range rule.With {
		with := &rule.With[i]
		if err := errors.Join(checkForeach(with), checkBody(with)); err != nil {
			errs = append(errs, prefix(fmt.Sprintf("with[%d]", i), err))
		}
	}
	return errors.Join(errs...)
}

func checkAsk(rule *ErrorRule) error {
	if rule.Do != DoAsk {
		return unless(rule.Ask == nil && rule.Chooser == nil, "only do: ask takes a body that chooses")
	}
	if rule.Ask == nil || rule.Chooser == nil {
		return errors.New("do: ask needs a body that chooses")
	}
	if err := checkBody(rule.Ask); err != nil {
		return prefix("ask", err)
	}
	plain := rule.Ask.Body == BodyTask && rule.Ask.Result == nil && !rule.Ask.Publish && rule.Ask.CacheKey == nil && len(rule.Ask.OnError) == 0
	return errors.Join(
		unless(plain, "the body that chooses is a task without result, publish, cache or on_error"),
		unless(!rule.byData(), "do: ask goes without foreach: the body chooses the items"),
	)
}

// unless returns nil if holds is true, and else an error with a message of format and args.
func unless(holds bool, format string, args ...any) error {
	if holds {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// prefix puts a location and a colon in front of an error, which must not be nil. If the error joins several, prefix returns a
// joined error with the location in front of each.
func prefix(where string, err error) error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return fmt.Errorf("%s: %w", where, err)
	}
	errs := slices.Clone(joined.Unwrap())
	for i := range errs {
		errs[i] = prefix(where, errs[i])
	}
	return errors.Join(errs...)
}

const fewNames = 8 // longest list that some prints in full

// some joins names with commas. Of more than fewNames names it lists the first fewNames, followed by "and 3 more".
func some(names []string) string {
	if len(names) <= fewNames {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:fewNames], ", "), len(names)-fewNames)
}

// anyOf joins names as alternatives: "a, b or c". Of more than fewNames names it lists the first fewNames, followed by "or one of 3
// more". There must be at least one name.
func anyOf(names []string) string {
	last := len(names) - 1
	switch {
	case last >= fewNames:
		return fmt.Sprintf("%s or one of %d more", strings.Join(names[:fewNames], ", "), len(names)-fewNames)
	case last > 0:
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return names[0]
}

// An approval that names approvers guards the steps behind it. A mark or a retry by any other user opens no way past the
// approval. The core refuses such a request where it could let a step behind the approval start.
//
// Usually each step behind the approval waits for the success of all its parents. Nothing starts there before the approval
// is given, so the core refuses marks and retries of those steps alone. A step may also start without that success, for
// instance because of its trigger rule. In that case a mark or retry of a step that leads to it could start it too, so the
// core refuses those as well.

// Reserved reports whether the step is an approval with a list of approvers. Only they may decide it: see Control.Decides.
func (s *Step) Reserved() bool {
	return s.Body == BodyApproval && s.Approval != nil && len(s.Approval.Approvers) > 0
}

// guards reports whether the step is a reserved approval, or has such an approval among its replacements at any depth.
func (s *Step) guards() bool {
	return s.Reserved() || slices.ContainsFunc(s.OnError, func(rule ErrorRule) bool {
		return slices.ContainsFunc(rule.With, func(with Step) bool { return with.guards() })
	})
}

// plainApproval reports whether the step is a reserved approval that counts as a success only after an approver has approved it: it
// has no foreach, no on_error and no continue_on that could tolerate a failure or a skip.
func (s *Step) plainApproval() bool {
	c := s.ContinueOn
	return s.Reserved() && s.Foreach == nil && len(s.OnError) == 0 && !c.Failed && !c.Skipped && len(c.ExitCodes) == 0
}

// loose reports whether the step may start, or count as a success, although one of its parents did not succeed: because of its
// trigger rule, because its own skip counts as a success, or because it waits only for the start of a parent.
func (s *Step) loose() bool {
	return s.Rule != AllSuccess || s.ContinueOn.Skipped || slices.ContainsFunc(s.Depends, func(e Edge) bool { return e.State == OnStarted })
}

// findGuards fills g.guards with the steps and handlers that are reserved approvals or may be replaced by one. It marks a guard in
// g.passable if the guard may count as a success without an approval, or if a step behind it is loose. If there are no guards,
// g.passable stays nil.
func (g *Graph) findGuards() {
	for i := range g.Len() {
		if g.Step(i).guards() {
			g.guards = append(g.guards, int32(i))
		}
	}
	if len(g.guards) == 0 {
		return
	}
	ahead := make([]bool, g.Len()) // by step: a loose step is further down the graph
	for _, i := range slices.Backward(g.order) {
		for _, l := range g.Children(int(i)) {
			ahead[i] = ahead[i] || ahead[l.Step] || g.Step(l.Step).loose()
		}
	}
	g.passable = make([]bool, g.Len())
	for _, i := range g.guards {
		g.passable[i] = ahead[i] || !g.Step(int(i)).plainApproval()
	}
}

// Guards returns the names of the steps and handlers that are reserved approvals or may be replaced by one, in graph order. Only
// approvers may mark such a step: see Control.Decides.
func (g *Graph) Guards() []string {
	names := make([]string, len(g.guards))
	for i, guard := range g.guards {
		names[i] = g.StepName(int(guard))
	}
	return names
}

// barrier holds the approvals that keep the sender of a control from marking or retrying steps. Its numbers are 1 + the step of
// the approval that is in the way, and 0 for none.
type barrier struct {
	closed []bool  // by step: the step is an approval that is not given, and the sender may not decide it
	behind []int32 // by step: a closed approval in front of the step
	near   []int32 // by step: a closed and passable approval, either the step itself or one in front of it
}

// barrier finds the approvals that keep the sender of a control from marking or retrying steps: the guards that c.Decides does not
// list and that still hold back steps, see given. It returns nil if there are none.
func (r *Run) barrier(c *Control) *barrier {
	decides := make(map[string]bool, len(c.Decides))
	for _, name := range c.Decides {
		decides[name] = true
	}
	var b *barrier
	for _, i := range r.graph.guards {
		if decides[r.graph.StepName(int(i))] || r.given(&r.nodes[i]) {
			continue
		}
		if b == nil {
			n := r.graph.Len()
			b = &barrier{closed: make([]bool, n), behind: make([]int32, n), near: make([]int32, n)}
		}
		b.put(r.graph, i)
	}
	if b != nil {
		b.spread(r.graph)
	}
	return b
}

// spread computes b.behind and b.near for all plain steps, from the approvals that put has added before.
func (b *barrier) spread(g *Graph) {
	for _, i := range g.order {
		for _, l := range g.Parents(int(i)) {
			b.behind[i] = max(b.behind[i], b.behind[l.Step])
			b.near[i] = max(b.near[i], b.near[l.Step])
			if b.closed[l.Step] {
				b.behind[i] = max(b.behind[i], int32(l.Step)+1)
			}
		}
	}
}

// put marks an approval as closed; guard is its index in the graph. All plain steps count as behind the init handler.
func (b *barrier) put(g *Graph, guard int32) {
	b.closed[guard] = true
	if g.passable[guard] {
		b.near[guard] = guard + 1
	}
	if guard != g.handlers[handlerInit] {
		return
	}
	for i := range g.plain {
		b.behind[i] = guard + 1
		if g.passable[guard] {
			b.near[i] = guard + 1
		}
	}
}

// given reports whether an approval no longer holds back the steps behind it: it counts as a success, or it is the init handler and
// was skipped.
func (r *Run) given(n *node) bool {
	return n.class == classS || n.class == classK && n == r.handler(handlerInit)
}

// whyNotPass returns the reason why the sender of a mark or a retry must not send it for a step. A step behind an approval that is
// not given must not be marked or retried, and neither must a step that could start one behind it. The approval itself must not be
// marked. An approval that c.Decides lists does not count. If the request is allowed, the reason is "".
func (r *Run) whyNotPass(step int, c *Control) string {
	b := r.barrier(c)
	switch {
	case b == nil:
		return ""
	case b.behind[step] != 0:
		return "the step depends on approval " + r.graph.StepName(int(b.behind[step])-1) + ", which is not decided yet: ask an approver of that approval"
	case c.Verb == VerbMark && b.closed[step]:
		return "only the approvers of the step may decide: ask an approver"
	}
	if guard := r.leadsNear(b, step); guard != 0 {
		return "the request could start steps that depend on approval " + r.graph.StepName(int(guard)-1) + ", which is not decided yet: ask an approver of that approval"
	}
	return ""
}

// leadsNear follows the graph from a step to all its dependants. It returns 1 + the index of a closed and passable approval that is
// one of these steps, or that one of them depends on. It returns 0 if there is none. All plain steps depend on init.
func (r *Run) leadsNear(b *barrier, step int) int32 {
	if int32(step) == r.graph.handlers[handlerInit] {
		return max(b.near[step], slices.Max(b.near[:r.graph.plain]))
	}
	seen := make([]bool, r.graph.Len())
	reach := []int{step}
	for k := 0; k < len(reach); k++ {
		if guard := b.near[reach[k]]; guard != 0 {
			return guard
		}
		for _, l := range r.graph.Children(reach[k]) {
			if !seen[l.Step] {
				seen[l.Step] = true
				reach = append(reach, l.Step)
			}
		}
	}
	return 0
}
