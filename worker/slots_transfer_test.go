package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// counted counts the commits that a database takes.
type counted struct {
	worker.Writer

	commits atomic.Int32
}

func (c *counted) Commit(ctx context.Context, b *queue.Batch) error {
	c.commits.Add(1)
	return c.Writer.Commit(ctx, b)
}

// While many runs want few slots, the end of a step and the start of the next step of its run are still one commit. A function that
// wrote nothing leaves no chunk of a log, but its end can be read.
func TestDriver_ARunKeepsItsSlotFromStepToStep(t *testing.T) {
	t.Parallel()
	const runs, perRun = 20, 4
	synctest.Test(t, func(t *testing.T) {
		b, boot, ids := simulated(t, "name: d\nsteps:\n  - {id: a, run: 1ms}\n  - {id: b, run: 1ms, depends: [a]}\n  - {id: c, run: 1ms, depends: [b]}\n", runs)
		commits := &counted{}
		b.start(t, "w", func(c *worker.Config) {
			register := c.Register
			c.Boot, c.Slots, c.Executors["process"] = boot, 1, sleeper{}
			c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
				s, err := register(ctx, w)
				commits.Writer = s.Writer
				s.Writer = commits
				return s, err
			}
		})
		time.Sleep(10 * time.Second)
		for _, id := range ids {
			if got := b.states(t, id); got != "a=succeeded b=succeeded c=succeeded" {
				t.Errorf("run %d: %s", id, got)
			}
			log, err := b.ReadLogs(t.Context(), queue.LogQuery{Run: id, Step: "b"})
			if err != nil || len(log) != 1 || !log[0].Final || log[0].Reason != "succeeded" {
				t.Errorf("the log of b is %+v, %v", log, err)
			}
		}
		if n := commits.commits.Load(); n < runs*perRun || n > runs*perRun+runs/4 {
			t.Errorf("%d commits for %d runs, want %d for each", n, runs, perRun)
		}
	})
}
