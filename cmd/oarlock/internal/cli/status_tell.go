package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// Bounds for a step with more items than a page shows: lines about its progress, and failed items that are named.
const (
	toldParts = 10
	toldItems = 3
)

// tell writes to standard error what changed since the last call, one line for each change.
func (w *watcher) tell(page *runPage) error {
	plain := *page
	plain.painter = false
	t := teller{watcher: w, page: &plain}
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

// teller collects the lines of one call of tell.
type teller struct {
	*watcher

	page *runPage
	text strings.Builder
}

// line adds a line, unless the last line with this key was about the same state.
func (t *teller) line(key, state, text string) {
	if t.seen[key] != state {
		t.seen[key] = state
		fmt.Fprintf(&t.text, "%s  %s\n", t.page.now.Format(time.TimeOnly), text)
	}
}

func (t *teller) task(task *queue.Task) {
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

// items describes the progress of a step with many items, and names the first items that failed.
func (t *teller) items(node *queue.Task, items []queue.Task, progress runview.ItemProgress) {
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

// toDecide returns the lines that show what an approval asks, and how to approve it.
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
