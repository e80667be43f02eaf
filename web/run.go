package web

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// views are the tabs of a run's page.
var views = []string{"timeline", "graph", "tasks", "events", "params"}

// runQuery is the content of the address of a page about a run.
type runQuery struct {
	Kind pageKind
	ID   queue.RunID
	View string
	Task taskQuery // of the panel; without a Step the page chooses the task
	Idle bool      // the timeline draws idle stretches at full length
	Zoom string    // the timeline shows the time of this step only; "": all of the run

	Asked int64 // the page shows the outcome of this control; 0: none

	States []string      // filter of the list of tasks; none: all states
	Only   string        // step in the list of tasks; "": all steps
	Find   string        // text in the names of items
	After  queue.TaskKey // the list begins after this task; zero: with the first task
	Before string        // events older than this one; "": the newest
}

// runPage is the content of the page of a run.
type runPage struct {
	Query runQuery
	Now   time.Time
	Run   *queue.RunHead
	Usual string // how long runs of the DAG usually take; "": unknown
	Facts []runview.Fact
	Next  []runview.Command
	Wrong *wrong // nil: no step failed
	Alike *alike // nil: the run has not failed
	Tabs  []tab
	Panel *panel         // nil: no task has begun
	Asked *queue.Control // the control of the address; nil: none of this run

	Rights queue.Rights

	Timeline *timeline
	Graph    *graphPicture
	Tasks    *taskList
	Events   *eventList
	Params   *paramTrees

	steps  []queue.StepSummary // in the order of the graph
	places map[string]int      // of steps, by name
	known  []queue.Task        // tasks that the view has read
	dag    *queue.Definition   // nil: the login cannot read it
}

// tab is a link to a view.
type tab struct {
	View, Title string
	Count       int
	Selected    bool
}

// wrong is the content of the box at the top of the page of a run with a failed step.
type wrong struct {
	Step   string // the first failed step, with its item
	Task   taskQuery
	Reason string
	Tries  int
	Lines  []logLine // last lines that the task wrote
	Others []taskQuery
	More   int // number of failed steps that neither Step nor Others names
}

// settled is how long after the end of a run all its logs are stored. A task that wrote nothing has no final piece to tell.
const settled = 10 * time.Second

const maxOthers = 4 // the box names up to this many failed steps besides the first

func (s *server) run(w http.ResponseWriter, r *http.Request) error {
	if r.PathValue("run") == "latest" {
		return s.latestRun(w, r)
	}
	q, err := parseRunQuery(r)
	if err != nil {
		return err
	}
	p, err := s.readRun(r.Context(), q)
	if errors.Is(err, errSeenInPart) {
		return s.partOfRun(w, r, q)
	}
	if err != nil {
		return err
	}
	return s.render(w, r, "run.html", page{
		Title: p.title() + " " + p.Run.State, Nav: "runs", Data: p, Crumbs: p.crumbs(), Live: liveOf(p.Query.address(), p.Run.Over()),
	})
}

// title returns DAG #NUMBER, as in "elt #41".
func (p *runPage) title() string { return fmt.Sprintf("%s #%d", p.Run.DAG, p.Run.ID) }

// crumbs returns the crumbs of the run's page, followed by below, the crumbs of a page below it. With below, the crumb of the run
// has a link.
func (p *runPage) crumbs(below ...crumb) []crumb {
	all := []crumb{{"Runs", "/runs"}, {p.Run.DAG, p.dagLink()}, {strconv.FormatInt(int64(p.Run.ID), 10), ""}}
	if len(below) > 0 {
		all[2].Path = runPath(p.Run.ID)
	}
	return append(all, below...)
}

// latestRun redirects to the newest run that the login can see. It refuses with status 404 if there is none.
func (s *server) latestRun(w http.ResponseWriter, r *http.Request) error {
	newest, err := s.store.List(r.Context(), queue.Filter{Limit: 1})
	if err != nil {
		return err
	}
	if len(newest.Runs) == 0 {
		return &refusal{status: http.StatusNotFound, message: "There is no run yet.", hint: "`oarlock enqueue DAG` asks for a run."}
	}
	s.redirect(w, r, runPath(newest.Runs[0].ID))
	return nil
}

// liveOf returns the path of the stream of the page at here. If the run is over, it returns "", since the page does not change any
// more.
func liveOf(here string, over bool) string {
	if over {
		return ""
	}
	return "/live" + here
}

// parseRunID returns the number of the run in the path. It refuses any other text with status 404.
func parseRunID(r *http.Request) (queue.RunID, error) {
	id, err := strconv.ParseInt(r.PathValue("run"), 10, 64)
	if err != nil || id < 1 {
		return 0, &refusal{status: http.StatusNotFound, message: "This run does not exist.", hint: "A run has a number: /runs/41. /runs/latest is the newest run."}
	}
	return queue.RunID(id), nil
}

func parseRunQuery(r *http.Request) (q runQuery, err error) {
	if q.ID, err = parseRunID(r); err != nil {
		return q, err
	}
	form := r.URL.Query()
	q.Kind, q.View = runKind, views[0]
	if v := form.Get("view"); slices.Contains(views, v) {
		q.View = v
	}
	if q.Task, err = parseTaskQuery(form, form.Get("step")); err != nil {
		return q, err
	}
	q.Idle, q.Zoom = form.Get("idle") == "1", form.Get("zoom")
	q.States, q.Only, q.Find, q.Before = form["state"], form.Get("only"), form.Get("find"), form.Get("before")
	if asked := form.Get("asked"); asked != "" {
		if q.Asked, err = strconv.ParseInt(asked, 10, 64); err != nil || q.Asked < 1 {
			return q, badQuery("asked", asked)
		}
	}
	if after := form.Get("after"); after != "" {
		q.After, err = parseTaskKey(after)
	}
	return q, err
}

// parseTaskKey parses a position in a list of tasks, STEP.ALT.ITEM with two numbers and the item's key. It refuses any other text.
func parseTaskKey(text string) (k queue.TaskKey, err error) {
	parts := strings.SplitN(text, ".", 3)
	if len(parts) == 3 {
		k.Item = parts[2]
		if k.Step, err = smallNumber(parts[0]); err == nil {
			k.Alt, err = smallNumber(parts[1])
		}
	}
	if len(parts) != 3 || err != nil {
		return k, badQuery("after", text)
	}
	return k, nil
}

// smallNumber parses a number from 0 to the highest that the database's integer holds.
func smallNumber(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err == nil && (n < 0 || n > math.MaxInt32) {
		err = strconv.ErrRange
	}
	return n, err
}

func taskKeyText(k queue.TaskKey) string {
	return strconv.Itoa(k.Step) + "." + strconv.Itoa(k.Alt) + "." + k.Item
}

// badQuery returns a refusal with status 400 for a wrong value in the query of an address.
func badQuery(name, value string) error {
	return &refusal{
		status: http.StatusBadRequest, message: "This address is wrong: " + name + "=" + runview.InlineText(value) + " has no meaning.", hint: "Leave out this part.",
	}
}

// readRun reads all that the page of a run shows. If the address names no task, it chooses one for the panel and sets p.Query.Task
// to it. It returns errSeenInPart if the login does not see the whole run, or if there is no such run.
func (s *server) readRun(ctx context.Context, q runQuery) (*runPage, error) {
	p, err := s.readSteps(ctx, q)
	if err != nil {
		return nil, err
	}
	head := p.Run
	if head.Usual > 0 {
		p.Usual = runview.Span(head.Usual)
	}
	p.Tabs = p.tabs()
	if p.Query.Task.Step == "" {
		p.Query.Task.Step, p.Query.Task.Item = p.choose()
	}
	if err := s.readView(ctx, p); err != nil {
		return nil, err
	}
	if p.Panel, err = s.readPanel(ctx, p); err != nil {
		return nil, err
	}
	if p.Wrong, err = s.wrong(ctx, p); err != nil {
		return nil, err
	}
	if p.Alike, err = s.readAlike(ctx, p); err != nil {
		return nil, err
	}
	if p.Asked, err = s.readAsked(ctx, q); err != nil {
		return nil, err
	}
	notable := p.notable()
	around := runview.Around{Current: head.Current, Admin: p.Rights.Admin}
	if head.State == "queued" && p.Rights.Read {
		if around.Obstacles, err = s.store.Obstacles(ctx, q.ID); err != nil {
			return nil, err
		}
	}
	if around.Obstacles.Deserted {
		why, err := s.store.MayBeCopy(ctx)
		if err != nil {
			return nil, err
		}
		around.IsCopy = why != ""
	}
	p.Next = runview.Next(&head.Run, notable, around)
	p.Facts = runview.Facts(runview.RunDetail{Run: &head.Run, Spec: p.spec(), Driver: runview.DriverOf(&head.Run, notable), Lost: lostDrivers(head.Drives)})
	return p, nil
}

// readSteps reads the data that every page about a run needs: the run, its steps in the order of the graph, and the DAG. It returns
// errSeenInPart if the login does not see the whole run, or if there is no such run.
func (s *server) readSteps(ctx context.Context, q runQuery) (*runPage, error) {
	head, err := s.store.RunHead(ctx, q.ID)
	if errors.Is(err, queue.ErrNotFound) {
		err = fmt.Errorf("%w: %w", errSeenInPart, err)
	}
	if err != nil {
		return nil, err
	}
	p := &runPage{Query: q, Now: time.Now(), Run: head, Rights: s.rights(ctx)}
	if p.steps, err = s.store.StepSummaries(ctx, q.ID); err != nil {
		return nil, err
	}
	if p.dag, err = s.definition(ctx, head.DAG, head.Version); err != nil {
		return nil, err
	}
	if p.dag != nil {
		runview.SortByGraph(p.steps, p.dag.Graph, func(s *queue.StepSummary) string { return s.Step })
	}
	p.places = make(map[string]int, len(p.steps))
	for i := range p.steps {
		p.places[p.steps[i].Step] = i
	}
	return p, nil
}

// readAsked reads the control that the address names. It returns nil without an error if the address names none, one that does not
// exist, or one of another run.
func (s *server) readAsked(ctx context.Context, q runQuery) (*queue.Control, error) {
	if q.Asked == 0 {
		return nil, nil //nolint:nilnil // the address names no control
	}
	c, err := s.store.ControlStatus(ctx, q.Asked)
	switch {
	case errors.Is(err, queue.ErrNotFound) || err == nil && c.Run != q.ID:
		return nil, nil //nolint:nilnil // there is no such control of this run
	case err != nil:
		return nil, err
	}
	return &c, nil
}

func lostDrivers(drives []queue.Drive) []runview.LostDriver {
	lost := make([]runview.LostDriver, len(drives))
	for i, d := range drives {
		lost[i] = runview.LostDriver{Worker: d.Worker, At: d.At}
	}
	return lost
}

// readView reads the content of the view that the address names, and sets the field of p for it. For the timeline of a run with up
// to smallGraph steps, it also sets p.Graph.
func (s *server) readView(ctx context.Context, p *runPage) (err error) {
	switch p.Query.View {
	case "graph":
		p.Graph = s.graphOf(p)
	case "tasks":
		p.Tasks, err = s.readTasks(ctx, p)
	case "events":
		p.Events, err = s.readEvents(ctx, p)
	case "params":
		p.Params, err = s.readParams(ctx, p)
	default:
		if len(p.steps) <= smallGraph {
			p.Graph = s.graphOf(p)
		}
		p.Timeline, err = s.readTimeline(ctx, p)
	}
	return err
}

// tabs returns a tab for each view of the run, and selects that of the present view. The tab of tasks has the number of tasks,
// items included.
func (p *runPage) tabs() []tab {
	titles := map[string]string{"timeline": "Timeline", "graph": "Graph", "tasks": "Tasks", "events": "Events", "params": "Params and outputs"}
	all := make([]tab, len(views))
	for i, v := range views {
		all[i] = tab{View: v, Title: titles[v], Selected: v == p.Query.View}
		if v == "tasks" {
			all[i].Count = p.taskCount()
		}
	}
	return all
}

// choose returns the task that the panel shows if the address names none: the first failed task, else the first that runs or is
// retried, else the first that waits or is paused, else the one that started last. It returns "" twice if no task has started.
func (p *runPage) choose() (step, item string) {
	var last *queue.StepSummary
	for _, wanted := range [][]string{{"failed"}, {"running", "finishing", "retrying"}, {"waiting", "paused"}} {
		for i := range p.steps {
			t := &p.steps[i]
			if t.Failed != "" && wanted[0] == "failed" {
				return t.Step, t.Failed
			}
			if slices.Contains(wanted, t.State) {
				return t.Step, ""
			}
			if !t.StartedAt.IsZero() && (last == nil || !t.StartedAt.Before(last.StartedAt)) {
				last = t
			}
		}
	}
	if last == nil {
		return "", ""
	}
	return last.Step, ""
}

// notable returns the tasks from which runview derives facts and next commands: one for each step, and the first failed item of
// each foreach step.
func (p *runPage) notable() []queue.Task {
	var all []queue.Task
	for i := range p.steps {
		all = append(all, p.steps[i].Task)
		if item := p.steps[i].Failed; item != "" {
			all = append(all, queue.Task{Step: p.steps[i].Step, Item: item, State: "failed", Attempt: 1})
		}
	}
	return all
}

// summary returns the step of that name; nil if the run has none.
func (p *runPage) summary(step string) *queue.StepSummary {
	if i, ok := p.places[step]; ok {
		return &p.steps[i]
	}
	return nil
}

// wrong returns the box about the first failed step, with the last lines that its task wrote and the names of other failed steps.
// It returns nil without an error if no step failed.
func (s *server) wrong(ctx context.Context, p *runPage) (*wrong, error) {
	var w *wrong
	for i := range p.steps {
		t := &p.steps[i]
		if t.State != "failed" && t.Failed == "" {
			continue
		}
		task := taskQuery{Step: t.Step, Item: t.Failed}
		switch {
		case w == nil:
			w = &wrong{Step: runview.TaskName(t.Step, t.Failed), Task: task, Reason: t.Reason, Tries: t.Attempt}
		case len(w.Others) < maxOthers:
			w.Others = append(w.Others, task)
		default:
			w.More++
		}
	}
	if w == nil {
		return nil, nil //nolint:nilnil // no step failed
	}
	var log *logView
	if p.Panel != nil && p.Panel.Task.Step == w.Task.Step && p.Panel.Task.Item == w.Task.Item {
		w.Reason, w.Tries = p.Panel.Reason, p.Panel.Attempts
		if p.Panel.Task.Attempt == 0 && p.Panel.Task.Log == (logQuery{}) {
			log = p.Panel.Log
		}
	}
	var err error
	w.Lines, err = s.lastWords(ctx, p, w.Task, log)
	return w, err
}

// failure identifies one failure of a task. A retry changes generation, attempt or retried.
type failure struct {
	run                          queue.RunID
	step, item                   string
	generation, attempt, retried int
}

// lastWords returns the last lines that a failed task wrote. log is the end of the task's log if the page has read it, else nil.
// Once no more lines can come, it keeps the lines in s.said, because other pages of the run show them, too.
func (s *server) lastWords(ctx context.Context, p *runPage, q taskQuery, log *logView) ([]logLine, error) {
	sum := p.summary(q.Step)
	key := failure{p.Query.ID, q.Step, q.Item, p.Run.Generation, sum.Attempt, sum.Retried}
	if lines, ok := s.said.get(key); ok {
		return lines, nil
	}
	if log == nil {
		var err error
		if log, err = s.readLog(ctx, p.Query.ID, q); errors.Is(err, queue.ErrNotFound) { // the task failed before it began
			log = &logView{Final: true}
		} else if err != nil {
			return nil, err
		}
	}
	lines := log.lastWords()
	if log.Final || p.Run.Over() && p.Now.Sub(p.Run.FinishedAt) > settled { // no line comes any more
		s.said.put(key, lines)
	}
	return lines, nil
}

func (q taskQuery) Name() string { return runview.TaskName(q.Step, q.Item) }
