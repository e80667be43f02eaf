package cli

import (
	"fmt"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// fewTasks returns lines for the most telling tasks, as many as fit, in their order, and a line that counts the others.
func (p *runPage) fewTasks() string {
	limit := p.rows
	unlisted := p.unlisted()
	if len(p.tasks)+unlisted > limit {
		limit = max(limit-1, 1) // the last row counts the others
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

// lastLine returns the last line that a running task wrote; "": not known.
func (p *runPage) lastLine(t *queue.Task) string {
	if p.latest == nil || t.State != "running" && t.State != "finishing" {
		return ""
	}
	return p.latest(runview.TaskName(t.Step, t.Item))
}
