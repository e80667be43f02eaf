package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/graphview"
	"github.com/oarlock-dev/oarlock/queue"
)

// fewTasks are the lines of the most telling tasks, as many as there is room for, in their order, and what the others are.
func (p *runPage) fewTasks() string {
	at := make([]int, len(p.tasks))
	for i := range at {
		at[i] = i
	}
	if len(at) <= p.rows {
		return p.rowsOf(at)
	}
	slices.SortStableFunc(at, func(a, b int) int {
		return graphview.Urgency(p.tasks[a].State) - graphview.Urgency(p.tasks[b].State)
	})
	room := max(p.rows-1, 1)
	var others []queue.Task
	for _, i := range at[room:] {
		others = append(others, p.tasks[i])
	}
	at = at[:room]
	slices.Sort(at)
	return p.rowsOf(at) + p.dim(fmt.Sprintf("  … %d more: %s", len(others), countStates(others))) + "\n"
}

func (p *runPage) rowsOf(at []int) string {
	rows := make([][]string, len(at))
	for k, i := range at {
		rows[k] = p.taskRow(&p.tasks[i])
	}
	return strings.Join(p.alignTasks(rows), "\n") + "\n"
}

// lastLine is what a task wrote last that is under way, where somebody listens.
func (p *runPage) lastLine(t *queue.Task) string {
	if p.latest == nil || t.State != "running" && t.State != "finishing" {
		return ""
	}
	return p.latest(taskName(t.Step, t.Item))
}
