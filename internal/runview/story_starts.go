package runview

import (
	"fmt"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// attemptStart is the start of an attempt.
type attemptStart struct {
	key     taskKey
	at      time.Time
	worker  string      // "": not known
	attempt int         // its number; 0: unknown, which is possible only for the first attempt of a task
	task    *queue.Task // task that began with this attempt; nil: the task had begun before
	ended   bool        // the attempt ended at the same time, so the start must come first
}

// startsOf returns the start of each task, and of each further attempt of a task, in no particular order. The row of a task shows
// its first start and its last attempt, which may have no row in attempts.
func startsOf(tasks []queue.Task, attempts []queue.Attempt) (starts []attemptStart) {
	began := map[taskKey]*attemptStart{}
	for i := range tasks {
		t := &tasks[i]
		key := taskKey{t.Step, t.Item}
		if t.Attempt == 0 || t.StartedAt.IsZero() {
			continue
		}
		first := &attemptStart{key: key, at: t.StartedAt, task: t, ended: t.StartedAt.Equal(t.FinishedAt)}
		if t.Attempt == 1 || t.AttemptAt.Equal(t.StartedAt) {
			first.worker, first.attempt = t.Worker, t.Attempt
		}
		began[key] = first
	}
	told := map[attemptKey]bool{}
	for i := range attempts {
		a := &attempts[i]
		key := taskKey{a.Step, a.Item}
		told[attemptKey{a.Step, a.Item, a.Attempt}] = true
		if first := began[key]; first != nil && first.at.Equal(a.StartedAt) {
			first.worker, first.attempt = a.Worker, a.Attempt
		} else {
			starts = append(starts, attemptStart{key: key, at: a.StartedAt, worker: a.Worker, attempt: a.Attempt, ended: a.StartedAt.Equal(a.FinishedAt)})
		}
	}
	for i := range tasks {
		t := &tasks[i]
		key := taskKey{t.Step, t.Item}
		first := began[key]
		if first == nil {
			continue
		}
		starts = append(starts, *first)
		if !t.AttemptAt.Equal(first.at) && !told[attemptKey{t.Step, t.Item, t.Attempt}] {
			starts = append(starts, attemptStart{key: key, at: t.AttemptAt, worker: t.Worker, attempt: t.Attempt, ended: t.AttemptAt.Equal(t.FinishedAt)})
		}
	}
	return slices.DeleteFunc(starts, func(a attemptStart) bool { return a.at.IsZero() })
}

func (s *storyBuilder) addStart(a *attemptStart) {
	kind, message := "task_started", "started"
	if a.task == nil {
		kind = "attempt_started"
	}
	if a.task == nil || a.attempt > 1 {
		message = fmt.Sprintf("attempt %d started", a.attempt)
	}
	if a.worker != "" {
		message += " on " + a.worker
	}
	if a.task != nil {
		if approval := s.approval(a.task); approval != nil {
			message = "waits for approval by " + Deciders(approval.Approvers, s.run.SubmittedBy)
		}
	}
	s.add(a.at, StoryEvent{Kind: kind, Worker: TextOrNull(a.worker), Step: &a.key.step, Item: TextOrNull(a.key.item), Message: message})
}

// addTakeover adds an event for the worker that drove the run after events[0], if that is the loss of a driver. No record holds a
// claim alone, so the event names the first worker that the later events, or an attempt, name. If there is none, it adds nothing.
func (s *storyBuilder) addTakeover(events []queue.Event, starts []attemptStart) {
	lost := &events[0]
	if lost.Kind != "lost" || lost.Step != "" {
		return
	}
	var next StoryEvent
	var at time.Time
	for i := range events {
		if e := &events[i]; e.Worker != "" && e.Epoch > lost.Epoch {
			next.Worker, next.Epoch, at = &e.Worker, &e.Epoch, e.At
			break
		}
	}
	for i := range starts {
		if a := &starts[i]; a.worker != "" && !a.at.Before(lost.At) && (at.IsZero() || a.at.Before(at)) {
			next.Worker, next.Epoch, at = &a.worker, nil, a.at
		}
	}
	if next.Worker == nil {
		return
	}
	next.Kind, next.Message = "taken_over", *next.Worker+" took over"
	switch lost.Worker {
	case "":
	case *next.Worker:
		next.Message += " again"
	default:
		next.Message += " from " + lost.Worker
	}
	s.add(at, next)
}
