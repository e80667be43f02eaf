package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// lookEvery is how often the tasks of a followed run are read when no notification about it comes. If reading takes long,
// they are read less often: the pause is then lookShare times the time of a read.
const (
	lookEvery = 500 * time.Millisecond
	lookShare = 10

	frameEvery = 250 * time.Millisecond // pause between two drawings of a page on which only durations changed

	slowLook   = time.Second      // a look that takes longer may have waited for the end of an outage
	signsAfter = 10 * time.Second // a worker that is there gives a sign of life within this time after the database is back
)

// awaitRun follows a run to its end, or until how.timeout, and shows it. It returns an error unless the run succeeded.
func (e *env) awaitRun(ctx context.Context, store *queue.Store, id queue.RunID, how waiting) error {
	bounded, stop := how.bounded(ctx)
	defer stop()
	w := e.newWatcher(store, id, how.progress)
	if e.settings.Text("output") == "jsonl" {
		w.show = append(w.show, w.tellJSON)
	}
	return w.await(ctx, bounded, how)
}

// await shows the run until it is over, or until bounded ends, and returns an error unless the run succeeded. bounded is ctx with
// the timeout of the wait.
func (w *watcher) await(ctx, bounded context.Context, how waiting) error {
	if w.env.settings.Text("output") == "id" {
		if err := w.env.printLines([]string{decimal(int64(w.id))}); err != nil {
			return err
		}
	}
	followed := w.follow(bounded)
	if followed != nil && (ctx.Err() != nil || bounded.Err() == nil) {
		return followed // a signal, or an error that waiting does not cure
	}
	w.lines.settle()
	page, err := w.env.readPage(ctx, w.store, w.id, w.last)
	if err != nil {
		return how.lateAway(ctx, bounded, w.id, err)
	}
	page.all = how.all
	if err := w.finish(page); err != nil {
		return err
	}
	if !page.run.Over() {
		return how.late(page.run)
	}
	return w.env.ended(page.run)
}

// watcher shows a run while it goes on: as a page that is drawn again on a terminal, else as a line for each change.
type watcher struct {
	env      *env
	store    *queue.Store
	id       queue.RunID
	progress progress
	brief    bool                   // nothing is shown about tasks
	show     []func(*runPage) error // called for each look; empty: only the end counts

	last  *runPage          // the page that was shown last
	away  time.Time         // the last moment at which the database may have been away; zero: it was not
	slow  bool              // the last look took longer than slowLook
	lines *liveLines        // output of tasks; nil: not collected
	drawn []int             // widths of the lines on the terminal
	seen  map[string]string // the last state that was printed of the run and of each task
}

func (e *env) newWatcher(store *queue.Store, id queue.RunID, how progress) *watcher {
	w := &watcher{env: e, store: store, id: id, progress: how, seen: map[string]string{}, lines: e.lines}
	switch how {
	case progressLive:
		w.show = append(w.show, w.redraw)
	case progressPlain:
		w.show = append(w.show, w.tell)
	case progressNone:
	}
	return w
}

// follow looks at the run until it is over: at each notification about it, and at intervals, since a task may change without a
// notification about the run. It returns nil once the run is over, and an error if ctx ends first.
func (w *watcher) follow(ctx context.Context) error {
	changes, stop := w.changes(ctx)
	defer stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	frame := time.NewTicker(frameEvery)
	defer frame.Stop()
	for {
		select {
		case <-w.lines.news():
			if err := w.refresh(); err != nil {
				return err
			}
			continue
		case <-frame.C:
			if err := w.refresh(); err != nil {
				return err
			}
			continue
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

// changes returns a channel of the run's changes, which is closed after the last one. The caller must call stop, which ends the
// goroutine that sends them and waits for it.
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
		for range changes { // until the goroutine closes it
		}
	}
}

// look reads the run and shows its current state, or does nothing if nothing is to be shown. While the database is away it shows
// nothing and returns no error. The last signs of life of all workers are old right after an outage, so for signsAfter look leaves
// out that the worker is quiet.
func (w *watcher) look(ctx context.Context) error {
	if len(w.show) == 0 {
		return nil
	}
	began := time.Now()
	page, err := w.env.readPage(ctx, w.store, w.id, w.last)
	unread := err != nil && diagnose(ctx, err).kind == unreachable && ctx.Err() == nil
	w.looked(time.Now(), time.Since(began), unread)
	switch {
	case unread:
		return nil
	case err != nil:
		return err
	case !w.mayBlame(page.run, time.Now()):
		run := *page.run
		run.Quiet, run.Reason = false, ""
		page.run = &run
	}
	return w.showPage(page)
}

// looked sets w.away if the database may have been away during a look that is over now: the look could not read, or it was slow
// after a look that was not. took is how long the look lasted. looked also sets w.slow for the next look.
func (w *watcher) looked(now time.Time, took time.Duration, unread bool) {
	slow := took > slowLook
	if unread || slow && !w.slow {
		w.away = now
	}
	w.slow = slow
}

// mayBlame reports whether the page may say that the worker of a run is quiet: it is not quiet, or it has had signsAfter for a sign
// of life since the database is back.
func (w *watcher) mayBlame(run *queue.Run, now time.Time) bool {
	return !run.Quiet || now.Sub(w.away) > signsAfter
}

func (w *watcher) showPage(page *runPage) error {
	w.last = page
	if page.run.Over() {
		return nil // finish shows the end
	}
	page.watched = true
	for _, show := range w.show {
		if err := show(page); err != nil {
			return err
		}
	}
	return nil
}

// finish shows the end of the run, in full, in the format of --output. With -o id it prints nothing, because the id was
// printed at the start.
func (w *watcher) finish(page *runPage) error {
	switch format := w.env.settings.Text("output"); {
	case format == "id":
		return nil // the id was printed at the start
	case w.progress == progressLive:
		return w.env.print(w.over(w.lines.take() + page.String()))
	case w.progress == progressPlain:
		if err := w.tell(page); err != nil {
			return err
		}
	}
	return w.env.say(w.env.pageAnswer(page))
}

// tellJSON prints the run as a line of JSON. It prints nothing if the line equals the line that it printed last.
func (w *watcher) tellJSON(page *runPage) error {
	line, err := runview.EncodeJSON(runview.NewStatusJSON(page.run, page.tasks, page.counted))
	if err != nil {
		return err
	}
	if w.seen[""] == line {
		return nil
	}
	w.seen[""] = line
	return w.env.print(line + "\n")
}

// Bounds for a step with more items than a page shows: lines about its progress, and failed items that are named.
const (
	toldParts = 10
	toldItems = 3
)

// tell writes to standard error one line for each change of the run and its tasks since the last call. A step with many items gets
// a line for each tenth of them.
func (w *watcher) tell(page *runPage) error {
	plain := *page
	plain.painter = painter{}
	t := progressPrinter{watcher: w, page: &plain}
	run := page.run
	if !run.Over() {
		text := fmt.Sprintf("run %d %s", run.ID, run.State)
		if reason := page.reason(); reason != "" && !page.starting() {
			text += ": " + runview.Printable(reason)
		}
		t.line("", text, text)
	}
	for i := 0; i < len(page.tasks) && !w.brief; {
		node := &page.tasks[i]
		t.task(node)
		i++
		items := page.tasks[i : i+page.itemsFrom(i)]
		if progress := runview.CountItems(node, items); progress.Total > maxItemsShown {
			t.items(node, items, progress)
			i += len(items)
		}
	}
	if _, err := fmt.Fprint(w.env.Stderr, t.text.String()); err != nil {
		return fmt.Errorf("write to standard error: %w", err)
	}
	return nil
}

// progressPrinter collects the lines of one call of tell.
type progressPrinter struct {
	*watcher

	page *runPage
	text strings.Builder
}

// line adds a text with the time to t.text, unless the last text with this key was about the same state.
func (t *progressPrinter) line(key, state, text string) {
	if t.seen[key] != state {
		t.seen[key] = state
		fmt.Fprintf(&t.text, "%s  %s\n", t.page.now.Format(time.TimeOnly), text)
	}
}

func (t *progressPrinter) task(task *queue.Task) {
	if task.State == "pending" {
		return
	}
	parts := []string{runview.Printable(runview.TaskName(task.Step, task.Item)), task.State}
	if !task.FinishedAt.IsZero() && !task.StartedAt.IsZero() {
		parts = append(parts, "after "+runview.TaskTime(task, t.page.now))
	}
	if note := t.page.taskNote(task); note != "" {
		parts = append(parts, "("+note+")")
	}
	t.line(runview.TaskName(task.Step, task.Item), fmt.Sprint(task.State, task.Attempt), strings.Join(append([]string{strings.Join(parts, " ")}, t.page.toDecide(task)...), "\n"))
}

// items adds a line about the progress of a step with many items, and a line for each of the first items that failed.
func (t *progressPrinter) items(node *queue.Task, items []queue.Task, progress runview.ItemProgress) {
	failed := 0
	for i := range items {
		if task := &items[i]; task.State == "failed" {
			if failed++; failed <= toldItems {
				t.task(task)
			}
		}
	}
	text := fmt.Sprintf("%s: %d of %s ended", runview.Printable(node.Step), progress.Ended, runview.Count(progress.Total, "item"))
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	t.line(node.Step+"/", fmt.Sprint(progress.Ended*toldParts/progress.Total, failed > toldItems), text)
}

// toDecide returns the lines that show the question of an approval, and the command that approves it if the user is allowed to
// decide. It returns nil for a task that waits for no approval.
func (p *runPage) toDecide(t *queue.Task) []string {
	if t.Approval == nil {
		return nil
	}
	const mark = "            │ " // indented to stand below the text about the task
	var lines []string
	for _, line := range runview.QuestionLines(t.Approval) {
		lines = append(lines, mark+line)
	}
	if t.Approval.MayDecide {
		lines = append(lines, mark+runview.ApproveCommand(p.run.ID, runview.TaskName(t.Step, t.Item), t.Approval))
	}
	return lines
}

const (
	usualRows = 24 // of a terminal of unknown height
	leastRows = 3  // tasks that are shown on the lowest terminal
)

// refresh draws the last page again, because durations and lines of tasks change. It does nothing before the first page, or if no
// page is drawn.
func (w *watcher) refresh() error {
	if w.last == nil || w.progress != progressLive {
		return nil
	}
	page := *w.last
	page.now, page.watched = time.Now(), true
	return w.redraw(&page)
}

// redraw draws the page over the one before, and adds the widths of its lines to w.drawn. It sums up the tasks that do not fit on
// the terminal; the page at the end shows all.
func (w *watcher) redraw(page *runPage) error {
	columns, rows := w.env.window()
	page.latest, page.live, page.columns = w.lines.of, true, w.env.pageColumns()
	lines := splitLines(page.String())
	if excess := len(lines) - (rows - 1); excess > 0 {
		page.rows = max(len(splitLines(page.taskLines()))-excess, leastRows)
		lines = splitLines(page.String())
	}
	if hidden := len(lines) - (rows - 1); hidden > 0 {
		lines = append(lines[:max(rows-2, 1)], page.Dim(fmt.Sprintf("… %s more, shown at the end", runview.Count(hidden+1, "line"))))
	}
	if columns > 0 {
		for i := range lines {
			lines[i] = term.Cut(lines[i], columns-1)
		}
	}
	text := w.over(w.lines.take() + strings.Join(lines, "\n") + "\n")
	for _, line := range lines {
		w.drawn = append(w.drawn, term.Width(line))
	}
	return w.env.print(text)
}

// over returns text with the control codes that draw it over the page before, and clears w.drawn. The cursor goes up and each
// line is overwritten, so nothing flickers. If the terminal became narrower and folded a line, the line counts as several.
func (w *watcher) over(text string) string {
	if len(w.drawn) == 0 {
		return text
	}
	columns, _ := w.env.window()
	up := len(w.drawn)
	for _, n := range w.drawn {
		if columns > 0 && n > columns {
			up += (n - 1) / columns
		}
	}
	w.drawn = nil
	return fmt.Sprintf("\x1b[%dA\r", up) + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
}

func splitLines(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") }

// pageColumns returns how many columns a page may fill; 0: no limit, because standard output is no terminal or its width is
// unknown. It leaves out the last column: on a full line the code that clears the rest would clear the last character.
func (e *env) pageColumns() int {
	if !e.StdoutTTY {
		return 0
	}
	columns, _ := e.window()
	return max(columns-1, 0)
}

// window returns the current size of the terminal. An unknown number of columns is 0, an unknown number of rows is usualRows.
func (e *env) window() (columns, rows int) {
	columns, rows = e.Columns, e.Rows
	if e.Size != nil {
		columns, rows = e.Size()
	}
	if rows == 0 {
		rows = usualRows
	}
	return columns, rows
}
