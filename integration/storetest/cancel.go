package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// cancelUnheld cancels a run that has begun and that no worker holds. If cancelNeeds names a reason to wait, cancelUnheld
// only rouses the run, so that a worker ends it.
func (m *Memory) cancelUnheld(r *run, c *queue.Control, now bool) {
	first := r.firstCancel()
	now = now || first != ""
	if needs := m.cancelNeeds(r, now); needs != "" {
		c.Message = "ends when a worker takes it: " + needs
		m.rouse(r)
		return
	}
	by := m.user
	if first != "" {
		by = first
	}
	why := "canceled by " + by
	m.cancelTasks(r, why)
	for _, open := range r.controls {
		if open.Verb == dagrun.VerbCancel && open.Step == "" {
			m.answer(r, dagrun.Decision{ID: open.ID, Outcome: dagrun.Applied, State: dagrun.RunCanceled.String()})
		}
	}
	r.inbox++
	ending, counts := dagrun.EndingCancel, r.rec.Counts
	if now {
		ending = dagrun.EndingNow
	}
	counts.Canceled, counts.Open = counts.Canceled+counts.Open, 0
	r.rec = dagrun.RunRecord{
		Generation: r.rec.Generation, StartedAt: r.rec.StartedAt, Tolerated: r.rec.Tolerated, Counts: counts, Ending: ending, EndingBy: by,
	}
	m.log(r, queue.Event{Kind: "canceled", By: m.user, Message: why + " while no worker held it"})
	m.end(r, dagrun.RunCanceled, why)
	c.Outcome, c.State = dagrun.Applied, dagrun.RunCanceled.String()
}

// firstCancel returns the name of the user of the first open or applied cancel, "" if there is none.
func (r *run) firstCancel() string {
	if r.rec.Ending == dagrun.EndingCancel || r.rec.Ending == dagrun.EndingNow {
		return r.rec.EndingBy
	}
	for _, c := range r.controls {
		if c.DecidedAt.IsZero() && c.Verb == dagrun.VerbCancel && c.Step == "" {
			return c.By
		}
	}
	return ""
}

// cancelNeeds explains why a worker must still drive a run before a cancel can end it; "" means that no worker is needed.
func (m *Memory) cancelNeeds(r *run, now bool) string {
	for _, child := range m.runs {
		if child.parent == r.id && !child.over() {
			return fmt.Sprintf("child run %d is to end first", child.id)
		}
	}
	for _, row := range r.tasks {
		if row.State == dagrun.TaskWaiting && row.Ref == "" && r.mayRunAChild(row.ID) {
			return "a child run is being asked for, which is to end first"
		}
	}
	for _, row := range r.tasks {
		if row.State == dagrun.TaskRunning && row.settled != nil {
			return "a task has committed its result, which is to be recorded first"
		}
	}
	if handlers := cancelHandlers(r.version.spec); len(handlers) > 0 && !now {
		return strings.Join(handlers, " and ") + " is to run first"
	}
	return ""
}

// mayRunAChild reports whether a task is a child run, or a replacement that may be one.
func (r *run) mayRunAChild(id dagrun.TaskID) bool {
	step := r.version.graph.Step(id.Step)
	if id.Alt == 0 {
		return step.Body == dagrun.BodyChild
	}
	return replacedByAChild(step)
}

func replacedByAChild(step *dagrun.Step) bool {
	return slices.ContainsFunc(step.OnError, func(rule dagrun.ErrorRule) bool {
		return slices.ContainsFunc(rule.With, func(with dagrun.Step) bool { return with.Body == dagrun.BodyChild || replacedByAChild(&with) })
	})
}

func cancelHandlers(spec *dagspec.Spec) (names []string) {
	if spec.HandlerOn.Abort != nil {
		names = append(names, "@abort")
	}
	if spec.HandlerOn.Exit != nil {
		names = append(names, "@exit")
	}
	return names
}

// cancelTasks ends all open tasks of a canceled run. Tasks without a row get one first.
func (m *Memory) cancelTasks(r *run, why string) {
	for _, row := range r.tasks {
		if row.Growth == nil || row.State != dagrun.TaskRunning {
			continue
		}
		for _, item := range row.Growth.Items {
			m.neverBegun(r, dagrun.TaskID{Step: row.ID.Step, Item: item.Key})
		}
	}
	for step := range r.version.spec.Steps {
		m.neverBegun(r, dagrun.TaskID{Step: step})
	}
	for _, row := range r.tasks {
		if row.State.Terminal() {
			continue
		}
		m.closeLog(r, row)
		row.State, row.Reason, row.Kind, row.FinishedAt = dagrun.TaskCanceled, why, dagrun.KindNone, stamp(m.now())
		row.asks = nil
		row.NextAt, row.Deadline, row.Publishing, row.Request, row.RequestBy, row.Marked = 0, 0, false, dagrun.RequestNone, "", dagrun.TaskPending
	}
}

// neverBegun makes a row for a task that has none.
func (m *Memory) neverBegun(r *run, id dagrun.TaskID) {
	if row, known := r.row(id); !known {
		row.TaskRecord = dagrun.TaskRecord{ID: id, Generation: r.rec.Generation}
		row.epoch = r.epoch
	}
}

// closeLog ends the log of an attempt on behalf of its lost worker.
func (m *Memory) closeLog(r *run, row *taskRow) {
	word := dagrun.TaskCanceled.String()
	if row.State == dagrun.TaskRunning {
		word = string(dagrun.KindLost)
	}
	if row.day.IsZero() || row.logEnded() || row.State == dagrun.TaskWaiting {
		return
	}
	end := queue.Chunk{Run: r.id, Task: row.ID, Attempt: row.Attempt, Day: row.day, At: m.now(), Stream: queue.StreamOarlock, Data: []byte{}, Final: true, Reason: word}
	if l := m.logs[keyOf(&end)]; l != nil {
		next, lines, final := l.end()
		if end.Seq, end.Lines = next, lines; final {
			return
		}
	}
	m.appendChunk(&end)
}
