package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// panelTabs are the tabs of a panel.
var panelTabs = []string{"log", "outputs", "attempts", "definition"}

// taskQuery is the part of a page's address about one task.
type taskQuery struct {
	Step    string // as commands take it: load or load~1
	Item    string
	Attempt int  // 0: the latest
	Chosen  bool // the address names the task; false: the page chose it
	Tab     string
	Log     logQuery
}

func parseTaskQuery(form url.Values, step string) (q taskQuery, err error) {
	q.Step, q.Item, q.Tab, q.Chosen = step, form.Get("item"), panelTabs[0], step != ""
	if t := form.Get("tab"); slices.Contains(panelTabs, t) {
		q.Tab = t
	}
	if text := form.Get("attempt"); text != "" {
		if q.Attempt, err = strconv.Atoi(text); err != nil || q.Attempt < 1 {
			return q, badQuery("attempt", text)
		}
	}
	q.Log, err = parseLogQuery(form)
	return q, err
}

// panel is the part of a page about one task.
type panel struct {
	Run      queue.RunID
	Task     taskQuery
	Name     string
	State    string
	Reason   string
	Took     string
	Started  time.Time
	Running  bool
	Worker   string
	Attempt  int // attempt that the panel shows
	Attempts int // number of attempts of the task
	Numbers  []int
	Tabs     []string
	Waits    []string // the prompt of an approval, and its inputs if no form has fields for them
	Question *queue.Question
	Open     bool   // the task has not ended
	Repeats  bool   // the task went wrong, so that a run under way may repeat or mark it
	Anew     bool   // the task ended in another way, so that a run under way may repeat it together with the tasks behind it
	Approve  string // the command that approves it; "": it is no approval, or this login cannot decide it

	Log        *logView
	Outputs    *jsonNode
	Tries      []queue.Attempt
	Definition string
	Items      *taskList // of a foreach step, in place of a log
}

// Handler reports whether the task is a handler of the run. The page offers no retry for a handler, because a retry names steps
// only.
func (n *panel) Handler() bool { return isHandler(n.Task.Step) }

const maxNumbers = 12 // the panel has buttons for this many attempts, the newest

// readPanel reads the panel about the task in p.Query, with the content of its tab; nil without an error if p.Query names no task.
// It refuses a step that the run does not have. For a foreach step without an item, the panel has the list of items instead of a
// log.
func (s *server) readPanel(ctx context.Context, p *runPage) (*panel, error) {
	q := p.Query.Task
	if q.Step == "" {
		return nil, nil //nolint:nilnil // no task has begun, and the address names none
	}
	sum := p.summary(q.Step)
	if sum == nil {
		return nil, &refusal{status: http.StatusNotFound, message: "The run has no step " + runview.InlineText(q.Step) + ".", hint: "Look at the tasks of the run."}
	}
	n := &panel{Run: p.Query.ID, Task: q, Name: runview.TaskName(q.Step, q.Item), Tabs: panelTabs}
	task, err := s.readTask(ctx, p, n)
	if err != nil {
		return nil, err
	}
	n.fill(task, p)
	if sum.Kind == "foreach" && q.Item == "" {
		n.Tabs = []string{"log", "definition"}
		items, err := s.readItems(ctx, p, q.Step)
		n.Items = items
		if err != nil || q.Tab != "definition" {
			return n, err
		}
	}
	return n, s.readTab(ctx, p, n, task)
}

// readTask returns the task of the panel. It uses tasks that the page has read already, except for the tabs that need more
// than lists have, outputs and attempts. If it reads the task itself, it also sets n.Tries.
func (s *server) readTask(ctx context.Context, p *runPage, n *panel) (*queue.Task, error) {
	q := n.Task
	if q.Tab != "outputs" && q.Tab != "attempts" {
		if q.Item == "" {
			return &p.summary(q.Step).Task, nil
		}
		for i := range p.known {
			if p.known[i].Step == q.Step && p.known[i].Item == q.Item {
				return &p.known[i], nil
			}
		}
	}
	detail, err := s.store.TaskDetail(ctx, p.Query.ID, q.Step, q.Item)
	if err != nil {
		return nil, err
	}
	n.Tries = detail.Attempts
	return &detail.Task, nil
}

// fill copies the fields of a task into the panel. The panel shows the attempt that the address names, or else the task's latest.
func (n *panel) fill(t *queue.Task, p *runPage) {
	n.State, n.Worker, n.Attempts, n.Attempt = t.State, t.Worker, t.Attempt, t.Attempt
	n.Took, n.Started = runview.TaskTime(t, p.Now), t.StartedAt
	if t.Reason != "ran" {
		n.Reason = t.Reason
	}
	n.Running = t.FinishedAt.IsZero() && !t.StartedAt.IsZero()
	if n.Task.Attempt > 0 {
		n.Attempt = n.Task.Attempt
	}
	for i := max(1, t.Attempt-maxNumbers+1); i <= t.Attempt && t.Attempt > 1; i++ {
		n.Numbers = append(n.Numbers, i)
	}
	n.Open = t.FinishedAt.IsZero()
	n.Repeats = !n.Handler() && p.wentWrong(t)
	n.Anew = !n.Handler() && !n.Open && !n.Repeats
	if n.Question = t.Approval; t.Approval == nil {
		return
	}
	n.Waits = runview.QuestionLines(t.Approval)
	if t.Approval.MayDecide {
		n.Approve = runview.ApproveCommand(n.Run, n.Name, t.Approval)
		if p.Acts() {
			n.Waits = runview.PromptLines(t.Approval) // the form has a field for each input
		}
	}
}

// readTab reads the content of the panel's tab. The tab of attempts needs no read, since readTask has set n.Tries.
func (s *server) readTab(ctx context.Context, p *runPage, n *panel, t *queue.Task) (err error) {
	switch n.Task.Tab {
	case "outputs":
		n.Outputs, err = jsonTree(t.Outputs)
	case "attempts":
	case "definition":
		n.Definition = p.definitionOf(n.Task.Step)
	default:
		if t.Attempt > 0 {
			n.Log, err = s.readLog(ctx, p.Query.ID, n.Task)
		}
	}
	return err
}

// step shows one task on a page of its own, with the panel that the run's page has.
func (s *server) step(w http.ResponseWriter, r *http.Request) error {
	p, err := s.readStep(r, stepKind)
	if err != nil {
		return err
	}
	return s.render(w, r, "step.html", page{
		Title: p.Panel.Name + " " + p.Panel.State + " – " + p.title(), Nav: "runs", Data: p,
		Crumbs: p.crumbs(crumb{p.Panel.Name, ""}), Live: liveOf(s.here(r), p.Run.Over()),
	})
}

// readStep reads the run and the panel for a page about one task. The path names run and step; the query names item, attempt, tab
// and place in the log. For logKind, the panel shows the log with pageLines lines, whatever the tab.
func (s *server) readStep(r *http.Request, kind pageKind) (*runPage, error) {
	q, err := parseStepQuery(r, kind)
	if err != nil {
		return nil, err
	}
	return s.readStepPage(r.Context(), q)
}

// parseStepQuery parses the address of a page about one task: run and step in the path, the rest in the query. For logKind the tab
// is always the log.
func parseStepQuery(r *http.Request, kind pageKind) (q runQuery, err error) {
	q.Kind = kind
	if q.ID, err = parseRunID(r); err != nil {
		return q, err
	}
	q.Task, err = parseTaskQuery(r.URL.Query(), r.PathValue("step"))
	if kind == logKind {
		q.Task.Tab, q.Task.Log.Whole = panelTabs[0], true
	}
	return q, err
}

// readStepPage reads the run, its steps, and the panel about the task in q.
func (s *server) readStepPage(ctx context.Context, q runQuery) (*runPage, error) {
	p, err := s.readSteps(ctx, q)
	if err == nil {
		p.Panel, err = s.readPanel(ctx, p)
	}
	return p, err
}
