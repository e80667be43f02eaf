package web

import (
	"context"
	"fmt"

	"github.com/oarlock-dev/oarlock/queue"
)

// alike compares a failed run with the newest runs of its DAG: how many failed alike, since when, and the last success before.
type alike struct {
	Count string      // a sentence: The only one of the last 50 runs of this DAG that ended so
	First queue.RunID // the oldest alike run; 0: there is no other, or runs older than those that were examined may be alike, too
	Began int         // version of the DAG that was new in the oldest alike run; 0: none was
	Diff  string      // path of the diff to Began from the version that ran before; "": none, or the login cannot read DAGs
	Good  queue.RunID // last run before that succeeded; 0: none
}

// readAlike compares a failed run with the newest ended runs of its DAG. It returns nil without an error if the run has not failed.
func (s *server) readAlike(ctx context.Context, p *runPage) (*alike, error) {
	if p.Run.State != "failed" {
		return nil, nil //nolint:nilnil // the run has not failed
	}
	history, err := s.store.FailureHistory(ctx, p.Query.ID)
	if err != nil {
		return nil, err
	}
	examined := "runs of this DAG"
	if !p.Rights.Read {
		examined = "runs of this DAG that you asked for"
	}
	a := alikeOf(p.Query.ID, history, examined)
	if a.Began > 0 && p.dag != nil {
		a.Diff = diffPath(p.Run.DAG, history.VersionBefore, a.Began)
	}
	return a, nil
}

// alikeOf puts the history of a run into words, without Diff, which the caller sets. examined names these runs in a sentence,
// as in "runs of this DAG". The examined runs are the newest ones that ended; they include run, unless all of them are newer.
func alikeOf(run queue.RunID, h *queue.FailureHistory, examined string) *alike {
	a := &alike{Good: h.LastGood}
	switch {
	case h.Ended == 0:
		return a
	case h.Alike == 0:
		a.Count = fmt.Sprintf("None of the last %d %s ended in this way", h.Ended, examined)
		return a
	case h.Ended == 1 && h.First == run:
		a.Count = "No other of the " + examined + " has ended"
	case h.Alike == 1 && h.First == run:
		a.Count = fmt.Sprintf("The only one of the last %d %s that ended in this way", h.Ended, examined)
	case h.Alike == h.Ended && h.Ended > 1:
		a.Count = fmt.Sprintf("All of the last %d %s ended in this way", h.Ended, examined)
	default:
		a.Count = fmt.Sprintf("%d of the last %d %s ended in this way", h.Alike, h.Ended, examined)
		a.First = h.First
	}
	if h.VersionBefore > 0 && h.VersionBefore < h.FirstVersion {
		a.Began = h.FirstVersion
	}
	return a
}

// CompareLink links to the comparison with the last run before that succeeded.
func (p *runPage) CompareLink() string { return runPath(p.Query.ID) + "/compare" }

// RunLink links to another run.
func (p *runPage) RunLink(id queue.RunID) string { return runPath(id) }
