package cli

import (
	"fmt"
	"strings"
	"testing"
)

// screen is a terminal that knows what redraw sends: up so many lines, clear to the end of the line or of all, text.
func screen(t *testing.T, sent string) []string {
	t.Helper()
	lines, row := []string{""}, 0
	for rest := sent; rest != ""; {
		var up int
		switch n, _ := fmt.Sscanf(rest, "\x1b[%dA\r", &up); {
		case n == 1 && strings.Index(rest, "A\r") < len("\x1b[9999"):
			if row -= up; row < 0 {
				t.Fatalf("%d lines up, of %d", up, row+up)
			}
			rest = rest[strings.Index(rest, "\r")+1:]
			lines[row] = "" // what follows is written over it, and clears what is longer
		case strings.HasPrefix(rest, "\x1b[K"):
			rest = rest[len("\x1b[K"):]
		case strings.HasPrefix(rest, "\x1b[J"):
			lines, rest = lines[:row+1], rest[len("\x1b[J"):]
		case rest[0] == '\n':
			if row++; row == len(lines) {
				lines = append(lines, "")
			}
			lines[row], rest = "", rest[1:]
		default:
			lines[row], rest = lines[row]+rest[:1], rest[1:]
		}
	}
	return lines[:row]
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
		if len(lines) != len(w.drawn) || len(lines) >= e.Rows {
			t.Errorf("%d lines on a terminal of %d, %d known", len(lines), e.Rows, len(w.drawn))
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
	if last := screen(t, out.String()); !strings.Contains(strings.Join(last, "\n"), " more: ") {
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
