package dagrun

import "slices"

// An approval that names approvers guards the steps behind it. A mark or a retry by any other user opens no way past the
// approval. The core refuses such a request where it could let a step behind the approval start.
//
// Usually each step behind the approval waits for the success of all its parents. Nothing starts there before the approval
// is given, so the core refuses marks and retries of those steps alone. A step may also start without that success, for
// instance because of its trigger rule. In that case a mark or retry of a step that leads to it could start it too, so the
// core refuses those as well.

// Reserved reports whether a step is an approval that only its approvers may decide: see Control.Decides.
func (s *Step) Reserved() bool {
	return s.Body == BodyApproval && s.Approval != nil && len(s.Approval.Approvers) > 0
}

// guards reports whether a step is reserved, or a reserved step may replace it.
func (s *Step) guards() bool {
	return s.Reserved() || slices.ContainsFunc(s.OnError, func(rule ErrorRule) bool {
		return slices.ContainsFunc(rule.With, func(with Step) bool { return with.guards() })
	})
}

// plainApproval reports whether an approval is the only way for a step to succeed.
func (s *Step) plainApproval() bool {
	c := s.ContinueOn
	return s.Reserved() && s.Foreach == nil && len(s.OnError) == 0 && !c.Failed && !c.Skipped && len(c.ExitCodes) == 0
}

// loose reports whether a step may start, or count as a success, although one of its parents did not succeed.
func (s *Step) loose() bool {
	return s.Rule != AllSuccess || s.ContinueOn.Skipped || slices.ContainsFunc(s.Depends, func(e Edge) bool { return e.State == OnStarted })
}

// findGuards lists the approvals that guard other steps. A guard is passable if it may succeed without an approval, or if a
// step behind it need not wait for its success.
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

// Guards returns the names of the steps that only their approvers may mark: see Control.Decides.
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

// barrier finds the approvals that are in the way of a control. It returns nil if there are none.
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

// spread puts each step behind the approvals that its parents stand behind.
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

// put adds a closed approval. An approval that is the init handler stands in front of all steps.
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

// given reports whether an approval has succeeded. A skipped init counts as well, since the steps start after it.
func (r *Run) given(n *node) bool {
	return n.class == classS || n.class == classK && n == r.handler(handlerInit)
}

// whyNotPass returns the reason why the sender of a control may not mark or retry a step. It returns "" if the sender may.
func (r *Run) whyNotPass(step int, c *Control) string {
	b := r.barrier(c)
	switch {
	case b == nil:
		return ""
	case b.behind[step] != 0:
		return "it stands behind approval " + r.graph.StepName(int(b.behind[step])-1) + ", which nobody has given: ask one of its approvers"
	case c.Verb == VerbMark && b.closed[step]:
		return "only its approvers may decide it: ask one of them"
	}
	if guard := r.leadsNear(b, step); guard != 0 {
		return "that could start what stands behind approval " + r.graph.StepName(int(guard)-1) + ", which nobody has given: ask one of its approvers"
	}
	return ""
}

// leadsNear finds a passable approval such that some step depends both on the approval and on the given step. All steps
// depend on init.
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
