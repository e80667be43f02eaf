package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const partTasks = 300 // that the page lists, besides those that the login has or had a say in

// errSeenInPart is the error of a page that is for those who see a run whole. There may be no such run, or the login may be an approver in it.
var errSeenInPart = errors.New("the run is not seen whole")

// runPart is what a run's page shows to an approver: how far the run is, and what became of the approvals.
type runPart struct {
	Run   *queue.Run
	Asked string // what became of the control that the address names; "": it names none of this run
	Tasks []partTask
	More  int  // tasks that are left out
	Acts  bool // the page offers to decide
}

// partTask is a line of that page. Only of an approval that the login has or had a say in there are the questions, or a reason.
type partTask struct {
	*queue.Task

	Name  string
	Asks  []string // lines of its prompt, and its inputs
	Taken bool     // others decide it
}

// partOfRun answers with a run as an approver sees it.
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

// livePart streams that page. Nobody who sees a run in part is told of its changes, so it is read now and then.
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
