package web

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const approvalsShown = 100 // on the page, the oldest

// approvalsData is what the page of approvals shows.
type approvalsData struct {
	All     bool // also those that others decide
	Rows    []approvalRow
	More    bool
	Command string
	Acts    bool // the login may decide those that have a command
}

// approvalRow is an approval that waits.
type approvalRow struct {
	*queue.Approval

	Task     string   // as commands take it: resize/a.png
	Asks     []string // lines of its prompt
	Deciders string
	Left     string // until it times out; "": it does not
	Command  string // that approves it; "": others decide
}

// approvals lists what waits for a decision, the oldest first: all that the login may see, those it may decide with their command.
func (s *server) approvals(w http.ResponseWriter, r *http.Request) error {
	data, err := s.readApprovals(r.Context(), r.URL.Query().Get("mine") != "")
	if err != nil {
		return err
	}
	return s.render(w, r, "approvals.html", page{Title: "Approvals", Nav: "approvals", Data: data, Live: "/live" + s.here(r)})
}

// readApprovals reads those that the login may decide, or all that it may see.
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
