package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// claimerOfSchedule claims runs as if a schedule had made them.
type claimerOfSchedule struct {
	worker.Claimer
	previous time.Time
}

func (c claimerOfSchedule) Poll(ctx context.Context, want queue.Want) (queue.Polled, error) {
	polled, err := c.Claimer.Poll(ctx, want)
	for _, claim := range polled.Claims {
		claim.Schedule, claim.PreviousLogicalAt = "nightly", c.previous
	}
	return polled, err
}

func TestSchedule_IsKnownToStepsOfItsRuns(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n  - {id: a, run: x, env: {S: '${run.schedule}', P: '${run.previous_logical_at}'}, when: run.previous_logical_at < run.logical_at}\n")
	at := time.Date(2026, 11, 20, 2, 30, 0, 0, time.UTC)
	id, err := b.Enqueue(t.Context(), queue.Request{DAG: "d", LogicalAt: at})
	if err != nil {
		t.Fatal(err)
	}
	b.start(t, "w", func(c *worker.Config) {
		register := c.Register
		c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
			s, err := register(ctx, w)
			s.Claimer = claimerOfSchedule{s.Claimer, at.AddDate(0, 0, -1)}
			return s, err
		}
	})
	b.await(t, id)
	if len(b.bodies.started) != 1 {
		t.Fatal("the step was skipped")
	}
	task := <-b.bodies.started
	if !task.LogicalAt.Equal(at) || task.Schedule != "nightly" || !task.PreviousLogicalAt.Equal(at.AddDate(0, 0, -1)) {
		t.Errorf("an executor gets %v, %q, %v", task.LogicalAt, task.Schedule, task.PreviousLogicalAt)
	}
	if s, p := task.Resolved.Env["S"], task.Resolved.Env["P"]; s != "nightly" || p != "2026-11-19T02:30:00Z" {
		t.Errorf("a step refers to %q and %q", s, p)
	}
}
