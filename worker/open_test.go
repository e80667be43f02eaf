package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/worker"
)

// prober is a Prober made of a function.
type prober func() (bool, string, error)

func (p prober) Probe(context.Context, map[string]any) (bool, string, error) { return p() }

const waitDAG = "name: d\nsteps:\n  - {id: a, action: wait, with: {http: {url: http://x, interval: 50ms}}}\n"

func TestWait_SaysWhyItStillWaits(t *testing.T) {
	t.Parallel()
	b := setup(t, waitDAG)
	id := b.enqueue(t, "d")
	there := make(chan struct{})
	b.start(t, "w", func(c *worker.Config) {
		c.Prober = prober(func() (bool, string, error) {
			select {
			case <-there:
				return true, "", nil
			default:
				return false, "the last answer was status 503", nil
			}
		})
	})
	var reason string
	for end := time.Now().Add(30 * time.Second); reason != "the last answer was status 503"; {
		tasks, err := b.Tasks(t.Context(), id)
		if err != nil || time.Now().After(end) {
			t.Fatalf("the reason is %q: %v", reason, err)
		}
		if len(tasks) > 0 {
			reason = tasks[0].Reason
		}
	}
	close(there)
	if r := b.await(t, id); r.State != "succeeded" {
		t.Errorf("the run is %s: %s", r.State, r.Reason)
	}
	if tasks, err := b.Tasks(t.Context(), id); err != nil || tasks[0].Reason == reason {
		t.Errorf("over, its reason is still %q: %v", tasks[0].Reason, err)
	}
}

func TestWait_FailsWhenNobodyMayBeAsked(t *testing.T) {
	t.Parallel()
	b := setup(t, waitDAG)
	id := b.enqueue(t, "d")
	b.start(t, "w", func(c *worker.Config) {
		c.Prober = prober(func() (bool, string, error) { return false, "", errors.New("address 169.254.169.254 is denied") })
	})
	b.await(t, id)
	tasks, err := b.Tasks(t.Context(), id)
	if err != nil || tasks[0].FailureKind != "config" || tasks[0].Reason != "address 169.254.169.254 is denied" {
		t.Errorf("%+v: %v", tasks[0], err)
	}
}
