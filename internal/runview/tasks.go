package runview

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/graphview"
	"github.com/oarlock-dev/oarlock/queue"
)

// StepOf returns the step of a task: load for the replacement load~1.
func StepOf(task string) string {
	step, _, _ := strings.Cut(task, "~")
	return step
}

// TaskName returns the name of a task for commands: load, load~1, resize/a.png.
func TaskName(step, item string) string {
	if item == "" {
		return step
	}
	return step + "/" + item
}

// HasLog reports whether a task has a log of its own. The node of a foreach step has none, because its items have logs. A
// rejected approval has none either.
func HasLog(t *queue.Task) bool {
	return (t.Kind != "foreach" || t.Item != "") && t.FailureKind != string(dagrun.KindRejected)
}

// SortByGraph sorts tasks in place so that parents come first, and @init before all. Otherwise it keeps the order of the DAG's
// file, and among tasks of one step their order. name returns the name of a task or of its step.
func SortByGraph[T any](tasks []T, g *dagrun.Graph, name func(*T) string) {
	rank := make(map[string]int, g.Len())
	var visit func(i int)
	visit = func(i int) {
		name := g.Step(i).Name
		if _, seen := rank[name]; seen {
			return
		}
		for _, parent := range g.Parents(i) {
			visit(parent.Step)
		}
		rank[name] = len(rank)
	}
	for i := range g.Len() {
		visit(i)
	}
	rank["@init"] = -1
	slices.SortStableFunc(tasks, func(a, b T) int { return rank[StepOf(name(&a))] - rank[StepOf(name(&b))] })
}

// SplitUrgent picks the tasks that people want to see first, at most limit: failed before running, running before ended. It
// returns their indexes in the order of tasks, and the other tasks, more urgent ones first.
func SplitUrgent(tasks []queue.Task, limit int) (urgent []int, others []queue.Task) {
	at := ByUrgency(tasks)
	for _, i := range at[min(limit, len(at)):] {
		others = append(others, tasks[i])
	}
	urgent = at[:min(limit, len(at))]
	slices.Sort(urgent)
	return urgent, others
}

// ByUrgency returns the indexes of all tasks, the more urgent ones first, as of graphview.Urgency.
func ByUrgency(tasks []queue.Task) []int {
	at := make([]int, len(tasks))
	for i := range at {
		at[i] = i
	}
	slices.SortStableFunc(at, func(a, b int) int {
		return graphview.Urgency(tasks[a].State) - graphview.Urgency(tasks[b].State)
	})
	return at
}

// CountStates returns how many tasks are in each state: "1 failed, 2 succeeded", in the order of the names of the states. unlisted
// is the number of tasks without a row, which are pending.
func CountStates(tasks []queue.Task, unlisted int) string {
	number := map[string]int{}
	for i := range tasks {
		number[tasks[i].State]++
	}
	if unlisted > 0 {
		number[dagrun.TaskPending.String()] += unlisted
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(number)) {
		parts = append(parts, fmt.Sprintf("%d %s", number[state], state))
	}
	return strings.Join(parts, ", ")
}

// ItemProgress is the progress of the items of a foreach step.
type ItemProgress struct {
	Total    int // items of its list
	Ended    int // items that have ended; a replaced item ends with its replacement
	Unlisted int // items without a row: they have not begun
}

// CountItems counts the items of a foreach step. node is the row of the step itself. tasks are the rows of its items, with all rows
// of an item together: the original, and replacements.
func CountItems(node *queue.Task, tasks []queue.Task) ItemProgress {
	listed, ended := 0, 0
	for i := 0; i < len(tasks); {
		item, over := tasks[i].Item, true
		for ; i < len(tasks) && tasks[i].Item == item; i++ {
			over = over && !tasks[i].FinishedAt.IsZero()
		}
		if listed++; over {
			ended++
		}
	}
	progress := ItemProgress{Total: max(node.Items, listed), Ended: ended}
	if node.FinishedAt.IsZero() {
		progress.Unlisted = progress.Total - listed
	}
	return progress
}

// TaskTime returns how long a task took, or has taken so far. It returns "" for a task that has not begun.
func TaskTime(t *queue.Task, now time.Time) string { return elapsed(t.StartedAt, t.FinishedAt, now) }

// elapsed formats the time between started and ended, or until now if ended is zero. It returns "" if started is zero.
func elapsed(started, ended, now time.Time) string {
	if took, begun := Elapsed(started, ended, now); begun {
		return Span(took)
	}
	return ""
}

// Elapsed returns the time between started and ended, or until now if ended is zero. It reports false if started is zero.
func Elapsed(started, ended, now time.Time) (took time.Duration, begun bool) {
	switch {
	case started.IsZero():
		return 0, false
	case ended.IsZero():
		ended = now
	}
	return max(ended.Sub(started), 0), true
}

// TaskNote returns the unusual facts about a task on one line: an attempt after the first, its reason unless the run gives the same
// one, and the time of its next attempt. If a shell did not find a program, a hint to docs/environment.md follows. TaskNote returns
// "" if nothing is unusual.
func TaskNote(run *queue.Run, t *queue.Task) string {
	var parts []string
	if t.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", t.Attempt))
	}
	if t.Reason != "" && t.Reason != "ran" && t.Reason != run.Reason {
		parts = append(parts, InlineText(t.Reason))
	}
	if !t.NextAttemptAt.IsZero() && t.FinishedAt.IsZero() {
		parts = append(parts, "next at "+t.NextAttemptAt.Local().Format(time.TimeOnly))
	}
	note := strings.Join(parts, ", ")
	if !notFound(t) {
		return note
	}
	const where = "a body starts in an empty folder: see docs/environment.md"
	if note == "" {
		return where
	}
	return note + "; " + where
}

// notFound reports whether a task failed with exit code 126 or 127, by which a shell reports that a program is missing or cannot be
// started.
func notFound(t *queue.Task) bool {
	return t.FailureKind == string(dagrun.KindExit) && t.ExitCode != nil && (*t.ExitCode == 126 || *t.ExitCode == 127)
}
