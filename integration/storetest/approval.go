package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// ask opens or closes the question of an approval according to a task record.
func (row *taskRow) ask(rec *dagrun.TaskRecord) {
	switch {
	case rec.Asks == nil:
	case rec.Asks.Open:
		row.asks = rec.Asks
	default:
		row.asks = nil
	}
	row.Asks = nil // only records have Asks; the row keeps an open question in asks
}

// question returns what an approval asks, nil while it asks nothing.
func (row *taskRow) question() *queue.Question {
	if row.asks == nil {
		return nil
	}
	var inputs []dagspec.Param
	if row.asks.Inputs != "" {
		if err := json.Unmarshal([]byte(row.asks.Inputs), &inputs); err != nil {
			panic(fmt.Sprintf("inputs of an approval: %v", err))
		}
	}
	return &queue.Question{
		Prompt: row.asks.Prompt, Inputs: inputs, Approvers: row.asks.Approvers, MayDecide: true,
		Since: moment(row.AttemptAt), Deadline: moment(row.Deadline),
	}
}

// Approvals returns the approvals that wait, the oldest first. The caller may decide all of them.
func (m *Memory) Approvals(ctx context.Context, _ bool, most int) ([]queue.Approval, error) {
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	approvals := []queue.Approval{}
	for _, r := range m.runs {
		for _, row := range r.sortedTasks() {
			if q := row.question(); q != nil {
				approvals = append(approvals, queue.Approval{
					Run: r.id, DAG: r.version.dag.name, Step: r.stepName(row.ID), Item: row.ID.Item, SubmittedBy: r.submittedBy, Question: *q,
				})
			}
		}
	}
	slices.SortStableFunc(approvals, func(a, b queue.Approval) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Run, b.Run))
	})
	return approvals[:min(len(approvals), most, queue.MaxApprovals)], nil
}
