package cli

import (
	"encoding/json"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// jsonRun is a run as scripts see it. Fields may be added, never renamed.
type jsonRun struct {
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
}

// jsonStatus is what `status`, `enqueue --wait` and `run` print of one run.
type jsonStatus struct {
	jsonRun

	Tasks []jsonTask `json:"tasks"`
}

type jsonTask struct {
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
	Approval      *jsonQuestion   `json:"approval"` // while it waits for approval
}

func runJSON(r *queue.Run) jsonRun {
	j := jsonRun{
		ID: int64(r.ID), UID: r.UID.String(), DAG: r.DAG, Version: r.Version, Generation: r.Generation, State: r.State, Reason: orNull(r.Reason),
		Tolerated: r.Tolerated, Queue: r.Queue, Priority: r.Priority, Params: orEmpty(r.Params), Labels: r.Labels,
		RunKey: orNull(r.Key), Trigger: r.Trigger, SubmittedBy: r.SubmittedBy, Epoch: r.Epoch, Worker: orNull(r.Worker),
		Parent: runOrNull(r.Parent), RetryOf: runOrNull(r.RetryOf), RunAt: utcOrNull(r.RunAt), LogicalAt: utcOrNull(r.LogicalAt),
		CreatedAt: utcOrNull(r.CreatedAt), StartedAt: utcOrNull(r.StartedAt), FinishedAt: utcOrNull(r.FinishedAt),
		Schedule: orNull(r.Schedule), PreviousLogicalAt: utcOrNull(r.PreviousLogicalAt),
	}
	if j.Labels == nil {
		j.Labels = map[string]string{}
	}
	return j
}

func taskJSON(t *queue.Task) jsonTask {
	j := jsonTask{
		Step: t.Step, Item: orNull(t.Item), Kind: t.Kind, State: t.State, Reason: orNull(t.Reason), FailureKind: orNull(t.FailureKind),
		ExitCode: t.ExitCode, Attempt: t.Attempt, Outputs: orEmpty(t.Outputs), Worker: orNull(t.Worker), Replaces: orNull(t.Replaces),
		NextAttemptAt: utcOrNull(t.NextAttemptAt), StartedAt: utcOrNull(t.StartedAt), FinishedAt: utcOrNull(t.FinishedAt),
	}
	if t.Approval != nil {
		q := questionJSON(t.Approval)
		j.Approval = &q
	}
	return j
}

func statusJSON(r *queue.Run, tasks []queue.Task) jsonStatus {
	j := jsonStatus{jsonRun: runJSON(r), Tasks: make([]jsonTask, len(tasks))}
	j.Worker = orNull(driverOf(r, tasks))
	for i := range tasks {
		j.Tasks[i] = taskJSON(&tasks[i])
	}
	return j
}

// orEmpty is for JSON objects: nothing given, or null, is one without fields.
func orEmpty(text json.RawMessage) json.RawMessage {
	if len(text) == 0 || string(text) == "null" {
		return json.RawMessage("{}")
	}
	return text
}

func runOrNull(id queue.RunID) *int64 {
	if id == 0 {
		return nil
	}
	n := int64(id)
	return &n
}

// driverOf is the worker that drives a run, or that drove it last.
func driverOf(r *queue.Run, tasks []queue.Task) string {
	if r.Worker != "" {
		return r.Worker
	}
	last := queue.Task{}
	for i := range tasks {
		if t := &tasks[i]; t.Worker != "" && !t.FinishedAt.Before(last.FinishedAt) {
			last = *t
		}
	}
	return last.Worker
}
