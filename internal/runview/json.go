package runview

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// RunJSON is a run as programs get it. Fields may be added, never renamed.
type RunJSON struct {
	ID          int64             `json:"id"`
	UID         string            `json:"uid"`
	DAG         string            `json:"dag"`
	Version     int               `json:"version"`
	Generation  int               `json:"generation"`
	State       string            `json:"state"`
	Reason      *string           `json:"reason"`
	Tolerated   int               `json:"tolerated"`
	Queue       string            `json:"queue"`
	Priority    int               `json:"priority"`
	Params      json.RawMessage   `json:"params"`
	Labels      map[string]string `json:"labels"`
	RunKey      *string           `json:"run_key"`
	Trigger     string            `json:"trigger"`
	SubmittedBy string            `json:"submitted_by"`
	Epoch       int               `json:"epoch"`
	Worker      *string           `json:"worker"`
	Parent      *int64            `json:"parent"`
	RetryOf     *int64            `json:"retry_of"`
	RunAt       *time.Time        `json:"run_at"`
	LogicalAt   *time.Time        `json:"logical_at"`
	CreatedAt   *time.Time        `json:"created_at"`
	StartedAt   *time.Time        `json:"started_at"`
	FinishedAt  *time.Time        `json:"finished_at"`

	Schedule          *string    `json:"schedule"` // that made it
	PreviousLogicalAt *time.Time `json:"previous_logical_at"`

	Actor *string `json:"actor"` // for whom submitted_by asked, where that login signs people in
}

// StatusJSON is a run with its tasks.
type StatusJSON struct {
	RunJSON

	Tasks      []TaskJSON      `json:"tasks"`
	ItemCounts []ItemCountJSON `json:"item_counts"` // of foreach steps whose list is known and not empty
}

// ItemCountJSON counts the items of a foreach step.
type ItemCountJSON struct {
	Step   string         `json:"step"`
	Total  int            `json:"total"`  // of its list
	States map[string]int `json:"states"` // how many are in each state, replaced ones as what replaced them; they add up to Total
}

// TaskJSON is a task as programs get it.
type TaskJSON struct {
	Step          string          `json:"step"`
	Item          *string         `json:"item"`
	Kind          string          `json:"kind"` // step, foreach, handler or replacement
	State         string          `json:"state"`
	Reason        *string         `json:"reason"`
	FailureKind   *string         `json:"failure_kind"`
	ExitCode      *int            `json:"exit_code"`
	Attempt       int             `json:"attempt"`
	Outputs       json.RawMessage `json:"outputs"`
	Worker        *string         `json:"worker"`
	Replaces      *string         `json:"replaces"`
	NextAttemptAt *time.Time      `json:"next_attempt_at"`
	StartedAt     *time.Time      `json:"started_at"`
	FinishedAt    *time.Time      `json:"finished_at"`
	Approval      *QuestionJSON   `json:"approval"` // while it waits for approval
}

// QuestionJSON is what an approval asks of people.
type QuestionJSON struct {
	Prompt    *string       `json:"prompt"`
	Inputs    []queue.Input `json:"inputs"`
	Approvers []string      `json:"approvers"` // null: whoever may control the run
	MayDecide bool          `json:"may_decide"`
	Since     *time.Time    `json:"since"`
	Deadline  *time.Time    `json:"deadline"`
}

// NewRunJSON returns a run as programs get it.
func NewRunJSON(r *queue.Run) RunJSON {
	j := RunJSON{
		ID: int64(r.ID), UID: r.UID.String(), DAG: r.DAG, Version: r.Version, Generation: r.Generation, State: r.State, Reason: TextOrNull(r.Reason),
		Tolerated: r.Tolerated, Queue: r.Queue, Priority: r.Priority, Params: orEmpty(r.Params), Labels: r.Labels,
		RunKey: TextOrNull(r.Key), Trigger: r.Trigger, SubmittedBy: r.SubmittedBy, Epoch: r.Epoch, Worker: TextOrNull(r.Worker),
		Parent: RunOrNull(r.Parent), RetryOf: RunOrNull(r.RetryOf), RunAt: TimeOrNull(r.RunAt), LogicalAt: TimeOrNull(r.LogicalAt),
		CreatedAt: TimeOrNull(r.CreatedAt), StartedAt: TimeOrNull(r.StartedAt), FinishedAt: TimeOrNull(r.FinishedAt),
		Schedule: TextOrNull(r.Schedule), PreviousLogicalAt: TimeOrNull(r.PreviousLogicalAt), Actor: TextOrNull(r.Actor),
	}
	if j.Labels == nil {
		j.Labels = map[string]string{}
	}
	return j
}

// NewTaskJSON returns a task as programs get it.
func NewTaskJSON(t *queue.Task) TaskJSON {
	j := TaskJSON{
		Step: t.Step, Item: TextOrNull(t.Item), Kind: t.Kind, State: t.State, Reason: TextOrNull(t.Reason), FailureKind: TextOrNull(t.FailureKind),
		ExitCode: t.ExitCode, Attempt: t.Attempt, Outputs: orEmpty(t.Outputs), Worker: TextOrNull(t.Worker), Replaces: TextOrNull(t.Replaces),
		NextAttemptAt: TimeOrNull(t.NextAttemptAt), StartedAt: TimeOrNull(t.StartedAt), FinishedAt: TimeOrNull(t.FinishedAt),
	}
	if t.Approval != nil {
		q := NewQuestionJSON(t.Approval)
		j.Approval = &q
	}
	return j
}

// NewStatusJSON returns a run with its tasks, and with what Store.CountItems counted. Its worker is the one that drove the run
// last, where none does.
func NewStatusJSON(r *queue.Run, tasks []queue.Task, counted []queue.StepSummary) StatusJSON {
	j := StatusJSON{RunJSON: NewRunJSON(r), Tasks: make([]TaskJSON, len(tasks)), ItemCounts: newItemCounts(counted)}
	j.Worker = TextOrNull(DriverOf(r, tasks))
	for i := range tasks {
		j.Tasks[i] = NewTaskJSON(&tasks[i])
	}
	return j
}

// NewLargeStatusJSON returns a run that has more tasks than go into one answer: without them.
func NewLargeStatusJSON(r *queue.Run, counted []queue.StepSummary) StatusJSON {
	return StatusJSON{RunJSON: NewRunJSON(r), ItemCounts: newItemCounts(counted)}
}

// newItemCounts returns the counts as programs get them.
func newItemCounts(counted []queue.StepSummary) []ItemCountJSON {
	items := make([]ItemCountJSON, len(counted))
	for i := range counted {
		items[i] = ItemCountJSON{counted[i].Step, counted[i].Items, counted[i].States}
	}
	return items
}

// NewQuestionJSON returns what an approval asks as programs get it.
func NewQuestionJSON(q *queue.Question) QuestionJSON {
	inputs := q.Inputs
	if inputs == nil {
		inputs = []queue.Input{}
	}
	return QuestionJSON{
		Prompt: TextOrNull(q.Prompt), Inputs: inputs, Approvers: q.Approvers, MayDecide: q.MayDecide,
		Since: TimeOrNull(q.Since), Deadline: TimeOrNull(q.Deadline),
	}
}

// orEmpty returns a JSON object, one without fields for no text and for null.
func orEmpty(text json.RawMessage) json.RawMessage {
	if len(text) == 0 || string(text) == "null" {
		return json.RawMessage("{}")
	}
	return text
}

// TextOrNull returns nil for "".
func TextOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// TimeOrNull returns a time in UTC, nil for the zero time.
func TimeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// RunOrNull returns nil for 0.
func RunOrNull(id queue.RunID) *int64 {
	if id == 0 {
		return nil
	}
	n := int64(id)
	return &n
}

// CompactJSON returns the JSON of a value on one line, as InertJSON and with <, > and & as they are, so that a hint in it can
// be typed. It panics for a value that has no JSON form, which none made by this program is.
func CompactJSON(v any) string {
	var text strings.Builder
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("runview: %T has no JSON form: %v", v, err))
	}
	return InertJSON(strings.TrimSuffix(text.String(), "\n"))
}

// InertJSON returns the same JSON without characters that would command a terminal, or turn the order of what it shows: texts of
// a submitter may hold these. Outside of texts JSON has no such characters.
func InertJSON(text string) string {
	if !strings.ContainsFunc(text, commandsTerminal) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if commandsTerminal(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
