package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// lookEvery is how often the tasks of a run that is watched are read when nothing is heard of it; of a run whose tasks
// take long to read, less often: lookShare times as long.
const (
	lookEvery = 500 * time.Millisecond
	lookShare = 10
)

// awaitRun follows a run to its end, shows it, and fails as it did. 0 waits for ever.
func (e *env) awaitRun(ctx context.Context, store *queue.Store, id queue.RunID, timeout time.Duration) error {
	waiting, stop := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		waiting, stop = context.WithTimeout(ctx, timeout)
	}
	defer stop()
	w := e.newWatcher(store, id)
	followed := w.follow(waiting)
	if followed != nil && (ctx.Err() != nil || waiting.Err() == nil) {
		return followed // a signal, or what cannot be waited out
	}
	page, err := e.readPage(ctx, store, id, w.last)
	if err != nil {
		return err
	}
	if err := w.finish(page); err != nil {
		return err
	}
	if !page.run.Over() {
		return &failure{
			kind: timedOut, err: fmt.Errorf("run %d is still %s after %s", id, page.run.State, dagspec.Duration(timeout.Milliseconds())),
			hint: fmt.Sprintf("it goes on: `oarlock status %d -w`", id),
		}
	}
	return ended(page.run)
}

// watcher shows a run while it goes on: as a page that is drawn again on a terminal, else as a line for each change.
type watcher struct {
	env   *env
	store *queue.Store
	id    queue.RunID
	show  func(*runPage) error // nil: only the end is of interest

	last  *runPage          // read
	drawn int               // lines of the page on the terminal
	seen  map[string]string // what was said of the run and its tasks
}

func (e *env) newWatcher(store *queue.Store, id queue.RunID) *watcher {
	w := &watcher{env: e, store: store, id: id, seen: map[string]string{}}
	switch format := e.settings.Text("output"); {
	case format == "table" && e.StdoutTTY:
		w.show = w.redraw
		e.notes = &notes{}
	case format == "table":
		w.show = w.tell
	case format == "jsonl":
		w.show = w.tellJSON
	}
	return w
}

// follow shows what there is until the run is over: whenever something is heard of it, and now and then, since a task may
// change without its run.
func (w *watcher) follow(ctx context.Context) error {
	if w.env.settings.Text("output") == "id" {
		if err := w.env.printLines([]string{decimal(int64(w.id))}); err != nil {
			return err
		}
	}
	changes, stop := w.changes(ctx)
	defer stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case c, ok := <-changes:
			if !ok {
				return ctx.Err()
			}
			if c.err != nil || c.run.Over() {
				return c.err
			}
		case <-tick.C:
		}
		began := time.Now()
		if err := w.look(ctx); err != nil {
			return err
		}
		tick.Reset(max(lookEvery, lookShare*time.Since(began)))
	}
}

type change struct {
	run *queue.Run
	err error
}

// changes are those of the run. The goroutine ends with stop.
func (w *watcher) changes(ctx context.Context) (_ <-chan change, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	changes := make(chan change)
	go func() {
		defer close(changes)
		for run, err := range w.store.Watch(ctx, w.id) {
			select {
			case changes <- change{run, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return changes, func() {
		cancel()
		for range changes { // until it is closed
		}
	}
}

// look shows the run as it is now. While the database is away there is nothing to show, and no reason to give up.
func (w *watcher) look(ctx context.Context) error {
	if w.show == nil {
		return nil
	}
	page, err := w.env.readPage(ctx, w.store, w.id, w.last)
	if err != nil {
		if diagnose(ctx, err).kind == unreachable && ctx.Err() == nil {
			return nil
		}
		return err
	}
	w.last = page
	if page.run.Over() {
		return nil // its end is shown by finish
	}
	page.watched = true
	return w.show(page)
}

// finish shows the end, in full.
func (w *watcher) finish(page *runPage) error {
	switch format := w.env.settings.Text("output"); {
	case format == "id":
		return nil // said at first
	case format == "table" && w.drawn > 0:
		return w.env.print(eraseLines(w.drawn) + w.env.notes.take() + page.String())
	case format == "table" && !w.env.StdoutTTY:
		if err := w.tell(page); err != nil {
			return err
		}
		return w.env.print("\n" + page.String())
	}
	return w.env.say(w.env.pageAnswer(page))
}

// redraw draws the page over the one before. A page that is larger than the terminal is cut: at the end all is shown.
func (w *watcher) redraw(page *runPage) error {
	lines := strings.Split(strings.TrimSuffix(page.String(), "\n"), "\n")
	rows := w.env.Rows
	if rows == 0 {
		rows = 24
	}
	if hidden := len(lines) - (rows - 1); hidden > 0 {
		lines = append(lines[:rows-2], page.dim(fmt.Sprintf("… %s more, shown at the end", count(hidden+1, "line"))))
	}
	if w.env.Columns > 0 {
		for i := range lines {
			lines[i] = cut(lines[i], w.env.Columns)
		}
	}
	text := eraseLines(w.drawn) + w.env.notes.take() + strings.Join(lines, "\n") + "\n"
	w.drawn = len(lines)
	return w.env.print(text)
}

// eraseLines moves up and clears what was drawn.
func eraseLines(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("\x1b[%dA\x1b[J", n)
}

// tellJSON prints the run where it is not as it was.
func (w *watcher) tellJSON(page *runPage) error {
	line := compactJSON(statusJSON(page.run, page.tasks))
	if w.seen[""] == line {
		return nil
	}
	w.seen[""] = line
	return w.env.print(line + "\n")
}

// tell says what changed since it was called last, a line each.
func (w *watcher) tell(page *runPage) error {
	var b strings.Builder
	line := func(key, state, text string) {
		if w.seen[key] != state {
			w.seen[key] = state
			fmt.Fprintf(&b, "%s  %s\n", page.now.Format(time.TimeOnly), text)
		}
	}
	run := page.run
	if !run.Over() {
		text := fmt.Sprintf("run %d %s", run.ID, run.State)
		if run.Reason != "" && !page.starting() {
			text += ": " + printable(run.Reason)
		}
		line("", run.State+run.Reason, text)
	}
	for i := range page.tasks {
		t := &page.tasks[i]
		if t.State == "pending" {
			continue
		}
		parts := []string{printable(taskArg(t)), t.State}
		if !t.FinishedAt.IsZero() && !t.StartedAt.IsZero() {
			parts = append(parts, "after "+page.taskTime(t))
		}
		if note := page.taskNote(t); note != "" {
			parts = append(parts, "("+note+")")
		}
		line(taskArg(t), fmt.Sprint(t.State, t.Attempt), strings.Join(parts, " "))
	}
	return w.env.print(b.String())
}

// notes are lines from beside that wait until whoever draws on the terminal has room for them.
type notes struct {
	mu    sync.Mutex
	lines []string
}

const maxNotes = 1000 // that wait; further ones are lost

func (n *notes) add(line string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.lines) < maxNotes {
		n.lines = append(n.lines, line)
	}
}

// take is what came since it was called last, as lines.
func (n *notes) take() string {
	if n == nil {
		return ""
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	text := ""
	for _, line := range n.lines {
		text += line + "\n"
	}
	n.lines = nil
	return text
}
