package cli

import (
	"fmt"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// fewTasks are the lines of the most telling tasks, as many as there is room for, in their order, and what the others are.
func (p *runPage) fewTasks() string {
	limit := p.rows
	unlisted := p.unlisted()
	if len(p.tasks)+unlisted > limit {
		limit = max(limit-1, 1) // a row says what the others are
	}
	urgent, others := runview.SplitUrgent(p.tasks, limit)
	text := p.rowsOf(urgent)
	if more := len(others) + unlisted; more > 0 {
		text += p.dim(fmt.Sprintf("  … %d more: %s", more, runview.CountStates(others, unlisted))) + "\n"
	}
	return text
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
	return p.latest(runview.TaskName(t.Step, t.Item))
}
