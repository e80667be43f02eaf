package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

func newEventsCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "events",
		Usage:     "tell the story of a run: who asked for what, what happened when",
		ArgsUsage: "RUN",
		Description: manual{
			about: `RUN is a number or @latest. Tells in the order of time when the run was asked for, started and ended, when its
tasks began, which attempts failed, what was asked of it, which workers it lost. Of a run that was retried, tasks show
their latest generation. In JSON, kind is enqueued, run_started, task_started, attempt_ended, task_ended, asked,
run_ended, or what the run's own log has: control, lost, skip, replace, canceled, … For readers (role oarlock_read).`,
			examples: []string{
				"oarlock events 41",
				"oarlock events @latest -o json | jq -r '.[] | select(.kind == \"lost\") | .message'",
			},
			exits: []exitNote{
				{exitOK, "the story was told"},
				deniedNote, usageNote,
				{exitNotFound, "there is no such run, or it is not yours"},
				unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error { return runEvents(c.Context, e, c.Args().Slice()) },
	}
}

type jsonEvent struct {
	Run     int64           `json:"run"`
	At      time.Time       `json:"at"`
	Kind    string          `json:"kind"`
	By      *string         `json:"by"`
	Worker  *string         `json:"worker"`
	Epoch   *int            `json:"epoch"`
	Step    *string         `json:"step"`
	Item    *string         `json:"item"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

func runEvents(ctx context.Context, e *env, args []string) error {
	arg, err := oneRun("events", args)
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		id, err := arg.find(ctx, store)
		if err != nil {
			return err
		}
		story, err := readStory(ctx, store, id)
		if err != nil {
			return err
		}
		return e.say(e.storyAnswer(story))
	})
}

// readEvents reads the run's own log after an event.
func readEvents(ctx context.Context, store *queue.Store, id queue.RunID, after int64) ([]queue.Event, error) {
	var all []queue.Event
	for {
		page, err := store.Events(ctx, id, after)
		all = append(all, page...)
		if err != nil || len(page) < queue.MaxEvents {
			return all, err
		}
		after = page[len(page)-1].ID
	}
}

// story gathers what is known of a run from where it is kept: the run, its tasks and attempts, requests, its own log.
type story struct {
	run       int64
	submitter string
	spec      *dagspec.Spec // of the run's version
	events    []jsonEvent
}

func readStory(ctx context.Context, store *queue.Store, id queue.RunID) (*story, error) {
	run, err := store.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	tasks, err := store.Tasks(ctx, id)
	if err != nil {
		return nil, err
	}
	attempts, err := store.Attempts(ctx, id)
	if err != nil {
		return nil, err
	}
	controls, err := store.Controls(ctx, id)
	if err != nil {
		return nil, err
	}
	events, err := readEvents(ctx, store, id, 0)
	if err != nil {
		return nil, err
	}
	_, spec, err := getDAG(ctx, store, run.DAG, run.Version)
	if err != nil {
		return nil, err
	}
	s := &story{run: int64(id), submitter: run.SubmittedBy, spec: spec}
	s.tell(run, tasks, attempts, controls, events)
	return s, nil
}

// tell puts it all in one order. What comes first here does so where times are equal: one commit ends a task and starts
// its children.
func (s *story) tell(run *queue.Run, tasks []queue.Task, attempts []queue.Attempt, controls []queue.Control, events []queue.Event) {
	s.begin(run)
	for i := range tasks {
		if t := &tasks[i]; t.StartedAt.Equal(t.FinishedAt) {
			s.taskStarted(t)
		}
	}
	lost := lostAttempts(events)
	for i := range attempts {
		if a := &attempts[i]; !lost[attemptName{a.Step, a.Item, a.Attempt}] {
			s.attempt(a)
		}
	}
	for i := range controls {
		s.asked(&controls[i])
	}
	for i := range events {
		s.logged(&events[i])
	}
	for i := range tasks {
		s.taskEnded(&tasks[i])
	}
	for i := range tasks {
		if t := &tasks[i]; !t.StartedAt.Equal(t.FinishedAt) {
			s.taskStarted(t)
		}
	}
	s.end(run)
	slices.SortStableFunc(s.events, func(a, b jsonEvent) int { return a.At.Compare(b.At) })
}

// add leaves out what has not happened.
func (s *story) add(at time.Time, e jsonEvent) {
	if at.IsZero() {
		return
	}
	e.Run, e.At = s.run, at.UTC()
	s.events = append(s.events, e)
}

func (s *story) begin(r *queue.Run) {
	asked := fmt.Sprintf("asked for by %s: %s version %d", r.SubmittedBy, r.DAG, r.Version)
	s.add(r.CreatedAt, jsonEvent{Kind: "enqueued", By: orNull(r.SubmittedBy), Message: asked})
	started := "started"
	if r.Generation > 1 {
		started = fmt.Sprintf("started again, generation %d", r.Generation)
	}
	s.add(r.StartedAt, jsonEvent{Kind: "run_started", Message: started})
}

func (s *story) end(r *queue.Run) {
	message := r.State
	if r.Reason != "" {
		message += ": " + r.Reason
	}
	s.add(r.FinishedAt, jsonEvent{Kind: "run_ended", Message: message})
}

func (s *story) taskStarted(t *queue.Task) {
	if t.Attempt == 0 {
		return
	}
	message := "started"
	if a := s.approval(t); a != nil {
		message = "waits for approval by " + deciders(a.Approvers, s.submitter)
	}
	s.add(t.StartedAt, jsonEvent{Kind: "task_started", Worker: orNull(t.Worker), Step: &t.Step, Item: orNull(t.Item), Message: message})
}

// approval is what a task asked for approval with; nil where it is something else, or the node of a foreach.
func (s *story) approval(t *queue.Task) *dagspec.Approval {
	if t.Kind == "foreach" && t.Item == "" {
		return nil
	}
	return approvalOf(s.spec, t.Step)
}

func (s *story) taskEnded(t *queue.Task) {
	message := t.State
	if t.Attempt > 1 {
		message += fmt.Sprintf(" in attempt %d", t.Attempt)
	}
	if t.Reason != "" && t.Reason != "ran" {
		message += ": " + t.Reason
	}
	event := jsonEvent{Kind: "task_ended", Worker: orNull(t.Worker), Step: &t.Step, Item: orNull(t.Item)}
	if given := paramText(t.Outputs); s.approval(t) != nil && given != "" {
		message += " with " + given
		event.Data = t.Outputs
	}
	event.Message = message
	s.add(t.FinishedAt, event)
}

type attemptName struct {
	step, item string
	attempt    int
}

// lostAttempts are those whose loss the run's own log tells of: the story has each once.
func lostAttempts(events []queue.Event) map[attemptName]bool {
	lost := map[attemptName]bool{}
	for i := range events {
		e := &events[i]
		var n int
		if _, err := fmt.Sscanf(e.Message, "attempt %d ", &n); e.Kind == "lost" && err == nil {
			lost[attemptName{e.Step, e.Item, n}] = true
		}
	}
	return lost
}

func (s *story) attempt(a *queue.Attempt) {
	message := fmt.Sprintf("attempt %d %s", a.Attempt, a.State)
	if a.Reason != "" {
		message += ": " + a.Reason
	}
	s.add(a.FinishedAt, jsonEvent{Kind: "attempt_ended", Worker: orNull(a.Worker), Step: &a.Step, Item: orNull(a.Item), Message: message})
}

func (s *story) asked(c *queue.Control) {
	message := fmt.Sprintf("%s asked for by %s", c.Verb, c.By)
	if c.DecidedAt.IsZero() {
		message += ", not decided yet"
	} else if c.Outcome != "" {
		message += fmt.Sprintf(": %s", c.Outcome)
	}
	s.add(c.At, jsonEvent{Kind: "asked", By: orNull(c.By), Step: orNull(c.Step), Item: orNull(c.Item), Message: message})
}

func (s *story) logged(e *queue.Event) {
	j := jsonEvent{
		Kind: e.Kind, By: orNull(e.By), Worker: orNull(e.Worker), Step: orNull(e.Step), Item: orNull(e.Item), Message: e.Message,
	}
	if e.Epoch > 0 {
		j.Epoch = &e.Epoch
	}
	s.add(e.At, j)
}

func (e *env) storyAnswer(s *story) answer {
	paint := e.stdoutPaint()
	a := answer{object: s.events, lines: []any{}}
	var rows [][]string
	for i := range s.events {
		event := &s.events[i]
		a.lines = append(a.lines, *event)
		at := event.At.Local().Format("2006-01-02 15:04:05.000Z07:00")
		rows = append(rows, []string{paint.dim(at), event.about(), paint.eventText(event)})
	}
	a.text = alignRows(rows)
	return a
}

// about is the task that an event is about, or the run.
func (e *jsonEvent) about() string {
	if e.Step == nil {
		return "run"
	}
	return shown(taskArg(&queue.Task{Step: *e.Step, Item: deref(e.Item)}))
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (p painter) eventText(e *jsonEvent) string {
	text := shown(e.Message)
	switch e.Kind {
	case "lost", "refused", "queue_timeout":
		return p.bad(text)
	case "asked", "control", "canceled":
		return p.warn(text)
	case "run_started", "run_ended", "enqueued":
		return p.bold(text)
	}
	return text
}
