package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// handled runs a DAG of one step that calls a function, with two retries, and returns its run and how often it was called.
func handled(t *testing.T, f worker.Func) (b *testBundle, id queue.RunID, calls *int) {
	t.Helper()
	b = setup(t, "name: d\nsteps:\n  - {id: a, action: my.func, with: {x: 1}, outputs: [n], retry_policy: {limit: 2, interval: 1ms, kinds: [exit, panic]}}\n")
	id = b.enqueue(t, "d")
	calls = new(int)
	b.start(t, "w", func(c *worker.Config) {
		c.Executors["action:my.func"] = worker.Func(func(ctx context.Context, task *worker.Task) (worker.Outputs, error) {
			*calls++
			return f(ctx, task)
		})
	})
	b.await(t, id)
	return b, id, calls
}

func (b *testBundle) reason(t *testing.T, id queue.RunID) string {
	t.Helper()
	r, err := b.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return r.State + " " + r.Reason
}

func TestFunc_PutsOut(t *testing.T) {
	t.Parallel()
	b, id, _ := handled(t, func(context.Context, *worker.Task) (worker.Outputs, error) { return worker.Outputs{"n": "7"}, nil })
	res, err := b.Result(t.Context(), id)
	if err != nil || string(res.Outputs["a"]) != `{"n":"7"}` {
		t.Errorf("result %+v, %v", res, err)
	}
}

func TestFunc_ErrorsAreRetriedUnlessPermanent(t *testing.T) {
	t.Parallel()
	b, id, calls := handled(t, func(context.Context, *worker.Task) (worker.Outputs, error) { return nil, errors.New("oh") })
	if got := b.reason(t, id); *calls != 3 || got != "failed step a failed: oh" {
		t.Errorf("%d calls, %s", *calls, got)
	}
	b, id, calls = handled(t, func(context.Context, *worker.Task) (worker.Outputs, error) {
		return nil, worker.Permanent(errors.New("never"))
	})
	if got := b.reason(t, id); *calls != 1 || !strings.HasPrefix(got, "failed") {
		t.Errorf("permanent: %d calls, %s", *calls, got)
	}
}

// waiter is a body that fails for good, with kind and with the cause of its end as its reason, once it is asked to end; a later
// attempt ends at once.
type waiter struct {
	kind  dagrun.FailureKind
	under chan struct{}
	calls *atomic.Int32
}

func (w waiter) Execute(ctx context.Context, t *worker.Task) dagrun.Result {
	t.Started()
	if w.calls.Add(1) == 1 {
		close(w.under)
		<-ctx.Done()
	}
	return dagrun.Result{Kind: w.kind, Permanent: true, Reason: fmt.Sprint(context.Cause(ctx))}
}

// A worker that stops hands its attempts on to the next one, but not those that must not begin again.
func TestWorker_HandsOnNoPermanentFailure(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		step string
		kind dagrun.FailureKind
	}{
		"body":      {"{id: a, action: my.func}", dagrun.KindExit},
		"lost body": {"{id: a, action: my.func}", dagrun.KindLost},
		"publish":   {"{id: a, run: x, publish: {action: my.func}}", dagrun.KindExit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, "name: d\nsteps:\n  - "+c.step+"\n")
			id := b.enqueue(t, "d")
			body := waiter{c.kind, make(chan struct{}), new(atomic.Int32)}
			add := func(c *worker.Config) { c.Executors["action:my.func"] = body }
			first := b.start(t, "first", add)
			<-body.under
			first.StopNow()
			b.start(t, "next", add)
			if r := b.await(t, id); body.calls.Load() != 1 || r.State != "failed" || !strings.HasSuffix(r.Reason, ": stopped: drained") {
				t.Errorf("%d calls, the run is %s: %s", body.calls.Load(), r.State, r.Reason)
			}
		})
	}
}

func TestPermanent_NilIsNoError(t *testing.T) {
	t.Parallel()
	if err := worker.Permanent(nil); err != nil {
		t.Errorf("got a %T", err)
	}
}

func TestFunc_SnoozeIsNoFailure(t *testing.T) {
	t.Parallel()
	n := 0
	b, id, calls := handled(t, func(context.Context, *worker.Task) (worker.Outputs, error) {
		if n++; n < 5 {
			return nil, worker.Snooze(time.Millisecond)
		}
		return worker.Outputs{"n": n}, nil
	})
	if got := b.reason(t, id); *calls != 5 || got != "succeeded " {
		t.Errorf("%d calls, %s", *calls, got)
	}
}

func TestFunc_LearnsWhyItIsToEnd(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n  - {id: a, action: my.func}\n")
	id := b.enqueue(t, "d")
	under, why := make(chan struct{}), make(chan error, 1)
	b.start(t, "w", func(c *worker.Config) {
		c.Executors["action:my.func"] = worker.Func(func(ctx context.Context, _ *worker.Task) (worker.Outputs, error) {
			worker.Logger(ctx).Info("waiting")
			close(under)
			<-ctx.Done()
			why <- context.Cause(ctx)
			return nil, ctx.Err()
		})
	})
	<-under
	if _, err := b.Control(t.Context(), queue.Ask{Run: id, Verb: dagrun.VerbCancel}); err != nil {
		t.Fatal(err)
	}
	if err := <-why; err == nil || err.Error() != "stopped: cancel" {
		t.Errorf("cause %v", err)
	}
	if r := b.await(t, id); r.State != "canceled" {
		t.Errorf("the run is %s", r.State)
	}
}
