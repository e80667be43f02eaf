package coretest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Kept is what a store holds of one run.
type Kept struct {
	Run      dagrun.RunRecord
	Tasks    map[dagrun.TaskID]dagrun.TaskRecord
	Attempts map[Try]dagrun.AttemptRecord
	Decided  map[int64]dagrun.Decision
	Asked    map[dagrun.TaskID]bool // approvals with an open question
}

// Try identifies one attempt.
type Try struct {
	Task    dagrun.TaskID
	Attempt int
}

// NewKept returns an empty store.
func NewKept() *Kept {
	return &Kept{
		Tasks: map[dagrun.TaskID]dagrun.TaskRecord{}, Attempts: map[Try]dagrun.AttemptRecord{},
		Decided: map[int64]dagrun.Decision{}, Asked: map[dagrun.TaskID]bool{},
	}
}

// Commit stores a whole batch.
func (k *Kept) Commit(r dagrun.Records) {
	k.CommitPrefix(r, len(r.Tasks))
	for _, a := range r.Attempts {
		k.Attempts[Try{a.ID, a.Attempt}] = a
	}
	for _, d := range r.Controls {
		k.Decided[d.ID] = d
	}
	if r.Run != nil {
		k.Run = *r.Run
	}
}

// CommitPrefix stores the first n task rows of a batch and the attempts that go with them. A journal that splits a batch
// leaves this behind when it is interrupted.
func (k *Kept) CommitPrefix(r dagrun.Records, n int) {
	for _, a := range r.Attempts {
		if slices.ContainsFunc(r.Tasks[:n], func(t dagrun.TaskRecord) bool { return t.ID == a.ID }) {
			k.Attempts[Try{a.ID, a.Attempt}] = a
		}
	}
	for _, t := range r.Tasks[:n] {
		k.Tasks[t.ID] = t
		if t.Asks != nil && t.Asks.Open {
			k.Asked[t.ID] = true
		} else if t.Asks != nil {
			delete(k.Asked, t.ID)
		}
	}
}

// misasked returns an error if an approval waits without a question, or a question is open for a task that does not wait.
func (k *Kept) misasked(r *dagrun.Run) error {
	for id, t := range k.Tasks {
		step := r.Spec(id)
		if step == nil {
			continue // the row of an earlier expansion: the task is not in the run now
		}
		if waits := t.State == dagrun.TaskWaiting && t.AttemptAt != 0 && step.Body == dagrun.BodyApproval; waits != k.Asked[id] {
			return fmt.Errorf("task %+v is %s, and its question is open: %v", id, t.State, k.Asked[id])
		}
	}
	return nil
}

// toldTwice returns an error if a row says that an attempt succeeded, and the attempt is also recorded as superseded.
func (k *Kept) toldTwice() error {
	for id, t := range k.Tasks {
		if a, ok := k.Attempts[Try{id, t.Attempt}]; ok && t.State == dagrun.TaskSucceeded && t.AttemptAt != 0 && a.State == t.State {
			return fmt.Errorf("attempt %d of %+v is told of twice", t.Attempt, id)
		}
	}
	return nil
}

// Saved returns what Restore needs.
func (k *Kept) Saved() dagrun.Saved {
	return dagrun.Saved{Run: k.Run, Tasks: slices.SortedFunc(maps.Values(k.Tasks), func(a, b dagrun.TaskRecord) int {
		return cmp.Or(cmp.Compare(b.ID.Step, a.ID.Step), cmp.Compare(b.ID.Item, a.ID.Item), cmp.Compare(a.ID.Alt, b.ID.Alt))
	})}
}
