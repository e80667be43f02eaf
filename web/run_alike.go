package web

import (
	"context"
	"fmt"

	"github.com/oarlock-dev/oarlock/queue"
)

// alike says of a run that failed how many of the newest runs of its DAG ended so, since when, and which succeeded last before it.
type alike struct {
	Count string      // The only one of the last 50 runs of this DAG that ended so
	First queue.RunID // the oldest of several; 0: it is the only one, or older ones than were looked at may have ended so
	Began int         // the version of the DAG that began with the oldest; 0: none did
	Diff  string      // path of what that version changed; "": none began, or the login may not read DAGs
	Good  queue.RunID // 0: none
}

// readAlike looks at the newest runs of the DAG of a run that failed.
func (s *server) readAlike(ctx context.Context, p *runPage) (*alike, error) {
	if p.Run.State != "failed" {
		return nil, nil //nolint:nilnil // there is nothing to be like
	}
	history, err := s.store.FailureHistory(ctx, p.Query.ID)
	if err != nil {
		return nil, err
	}
	whose := "runs of this DAG"
	if !p.Rights.Read {
		whose = "runs of this DAG that you asked for"
	}
	a := alikeOf(p.Query.ID, history, whose)
	if a.Began > 0 && p.dag != nil {
		a.Diff = diffPath(p.Run.DAG, history.VersionBefore, a.Began)
	}
	return a, nil
}

// alikeOf puts a history into words. The run itself is among those that were looked at unless it is older than they are.
func alikeOf(run queue.RunID, h *queue.FailureHistory, whose string) *alike {
	a := &alike{Good: h.LastGood}
	switch {
	case h.Ended == 0:
		return a
	case h.Alike == 0:
		a.Count = fmt.Sprintf("None of the last %d %s ended so", h.Ended, whose)
		return a
	case h.Ended == 1 && h.First == run:
		a.Count = "No other of the " + whose + " has ended"
	case h.Alike == 1 && h.First == run:
		a.Count = fmt.Sprintf("The only one of the last %d %s that ended so", h.Ended, whose)
	case h.Alike == h.Ended && h.Ended > 1:
		a.Count = fmt.Sprintf("All of the last %d %s ended so", h.Ended, whose)
	default:
		a.Count = fmt.Sprintf("%d of the last %d %s ended so", h.Alike, h.Ended, whose)
		a.First = h.First
	}
	if h.VersionBefore > 0 && h.VersionBefore < h.FirstVersion {
		a.Began = h.FirstVersion
	}
	return a
}

// CompareLink is the page that compares the run with the last that succeeded before it.
func (p *runPage) CompareLink() string { return runPath(p.Query.ID) + "/compare" }

// RunLink is the page of another run.
func (p *runPage) RunLink(id queue.RunID) string { return runPath(id) }
