package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/queue"
)

// A terminal shows one line for a run, however long its reason is; a pipe gets the whole reason.
func TestList_IsALineForEachRun(t *testing.T) {
	t.Parallel()
	runs := []queue.Run{
		{ID: 8, DAG: "etl", State: "failed", Reason: "step load failed: " + strings.Repeat("日本 ", 99), CreatedAt: at(0)},
		{ID: 7, DAG: "etl", State: "succeeded", CreatedAt: at(0)},
	}
	for _, columns := range []int{40, 80} {
		e := &env{Env: testEnv()}
		e.StdoutTTY, e.Columns = true, columns
		lines := strings.Split(strings.TrimSuffix(e.runsAnswer(runs, at(9)).text, "\n"), "\n")
		if len(lines) != 3 || !strings.Contains(lines[1], "…") || strings.Contains(lines[2], "…") && columns == 80 {
			t.Errorf("%d columns:\n%s", columns, strings.Join(lines, "\n"))
		}
		for _, line := range lines {
			if w := term.Width(line); w > columns {
				t.Errorf("%d columns in %d: %q", w, columns, line)
			}
		}
		e.StdoutTTY = false
		if text := e.runsAnswer(runs, at(9)).text; !strings.Contains(text, runs[0].Reason[:len(runs[0].Reason)-1]) {
			t.Errorf("a pipe gets %q", text)
		}
	}
}

func TestSay_ATimeWithoutAFormIsAnError(t *testing.T) {
	t.Parallel()
	at := time.Date(294276, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, format := range []string{"json", "jsonl"} {
		var printed strings.Builder
		e := &env{Env: Env{Stdout: &printed}}
		if err := e.sayAs(format, answer{object: []time.Time{at}, lines: []any{at}}); err == nil || printed.Len() > 0 {
			t.Errorf("%s: printed %q, error %v", format, printed.String(), err)
		}
	}
}
