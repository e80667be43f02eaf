package runview

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// StoryEvent is one event of a run. Its texts are as they were stored: a caller that shows them passes them through
// InlineText or escapes them. Fields may be added to its JSON, never renamed.
type StoryEvent struct {
	Run     int64           `json:"run"`
	At      time.Time       `json:"at"`
	Kind    string          `json:"kind"` // enqueued, run_started, taken_over, task_started, attempt_started, attempt_ended, task_ended, asked, run_ended, or that of a queue.Event
	By      *string         `json:"by"`
	Worker  *string         `json:"worker"`
	Epoch   *int            `json:"epoch"`
	Step    *string         `json:"step"`
	Item    *string         `json:"item"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

// About returns the name of the event's task, or "run" for an event of the run itself.
func (e *StoryEvent) About() string {
	if e.Step == nil {
		return "run"
	}
	item := ""
	if e.Item != nil {
		item = *e.Item
	}
	return InlineText(TaskName(*e.Step, item))
}

// Story returns the events of a run, oldest first. They come from several places: the run, its tasks and their attempts, requests
// (controls), and the run's own log (events). spec is of the run's version. Without it, waiting approvals look like other tasks.
//
// One commit ends a task and starts its children, so both have the same time. The end then comes first.
func Story(run *queue.Run, tasks []queue.Task, attempts []queue.Attempt, controls []queue.Control, events []queue.Event, spec *dagspec.Spec) []StoryEvent {
	s := &storyBuilder{run: run, spec: spec, approved: Approved(controls), children: map[taskKey]string{}}
	starts := startsOf(tasks, attempts)
	s.addBeginning()
	for i := range starts {
		if starts[i].ended {
			s.addStart(&starts[i])
		}
	}
	lost := lostAttempts(events)
	for i := range attempts {
		if a := &attempts[i]; !lost[attemptKey{a.Step, a.Item, a.Attempt}] {
			s.addAttempt(a)
		}
	}
	for i := range controls {
		if c := &controls[i]; c.Verb == dagrun.VerbChildEnded && c.Outcome == dagrun.Applied {
			s.children[taskKey{c.Step, c.Item}] = c.By // the end of the step reports the end of the child run
		} else {
			s.addControl(c)
		}
	}
	for i := range events {
		s.addTakeover(events[i:], starts)
		s.addLogged(&events[i])
	}
	for i := range tasks {
		s.addTaskEnd(&tasks[i])
	}
	for i := range starts {
		if !starts[i].ended {
			s.addStart(&starts[i])
		}
	}
	s.addEnd()
	slices.SortStableFunc(s.events, func(a, b StoryEvent) int { return a.At.Compare(b.At) })
	return s.events
}

// storyBuilder collects the events of one run.
type storyBuilder struct {
	run    *queue.Run
	spec   *dagspec.Spec
	events []StoryEvent

	approved map[string]bool    // names of tasks that a person approved
	children map[taskKey]string // the child run that ended last for a task, as in "run 13"
}

type taskKey struct{ step, item string }

// add adds an event. It leaves out an event with a zero time, which has not happened.
func (s *storyBuilder) add(at time.Time, e StoryEvent) {
	if at.IsZero() {
		return
	}
	e.Run, e.At = int64(s.run.ID), at.UTC()
	s.events = append(s.events, e)
}

func (s *storyBuilder) addBeginning() {
	r := s.run
	asked := fmt.Sprintf("asked for by %s: %s version %d", r.AskedBy(), r.DAG, r.Version)
	s.add(r.CreatedAt, StoryEvent{Kind: "enqueued", By: TextOrNull(r.AskedBy()), Message: asked})
	started := "started"
	if r.Generation > 1 {
		started = fmt.Sprintf("started again, generation %d", r.Generation)
	}
	s.add(r.StartedAt, StoryEvent{Kind: "run_started", Message: started})
}

func (s *storyBuilder) addEnd() {
	r := s.run
	message := r.State
	if r.Reason != "" {
		message += ": " + r.Reason
	}
	s.add(r.FinishedAt, StoryEvent{Kind: "run_ended", Message: message})
}

// approval returns the approval of a task. It returns nil for a task that is no approval, for the node of a foreach step, for a
// rejected approval, and without a spec.
func (s *storyBuilder) approval(t *queue.Task) *dagspec.Approval {
	if s.spec == nil || !HasLog(t) {
		return nil
	}
	return approvalOf(s.spec, t.Step)
}

func (s *storyBuilder) addTaskEnd(t *queue.Task) {
	message := t.State
	if t.Attempt > 1 {
		message += fmt.Sprintf(" in attempt %d", t.Attempt)
	}
	if child := s.children[taskKey{t.Step, t.Item}]; child != "" {
		message += " by " + child
	}
	if t.Reason != "" && t.Reason != "ran" {
		message += ": " + t.Reason
	}
	event := StoryEvent{Kind: "task_ended", Worker: TextOrNull(t.Worker), Step: &t.Step, Item: TextOrNull(t.Item)}
	if given := ParamText(t.Outputs); given != "" && (s.approval(t) != nil || s.approved[TaskName(t.Step, t.Item)]) {
		message += " with " + given
		event.Data = t.Outputs
	}
	event.Message = message
	s.add(t.FinishedAt, event)
}

// Approved returns the tasks that a person approved, by the applied requests of a run. Their names are those of TaskName.
func Approved(controls []queue.Control) map[string]bool {
	approved := map[string]bool{}
	for i := range controls {
		if c := &controls[i]; c.Verb == dagrun.VerbApprove && c.Outcome == dagrun.Applied {
			approved[TaskName(c.Step, c.Item)] = true
		}
	}
	return approved
}

type attemptKey struct {
	step, item string
	attempt    int
}

// lostAttempts returns the attempts that the run's own log reports as lost. The story leaves out their rows, so that it has each
// loss only once.
func lostAttempts(events []queue.Event) map[attemptKey]bool {
	lost := map[attemptKey]bool{}
	for i := range events {
		e := &events[i]
		var n int
		if _, err := fmt.Sscanf(e.Message, "attempt %d ", &n); e.Kind == "lost" && err == nil {
			lost[attemptKey{e.Step, e.Item, n}] = true
		}
	}
	return lost
}

func (s *storyBuilder) addAttempt(a *queue.Attempt) {
	message := fmt.Sprintf("attempt %d %s", a.Attempt, a.State)
	if a.Reason != "" {
		message += ": " + a.Reason
	}
	s.add(a.FinishedAt, StoryEvent{Kind: "attempt_ended", Worker: TextOrNull(a.Worker), Step: &a.Step, Item: TextOrNull(a.Item), Message: message})
}

func (s *storyBuilder) addControl(c *queue.Control) {
	message := fmt.Sprintf("%s asked for by %s", c.Verb, c.By)
	if c.DecidedAt.IsZero() {
		message += ", not decided yet"
	} else if c.Outcome != "" {
		message += fmt.Sprintf(": %s", c.Outcome)
	}
	s.add(c.At, StoryEvent{Kind: "asked", By: TextOrNull(c.By), Step: TextOrNull(c.Step), Item: TextOrNull(c.Item), Message: message})
}

func (s *storyBuilder) addLogged(e *queue.Event) {
	j := StoryEvent{
		Kind: e.Kind, By: TextOrNull(e.By), Worker: TextOrNull(e.Worker), Step: TextOrNull(e.Step), Item: TextOrNull(e.Item), Message: e.Message,
	}
	if e.Epoch > 0 {
		j.Epoch = &e.Epoch
	}
	s.add(e.At, j)
}
