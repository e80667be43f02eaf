package worker_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/oarlock-dev/oarlock/worker"
)

func TestPublish_CountsItsTriesAndTellsOfThem(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n  - {id: a, action: my.func, retry_policy: {limit: 2, interval: 1ms}, publish: {action: my.func}}\n")
	id := b.enqueue(t, "d")
	var tries []int
	b.start(t, "w", func(c *worker.Config) {
		c.Executors["action:my.func"] = worker.Func(func(_ context.Context, task *worker.Task) (worker.Outputs, error) {
			tries = append(tries, task.PublishTry)
			if task.Attempt != 1 {
				t.Errorf("attempt %d", task.Attempt)
			}
			if task.Publish && task.PublishTry < 3 {
				return nil, errors.New("not yet")
			}
			return nil, nil
		})
	})
	b.await(t, id)
	if want := []int{0, 1, 2, 3}; !slices.Equal(tries, want) {
		t.Errorf("tries %v, want %v", tries, want)
	}
	events, err := b.Events(t.Context(), id, 0)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, e := range events {
		if e.Kind == "publish" && e.Step == "a" {
			told = append(told, e.Message)
		}
	}
	want := []string{"publish of attempt 1, try 1: not yet; the worker tries again in 1ms", "publish of attempt 1, try 2: not yet; the worker tries again in 2ms"}
	if !slices.Equal(told, want) {
		t.Errorf("events %q, want %q", told, want)
	}
}
