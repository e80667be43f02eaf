package cli

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	topRows    = 24 // of a terminal of unknown size
	topColumns = 80
	barWidth   = 10

	failingShown = 3 // DAGs that the head names

	topLegend = "Ctrl-C ends   WAITING: tasks for slots   TASKS: ended/all   BEAT: last heard of"
)

// topFrame writes the whole screen as one text that is drawn over the frame before. It clears no line before it is written
// again, so nothing flickers.
func (e *env) topFrame(v *topView) string {
	columns, rows := e.Columns, e.Rows
	if f, ok := e.Stdout.(*os.File); ok {
		columns, rows = terminalSize(f) // the size may have changed
	}
	columns, rows = cmp.Or(columns, topColumns), cmp.Or(rows, topRows)
	var b strings.Builder
	b.WriteString("\x1b[H")
	lines := v.lines(rows - 2)
	for _, line := range append(lines[:min(len(lines), max(0, rows-2))], v.dim(topLegend)) {
		b.WriteString(cut(line, columns-1) + "\x1b[K\r\n") // on a full line, the code that clears the rest would clear the last character
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
			lines[i] = cut(lines[i], columns)
		}
	}
	return answer{object: object, text: strings.Join(lines, "\n") + "\n"}
}

// lines returns the head and three tables. Each table gets a share of the rows.
func (v *topView) lines(rows int) []string {
	lines := []string{v.slotLine(), v.runLine()}
	if wanted := v.wantedLine(); wanted != "" {
		lines = append(lines, wanted)
	}
	if v.isCopy { // short, because the screen cuts it
		lines = append(lines, v.warn("this may be a copy, so no worker claims here: `oarlock workers` says more"))
	}
	if v.lost != nil {
		lines = append(lines, v.bad("the database is away")+v.dim(", this is of "+v.at.Local().Format(time.TimeOnly)+": "+runview.Printable(v.lost.Error())))
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
	return fmt.Sprintf("%s  %s   slots %s %d/%d  %s%s", v.bold("oarlock"), v.dim(v.at.Local().Format(time.TimeOnly)),
		v.bar(slots.Busy, slots.All), slots.Busy, slots.All, v.someOf(int64(slots.Waiting), v.warn), wait)
}

// runLine counts runs, and shows how they end.
func (v *topView) runLine() string {
	var running, queued int64
	for i := range v.seen.Queues {
		running, queued = running+v.seen.Queues[i].Running, queued+v.seen.Queues[i].Queued
	}
	failed := rate(v.seen.Failed) + " failed/s"
	if v.seen.Failed > 0 {
		failed = v.bad(failed)
	}
	return fmt.Sprintf("runs %s running, %s queued   %s ended/s  %s", v.someOf(running, v.note), v.someOf(queued, v.warn), rate(v.seen.Ended), failed)
}

// wantedLine names what needs a person; "": nothing does.
func (v *topView) wantedLine() string {
	var parts []string
	if quiet := runview.SlotsOf(v.seen.Workers).Quiet; quiet > 0 {
		parts = append(parts, v.warn(runview.Count(quiet, "worker")+" quiet"))
	}
	switch {
	case v.approvals == 1:
		parts = append(parts, v.warn("1 approval waits"))
	case v.approvals > 0:
		parts = append(parts, v.warn(countAtLeast(int64(v.approvals), v.approvals >= topApprovalsMax, "approval")+" wait"))
	}
	var names []string
	for _, f := range v.failing[:min(len(v.failing), failingShown)] {
		names = append(names, fmt.Sprintf("%s %d", f.DAG, f.Failed))
	}
	if more := len(v.failing) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	if len(names) > 0 {
		parts = append(parts, v.bad("failing")+" "+strings.Join(names, ", "))
	}
	return strings.Join(parts, "   ")
}

func rate(perSecond float64) string {
	if perSecond >= 10 {
		return fmt.Sprintf("%.0f", perSecond)
	}
	return fmt.Sprintf("%.2g", perSecond)
}

// bar shows which part of something is taken. A part above zero shows at least a little.
func (v *topView) bar(part, whole int) string {
	if whole == 0 {
		return v.dim(strings.Repeat("▯", barWidth))
	}
	full := min(barWidth, (part*barWidth+whole-1)/whole)
	text := strings.Repeat("▮", full)
	switch {
	case part >= whole:
		text = v.warn(text)
	default:
		text = v.good(text)
	}
	return text + v.dim(strings.Repeat("▯", barWidth-full))
}

// workers returns the workers at work.
func (v *topView) workers() (atWork []*queue.WorkerInfo) {
	for i := range v.seen.Workers {
		if w := &v.seen.Workers[i]; w.EndedAt.IsZero() {
			atWork = append(atWork, w)
		}
	}
	return atWork
}

// queueLines lists the queues with something to see, and as many idle queues as fit. If the idle queues do not fit, one
// line stands for all of them.
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
		lines = append(lines, v.dim(idleLine(idle)))
	}
	return lines
}

func (v *topView) queueTable(queues []queue.Queue) table {
	t := table{head: v.head("QUEUE", "QUEUED", "OLDEST", "RUNNING", "LIMIT", "")}
	for i := range queues {
		q := &queues[i]
		oldest := v.dim("–")
		if q.Queued > 0 {
			oldest = runview.Span(q.Oldest)
		}
		t.rows = append(t.rows, []string{
			q.Name, v.someOf(q.Queued, v.warn), oldest, v.someOf(q.Running, v.note), v.limit(q.MaxRunning), v.queueNote(q, v.seen.Workers),
		})
	}
	return t
}

func (v *topView) workerTable() table {
	t := table{head: v.head("WORKER", "HOST", "STATE", "SLOTS", "", "WAITING", "RUNS", "BEAT")}
	for _, w := range v.workers() {
		t.rows = append(t.rows, []string{
			runview.InlineText(w.Name), runview.InlineText(w.Host), v.workerState(w), v.bar(w.Busy, w.Slots), fmt.Sprintf("%d/%d", w.Busy, w.Slots),
			v.someOf(int64(w.Waiting), v.warn), decimal(int64(w.Runs)), v.beat(w),
		})
	}
	return t
}

func (v *topView) runTable() table {
	t := table{head: v.head("RUN", "DAG", "FOR", "TASKS", "WORKER")}
	reasons := slices.ContainsFunc(v.runs, func(r queue.Run) bool { return r.Reason != "" })
	if reasons {
		t.head = append(t.head, v.dim("REASON"))
	}
	for i := range v.runs {
		r := &v.runs[i]
		done, lasts := v.dim("–"), v.dim("–")
		if !r.StartedAt.IsZero() {
			lasts = runview.Span(v.at.Sub(r.StartedAt))
		}
		if total := r.Counts.Total; total > 0 {
			done = fmt.Sprintf("%d/%d", total-r.Counts.Open, total)
		}
		row := []string{decimal(int64(r.ID)), r.DAG, lasts, done, runview.InlineText(r.Worker)}
		if reasons {
			row = append(row, v.dim(runview.InlineText(r.Reason)))
		}
		t.rows = append(t.rows, row)
	}
	return t
}

// clip returns so many lines of a table, and a line that counts the missing rows. If more, the table itself is not
// complete, and the count gets a plus.
func (p painter) clip(t table, lines int, noun string, more bool) []string {
	if len(t.rows) == 0 {
		return []string{p.dim("no " + noun + "s")}
	}
	missing, plus := 0, ""
	if room := max(1, lines-1); len(t.rows) > room || more {
		kept := min(len(t.rows), max(1, room-1))
		missing, t.rows = len(t.rows)-kept, t.rows[:kept]
	}
	if more {
		plus = "+"
	}
	shown := strings.Split(strings.TrimSuffix(t.String(), "\n"), "\n")
	if missing > 0 || more {
		shown = append(shown, p.dim(fmt.Sprintf("… %d%s more", missing, plus)))
	}
	return shown
}
