package dagrun

// settle brings a group's result up to date with its members.
func (g *group) settle() { g.state, g.class = g.result() }

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

// contributes is what a node gives to its children, by the state of their edges.
func (n *node) contributes() [3]class {
	return [3]class{OnSucceeded: n.class, OnFinished: n.finished(), OnStarted: n.startedOr()}
}

// spread tells everybody who counts on a task that it changed: its group, its foreach node, the children of its step.
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

// itemSettled counts an item, and settles the node with its last one.
func (r *Run) itemSettled(t *task) {
	each := t.node.each
	each.states[t.group.state]++
	if each.open--; each.open == 0 {
		r.closeForeach(t.node)
	}
}

// spreadNode brings what a node contributes up to date and has the children judged again that see a difference.
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

// shift counts a parent of a node differently, which may let it start or rule it out.
func (r *Run) shift(n *node, from, to class) {
	r.effort++
	n.tally[from]--
	n.tally[to]++
	if n.main.State <= TaskReady {
		r.enqueue(n.main)
	}
}

// retally works every contribution out anew, for a run that was restored or reset.
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
