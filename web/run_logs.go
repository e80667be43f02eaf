package web

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	tailLines = 20  // of each log
	tailTasks = 100 // tasks read in each state, to find tasks that have logs
)

// tailStates are the states of tasks on the page of logs, the most urgent first.
var tailStates = [][]string{{"failed"}, {"running", "finishing", "retrying"}, {"succeeded"}}

// runLogs is the content of the page with the last lines of several logs of a run.
type runLogs struct {
	*runPage

	Tails   []logTail
	More    bool // there may be more logs
	Command string
}

// logTail is the end of a log.
type logTail struct {
	taskLine

	Path  string // of the whole log
	Lines []logLine
	Older bool // the log has lines before Lines
}

// LogsLink links to the page with the last lines of the run's logs.
func (p *runPage) LogsLink() string { return runPath(p.Query.ID) + "/log" }

// runLogs shows the last lines of logs of a run, up to queue.MaxLogTails: first of failed tasks, then of running ones, then of
// succeeded ones.
func (s *server) runLogs(w http.ResponseWriter, r *http.Request) error {
	id, err := parseRunID(r)
	if err != nil {
		return err
	}
	p, err := s.readSteps(r.Context(), runQuery{Kind: runKind, ID: id, View: views[0]})
	if err != nil {
		return err
	}
	logs := &runLogs{runPage: p, Command: fmt.Sprintf("oarlock logs %d --tail %d", id, tailLines)}
	if err := s.readTails(r.Context(), logs); err != nil {
		return err
	}
	return s.render(w, r, "run_logs.html", page{Title: "Logs of " + p.title(), Nav: "runs", Data: logs, Crumbs: p.crumbs(crumb{"log", ""})})
}

// readTails chooses up to queue.MaxLogTails tasks of the run, by the order of tailStates, and fills logs.Tails with the last
// tailLines lines of each one's log. It sets logs.More if there may be more logs.
func (s *server) readTails(ctx context.Context, logs *runLogs) error {
	for _, states := range tailStates {
		if !logs.hasTasks(states) {
			continue
		}
		if len(logs.Tails) == queue.MaxLogTails {
			logs.More = true
			break
		}
		list, err := s.taskList(ctx, logs.runPage, queue.TaskQuery{Run: logs.Query.ID, States: states, Limit: tailTasks})
		if err != nil {
			return err
		}
		logs.add(list)
	}
	tasks := make([]queue.LogOf, len(logs.Tails))
	for i := range logs.Tails {
		tasks[i] = queue.LogOf{Step: logs.Tails[i].Step, Item: logs.Tails[i].Item}
	}
	if len(tasks) == 0 {
		return nil
	}
	windows, err := s.store.LogTails(ctx, logs.Query.ID, tasks, tailLines)
	if err != nil {
		return err
	}
	for i := range windows {
		logs.Tails[i].Older = windows[i].Begin > 1
		for k := range windows[i].Lines {
			logs.Tails[i].Lines = append(logs.Tails[i].Lines, showLine(&windows[i].Lines[k], logQuery{}, nil))
		}
	}
	return nil
}

// hasTasks reports whether a task of the run, items included, is in one of the states.
func (l *runLogs) hasTasks(states []string) bool {
	return slices.ContainsFunc(l.steps, func(t queue.StepSummary) bool {
		return slices.ContainsFunc(states, func(state string) bool { return t.State == state || t.States[state] > 0 })
	})
}

// add appends the tasks of list that have begun and have logs to l.Tails, until there are queue.MaxLogTails. It sets l.More if
// it left some out, or if the list has another page.
func (l *runLogs) add(list *taskList) {
	l.More = l.More || list.Next != ""
	for i := range list.Tasks {
		task := &list.Tasks[i]
		switch {
		case !runview.HasLog(&task.Task) || task.Attempt == 0:
		case len(l.Tails) == queue.MaxLogTails:
			l.More = true
		default:
			q := runQuery{Kind: logKind, ID: l.Query.ID, Task: task.Link}
			l.Tails = append(l.Tails, logTail{taskLine: *task, Path: q.address()})
		}
	}
}
