package web

import (
	"cmp"
	"context"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/graphview"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	maxCards   = 300 // nodes of a graph; of a larger graph, only the part around the chosen step is drawn
	nearCards  = 2   // that part reaches this many edges away from the step
	smallGraph = 40  // a graph of up to this many steps stands below the timeline, too
	tasksShown = 100
	itemsShown = 50 // of a foreach step, in its panel
)

// graphPicture is the graph of the DAG, with the states of the run's steps.
type graphPicture struct {
	SVG    template.HTML
	Nodes  int    // size of the whole graph, if it is too large to draw; else 0
	Around string // step around which a part of it is drawn
}

// graphOf draws the DAG of the run. Of a graph with more than maxCards nodes after folding, it draws only the part around the step
// in the panel. The picture is empty if the login is not allowed to read the DAG.
func (s *server) graphOf(p *runPage) *graphPicture {
	if p.dag == nil {
		return &graphPicture{}
	}
	tasks := make([]graphview.Task, len(p.steps))
	for i := range p.steps {
		step, alt := splitStep(p.steps[i].Step)
		tasks[i] = graphview.Task{Step: step, Alt: alt, State: p.steps[i].State}
	}
	view := graphview.FromSpec(p.dag.Spec, p.dag.Graph).With(tasks)
	view.Name = ""
	for i := range view.Nodes {
		if t := p.summary(view.Nodes[i].ID); t != nil && t.Items > 0 {
			view.Nodes[i].Badges = append([]string{aside(t)}, view.Nodes[i].Badges...)
		}
	}
	g := &graphPicture{}
	if n := len(graphview.Fold(view, graphFold).Nodes); n > maxCards {
		g.Nodes, g.Around = len(view.Nodes), p.Query.Task.Step
		if g.Around == "" {
			g.Around = view.Nodes[0].ID
		}
		view = view.Around(g.Around, nearCards)
	}
	g.SVG = drawn(graphview.Fragment(view, func(n graphview.Node) (string, bool) {
		if n.Kind == graphview.Folded {
			return s.options.Base + p.ViewLink("tasks"), false
		}
		return s.options.Base + p.TaskLink(taskQuery{Step: n.ID}), n.ID == p.Query.Task.Step
	}))
	return g
}

// splitStep splits a name such as load~1 into the step and the number of the replacement, which is 0 for the step itself.
func splitStep(name string) (step string, alt int) {
	step = runview.StepOf(name)
	if len(step) < len(name) {
		alt, _ = strconv.Atoi(name[len(step)+1:])
	}
	return step, alt
}

// taskList is one window of a list of tasks.
type taskList struct {
	Tasks  []taskLine
	Next   string // position of the next window; "": this is the last
	States []stateCount
	Steps  []string // steps to which the list can be narrowed
	Total  int
}

type taskLine struct {
	queue.Task

	Name string
	Took string
	Note string
	Link taskQuery
}

type stateCount struct {
	State    string
	Count    int
	Selected bool
}

// readTasks reads one window of the list of tasks, by the filters in the address, and the number of tasks in each state. It also
// appends the tasks to p.known.
func (s *server) readTasks(ctx context.Context, p *runPage) (*taskList, error) {
	q := p.Query
	list, err := s.taskList(ctx, p, queue.TaskQuery{Run: q.ID, Step: q.Only, States: q.States, Item: q.Find, After: q.After, Limit: tasksShown})
	if err != nil {
		return nil, err
	}
	for i := range list.Tasks {
		p.known = append(p.known, list.Tasks[i].Task)
	}
	counts := map[string]int{}
	for i := range p.steps {
		t := &p.steps[i]
		counts[t.State]++
		for state, n := range t.States {
			counts[state] += n
		}
		if t.Items > 0 {
			list.Steps = append(list.Steps, t.Step)
		}
	}
	list.States = countsOf(counts, q.States)
	return list, nil
}

// countsOf lists the states with a count above 0, the most urgent first. It marks those in selected.
func countsOf(counts map[string]int, selected []string) (all []stateCount) {
	states := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(graphview.Urgency(a)-graphview.Urgency(b), strings.Compare(a, b))
	})
	for _, state := range states {
		if counts[state] > 0 {
			all = append(all, stateCount{state, counts[state], slices.Contains(selected, state)})
		}
	}
	return all
}

func (s *server) taskList(ctx context.Context, p *runPage, q queue.TaskQuery) (*taskList, error) {
	found, err := s.store.TaskPage(ctx, q)
	if err != nil {
		return nil, err
	}
	list := &taskList{}
	for i := range found.Tasks {
		t := &found.Tasks[i]
		list.Tasks = append(list.Tasks, taskLine{
			Task: *t, Name: runview.TaskName(t.Step, t.Item), Took: runview.TaskTime(t, p.Now), Note: runview.TaskNote(&p.Run.Run, t),
			Link: taskQuery{Step: t.Step, Item: t.Item},
		})
	}
	if found.Next != nil {
		list.Next = taskKeyText(*found.Next)
	}
	return list, nil
}

// readItems reads the items of a foreach step for its panel. If there are more than itemsShown, it reads only the failed ones; if
// none failed, only the running ones; if none runs, the first ones.
func (s *server) readItems(ctx context.Context, p *runPage, step string) (*taskList, error) {
	sum := p.summary(step)
	q := queue.TaskQuery{Run: p.Query.ID, Step: step, Limit: itemsShown}
	for _, urgent := range []string{"failed", "running"} {
		if sum.States[urgent] > 0 && sum.Items > itemsShown {
			q.States = []string{urgent}
			break
		}
	}
	list, err := s.taskList(ctx, p, q)
	if err != nil {
		return nil, err
	}
	list.Tasks = slices.DeleteFunc(list.Tasks, func(t taskLine) bool { return t.Item == "" })
	list.Total, list.States = sum.Items, countsOf(sum.States, q.States)
	return list, nil
}

// paramTrees is the params of a run, and the outputs of its steps.
type paramTrees struct {
	Params   *jsonNode
	Defaults string
	Outputs  []outputTree
	Ended    bool
}

type outputTree struct {
	Step string
	Tree *jsonNode
}

func (s *server) readParams(ctx context.Context, p *runPage) (*paramTrees, error) {
	result, err := s.store.Result(ctx, p.Query.ID)
	if err != nil {
		return nil, err
	}
	trees := &paramTrees{Ended: p.Run.Over()}
	if trees.Params, err = jsonTree(p.Run.Params); err != nil {
		return nil, err
	}
	_, trees.Defaults = runview.Params(&p.Run.Run, p.spec())
	for _, step := range slices.Sorted(maps.Keys(result.Outputs)) {
		tree, err := jsonTree(result.Outputs[step])
		if err != nil {
			return nil, err
		}
		if tree != nil {
			trees.Outputs = append(trees.Outputs, outputTree{step, tree})
		}
	}
	return trees, nil
}
