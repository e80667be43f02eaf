package cli

import (
	"fmt"
	"strings"
	"testing"
)

// screen is a terminal that knows what redraw sends: up so many lines, clear from there, text.
func screen(t *testing.T, sent string) []string {
	t.Helper()
	var lines []string
	for part := range strings.SplitSeq(sent, "\x1b[J") {
		text, up, moved := part, 0, false
		if i := strings.LastIndex(part, "\x1b["); i >= 0 && strings.HasSuffix(part, "A") {
			if _, err := fmt.Sscanf(part[i:], "\x1b[%dA", &up); err == nil {
				text, moved = part[:i], true
			}
		}
		lines = append(lines, strings.Split(strings.TrimSuffix(text, "\n"), "\n")...)
		if moved {
			if up > len(lines) {
				t.Fatalf("%d lines up, of %d", up, len(lines))
			}
			lines = lines[:len(lines)-up]
		}
	}
	return lines
}

func TestWatch_DrawsOverWhatItDrew(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	e := &env{Env: Env{Stdout: &out, StdoutTTY: true, Columns: 40, Rows: 12}}
	w := &watcher{env: e, seen: map[string]string{}}
	for _, page := range []*runPage{fanPage(), waitingPage(t), fanPage()} {
		if err := w.redraw(page); err != nil {
			t.Fatal(err)
		}
		lines := screen(t, out.String())
		if len(lines) != w.drawn || len(lines) >= e.Rows {
			t.Errorf("%d lines on a terminal of %d, %d known", len(lines), e.Rows, w.drawn)
		}
		for _, line := range lines {
			if width(line) > e.Columns {
				t.Errorf("%d columns on a terminal of %d: %q", width(line), e.Columns, line)
			}
		}
		if want := page.headline(); !strings.HasPrefix(want, strings.TrimSuffix(lines[0], "…")) {
			t.Errorf("the page begins with %q, want %q", lines[0], want)
		}
	}
	if last := screen(t, out.String()); !strings.Contains(last[len(last)-1], "more, shown at the end") {
		t.Errorf("a cut page ends with %q", last[len(last)-1])
	}
}

func TestWatch_TellsEachChangeOnce(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	e := &env{Env: Env{Stdout: &out}}
	w := &watcher{env: e, seen: map[string]string{}}
	page := waitingPage(t)
	for range 3 {
		if err := w.tell(page); err != nil {
			t.Fatal(err)
		}
	}
	page.tasks[1].State = "running"
	if err := w.tell(page); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"12:01:15  run 7 waiting: step confirm: approval", "12:01:15  confirm waiting",
		"12:01:15  call retrying (attempt 2, exit 1, next at 12:01:30)", "12:01:15  call running (attempt 2, exit 1, next at 12:01:30)", "",
	}
	if got := out.String(); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}
