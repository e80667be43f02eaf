package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	topInterval     = "2s"
	minInterval     = 200 * time.Millisecond
	topRunsMax      = 50  // running runs that are read
	topFailuresMax  = 50  // newest failed runs that are read
	topApprovalsMax = 100 // approvals that are counted
	failingWindow   = time.Hour
)

func newTopCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "top",
		Usage: "watch queues, workers and the runs under way",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "interval", Usage: "read the database again after this `DURATION`", Value: topInterval},
		},
		Description: manual{
			about: fmt.Sprintf(`On a terminal the command draws one screen, anew until Ctrl-C. Elsewhere, and with -o json or jsonl, the command prints
once. Rates are of the last minute. The list has the newest %d of the runs under way. A DAG is shown as failing if one
of the newest %d failed runs is a run of the DAG and ended within the last hour. Counts of queued runs are
bounded, so a look costs the same however many runs wait.
The head counts the slots of workers that give signs of life, the tasks that wait for a slot, the runs that workers
hold, and the due runs that no worker has taken. STATE of a queue says why its waiting runs do not start: the queue is
paused, no worker serves it, or it has reached its limit of runs under way. WAITING counts the tasks of a worker that
wait for a slot, TASKS the tasks of a run that have ended. While the database is away, the last screen stays. For
readers (role oarlock_read).`, topRunsMax, topFailuresMax),
			examples: []string{"oarlock top", "oarlock top --interval 500ms", "oarlock top -o json | jq .slots"},
			exits: []exitNote{
				{exitOK, "the counts were shown; or Ctrl-C ended the screen"},
				deniedNote, usageNote, unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error { return runTop(c.Context, e, c.String("interval")) },
	}
}

// jsonTop is one look, as JSON.
type jsonTop struct {
	At        *time.Time           `json:"at"`
	Slots     int                  `json:"slots"`   // slots of live workers that give signs of life
	Busy      int                  `json:"busy"`    // how many of these slots are busy
	Waiting   int                  `json:"waiting"` // tasks that wait for a slot
	Ended     float64              `json:"ended_per_second"`
	Failed    float64              `json:"failed_per_second"`
	Approvals int                  `json:"approvals"` // approvals that wait for a decision; topApprovalsMax: as many or more
	Failing   []jsonFailing        `json:"failing"`   // DAGs with failures within the last hour, the most first
	Queues    []runview.QueueJSON  `json:"queues"`
	Workers   []runview.WorkerJSON `json:"workers"`
	Runs      []runview.RunJSON    `json:"runs"` // running
}

// jsonFailing is a DAG with failed runs in the last hour.
type jsonFailing struct {
	DAG    string `json:"dag"`
	Failed int    `json:"failed"` // counted among the newest failed runs
}

// topView is one look, for people.
type topView struct {
	painter

	at        time.Time
	seen      queue.Glimpse
	approvals int // approvals that wait for a decision, at most topApprovalsMax
	failing   []jsonFailing
	runs      []queue.Run // running, newest first
	more      bool        // there are more running runs than runs has
	isCopy    bool        // no worker claims here; checked only if runs wait and no worker gives signs of life
	lost      error       // why the last look failed; the view is older then
}

func runTop(ctx context.Context, e *env, word string) error {
	interval, err := duration("--interval", word)
	if err == nil && interval < minInterval {
		err = &usageError{msg: fmt.Sprintf("--interval is %s or more, not %s", minInterval, word)}
	}
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		view, err := e.look(ctx, store)
		if err != nil {
			return err
		}
		if e.settings.Text("output") == "table" && e.StdoutTTY {
			return e.topLive(ctx, store, view, interval)
		}
		return e.say(view.answer(e.Columns))
	})
}

func (e *env) look(ctx context.Context, store *queue.Store) (*topView, error) {
	v := &topView{painter: e.stdoutPaint(), at: time.Now()}
	var err error
	if v.seen, err = store.Glimpse(ctx); err != nil {
		return nil, err
	}
	page, err := store.List(ctx, queue.Filter{States: []string{"running"}, Limit: topRunsMax})
	if err != nil {
		return nil, err
	}
	v.runs, v.more = page.Runs, page.Next != 0
	approvals, err := store.Approvals(ctx, true, topApprovalsMax)
	if err != nil {
		return nil, err
	}
	v.approvals = len(approvals)
	failed, err := store.List(ctx, queue.Filter{States: []string{"failed"}, Limit: topFailuresMax})
	if err != nil {
		return nil, err
	}
	v.failing = failingDAGs(failed.Runs, v.at.Add(-failingWindow))
	if v.mayBeCopy() {
		why, err := store.MayBeCopy(ctx)
		if err != nil {
			return nil, err
		}
		v.isCopy = why != ""
	}
	return v, store.CountSteps(ctx, v.runs)
}

// mayBeCopy reports whether look has to ask if the database is a copy: runs wait, and no worker gives signs of life.
func (v *topView) mayBeCopy() bool {
	return slices.ContainsFunc(v.seen.Queues, func(q queue.Queue) bool { return q.Queued > 0 }) &&
		!slices.ContainsFunc(v.seen.Workers, func(w queue.WorkerInfo) bool { return runview.GivesSigns(&w) })
}

// failingDAGs counts for each DAG the failed runs that ended after a moment. It lists the DAG with the most failures first, and
// DAGs with equal counts by name.
func failingDAGs(failed []queue.Run, after time.Time) []jsonFailing {
	counts := map[string]int{}
	for i := range failed {
		if r := &failed[i]; r.FinishedAt.After(after) {
			counts[r.DAG]++
		}
	}
	failing := []jsonFailing{}
	for _, dag := range slices.Sorted(maps.Keys(counts)) {
		failing = append(failing, jsonFailing{dag, counts[dag]})
	}
	slices.SortStableFunc(failing, func(a, b jsonFailing) int { return cmp.Compare(b.Failed, a.Failed) })
	return failing
}

// topLive draws one look after the other on the terminal's alternate screen until ctx ends, and then leaves that screen. While the
// database cannot be reached, it draws the last look with the reason. Any other error ends it.
func (e *env) topLive(ctx context.Context, store *queue.Store, view *topView, interval time.Duration) (err error) {
	const enter, leave = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
	defer func() { err = errors.Join(err, e.print(leave)) }()
	frame := enter
	again := time.NewTicker(interval)
	defer again.Stop()
	for {
		if err := e.print(frame + e.topFrame(view)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return endOfView(ctx)
		case <-again.C:
		}
		next, err := e.look(ctx, store)
		switch {
		case ctx.Err() != nil:
			return endOfView(ctx)
		case err == nil:
			view = next
		case diagnose(ctx, err).exit != exitUnreachable:
			return err
		default:
			view.lost = err
		}
		frame = ""
	}
}

// endOfView returns nil if Ctrl-C ended ctx, which is the way to leave, and otherwise the cause.
func endOfView(ctx context.Context) error {
	if cause, ok := errors.AsType[*signalError](context.Cause(ctx)); ok && cause.interrupt {
		return nil
	}
	return context.Cause(ctx)
}

const (
	topRows    = 24 // of a terminal of unknown size
	topColumns = 80
	barWidth   = 10

	failingShown = 3 // DAGs that the head names

	topLegend = "Ctrl-C ends   WAITING: tasks for slots   TASKS: ended/all   BEAT: sign of life"
)

// topFrame returns a whole screen as one text that draws it over the frame before. It clears no line before it is written again, so
// nothing flickers.
func (e *env) topFrame(v *topView) string {
	columns, rows := e.Columns, e.Rows
	if f, ok := e.Stdout.(*os.File); ok {
		columns, rows = terminalSize(f) // the size may have changed
	}
	columns, rows = cmp.Or(columns, topColumns), cmp.Or(rows, topRows)
	var b strings.Builder
	b.WriteString("\x1b[H")
	lines := v.lines(rows - 2)
	for _, line := range append(lines[:min(len(lines), max(0, rows-2))], v.Dim(topLegend)) {
		b.WriteString(term.Cut(line, columns-1) + "\x1b[K\r\n") // on a full line, the code that clears the rest would clear the last character
	}
	b.WriteString("\x1b[J")
	return b.String()
}

func (v *topView) answer(columns int) answer {
	object := jsonTop{
		At: runview.TimeOrNull(v.at), Ended: v.seen.Ended, Failed: v.seen.Failed, Approvals: v.approvals, Failing: v.failing, Queues: []runview.QueueJSON{}, Workers: []runview.WorkerJSON{}, Runs: []runview.RunJSON{},
	}
	slots := runview.SlotsOf(v.seen.Workers)
	object.Busy, object.Slots, object.Waiting = slots.Busy, slots.All, slots.Waiting
	for i := range v.seen.Queues {
		object.Queues = append(object.Queues, runview.NewQueueJSON(&v.seen.Queues[i]))
	}
	for _, w := range v.workers() {
		object.Workers = append(object.Workers, runview.NewWorkerJSON(w))
	}
	for i := range v.runs {
		object.Runs = append(object.Runs, runview.NewRunJSON(&v.runs[i]))
	}
	lines := v.lines(len(v.seen.Queues) + len(v.seen.Workers) + len(v.runs) + topRows)
	if columns > 0 {
		for i := range lines {
			lines[i] = term.Cut(lines[i], columns)
		}
	}
	return answer{object: object, text: strings.Join(lines, "\n") + "\n"}
}

// lines returns the head and the tables of queues, workers and runs, in about this number of rows: each table gets a share.
func (v *topView) lines(rows int) []string {
	lines := []string{v.slotLine(), v.runLine()}
	if wanted := v.wantedLine(); wanted != "" {
		lines = append(lines, wanted)
	}
	if v.isCopy { // short, because the screen cuts it
		lines = append(lines, v.Warn("this database may be a copy: no worker claims runs; see `oarlock workers`"))
	}
	if v.lost != nil {
		lines = append(lines, v.Bad("the database is away")+v.Dim(", the screen is of "+v.at.Local().Format(time.TimeOnly)+": "+runview.Printable(v.lost.Error())))
	}
	share := max(2, (rows-len(lines)-3)/4)
	lines = append(append(lines, ""), v.queueLines(share)...)
	lines = append(append(lines, ""), v.clip(v.workerTable(), share, "worker", false)...)
	return append(append(lines, ""), v.clip(v.runTable(), max(2, rows-len(lines)-1), "run", v.more)...)
}

func (v *topView) slotLine() string {
	slots := runview.SlotsOf(v.seen.Workers)
	wait := " tasks wait for a slot"
	if slots.Waiting == 1 {
		wait = " task waits for a slot"
	}
	return fmt.Sprintf("%s  %s   slots %s %d/%d  %s%s", v.Bold("oarlock"), v.Dim(v.at.Local().Format(time.TimeOnly)),
		v.bar(slots.Busy, slots.All), slots.Busy, slots.All, v.someOf(int64(slots.Waiting), v.Warn), wait)
}

// runLine returns the line of the head that counts runs, with the rates at which runs end and fail.
func (v *topView) runLine() string {
	var running, queued int64
	for i := range v.seen.Queues {
		running, queued = running+v.seen.Queues[i].Running, queued+v.seen.Queues[i].Queued
	}
	failed := rate(v.seen.Failed) + " failed/s"
	if v.seen.Failed > 0 {
		failed = v.Bad(failed)
	}
	return fmt.Sprintf("runs %s running, %s queued   %s ended/s  %s", v.someOf(running, v.Note), v.someOf(queued, v.Warn), rate(v.seen.Ended), failed)
}

// wantedLine returns the line of the head that names troubles for a person to attend to: quiet workers, waiting approvals, failing
// DAGs. It returns "" if there are none.
func (v *topView) wantedLine() string {
	var parts []string
	if quiet := runview.SlotsOf(v.seen.Workers).Quiet; quiet > 0 {
		parts = append(parts, v.Warn(runview.Count(quiet, "worker")+" quiet"))
	}
	switch {
	case v.approvals == 1:
		parts = append(parts, v.Warn("1 approval waits"))
	case v.approvals > 0:
		parts = append(parts, v.Warn(countAtLeast(int64(v.approvals), v.approvals >= topApprovalsMax, "approval")+" wait"))
	}
	var names []string
	for _, f := range v.failing[:min(len(v.failing), failingShown)] {
		names = append(names, fmt.Sprintf("%s %d", f.DAG, f.Failed))
	}
	if more := len(v.failing) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	if len(names) > 0 {
		parts = append(parts, v.Bad("failing")+" "+strings.Join(names, ", "))
	}
	return strings.Join(parts, "   ")
}

func rate(perSecond float64) string {
	if perSecond >= 10 {
		return fmt.Sprintf("%.0f", perSecond)
	}
	return fmt.Sprintf("%.2g", perSecond)
}

// bar returns a bar of barWidth characters that shows which part of the whole is taken. A part above zero shows at least one full
// character.
func (v *topView) bar(part, whole int) string {
	if whole == 0 {
		return v.Dim(strings.Repeat("▯", barWidth))
	}
	full := min(barWidth, (part*barWidth+whole-1)/whole)
	text := strings.Repeat("▮", full)
	switch {
	case part >= whole:
		text = v.Warn(text)
	default:
		text = v.Good(text)
	}
	return text + v.Dim(strings.Repeat("▯", barWidth-full))
}

// workers returns the workers of v.seen that have not ended.
func (v *topView) workers() (atWork []*queue.WorkerInfo) {
	for i := range v.seen.Workers {
		if w := &v.seen.Workers[i]; w.EndedAt.IsZero() {
			atWork = append(atWork, w)
		}
	}
	return atWork
}

// queueLines returns about share lines: a table of the queues with something to see, and of all idle queues if they fit. If they do
// not fit, one line stands for all idle queues.
func (v *topView) queueLines(share int) []string {
	busy, idle, folds := runview.SplitQueues(v.seen.Queues)
	if all := slices.Concat(busy, idle); !folds && len(all) < share {
		return v.clip(v.queueTable(all), share, "queue", false)
	}
	var lines []string
	if len(busy) > 0 {
		lines = v.clip(v.queueTable(busy), share-min(len(idle), 1), "queue", false)
	}
	if len(idle) > 0 {
		lines = append(lines, v.Dim(idleLine(idle)))
	}
	return lines
}

func (v *topView) queueTable(queues []queue.Queue) term.Table {
	t := term.Table{Head: v.head("QUEUE", "QUEUED", "OLDEST", "RUNNING", "LIMIT", "")}
	for i := range queues {
		q := &queues[i]
		oldest := v.Dim("–")
		if q.Queued > 0 {
			oldest = runview.Span(q.Oldest)
		}
		t.Rows = append(t.Rows, []string{
			q.Name, v.someOf(q.Queued, v.Warn), oldest, v.someOf(q.Running, v.Note), v.limit(q.MaxRunning), v.queueNote(q, v.seen.Workers),
		})
	}
	return t
}

func (v *topView) workerTable() term.Table {
	t := term.Table{Head: v.head("WORKER", "HOST", "STATE", "SLOTS", "", "WAITING", "RUNS", "BEAT")}
	for _, w := range v.workers() {
		t.Rows = append(t.Rows, []string{
			runview.InlineText(w.Name), runview.InlineText(w.Host), v.workerState(w), v.bar(w.Busy, w.Slots), fmt.Sprintf("%d/%d", w.Busy, w.Slots),
			v.someOf(int64(w.Waiting), v.Warn), decimal(int64(w.Runs)), v.beat(w),
		})
	}
	return t
}

func (v *topView) runTable() term.Table {
	t := term.Table{Head: v.head("RUN", "DAG", "FOR", "TASKS", "WORKER")}
	reasons := slices.ContainsFunc(v.runs, func(r queue.Run) bool { return r.Reason != "" })
	if reasons {
		t.Head = append(t.Head, v.Dim("REASON"))
	}
	for i := range v.runs {
		r := &v.runs[i]
		done, lasts := v.Dim("–"), v.Dim("–")
		if !r.StartedAt.IsZero() {
			lasts = runview.Span(v.at.Sub(r.StartedAt))
		}
		if total := r.Counts.Total; total > 0 {
			done = fmt.Sprintf("%d/%d", total-r.Counts.Open, total)
		}
		row := []string{decimal(int64(r.ID)), r.DAG, lasts, done, runview.InlineText(r.Worker)}
		if reasons {
			row = append(row, v.Dim(runview.InlineText(r.Reason)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// clip cuts a table to about this number of lines, but keeps at least one row; the last line then counts the missing rows. If more
// is set, the table itself is not complete, and the count gets a plus. An empty table becomes a line such as "no queues", for the
// noun "queue".
func (p painter) clip(t term.Table, lines int, noun string, more bool) []string {
	if len(t.Rows) == 0 {
		return []string{p.Dim("no " + noun + "s")}
	}
	missing, plus := 0, ""
	if room := max(1, lines-1); len(t.Rows) > room || more {
		kept := min(len(t.Rows), max(1, room-1))
		missing, t.Rows = len(t.Rows)-kept, t.Rows[:kept]
	}
	if more {
		plus = "+"
	}
	shown := strings.Split(strings.TrimSuffix(t.String(), "\n"), "\n")
	if missing > 0 || more {
		shown = append(shown, p.Dim(fmt.Sprintf("… %d%s more", missing, plus)))
	}
	return shown
}
