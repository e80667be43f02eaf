package dagrun

import "iter"

// find returns a task by its ID, or nil.
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

// Task returns the current row of a task, stored or not.
func (r *Run) Task(id TaskID) (TaskRecord, bool) {
	t := r.find(id)
	if t == nil {
		return TaskRecord{}, false
	}
	return t.TaskRecord, true
}

// Tasks returns the current rows of all tasks in graph order: for each step its own, its replacements' and its items'. A
// handler is included once its turn has come.
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

// Bounded reports whether a limit of the run, or of a foreach step, may hold ready tasks back.
func (r *Run) Bounded() bool { return r.graph.bounded }

// Held returns up to most ready tasks that such a limit holds back. They became ready at or before by, and their rows do not
// show it yet. The caller steps an EvQueued to have a row show it.
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

// Ahead returns the task that a task of Held waits behind: it fills the limit, and waits for a slot itself. It reports false
// if no task that fills the limit waits for a slot.
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

// Spec returns the description of a task's body: its step, or its own description for a replacement. It returns nil if there
// is no such task.
func (r *Run) Spec(id TaskID) *Step {
	t := r.find(id)
	if t == nil {
		return nil
	}
	return t.step
}

// Scope returns the run as the expressions of a task see it, or nil if there is no such task. The scope always shows the
// present state of the run.
func (r *Run) Scope(id TaskID) Scope {
	t := r.find(id)
	if t == nil {
		return nil
	}
	return r.scope(t)
}

// Item returns the foreach item that a task is for.
func (r *Run) Item(id TaskID) (Item, bool) {
	t := r.find(id)
	if t == nil {
		return Item{}, false
	}
	return t.item()
}

// Idle reports whether no body and no publish is under way.
func (r *Run) Idle() bool { return r.idle() }
