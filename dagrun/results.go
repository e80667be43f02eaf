package dagrun

// settle works a group's result out from its members and says whether it changed.
func (g *group) settle() bool {
	state, class := g.result()
	if state == g.state && class == g.class {
		return false
	}
	g.state, g.class = state, class
	return true
}

// result folds the members: F wins over C, C over S, and K needs all. What was tolerated counts as succeeded.
func (g *group) result() (State, class) {
	if len(g.alts) == 0 {
		if g.main.Tolerated {
			return TaskSucceeded, classS
		}
		return g.main.State, classOf(g.main)
	}
	var n tally
	allSkipped := true
	for _, t := range g.alts {
		if t.State != TaskReplaced {
			n[classOf(t)]++
			allSkipped = allSkipped && t.State == TaskSkipped
		}
	}
	switch {
	case n[classOpen] > 0:
		return g.main.State, classOpen
	case n[classF] > 0:
		return TaskFailed, classF
	case n[classC] > 0:
		return TaskCanceled, classC
	}
	state, class := TaskSucceeded, classS
	if allSkipped {
		state = TaskSkipped
	}
	if n[classS] == 0 {
		class = classK
	}
	return state, class
}

// finished is what a group gives to an edge of state finished: S as soon as only publishes are left to land.
func (g *group) finished() class {
	if g.class != classOpen {
		return g.class
	}
	near := true
	g.members(func(t *task) {
		c := classOf(t)
		near = near && (t.State == TaskFinishing || t.State == TaskReplaced || c == classS || c == classK)
	})
	if near {
		return classS
	}
	return classOpen
}

// startedOr is what a group gives to an edge of state started.
func (g *group) startedOr() class {
	if g.main.StartedAt != 0 {
		return classS
	}
	return g.class
}

// spread tells everybody who counts on a task that it changed: its group, its foreach node, and the children of its step.
func (r *Run) spread(t *task) {
	was := t.group.class
	changed := t.group.settle()
	if t.ID.Item != "" {
		if changed {
			r.spreadItem(t, was)
		}
		return
	}
	r.spreadNode(t.node)
}

// spreadItem counts an item whose result changed, and settles the node with its last one.
func (r *Run) spreadItem(t *task, was class) {
	each, g := t.node.each, t.group
	if was != classOpen || g.class == classOpen {
		return
	}
	each.states[g.state]++
	if each.open--; each.open == 0 {
		r.closeForeach(t.node)
	}
}

// spreadNode brings what a node contributes up to date and has the children judged again that see a difference.
func (r *Run) spreadNode(n *node) {
	gives := [3]class{OnSucceeded: n.class, OnFinished: n.finished(), OnStarted: n.startedOr()}
	if gives == n.gives {
		return
	}
	was := n.gives
	n.gives = gives
	for _, l := range r.graph.children.of(n.index) {
		if was[l.State] != gives[l.State] {
			child := &r.nodes[l.Step]
			child.tally[was[l.State]]--
			child.tally[gives[l.State]]++
			r.effort++
			if child.main.State <= TaskReady {
				r.enqueue(child.main)
			}
		}
	}
}

// retally works every contribution out anew, for a run that was restored or reset.
func (r *Run) retally() {
	for i := range r.nodes {
		n := &r.nodes[i]
		n.settle()
		n.retallyItems()
		n.gives = [3]class{OnSucceeded: n.class, OnFinished: n.finished(), OnStarted: n.startedOr()}
		n.tally = tally{}
	}
	for i := range r.nodes {
		for _, l := range r.graph.parents.of(i) {
			r.nodes[i].tally[r.nodes[l.Step].gives[l.State]]++
		}
	}
}

func (n *node) retallyItems() {
	if n.each == nil {
		return
	}
	n.each.open, n.each.states = 0, [TaskReplaced + 1]int{}
	for _, g := range n.each.items {
		if g.settle(); g.class == classOpen {
			n.each.open++
		} else {
			n.each.states[g.state]++
		}
	}
}
