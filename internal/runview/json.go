package runview

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/plainjson"
	"github.com/oarlock-dev/oarlock/queue"
)

// RunJSON is the JSON of a run. Fields may be added, never renamed.
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

	Schedule          *string    `json:"schedule"` // schedule that made the run
	PreviousLogicalAt *time.Time `json:"previous_logical_at"`

	Actor *string `json:"actor"` // user for whom submitted_by made the request, if that login signs users in
}

// StatusJSON is the JSON of a run with its tasks.
type StatusJSON struct {
	RunJSON

	Tasks      []TaskJSON      `json:"tasks"`
	ItemCounts []ItemCountJSON `json:"item_counts"` // of foreach steps with a known list that is not empty
}

// ItemCountJSON counts the items of a foreach step.
type ItemCountJSON struct {
	Step   string         `json:"step"`
	Total  int            `json:"total"`  // items of the list
	States map[string]int `json:"states"` // items by state; a replaced item has the state of its replacement. The sum is Total
}

// TaskJSON is the JSON of a task.
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

// QuestionJSON is the JSON of the question that an approval asks.
type QuestionJSON struct {
	Prompt    *string         `json:"prompt"`
	Inputs    []dagspec.Param `json:"inputs"`
	Approvers []string        `json:"approvers"` // null: every user with the right to control the run
	MayDecide bool            `json:"may_decide"`
	Since     *time.Time      `json:"since"`
	Deadline  *time.Time      `json:"deadline"`
}

// NewRunJSON returns the JSON of a run. Empty texts, zero times and missing runs become null; missing params and labels become {}.
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

// NewTaskJSON returns the JSON of a task. Empty texts and zero times become null; missing outputs become {}.
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

// NewStatusJSON returns the JSON of a run with its tasks. counted is the result of Store.CountItems. If no worker drives the run,
// its worker is the one that drove it last: see DriverOf.
func NewStatusJSON(r *queue.Run, tasks []queue.Task, counted []queue.StepSummary) StatusJSON {
	j := StatusJSON{RunJSON: NewRunJSON(r), Tasks: make([]TaskJSON, len(tasks)), ItemCounts: newItemCounts(counted)}
	j.Worker = TextOrNull(DriverOf(r, tasks))
	for i := range tasks {
		j.Tasks[i] = NewTaskJSON(&tasks[i])
	}
	return j
}

// NewLargeStatusJSON returns the JSON of a run with null for its tasks, because they are too many for one answer.
func NewLargeStatusJSON(r *queue.Run, counted []queue.StepSummary) StatusJSON {
	return StatusJSON{RunJSON: NewRunJSON(r), ItemCounts: newItemCounts(counted)}
}

func newItemCounts(counted []queue.StepSummary) []ItemCountJSON {
	items := make([]ItemCountJSON, len(counted))
	for i := range counted {
		items[i] = ItemCountJSON{counted[i].Step, counted[i].Items, counted[i].States}
	}
	return items
}

// NewQuestionJSON returns the JSON of the question that an approval asks.
func NewQuestionJSON(q *queue.Question) QuestionJSON {
	inputs := q.Inputs
	if inputs == nil {
		inputs = []dagspec.Param{}
	}
	return QuestionJSON{
		Prompt: TextOrNull(q.Prompt), Inputs: inputs, Approvers: q.Approvers, MayDecide: q.MayDecide,
		Since: TimeOrNull(q.Since), Deadline: TimeOrNull(q.Deadline),
	}
}

// orEmpty returns text, and {} for an empty text and for null.
func orEmpty(text json.RawMessage) json.RawMessage {
	if len(text) == 0 || string(text) == "null" {
		return json.RawMessage("{}")
	}
	return text
}

// TextOrNull returns a pointer to a text, and nil for "".
func TextOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// TimeOrNull returns a pointer to a time in UTC, and nil for the zero time.
func TimeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

// RunOrNull returns a pointer to the id of a run, and nil for 0.
func RunOrNull(id queue.RunID) *int64 {
	if id == 0 {
		return nil
	}
	n := int64(id)
	return &n
}

// CompactJSON returns the JSON of a value on one line. Characters that would control a terminal become escapes, as by InertJSON. <,
// > and & stay as they are, so that a person can type a hint from the JSON. CompactJSON panics for a value without a JSON form.
// Rows of the database go through EncodeJSON.
func CompactJSON(v any) string {
	text, err := EncodeJSON(v)
	if err != nil {
		panic(fmt.Sprintf("runview: %T has no JSON form: %v", v, err))
	}
	return text
}

// EncodeJSON is CompactJSON, but returns an error for a value without a JSON form, such as a time beyond the year 9999.
func EncodeJSON(v any) (string, error) {
	text, err := plainjson.Compact(v)
	if err != nil {
		return "", fmt.Errorf("write JSON: %w", err)
	}
	return InertJSON(string(text)), nil
}

// InertJSON returns the same JSON with escapes for the characters that would control a terminal or change the order of its text. A
// submitter's texts may hold such characters. JSON has none outside of texts.
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
