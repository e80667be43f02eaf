package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// enqueuer executes dag.enqueue: it asks for a run and does not wait for it.
type enqueuer struct{ life *life }

// Execute enqueues. Every attempt of a task asks for a run of its own unless the step names a run_key.
func (e enqueuer) Execute(ctx context.Context, task *Task) dagrun.Result {
	child, err := childOf(task.Resolved.With)
	if err != nil {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}
	}
	if err := whenAndOnce(&child, task.Resolved.With); err != nil {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}
	}
	child.Claim, child.Task, child.Attempt, child.Detached = task.claim, task.id, task.Attempt, true
	task.Started()
	id, err := e.life.enqueue(ctx, child)
	if err != nil {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}
	}
	return dagrun.Result{Outputs: dagrun.JSON(fmt.Sprintf(`{"run_id":%d}`, id))}
}

// whenAndOnce reads what only dag.enqueue takes.
func whenAndOnce(c *queue.Child, with map[string]any) (err error) {
	c.Key, _ = with["run_key"].(string)
	if at, ok := with["run_at"].(string); ok {
		if c.RunAt, err = time.Parse(time.RFC3339, at); err != nil {
			return fmt.Errorf("with.run_at: %q is no time such as 2026-11-20T03:00:00Z", at)
		}
	}
	return nil
}
