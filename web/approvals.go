package web

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const approvalsShown = 100 // on the page; the oldest come first

// approvalsData is the content of the page of approvals.
type approvalsData struct {
	All     bool // the list includes approvals that only others may decide
	Rows    []approvalRow
	More    bool
	Command string
	Acts    bool // the login may decide approvals that have a Command
}

// approvalRow is an approval without a decision.
type approvalRow struct {
	*queue.Approval

	Task     string   // STEP or STEP/ITEM, as commands take it: resize/a.png
	Asks     []string // lines of the prompt
	Deciders string
	Left     string // time until the approval times out; "": it does not
	Command  string // the command that approves it; "": this login cannot decide
}

// approvals shows the approvals without a decision, up to approvalsShown, the oldest first. If the query has a value for mine,
// these are only approvals that the login may decide.
func (s *server) approvals(w http.ResponseWriter, r *http.Request) error {
	data, err := s.readApprovals(r.Context(), r.URL.Query().Get("mine") != "")
	if err != nil {
		return err
	}
	return s.render(w, r, "approvals.html", page{Title: "Approvals", Nav: "approvals", Data: data, Live: "/live" + s.here(r)})
}

// readApprovals reads the approvals without a decision, the oldest first: those that the login may decide if mine is set, else all
// that it may see. It reads up to approvalsShown, and sets More if there are more.
func (s *server) readApprovals(ctx context.Context, mine bool) (*approvalsData, error) {
	data := &approvalsData{All: !mine, Command: "oarlock approvals --all", Acts: s.rights(ctx).Approve}
	if mine {
		data.Command = "oarlock approvals"
	}
	waiting, err := s.store.Approvals(ctx, data.All, approvalsShown+1)
	if err != nil {
		return nil, err
	}
	data.More = len(waiting) > approvalsShown
	now := time.Now()
	for i := range waiting[:min(len(waiting), approvalsShown)] {
		data.Rows = append(data.Rows, approvalRowOf(&waiting[i], now))
	}
	return data, nil
}

func approvalRowOf(a *queue.Approval, now time.Time) approvalRow {
	row := approvalRow{Approval: a, Task: runview.TaskName(a.Step, a.Item), Deciders: runview.Deciders(a.Approvers, a.SubmittedBy)}
	if prompt := strings.TrimSpace(a.Prompt); prompt != "" {
		for line := range strings.SplitSeq(prompt, "\n") {
			row.Asks = append(row.Asks, runview.InlineText(line))
		}
	}
	if !a.Deadline.IsZero() {
		row.Left = runview.Span(a.Deadline.Sub(now))
	}
	if a.MayDecide {
		row.Command = runview.ApproveCommand(a.Run, row.Task, &a.Question)
	}
	return row
}
