package cli

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker/guard"
)

func TestSayGuard_SaysSentencesWithFields(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	e := &env{log: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: readableDuration}))}
	e.sayGuard("w3", guard.Event{Kind: guard.Waiting, PID: 7})
	e.sayGuard("w3", guard.Event{Kind: guard.Ended, PID: 7, Code: 9, Took: 1033 * time.Millisecond})
	for _, want := range []string{
		`"msg":"guard: another worker named w3 runs here with this state folder: waiting for its end; --name gives this one another","pid":7}`,
		`"msg":"guard: the process of worker w3 ended","pid":7,"code":9,"took":"1.033s"}`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in\n%s", want, out.String())
		}
	}
}

func TestStatus_NamesTheLogsOfFailedItems(t *testing.T) {
	t.Parallel()
	page := &runPage{run: &queue.Run{ID: 7, State: "failed"}, tasks: []queue.Task{
		{Step: "each", Kind: "foreach", State: "failed"},
		{Step: "each", Item: "n25", Kind: "foreach", State: "failed", Attempt: 1},
	}}
	if next := page.next(); len(next) == 0 || next[0] != "oarlock logs 7 each/n25" {
		t.Errorf("next are %q", next)
	}
}
