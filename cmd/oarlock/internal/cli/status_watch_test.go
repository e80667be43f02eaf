package cli

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/integration/kit/screen"
	"github.com/oarlock-dev/oarlock/queue"
)

// terminal is a screen that a test can resize while something is drawn on it.
type terminal struct {
	*screen.Screen

	columns, rows int
}

func (t *terminal) resize(columns, rows int) {
	t.Resize(columns, rows)
	t.columns, t.rows = columns, rows
}

// Write ends lines as a terminal's driver does.
func (t *terminal) Write(p []byte) (int, error) {
	return t.Screen.Write(bytes.ReplaceAll(p, []byte("\n"), []byte("\r\n")))
}

func TestWatch_DrawsOverWhatItDrew(t *testing.T) {
	t.Parallel()
	tty := &terminal{screen.New(80, 12), 80, 12}
	e := &env{Env: Env{Stdout: tty, StdoutTTY: true, Size: func() (int, int) { return tty.columns, tty.rows }}}
	mustPrint(t, e, "$ oarlock\n")
	w := &watcher{env: e, seen: map[string]string{}}
	pages := []*runPage{fanPage(), waitingPage(t), failedPage(), namedPage()}
	for i, size := range [][2]int{{80, 12}, {40, 24}, {41, 24}, {120, 30}, {60, 50}, {200, 50}, {33, 60}, {80, 60}} {
		tty.resize(size[0], size[1])
		for k := range pages {
			page := pages[(i+k)%len(pages)]
			if err := w.redraw(page); err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(tty.Screen.String(), "\n"), "\n")
			headline := strings.TrimSuffix(term.Cut(page.headline(), size[0]-1), "…")
			if at := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, headline) }); at < 0 || len(lines)-at != len(w.drawn) || len(w.drawn) >= size[1] {
				t.Fatalf("at %d x %d: %d lines drawn, the screen shows\n%s", size[0], size[1], len(w.drawn), tty.Screen)
			}
		}
		if heads := strings.Count("\n"+tty.Screen.String(), "\nrun "); heads != 1 {
			t.Fatalf("at %d x %d: %d headlines on\n%s", size[0], size[1], heads, tty.Screen)
		}
	}
	if first := tty.Lines()[0]; first != "$ oarlock" {
		t.Errorf("what stood above is now %q", first)
	}
}

func TestWatch_SumsUpWhatATerminalIsTooLowFor(t *testing.T) {
	t.Parallel()
	tty := &terminal{screen.New(60, 12), 60, 12}
	w := &watcher{env: &env{Env: Env{Stdout: tty, StdoutTTY: true, Columns: 60, Rows: 12}}, seen: map[string]string{}}
	if err := w.redraw(fanPage()); err != nil {
		t.Fatal(err)
	}
	if shown := tty.Screen.String(); !strings.Contains(shown, " more: ") {
		t.Errorf("nothing is summed up:\n%s", shown)
	}
}

func mustPrint(t *testing.T, e *env, text string) {
	t.Helper()
	if err := e.print(text); err != nil {
		t.Fatal(err)
	}
}

func TestWatch_TellsEachChangeOnce(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	e := &env{Env: Env{Stderr: &out}}
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
		"12:01:15  run 7 waiting: step confirm: waits for approval by lead", "12:01:15  confirm waiting (waits for approval by lead)",
		"            │ Ship it?", "            │ All 3 checks passed.", "            │ inputs: ticket (required), note", "            │ oarlock approve 7 confirm -i ticket=",
		"12:01:15  call retrying (attempt 2, exit 1, next at 12:01:30)", "12:01:15  call running (attempt 2, exit 1, next at 12:01:30)", "",
	}
	if got := out.String(); got != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

func TestWatch_SumsUpManyItems(t *testing.T) {
	t.Parallel()
	const items = 5000
	var out strings.Builder
	w := &watcher{env: &env{Env: Env{Stderr: &out}}, seen: map[string]string{}}
	page := &runPage{run: &queue.Run{ID: 7, State: "running"}}
	page.tasks = append(page.tasks, queue.Task{Step: "each", Kind: "foreach", State: "running", Items: items})
	if err := w.tell(page); err != nil { // no item has begun
		t.Fatal(err)
	}
	for i := range items {
		page.tasks = append(page.tasks, queue.Task{Step: "each", Item: strconv.Itoa(i), State: "pending"})
	}
	for i := range items {
		task := &page.tasks[i+1]
		task.State, task.FinishedAt = "succeeded", page.now.Add(1)
		if i%10 == 0 {
			task.State = "failed"
		}
		if err := w.tell(page); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) > 20 {
		t.Errorf("%d lines for %d items, the first are\n%s", len(lines), items, strings.Join(lines[:20], "\n"))
	}
	for _, want := range []string{"each: 0 of 5000 items ended", "each/10 failed", "each: 2500 of 5000 items ended, 250 failed", "each: 5000 of 5000 items ended, 500 failed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing says %q", want)
		}
	}
}
