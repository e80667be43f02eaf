package dagrun

// settle updates a group's result from its members.
func (g *group) settle() { g.state, g.class = g.result() }

// result combines the members: F wins over C, C over S, and K needs all. A tolerated failure counts as succeeded.
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

// finished returns the class that counts for an edge of state finished: S as soon as only publishes are still to end.
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

// startedOr returns the class that counts for an edge of state started.
func (g *group) startedOr() class {
	if g.main.StartedAt != 0 {
		return classS
	}
	return g.class
}

// contributes returns the class that counts for the node's children, by the state of their edges.
func (n *node) contributes() [3]class {
	return [3]class{OnSucceeded: n.class, OnFinished: n.finished(), OnStarted: n.startedOr()}
}

// spread passes a change of a task on to its group, its foreach node, and the children of its step.
func (r *Run) spread(t *task) {
	was := t.group.class
	t.group.settle()
	switch {
	case t.ID.Item == "":
		r.spreadNode(t.node)
	case was == classOpen && t.group.class != classOpen:
		r.itemSettled(t)
	}
}

// itemSettled counts an item that settled, and closes the node after its last item.
func (r *Run) itemSettled(t *task) {
	each := t.node.each
	each.states[t.group.state]++
	if each.open--; each.open == 0 {
		r.closeForeach(t.node)
	}
}

// spreadNode updates the classes that a node contributes, and has each child judged again for which its class changed.
func (r *Run) spreadNode(n *node) {
	was, gives := n.gives, n.contributes()
	if gives == was {
		return
	}
	n.gives = gives
	for _, l := range r.graph.children.of(n.index) {
		if was[l.State] != gives[l.State] {
			r.shift(&r.nodes[l.Step], was[l.State], gives[l.State])
		}
	}
}

// shift moves one parent of a node from one class to another, and has the node judged again.
func (r *Run) shift(n *node, from, to class) {
	r.effort++
	n.tally[from]--
	n.tally[to]++
	if n.main.State <= TaskReady {
		r.enqueue(n.main)
	}
}

// retally computes all contributions from scratch, for a restored or reset run.
func (r *Run) retally() {
	for i := range r.nodes {
		n := &r.nodes[i]
		n.settle()
		n.retallyItems()
		n.gives, n.tally = n.contributes(), tally{}
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
