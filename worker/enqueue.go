package worker

import (
	"context"
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// enqueuer executes dag.enqueue: it asks for a run and does not wait for it.
type enqueuer struct{ worker *Worker }

// Execute enqueues. Every attempt of a task asks for a run of its own unless the step names a run_key.
func (e enqueuer) Execute(ctx context.Context, task *Task) dagrun.Result {
	child, err := childOf(task.Resolved.With)
	if err != nil {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}
	}
	child.Claim, child.Task, child.Attempt, child.Detached = task.claim, task.id, task.Attempt, true
	task.Started()
	id, err := e.worker.enqueue(ctx, child)
	if err != nil {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}
	}
	return dagrun.Result{Outputs: dagrun.JSON(fmt.Sprintf(`{"run_id":%d}`, id))}
}
