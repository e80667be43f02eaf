package dagrun

import "fmt"

// Restore makes a Run that continues from a store's rows. It lays aside the rows of items and replacements that no Growth
// describes.
func Restore(g *Graph, o Options, s Saved) (*Run, error) {
	rec := s.Run
	if rec.Generation == 0 {
		rec.Generation = max(o.Generation, 1)
	}
	r := newRun(g, o, rec)
	r.saved = s.Run
	r.over = rec.State.Terminal()
	r.restoring, r.left = true, map[TaskID]*TaskRecord{}
	if err := r.loadRows(s.Tasks); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	for i := range r.nodes {
		if err := r.regrowNode(&r.nodes[i]); err != nil {
			return nil, fmt.Errorf("restore: %w", err)
		}
	}
	r.restoring = false
	r.retally()
	r.recountAll()
	return r, nil
}

// loadRows loads the rows of steps. It lays aside the rows of items and replacements until their foreach node or replaced
// task has grown.
func (r *Run) loadRows(rows []TaskRecord) error {
	for i := range rows {
		row := &rows[i]
		id := row.ID
		switch {
		case id.Step < 0 || id.Step >= len(r.nodes):
			return fmt.Errorf("a row for step %d, but the graph has %d", id.Step, len(r.nodes))
		case row.State > TaskReplaced, row.Request > RequestMark, row.Request == RequestMark && !markable(row.Marked):
			return fmt.Errorf("task %s in state %s, with request %s as %s", r.graph.TaskName(id), row.State, row.Request, row.Marked)
		case id.Item == "" && id.Alt == 0:
			r.nodes[id.Step].main.load(row)
		default:
			r.left[id] = row
		}
	}
	return nil
}

// regrowNode makes the items and replacements of a step again, as the stored Growths describe them.
func (r *Run) regrowNode(n *node) error {
	t := n.main
	switch {
	case !t.grows():
		return r.regrowAlts(&n.group)
	case t.State <= TaskReady:
		return nil
	case t.Growth == nil || len(t.Growth.Items) == 0:
		return unless(t.State != TaskRunning, "foreach node %s is running, but has no items", t.step.Name)
	}
	r.growItems(n)
	for _, g := range n.each.items {
		if err := r.regrowAlts(g); err != nil {
			return err
		}
	}
	return nil
}

// regrowAlts makes the replacements of a group again, in the order of their numbers.
func (r *Run) regrowAlts(g *group) error {
	for {
		var next *task
		replaced, grown := 0, 0
		g.members(func(t *task) {
			if t.State != TaskReplaced {
				return
			}
			replaced++
			if t.Growth != nil && t.Growth.FirstAlt <= len(g.alts) {
				grown++
			} else if t.Growth != nil && t.Growth.FirstAlt == len(g.alts)+1 {
				next = t
			}
		})
		if next == nil {
			return unless(replaced == grown, "task %s was replaced, but not by what its step says", r.graph.TaskName(g.main.ID))
		}
		if err := r.checkGrowth(next); err != nil {
			return err
		}
		r.growAlts(next)
	}
}

func (r *Run) checkGrowth(t *task) error {
	rules, grew := t.step.OnError, t.Growth
	fits := grew.Rule >= 0 && grew.Rule < len(rules) && grew.Count > 0 && grew.Count == len(rules[grew.Rule].With)
	return unless(fits, "task %s was replaced by on_error[%d] with %d, but its step says otherwise",
		r.graph.TaskName(t.ID), grew.Rule, grew.Count)
}

// takeLeft gives a new task the row that was laid aside for it. A row that is older than the task's Growth is history:
// takeLeft records its last attempt and keeps the attempt number. While the run is not restoring, the same holds for every
// row that is not final in this generation: a crash came between that row and the row with the Growth.
func (r *Run) takeLeft(t *task, row *TaskRecord) {
	delete(r.left, t.ID)
	current := row.Generation == r.rec.Generation && row.State.Terminal()
	if r.restoring {
		current = row.Generation >= r.grownIn(t)
	}
	if current {
		t.load(row)
		return
	}
	t.Attempt = row.Attempt
	if row.AttemptAt != 0 {
		r.closeOld(row)
		r.changed(t) // in the same commit, so that the attempt is recorded once
	}
}

// grownIn returns the generation in which the foreach node, or the replaced task, grew this task.
func (r *Run) grownIn(t *task) int {
	from := t.node.main
	if t.ID.Alt != 0 {
		t.group.members(func(m *task) {
			if g := m.Growth; g != nil && m.State == TaskReplaced && g.FirstAlt <= t.ID.Alt && t.ID.Alt < g.FirstAlt+g.Count {
				from = m
			}
		})
	}
	return from.Growth.Generation
}

// load copies a stored row into a task. A ready task becomes pending, because the run judges again whether it is ready.
func (t *task) load(row *TaskRecord) {
	t.TaskRecord = *row
	t.Asks = nil // the question is stored already
	t.stored = true
	if t.State == TaskReady {
		t.State, t.shown = TaskPending, true
	}
}
