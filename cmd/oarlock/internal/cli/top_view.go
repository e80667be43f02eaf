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
	topRows    = 24 // of a terminal that does not say
	topColumns = 80
	barWidth   = 10
)

// topFrame is the whole screen in one text, drawn over the one before: nothing is cleared before it is written anew.
func (e *env) topFrame(v *topView) string {
	columns, rows := e.Columns, e.Rows
	if f, ok := e.Stdout.(*os.File); ok {
		columns, rows = terminalSize(f) // it may have changed
	}
	columns, rows = cmp.Or(columns, topColumns), cmp.Or(rows, topRows)
	var b strings.Builder
	b.WriteString("\x1b[H")
	lines := v.lines(rows - 1)
	for _, line := range lines[:min(len(lines), rows-1)] {
		b.WriteString(cut(line, columns-1) + "\x1b[K\r\n") // on a full line, what clears the rest takes the last character
	}
	b.WriteString("\x1b[J")
	return b.String()
}

func (v *topView) answer(columns int) answer {
	object := jsonTop{
		At: runview.TimeOrNull(v.at), Ended: v.seen.Ended, Failed: v.seen.Failed, Queues: []runview.QueueJSON{}, Workers: []runview.WorkerJSON{}, Runs: []runview.RunJSON{},
	}
	object.Busy, object.Slots, object.Waiting = v.slots()
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

// lines are the head and three tables, each with its share of the rows there are.
func (v *topView) lines(rows int) []string {
	lines := []string{v.headline()}
	if v.lost != nil {
		lines = append(lines, v.bad("the database is away")+v.dim(", this is of "+v.at.Local().Format(time.TimeOnly)+": "+runview.Printable(v.lost.Error())))
	}
	share := max(2, (rows-len(lines)-3)/4)
	lines = append(append(lines, ""), v.clip(v.queueTable(), share, "queue", false)...)
	lines = append(append(lines, ""), v.clip(v.workerTable(), share, "worker", false)...)
	return append(append(lines, ""), v.clip(v.runTable(), max(2, rows-len(lines)-1), "run", v.more)...)
}

func (v *topView) headline() string {
	busy, slots, waiting := v.slots()
	failed := fmt.Sprintf("%s failed/s", rate(v.seen.Failed))
	if v.seen.Failed > 0 {
		failed = v.bad(failed)
	}
	return fmt.Sprintf("%s  %s   slots %s %d/%d  waiting %s   runs %s ended/s  %s", v.bold("oarlock"), v.dim(v.at.Local().Format(time.TimeOnly)),
		v.bar(busy, slots), busy, slots, v.someOf(int64(waiting), v.warn), rate(v.seen.Ended), failed)
}

func rate(perSecond float64) string {
	if perSecond >= 10 {
		return fmt.Sprintf("%.0f", perSecond)
	}
	return fmt.Sprintf("%.2g", perSecond)
}

// bar shows how much of something is taken: anything at all shows.
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

// slots are those of the workers that may take something, and the tasks that wait for one.
func (v *topView) slots() (busy, slots, waiting int) {
	for _, w := range v.workers() {
		if w.State == queue.WorkerLive {
			busy, slots, waiting = busy+w.Busy, slots+w.Slots, waiting+w.Waiting
		}
	}
	return busy, slots, waiting
}

// workers are those at work.
func (v *topView) workers() (atWork []*queue.WorkerInfo) {
	for i := range v.seen.Workers {
		if w := &v.seen.Workers[i]; w.EndedAt.IsZero() {
			atWork = append(atWork, w)
		}
	}
	return atWork
}

func (v *topView) queueTable() table {
	t := table{head: v.head("QUEUE", "QUEUED", "OLDEST", "RUNNING", "LIMIT", "")}
	queues := slices.Clone(v.seen.Queues)
	slices.SortStableFunc(queues, func(a, b queue.Queue) int { // where something is to be seen, first
		return cmp.Compare(min(b.Queued+b.Running, 1), min(a.Queued+a.Running, 1))
	})
	for i := range queues {
		q := &queues[i]
		oldest, note := v.dim("–"), ""
		if q.Queued > 0 {
			oldest = runview.Span(q.Oldest)
		}
		if q.PausedBy != "" {
			note = v.warn("paused") + v.dim(" by "+runview.Printable(q.PausedBy))
		}
		t.rows = append(t.rows, []string{
			q.Name, v.someOf(q.Queued, v.warn), oldest, v.someOf(q.Running, v.note), v.limit(q.MaxRunning), note,
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
	t := table{head: v.head("RUN", "DAG", "FOR", "TASKS", "WORKER", "REASON")}
	for i := range v.runs {
		r := &v.runs[i]
		done, lasts := v.dim("–"), v.dim("–")
		if !r.StartedAt.IsZero() {
			lasts = runview.Span(v.at.Sub(r.StartedAt))
		}
		if total := r.Counts.Total; total > 0 {
			done = fmt.Sprintf("%d/%d", total-r.Counts.Open, total)
		}
		t.rows = append(t.rows, []string{
			decimal(int64(r.ID)), r.DAG, lasts, done, runview.InlineText(r.Worker), v.dim(runview.InlineText(r.Reason)),
		})
	}
	return t
}

// clip leaves so many lines of a table, and says how many rows are missing; of what is not known completely, with a plus.
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
