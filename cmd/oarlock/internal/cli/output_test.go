package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestCut_LeavesColumnsAndEndsColours(t *testing.T) {
	t.Parallel()
	red := painter(true)
	for _, c := range []struct {
		line, want string
		columns    int
	}{
		{"abc", "abc", 3},
		{"abcd", "ab…", 3},
		{"übel!", "üb…", 3},
		{red.warn("abcd"), "\x1b[33mab\x1b[0m…", 3},
		{red.warn("abc"), red.warn("abc"), 3},
		{red.warn("a") + red.dim("bcd"), "\x1b[33ma\x1b[0m\x1b[2mb\x1b[0m…", 3},
	} {
		if got := cut(c.line, c.columns); got != c.want {
			t.Errorf("%q in %d columns is %q, want %q", c.line, c.columns, got, c.want)
		}
	}
}

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
			if w := width(line); w > columns {
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
