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

// runQuery is what the address of a run's page asks for.
type runQuery struct {
	Kind pageKind
	ID   queue.RunID
	View string
	Task taskQuery // of the panel; no Step: the page chooses
	Idle bool      // the timeline draws stretches without anything as long as they were
	Zoom string    // a step: the timeline shows the time that it took

	Asked int64 // a control, of which the page says what became; 0: none

	States []string      // of the list of tasks
	Only   string        // step of the list of tasks
	Find   string        // in the names of items
	After  queue.TaskKey // the list begins behind it; zero: with the first
	Before string        // the events before this one
}

// runPage is what a run's page shows.
type runPage struct {
	Query runQuery
	Now   time.Time
	Run   *queue.RunHead
	Usual string // how long runs of the DAG usually take; "": not known
	Facts []runview.Fact
	Next  []runview.Command
	Wrong *wrong // nil: nothing is
	Alike *alike // nil: the run has not failed
	Tabs  []tab
	Panel *panel         // nil: no task has begun
	Asked *queue.Control // that the address names; nil: none of this run

	Rights queue.Rights

	Timeline *timeline
	Graph    *graphPicture
	Tasks    *taskList
	Events   *eventList
	Params   *paramTrees

	steps  []queue.StepSummary // in the order of the graph
	places map[string]int      // of steps, by name
	known  []queue.Task        // that the view has read
	dag    *queue.Definition   // nil: not to be read by this login
}

// tab is the way to another view.
type tab struct {
	View, Title string
	Count       int
	Selected    bool
}

// wrong is what the box on top of the page says of a run in which something failed.
type wrong struct {
	Step   string // with its item
	Task   taskQuery
	Reason string
	Tries  int
	Lines  []logLine // what the task wrote last
	Others []taskQuery
	More   int // steps that failed beside those
}

const settled = 10 * time.Second // after its end, a run has all its logs: a task that wrote nothing has no last piece

const maxOthers = 4 // failed steps that the box names beside the first

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

// title names the run.
func (p *runPage) title() string { return fmt.Sprintf("%s #%d", p.Run.DAG, p.Run.ID) }

// crumbs lead to a page of the run, or to one below it, whose own crumbs come last.
func (p *runPage) crumbs(below ...crumb) []crumb {
	all := []crumb{{"Runs", "/runs"}, {p.Run.DAG, p.dagLink()}, {strconv.FormatInt(int64(p.Run.ID), 10), ""}}
	if len(below) > 0 {
		all[2].Path = runPath(p.Run.ID)
	}
	return append(all, below...)
}

// latestRun leads to the newest run that the login may see.
func (s *server) latestRun(w http.ResponseWriter, r *http.Request) error {
	newest, err := s.store.List(r.Context(), queue.Filter{Limit: 1})
	if err != nil {
		return err
	}
	if len(newest.Runs) == 0 {
		return &refusal{status: http.StatusNotFound, message: "There is no run yet.", hint: "`oarlock enqueue DAG` asks for one."}
	}
	s.redirect(w, r, runPath(newest.Runs[0].ID))
	return nil
}

// liveOf is the stream of a page, by the page's own path: nothing changes any more once a run is over.
func liveOf(here string, over bool) string {
	if over {
		return ""
	}
	return "/live" + here
}

func parseRunID(r *http.Request) (queue.RunID, error) {
	id, err := strconv.ParseInt(r.PathValue("run"), 10, 64)
	if err != nil || id < 1 {
		return 0, &refusal{status: http.StatusNotFound, message: "There is no such run.", hint: "A run has a number: /runs/41. /runs/latest is the newest."}
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

// parseTaskKey reads a place in a list of tasks: STEP.ALT.ITEM.
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

// smallNumber reads a number from 0 that the database takes for an integer.
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

// badQuery is for an address that somebody wrote by hand.
func badQuery(name, value string) error {
	return &refusal{
		status: http.StatusBadRequest, message: "This address is wrong: " + name + "=" + runview.InlineText(value) + " has no meaning.", hint: "Leave it out.",
	}
}

// readRun reads what the page shows: the run, its steps, what the view wants, and the panel.
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

// readSteps reads what each page of a run begins with: the run, its steps in the order of the graph, and its DAG.
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

// readAsked reads the control that an address names: nil where the run has none of that number.
func (s *server) readAsked(ctx context.Context, q runQuery) (*queue.Control, error) {
	if q.Asked == 0 {
		return nil, nil //nolint:nilnil // nothing was asked
	}
	c, err := s.store.ControlStatus(ctx, q.Asked)
	switch {
	case errors.Is(err, queue.ErrNotFound) || err == nil && c.Run != q.ID:
		return nil, nil //nolint:nilnil // the address is made up
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

// tabs has how many tasks there are: of a foreach its items.
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

// choose is the task that the page opens with: the first that failed, else one that runs, else one that waits, else what ran last.
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

// notable are the tasks that hints and facts are about: each step's own, and of a foreach the first item that failed.
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

func (p *runPage) summary(step string) *queue.StepSummary {
	if i, ok := p.places[step]; ok {
		return &p.steps[i]
	}
	return nil
}

// wrong finds what failed first, and what that wrote last.
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
		return nil, nil //nolint:nilnil // nothing failed
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

// failure names how a task failed: a retry changes one of the numbers.
type failure struct {
	run                          queue.RunID
	step, item                   string
	generation, attempt, retried int
}

// lastWords are the last lines of a task that failed, of its log where the page has read that already. They are kept, since other
// pages of the run show them too.
func (s *server) lastWords(ctx context.Context, p *runPage, q taskQuery, log *logView) ([]logLine, error) {
	sum := p.summary(q.Step)
	key := failure{p.Query.ID, q.Step, q.Item, p.Run.Generation, sum.Attempt, sum.Retried}
	if lines, ok := s.said.get(key); ok {
		return lines, nil
	}
	if log == nil {
		var err error
		if log, err = s.readLog(ctx, p.Query.ID, q); errors.Is(err, queue.ErrNotFound) { // it failed before it began
			log = &logView{Final: true}
		} else if err != nil {
			return nil, err
		}
	}
	lines := log.lastWords()
	if log.Final || p.Run.Over() && p.Now.Sub(p.Run.FinishedAt) > settled { // nothing comes any more
		s.said.put(key, lines)
	}
	return lines, nil
}

func (q taskQuery) Name() string { return runview.TaskName(q.Step, q.Item) }
