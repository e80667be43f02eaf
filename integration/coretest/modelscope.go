package coretest

import "github.com/oarlock-dev/oarlock/dagrun"

// modelScope is what an expression sees of a model.
type modelScope struct {
	m *Model
	c *cell
}

func (m *Model) scope(c *cell) dagrun.Scope { return modelScope{m, c} }

func (s modelScope) Context() any { return s.m.opts.Context }

func (s modelScope) Step(name string) (dagrun.StepView, bool) {
	i := s.m.stepIndex(name)
	if i < 0 {
		return dagrun.StepView{}, false
	}
	return s.m.view(s.m.node(i)), true
}

func (s modelScope) Items(name string) []dagrun.StepView {
	i := s.m.stepIndex(name)
	if i < 0 || s.m.node(i).Growth == nil || !s.m.node(i).isNode() {
		return nil
	}
	var views []dagrun.StepView
	for _, it := range s.m.node(i).Growth.Items {
		views = append(views, s.m.view(s.m.cells[dagrun.TaskID{Step: i, Item: it.Key}]))
	}
	return views
}

func (s modelScope) Item() (dagrun.Item, bool) {
	if s.c.ID.Item == "" {
		return dagrun.Item{}, false
	}
	for _, it := range s.m.node(s.c.ID.Step).Growth.Items {
		if it.Key == s.c.ID.Item {
			return it, true
		}
	}
	return dagrun.Item{}, false
}

// Failure returns the end of the task that a replacement replaces.
func (s modelScope) Failure() (dagrun.Failure, bool) {
	if s.c.replaces == nil {
		return dagrun.Failure{}, false
	}
	f := s.c.replaces.failure()
	f.Chosen = s.c.items()
	return f, true
}

// failure returns how the last attempt of a task failed.
func (c *cell) failure() dagrun.Failure {
	return dagrun.Failure{Kind: c.Kind, ExitCode: c.ExitCode, Signal: c.Signal, Attempt: c.Attempt, Chosen: c.items()}
}

// items returns the items of replacements by data on the way to a task.
func (c *cell) items() (list []dagrun.JSON) {
	for ; c != nil; c = c.replaces {
		if c.chosen != nil && c.chosen.Value != "" {
			list = append([]dagrun.JSON{c.chosen.Value}, list...)
		}
	}
	return list
}

func (s modelScope) Run() dagrun.RunView {
	state, _ := s.m.verdict()
	if state == dagrun.RunSucceeded && !s.m.stepsSettled() {
		state = dagrun.RunRunning
	}
	v := dagrun.RunView{State: state, Generation: s.m.run.Generation}
	for _, c := range s.m.failures() {
		v.Failed = append(v.Failed, s.m.name(c))
	}
	return v
}

// view of a task. Of a replaced one, the state is what its replacements made of it.
func (m *Model) view(c *cell) dagrun.StepView {
	if c.State == dagrun.TaskReplaced {
		ends := map[Class]dagrun.State{S: dagrun.TaskSucceeded, F: dagrun.TaskFailed, K: dagrun.TaskSkipped, C: dagrun.TaskCanceled}
		if state, ok := ends[result(m.group(c.ID.Step, c.ID.Item))]; ok {
			return dagrun.StepView{State: state, Attempt: c.Attempt, Item: c.ID.Item}
		}
	}
	v := dagrun.StepView{State: c.State, ExitCode: c.ExitCode, HasExit: c.HasExit, Attempt: c.Attempt, Item: c.ID.Item}
	if c.State == dagrun.TaskSucceeded {
		v.Outputs = c.Outputs
	}
	return v
}

// failureScope adds what on_error looks at.
type failureScope struct {
	dagrun.Scope
	failure dagrun.Failure
}

func (s failureScope) Failure() (dagrun.Failure, bool) { return s.failure, true }
