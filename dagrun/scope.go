package dagrun

// scope is the run as the expressions of one task see it.
type scope struct {
	run     *Run
	task    *task
	failure *Failure
}

func (r *Run) scope(t *task) *scope { return &scope{run: r, task: t} }

// Spend adds the cost of an expression: see Run.exhausted.
func (s *scope) Spend(units int) { s.run.spent += units }

func (s *scope) Context() any { return s.run.opts.Context }

func (s *scope) Step(name string) (StepView, bool) {
	i, ok := s.run.graph.index[name]
	if !ok {
		return StepView{}, false
	}
	return s.run.nodes[i].view(), true
}

func (s *scope) Items(name string) []StepView {
	i, ok := s.run.graph.index[name]
	if !ok || s.run.nodes[i].each == nil {
		return nil
	}
	items := s.run.nodes[i].each.items
	views := make([]StepView, len(items))
	for k, g := range items {
		views[k] = g.view()
	}
	return views
}

func (s *scope) Item() (Item, bool) { return s.task.item() }

func (s *scope) Failure() (Failure, bool) {
	if s.failure == nil {
		return Failure{}, false
	}
	return *s.failure, true
}

func (s *scope) Run() RunView {
	view := RunView{State: s.run.outcome(), Generation: s.run.rec.Generation}
	if view.State == RunSucceeded && s.run.open > 0 {
		view.State = RunRunning // succeeded is not certain before every step has ended
	}
	for _, t := range s.run.sortedFailures() {
		view.Failed = append(view.Failed, s.run.graph.TaskName(t.ID))
	}
	return view
}

// view returns what expressions see of a group: its task, or the last replacement that succeeded, or else the last
// replacement.
func (g *group) view() StepView {
	t := g.main
	for _, alt := range g.alts {
		if alt.State == TaskSucceeded || t.State != TaskSucceeded {
			t = alt
		}
	}
	v := StepView{State: t.State, ExitCode: t.ExitCode, HasExit: t.HasExit, Attempt: t.Attempt, Item: t.ID.Item}
	if len(g.alts) > 0 && g.class != classOpen {
		v.State = g.state
	}
	if t.State == TaskSucceeded {
		v.Outputs = t.Outputs
	}
	return v
}

func (t *task) item() (Item, bool) {
	if t.ID.Item == "" {
		return Item{}, false
	}
	return t.node.main.Growth.Items[t.index], true
}
