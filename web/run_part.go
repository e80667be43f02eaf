package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const partTasks = 300 // other tasks that the page lists, besides the approvals that the login decides or decided

// errSeenInPart is the error of a page that needs to see the whole run. There may be no such run, or the login may be an approver
// in it.
var errSeenInPart = errors.New("the run is not seen whole")

// runPart is the content of a run's page for an approver: how far the run is, and the outcomes of its approvals.
type runPart struct {
	Run   *queue.Run
	Asked string // outcome of the control in the address; "": the address names none of this run
	Tasks []partTask
	More  int  // number of tasks that are left out
	Acts  bool // the page offers to decide
}

// partTask is a task on that page. Only tasks of approvals that the login decides or decided have a question or a reason.
type partTask struct {
	*queue.Task

	Name  string
	Asks  []string // lines of the prompt, and the inputs
	Taken bool     // only others may decide it
}

// partOfRun shows a run to an approver that does not see the whole run.
func (s *server) partOfRun(w http.ResponseWriter, r *http.Request, q runQuery) error {
	p, err := s.readPart(r.Context(), q)
	if err != nil {
		return err
	}
	path := runPath(q.ID) + "/part"
	if q.Asked > 0 {
		path += fmt.Sprint("?asked=", q.Asked)
	}
	title := fmt.Sprintf("%s #%d %s", p.Run.DAG, p.Run.ID, p.Run.State)
	return s.render(w, r, "run_part.html", page{
		Title: title, Nav: "approvals", Data: p, Live: liveOf(path, p.Run.Over()), Crumbs: []crumb{{"Approvals", approvalsOfMine}, {fmt.Sprint(p.Run.ID), ""}},
	})
}

// livePart streams the page of partOfRun. It reads the page every listInterval, because the database sends the news of a run only
// to logins that see all of it.
func (s *server) livePart(w http.ResponseWriter, r *http.Request) error {
	q, err := parseRunQuery(r)
	if err != nil {
		return err
	}
	key := fmt.Sprint("part ", q.ID, " ", q.Asked)
	return s.stream(w, r, s.listSource(key, "run_part.html", []string{"run_part#all"}, func(ctx context.Context) (any, error) {
		return s.readPart(ctx, q)
	}))
}

func (s *server) readPart(ctx context.Context, q runQuery) (*runPart, error) {
	run, err := s.store.Get(ctx, q.ID)
	if err != nil {
		return nil, err
	}
	tasks, err := s.store.Tasks(ctx, q.ID)
	if err != nil {
		return nil, err
	}
	p := &runPart{Run: run, Acts: s.rights(ctx).Approve}
	c, err := s.readAsked(ctx, q)
	if err != nil {
		return nil, err
	}
	if c != nil {
		p.Asked = askedText(c, run)
	}
	for i := range tasks {
		t := &tasks[i]
		line := partTask{Task: t, Name: runview.TaskName(t.Step, t.Item)}
		if t.Approval != nil {
			line.Asks, line.Taken = runview.QuestionLines(t.Approval), !t.Approval.MayDecide
		} else if t.Reason == "" && len(p.Tasks) >= partTasks {
			p.More++
			continue
		}
		p.Tasks = append(p.Tasks, line)
	}
	return p, nil
}
