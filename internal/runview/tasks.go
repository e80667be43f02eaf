package runview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/graphview"
	"github.com/oarlock-dev/oarlock/queue"
)

// StepOf returns the step that a task belongs to: load of the replacement load~1.
func StepOf(task string) string {
	step, _, _ := strings.Cut(task, "~")
	return step
}

// TaskName returns the name of a task as commands take it: load, load~1, resize/a.png.
func TaskName(step, item string) string {
	if item == "" {
		return step
	}
	return step + "/" + item
}

// HasLog reports whether a task has a log of its own. The node of a foreach step has none, its items do.
func HasLog(t *queue.Task) bool { return t.Kind != "foreach" || t.Item != "" }

// SortByGraph puts parents first, and keeps the order of the DAG's file where it can. It sorts tasks in place, by the name that
// each has of its own or of its step.
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

// SplitUrgent picks the tasks that people want to see first, at most limit: failed before running, running before done. It
// returns their indexes in the order of tasks, and the other tasks, the more urgent ones first.
func SplitUrgent(tasks []queue.Task, limit int) (urgent []int, others []queue.Task) {
	at := make([]int, len(tasks))
	for i := range at {
		at[i] = i
	}
	if len(at) <= limit {
		return at, nil
	}
	slices.SortStableFunc(at, func(a, b int) int {
		return graphview.Urgency(tasks[a].State) - graphview.Urgency(tasks[b].State)
	})
	for _, i := range at[limit:] {
		others = append(others, tasks[i])
	}
	urgent = at[:limit]
	slices.Sort(urgent)
	return urgent, others
}

// CountStates says how many tasks are in each state, by name of the state: 1 failed, 2 succeeded.
func CountStates(tasks []queue.Task) string {
	var order, parts []string
	number := map[string]int{}
	for i := range tasks {
		state := tasks[i].State
		if number[state]++; number[state] == 1 {
			order = append(order, state)
		}
	}
	slices.Sort(order)
	for _, state := range order {
		parts = append(parts, fmt.Sprintf("%d %s", number[state], state))
	}
	return strings.Join(parts, ", ")
}

// TaskTime says how long a task took, or has taken so far; "" for a task that has not begun.
func TaskTime(t *queue.Task, now time.Time) string { return elapsed(t.StartedAt, t.FinishedAt, now) }

// elapsed is the span between two times, up to now where the end is zero; "" where the start is zero.
func elapsed(started, ended, now time.Time) string {
	if took, begun := Elapsed(started, ended, now); begun {
		return Span(took)
	}
	return ""
}

// Elapsed returns the time between two moments, up to now where the end is zero, and reports whether anything began.
func Elapsed(started, ended, now time.Time) (took time.Duration, begun bool) {
	switch {
	case started.IsZero():
		return 0, false
	case ended.IsZero():
		ended = now
	}
	return max(ended.Sub(started), 0), true
}

// TaskNote says what is unusual about a task: its attempt after the first, its reason unless the run gives the same, the time
// of its next attempt, and where to read on.
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
	if notFound(t) {
		note = strings.TrimPrefix(note+"; a body starts in an empty folder: see docs/environment.md", "; ")
	}
	return note
}

// notFound reports whether a task failed by the exit codes with which shells say that a program cannot be started or is not there.
func notFound(t *queue.Task) bool {
	return t.FailureKind == string(dagrun.KindExit) && t.ExitCode != nil && (*t.ExitCode == 126 || *t.ExitCode == 127)
}
