package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/web/draw"
)

const maxDifferences = 100 // of params and outputs, on one page

// comparison is the content of the page that compares two runs of a DAG. Is is the run of the page, Was the run that it is
// compared with, which may be the newer one.
type comparison struct {
	Was, Is *comparedRun
	DAGPath string // page of the DAG; the list of its runs, if the login cannot read DAGs

	Facts    []runview.Difference
	Same     []string // names of facts that are equal
	Versions string   // path of the diff of the two versions; "": they are equal, or the login cannot read DAGs
	Params   []runview.Difference
	Outputs  []runview.Difference
	Open     bool // one of the runs has not ended, so outputs are not compared yet
	More     int  // number of differing values that are not listed
	Steps    []comparedStep
	Hidden   int // number of steps that are not listed; they differ least
}

// comparedRun is one of two runs.
type comparedRun struct {
	*queue.Run

	Path, Command string

	steps  []queue.StepSummary
	places map[string]int // index in steps, by the name of the step
}

// comparedStep is a step with its state in both runs.
type comparedStep struct {
	Name    string
	Was, Is *comparedTask // nil: that run has no such step
	Aside   string        // a difference other than in time, in words
	Change  string        // difference in time; "": the step has not begun in both runs
	Bars    template.HTML

	place  int // position in the order of the graph
	change time.Duration
}

// Otherwise reports whether the state of the step differs between the two runs.
func (s *comparedStep) Otherwise() bool {
	return s.Was != nil && s.Is != nil && s.Was.State != s.Is.State
}

// comparedTask is a step in one of two runs.
type comparedTask struct {
	State, Items, Took, Path string

	took  time.Duration
	begun bool
}

// compareLast redirects to the comparison of the run with the last run of its DAG that ended before it and succeeded. It refuses
// with status 404 if the login sees none among the 200 runs before.
func (s *server) compareLast(w http.ResponseWriter, r *http.Request) error {
	run, err := parseRunID(r)
	if err != nil {
		return err
	}
	history, err := s.store.FailureHistory(r.Context(), run)
	if err != nil {
		return err
	}
	if history.LastGood == 0 {
		return &refusal{
			status: http.StatusNotFound, message: fmt.Sprintf("Of the last 200 runs of the DAG that ended before run %d, none succeeded, or none that you may see.", run),
			hint: fmt.Sprintf("Compare the run with another run: %s/compare/41.", runPath(run)),
		}
	}
	s.redirect(w, r, comparePath(run, history.LastGood))
	return nil
}

func comparePath(run, other queue.RunID) string {
	return runPath(run) + "/compare/" + strconv.FormatInt(int64(other), 10)
}

// compare shows how the run in the path differs from another run of the same DAG, which the path names, too.
func (s *server) compare(w http.ResponseWriter, r *http.Request) error {
	run, err := parseRunID(r)
	if err != nil {
		return err
	}
	other, err := strconv.ParseInt(r.PathValue("other"), 10, 64)
	if err != nil || other < 1 {
		return &refusal{status: http.StatusNotFound, message: "This run does not exist.", hint: "A run has a number: /runs/42/compare/41."}
	}
	c, err := s.readComparison(r.Context(), run, queue.RunID(other), time.Now())
	if err != nil {
		return err
	}
	return s.render(w, r, "compare.html", page{
		Title: fmt.Sprintf("%s #%d and #%d", c.Is.DAG, run, other), Nav: "runs", Data: c,
		Crumbs: []crumb{{"Runs", "/runs"}, {c.Is.DAG, c.DAGPath}, {strconv.FormatInt(int64(run), 10), c.Is.Path}, {fmt.Sprintf("compared with %d", other), ""}},
	})
}

// readComparison compares run, which becomes Is, with other, which becomes Was. It uses summaries of their steps, because a run may
// have very many tasks. Outputs are compared only if both runs have ended; steps that run have taken the time until now.
func (s *server) readComparison(ctx context.Context, run, other queue.RunID, now time.Time) (*comparison, error) {
	c, err := s.readPair(ctx, run, other)
	if err != nil {
		return nil, err
	}
	def, err := s.definition(ctx, c.Is.DAG, c.Is.Version)
	if err != nil {
		return nil, err
	}
	if c.DAGPath = (&runFilter{DAG: c.Is.DAG}).path(); def != nil {
		c.DAGPath = dagPath(c.Is.DAG)
		runview.SortByGraph(c.Is.steps, def.Graph, func(t *queue.StepSummary) string { return t.Step })
		if c.Was.Version != c.Is.Version {
			c.Versions = diffPath(c.Is.DAG, c.Was.Version, c.Is.Version)
		}
	}
	c.Facts, c.Same = runview.RunDifferences(c.Was.Run, c.Is.Run, c.Was.driver(), c.Is.driver(), now)
	c.compareSteps(now)
	if c.Params, c.More, err = runview.ValueDifferences(nil, "", c.Was.Params, c.Is.Params, maxDifferences); err != nil {
		return nil, err
	}
	if c.Open = !c.Was.Over() || !c.Is.Over(); c.Open {
		return c, nil
	}
	return c, s.compareOutputs(ctx, c)
}

// readPair reads run as Is and other as Was, with summaries of their steps. It refuses two equal numbers, a run that the login
// cannot see, and runs of two DAGs.
func (s *server) readPair(ctx context.Context, run, other queue.RunID) (*comparison, error) {
	if run == other {
		return nil, &refusal{status: http.StatusBadRequest, message: "A run does not differ from itself.", hint: fmt.Sprintf("%s/compare compares the run with the last run that succeeded.", runPath(run))}
	}
	found, err := s.store.Pick(ctx, []queue.RunID{run, other})
	if err != nil {
		return nil, err
	}
	pair := map[queue.RunID]*comparedRun{}
	for i := range found {
		id := found[i].ID
		pair[id] = &comparedRun{Run: &found[i], Path: runPath(id), Command: fmt.Sprintf("oarlock status %d", id), places: map[string]int{}}
	}
	for _, id := range []queue.RunID{run, other} {
		if pair[id] == nil {
			return nil, &refusal{status: http.StatusNotFound, message: fmt.Sprintf("Run %d does not exist, or you lack the right to see it.", id), hint: "Oarlock deletes runs that are older than the retention of their DAG."}
		}
	}
	c := &comparison{Was: pair[other], Is: pair[run]}
	if c.Was.DAG != c.Is.DAG {
		return nil, &refusal{
			status:  http.StatusBadRequest,
			message: fmt.Sprintf("Run %d is of DAG %s, and run %d of DAG %s: only runs of one DAG can be compared.", run, runview.InlineText(c.Is.DAG), other, runview.InlineText(c.Was.DAG)),
			hint:    "Name two runs of one DAG.",
		}
	}
	for _, side := range []*comparedRun{c.Was, c.Is} {
		if side.steps, err = s.store.StepSummaries(ctx, side.ID); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (r *comparedRun) driver() string {
	tasks := make([]queue.Task, len(r.steps))
	for i := range r.steps {
		tasks[i] = r.steps[i].Task
	}
	return runview.DriverOf(r.Run, tasks)
}

// compareSteps fills c.Steps: the steps of c.Is in their order, followed by the steps that only c.Was has. If there are more than
// maxRows, it keeps those with a difference in words, then those with the largest change in time, and counts the others in
// c.Hidden. It draws the bars of the steps that it keeps.
func (c *comparison) compareSteps(now time.Time) {
	for i := range c.Is.steps {
		c.Is.places[c.Is.steps[i].Step] = i
	}
	for i := range c.Was.steps {
		c.Was.places[c.Was.steps[i].Step] = i
	}
	for i := range c.Is.steps {
		c.addStep(c.Is.steps[i].Step, now)
	}
	for i := range c.Was.steps {
		if _, both := c.Is.places[c.Was.steps[i].Step]; !both {
			c.addStep(c.Was.steps[i].Step, now)
		}
	}
	if len(c.Steps) > maxRows {
		slices.SortStableFunc(c.Steps, func(a, b comparedStep) int {
			return cmp.Or(cmp.Compare(min(len(b.Aside), 1), min(len(a.Aside), 1)), cmp.Compare(b.change.Abs(), a.change.Abs()))
		})
		c.Hidden, c.Steps = len(c.Steps)-maxRows, c.Steps[:maxRows]
		slices.SortFunc(c.Steps, func(a, b comparedStep) int { return a.place - b.place })
	}
	c.drawSteps()
}

func (c *comparison) addStep(name string, now time.Time) {
	row := comparedStep{Name: name, Was: c.Was.task(name, now), Is: c.Is.task(name, now), place: len(c.Steps)}
	switch {
	case row.Was == nil:
		row.Aside = fmt.Sprintf("not in #%d", c.Was.ID)
	case row.Is == nil:
		row.Aside = fmt.Sprintf("only in #%d", c.Was.ID)
	case row.Otherwise():
		row.Aside = fmt.Sprintf("was %s, is %s", row.Was.State, row.Is.State)
	case row.Was.Items != row.Is.Items:
		row.Aside = fmt.Sprintf("was %s, is %s", cmp.Or(row.Was.Items, "no item"), cmp.Or(row.Is.Items, "no item"))
	}
	if row.Was != nil && row.Is != nil && row.Was.begun && row.Is.begun {
		row.change = row.Is.took - row.Was.took
		row.Change = runview.SpanChange(row.change)
	}
	c.Steps = append(c.Steps, row)
}

// task returns a step of the run; nil if the run has no step of that name. A step that runs has taken the time until now.
func (r *comparedRun) task(name string, now time.Time) *comparedTask {
	i, ok := r.places[name]
	if !ok {
		return nil
	}
	t := &r.steps[i]
	q := runQuery{Kind: runKind, ID: r.ID, View: views[0], Task: taskQuery{Step: name, Item: t.Failed}}
	task := &comparedTask{State: t.State, Took: runview.TaskTime(&t.Task, now), Path: q.address()}
	if t.Items > 0 {
		task.Items = fmt.Sprintf("%d/%d items", doneItems(t), t.Items)
	}
	task.took, task.begun = runview.Elapsed(t.StartedAt, t.FinishedAt, now)
	return task
}

// drawSteps sets the Bars of each of c.Steps: one bar for each run. All bars have one scale, on which the longest has the full
// width.
func (c *comparison) drawSteps() {
	longest := time.Duration(0)
	for i := range c.Steps {
		longest = max(longest, c.Steps[i].Was.length().Took, c.Steps[i].Is.length().Took)
	}
	for i := range c.Steps {
		above := c.Steps[i].Was.length()
		if above.Class != "" {
			above.Class += " b-old"
		}
		c.Steps[i].Bars = draw.Pair(above, c.Steps[i].Is.length(), longest)
	}
}

// length returns the bar of a step. It returns the zero Length, which is not drawn, if t is nil or the step has not begun.
func (t *comparedTask) length() draw.Length {
	if t == nil || !t.begun {
		return draw.Length{}
	}
	return draw.Length{Class: barClass(t.State), Title: t.State + " " + t.Took, Took: t.took}
}

// compareOutputs reads the outputs of both runs, and appends their differences to c.Outputs, up to maxDifferences in all. It adds
// the number of differences beyond these to c.More.
func (s *server) compareOutputs(ctx context.Context, c *comparison) error {
	was, err := s.store.Result(ctx, c.Was.ID)
	if err != nil {
		return err
	}
	is, err := s.store.Result(ctx, c.Is.ID)
	if err != nil {
		return err
	}
	steps := map[string]json.RawMessage{}
	maps.Copy(steps, was.Outputs)
	maps.Copy(steps, is.Outputs)
	for _, step := range slices.Sorted(maps.Keys(steps)) {
		var more int
		if c.Outputs, more, err = runview.ValueDifferences(c.Outputs, step, was.Outputs[step], is.Outputs[step], maxDifferences); err != nil {
			return err
		}
		c.More += more
	}
	return nil
}
