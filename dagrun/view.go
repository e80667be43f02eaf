package dagrun

import "iter"

// find looks a task up, nil if the run has none of that name.
func (r *Run) find(id TaskID) *task {
	if id.Step < 0 || id.Step >= len(r.nodes) {
		return nil
	}
	g := &r.nodes[id.Step].group
	if id.Item != "" {
		each := r.nodes[id.Step].each
		if each == nil {
			return nil
		}
		i, ok := each.byKey[id.Item]
		if !ok {
			return nil
		}
		g = each.items[i]
	}
	switch {
	case id.Alt == 0:
		return g.main
	case id.Alt < 0 || id.Alt > len(g.alts):
		return nil
	default:
		return g.alts[id.Alt-1]
	}
}

// Task is the current row of a task, whether stored or derived.
func (r *Run) Task(id TaskID) (TaskRecord, bool) {
	t := r.find(id)
	if t == nil {
		return TaskRecord{}, false
	}
	return t.TaskRecord, true
}

// Tasks are the current rows of all tasks in graph order: of a step its own, its replacements', its items'. A handler
// is among them once its turn has come.
func (r *Run) Tasks() iter.Seq[TaskRecord] {
	return func(yield func(TaskRecord) bool) {
		for i := range r.nodes {
			more := true
			r.nodes[i].tasks(func(t *task) {
				here := t.known || t.node == r.turn
				more = more && (!here || yield(t.TaskRecord))
			})
			if !more {
				return
			}
		}
	}
}

// Bounded says whether there may be tasks that are ready and held back by a limit of the run or of their foreach.
func (r *Run) Bounded() bool { return r.graph.bounded }

// Held are tasks, at most so many, that became ready by then and that such a limit has held back, and whose rows do not say
// so: step an EvQueued for those that should.
func (r *Run) Held(by Time, most int) (ids []TaskID) {
	add := func(tasks []*task) {
		for _, t := range tasks {
			if len(ids) < most && t.since <= by && !t.shown {
				ids = append(ids, t.ID)
			}
		}
	}
	add(r.held.tasks)
	for i := range r.nodes {
		if each := r.nodes[i].each; each != nil {
			add(each.capped.tasks)
		}
	}
	return ids
}

// Ahead returns the task that one of Held waits behind: it fills the limit, and waits for a slot itself. It reports false where
// nothing that fills the limit waits.
func (r *Run) Ahead(id TaskID) (TaskID, bool) {
	t := r.find(id)
	if t == nil {
		return TaskID{}, false
	}
	o := r.ahead(t)
	if o == nil {
		return TaskID{}, false
	}
	return o.ID, true
}

// Spec is what a task runs: its step, or of a replacement its own description. Nil if there is no such task.
func (r *Run) Spec(id TaskID) *Step {
	t := r.find(id)
	if t == nil {
		return nil
	}
	return t.step
}

// Scope is what the expressions of a task see, nil if there is no such task. It shows the run as it is when asked.
func (r *Run) Scope(id TaskID) Scope {
	t := r.find(id)
	if t == nil {
		return nil
	}
	return r.scope(t)
}

// Item is the element of its foreach that a task is for.
func (r *Run) Item(id TaskID) (Item, bool) {
	t := r.find(id)
	if t == nil {
		return Item{}, false
	}
	return t.item()
}

// Idle says whether no body and no publish is under way.
func (r *Run) Idle() bool { return r.idle() }
