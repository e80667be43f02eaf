package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestSpan_IsAsExactAsPeopleCare(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0ms": -time.Second, "40ms": 40*time.Millisecond + 999, "3.2s": 3290 * time.Millisecond, "41s": 41900 * time.Millisecond,
		"1m05s": 65 * time.Second, "2h07m": 2*time.Hour + 7*time.Minute + 59*time.Second, "3d04h": 76*time.Hour + time.Minute,
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

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

func TestPrintable_IsOneLineWithoutCommands(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a\tb\r\nc": "a b  c", "\x1b[2J": "\uFFFD[2J", "\xff": "\uFFFD", "\u202ex": "\uFFFDx", "\u009b1m": "\uFFFD1m", "übel ✓": "übel ✓",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func TestParamText_IsForPeople(t *testing.T) {
	t.Parallel()
	long := `"` + "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" + `"`
	for params, want := range map[string]string{
		`{"b": 1, "a": "x"}`:          "a=x b=1",
		`{"a": "two words"}`:          `a="two words"`,
		`{"a": ""}`:                   `a=""`,
		`{"a": {"k": [1, null]}}`:     `a={"k": [1, null]}`,
		`{"a": ` + long + `}`:         "a=" + long[1:paramWidth+1] + "…",
		`[1]`:                         "[1]",
		`{"a": true, "b": "a=\"b\""}`: `a=true b="a=\"b\""`,
	} {
		if got := paramText(json.RawMessage(params)); got != want {
			t.Errorf("%s is shown as %s, want %s", params, got, want)
		}
	}
}

func TestUpcoming_IsATimeOrFromNowOn(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for word, want := range map[string]time.Time{
		"": {}, "+10m": now.Add(10 * time.Minute), "+1d": now.Add(day), "2026-11-20T06:00:00+01:00": time.Date(2026, 11, 20, 5, 0, 0, 0, time.UTC),
		"now": now, "2026-11-20": time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC), "2026-11-20 06:07": time.Date(2026, 11, 20, 6, 7, 0, 0, time.UTC),
	} {
		if got, err := upcoming("--at", word, now, time.UTC); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v, want %v", word, got, err, want)
		}
	}
	for _, word := range []string{"10m", "+10", "+-1m", "tomorrow", "2026-11-20 6"} {
		if got, err := upcoming("--at", word, now, time.UTC); err == nil {
			t.Errorf("%q was taken for %v", word, got)
		}
	}
}

// A reason may be long: on a terminal a run stays a line, in a pipe nothing is lost.
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
