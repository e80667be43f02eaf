package cli

import (
	"cmp"
	"fmt"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// runEnd returns the error with which the end of an awaited run ends the command; nil: the run succeeded.
func runEnd(run queue.RunID, state, reason string) *failure {
	k := runFailed
	switch state {
	case "failed":
	case "canceled":
		k = runCanceled
	default:
		return nil
	}
	return &failure{
		kind: k,
		err:  fmt.Errorf("run %d %s: %s", run, state, cmp.Or(runview.Printable(reason), "no reason given")),
		hint: fmt.Sprintf("`%s status %d` shows its tasks", program, run),
	}
}

// Exit statuses of commands that wait for a run.
var (
	lateNote        = exitNote{exitTimeout, "--wait: a run did not end in time; it goes on"}
	runFailedNote   = exitNote{exitRunFailed, "the run failed"}
	runCanceledNote = exitNote{exitRunCanceled, "the run was canceled"}
)
