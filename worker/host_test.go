package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

const noRoom = "no space left on device (state_dir /d)"

// frail is a host that a test can break. Running bodies go on then.
type frail struct {
	sleeper
	broken  atomic.Bool
	refused atomic.Int32 // bodies

	mu     sync.Mutex
	trials []time.Time
}

func (f *frail) Execute(ctx context.Context, t *worker.Task) dagrun.Result {
	if f.broken.Load() {
		f.refused.Add(1)
		return worker.Unstarted(syscall.ENOSPC, "state_dir /d")
	}
	return f.sleeper.Execute(ctx, t)
}

func (f *frail) try(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trials = append(f.trials, time.Now())
	if f.broken.Load() {
		return errors.New(noRoom)
	}
	return nil
}

// settle has a worker work on a simulated store, on a host of its own.
func (b *testBundle) settle(t *testing.T, name string, boot func() time.Duration, log *slog.Logger) (*worker.Worker, *frail) {
	t.Helper()
	f := &frail{}
	return b.start(t, name, func(c *worker.Config) {
		c.Boot, c.Slots, c.Executors["process"], c.Trial, c.Log = boot, 8, f, f.try, log
	}), f
}

func (b *testBundle) succeeds(t *testing.T, ids ...queue.RunID) {
	t.Helper()
	for _, id := range ids {
		if r := b.over(t, id); r.State != "succeeded" {
			t.Errorf("run %d is %s: %s; %s", id, r.State, r.Reason, b.states(t, id))
		}
	}
}

func TestHost_ThatStartsNothingLeavesItsRunsToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\non_lost: fail\nsteps:\n  - {id: a, run: 500ms}\n", 0)
		b.settle(t, "good", boot, nil)
		bad, host := b.settle(t, "bad", boot, nil)
		time.Sleep(time.Second)
		host.broken.Store(true)
		var ids []queue.RunID
		for range 200 {
			ids = append(ids, b.enqueue(t, "d"))
		}
		time.Sleep(2 * time.Second)
		if s := bad.Status(); len(s.Unfit) != 1 || !strings.HasPrefix(s.Unfit[0], "this host cannot start tasks: "+noRoom) || s.UnfitFor[0] != "host" {
			t.Errorf("the worker says it is unfit for %q (%q)", s.Unfit, s.UnfitFor)
		}
		b.succeeds(t, ids...)
		if n := host.refused.Load(); n == 0 || n > 8 {
			t.Errorf("the broken host refused %d bodies, want some and no more than it has slots", n)
		}
		host.broken.Store(false)
		time.Sleep(2 * time.Minute)
		if s := bad.Status(); len(s.Unfit) > 0 || s.Runs > 0 {
			t.Errorf("once mended it is unfit for %q, and holds %d runs", s.Unfit, s.Runs)
		}
	})
}

func TestHost_AloneItsRunsWaitWithAReason(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said strings.Builder
		b, boot, ids := simulated(t, "name: d\nsteps:\n  - {id: a, run: 500ms}\n", 20)
		_, host := func() (*worker.Worker, *frail) {
			f := &frail{}
			f.broken.Store(true)
			return b.start(t, "w", func(c *worker.Config) {
				c.Boot, c.Slots, c.Executors["process"], c.Trial = boot, 8, f, f.try
				c.Log = slog.New(slog.NewTextHandler(&said, nil))
			}), f
		}()
		time.Sleep(40 * time.Second)
		for _, id := range ids {
			r, err := b.Get(t.Context(), id)
			if err != nil || r.State != "queued" || !strings.HasPrefix(r.Reason, "worker w claims nothing: this host cannot start tasks: "+noRoom) {
				t.Errorf("run %d is %s: %s, %v", id, r.State, r.Reason, err)
			}
		}
		host.broken.Store(false)
		b.succeeds(t, ids...)
		synctest.Wait()
		if text := said.String(); strings.Count(text, "claims nothing until its host can start tasks") < 2 || strings.Count(text, "starts tasks again") != 1 {
			t.Errorf("it said:\n%s", text)
		}
	})
}

func TestHost_IsTriedWithGrowingPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n  - {id: a, run: 500ms}\n", 0)
		_, host := b.settle(t, "w", boot, nil)
		time.Sleep(time.Second)
		host.broken.Store(true)
		b.enqueue(t, "d")
		time.Sleep(5 * time.Minute)
		host.mu.Lock()
		defer host.mu.Unlock()
		for i, seconds := range []float64{2, 4, 8, 16, 32, 60, 60} {
			if got := host.trials[i+1].Sub(host.trials[i]).Seconds(); got != seconds {
				t.Errorf("pause %d is %v s, want %v", i+2, got, seconds)
			}
		}
		if n := host.refused.Load(); n != 1 {
			t.Errorf("%d bodies were tried, want the first alone", n)
		}
	})
}

// A trial that passes proves little while bodies cannot start all the same: the pauses grow until a body starts.
func TestHost_ThatFailsBehindItsTrialIsTriedLessAndLess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n  - {id: a, run: 500ms}\n", 0)
		_, host := b.settle(t, "w", boot, nil)
		b.start(t, "other", func(c *worker.Config) { c.Boot, c.Slots, c.Executors["process"], c.Trial = boot, 1, host, passes })
		time.Sleep(time.Second)
		host.broken.Store(true)
		b.enqueue(t, "d")
		time.Sleep(10 * time.Minute)
		if n := host.refused.Load(); n < 5 || n > 60 {
			t.Errorf("%d bodies were tried within ten minutes on two hosts: want one for each pause", n)
		}
	})
}

func passes(context.Context) error { return nil }

func TestHost_HandsOnMidGraphWhatDoesNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n  - {id: long, run: 1m}\n  - {id: a, run: 1s}\n  - {id: b, run: 1s, depends: [a]}\n", 0)
		first, host := b.settle(t, "first", boot, nil)
		time.Sleep(time.Second)
		id := b.enqueue(t, "d")
		time.Sleep(500 * time.Millisecond)
		b.settle(t, "second", boot, nil)
		host.broken.Store(true)
		time.Sleep(30 * time.Second)
		if got := b.states(t, id); got != "long=running a=succeeded b=ready" || first.Status().Runs != 1 {
			t.Fatalf("while a body runs the tasks are %s", got)
		}
		b.succeeds(t, id)
		r, err := b.Get(t.Context(), id)
		if err != nil || r.Epoch != 2 {
			t.Errorf("the run ended in epoch %d, %v: want that of the second worker", r.Epoch, err)
		}
		attempts, err := b.Attempts(t.Context(), id)
		if err != nil || len(attempts) != 1 || attempts[0].FailureKind != "lost" || attempts[0].Reason != "not started: "+noRoom {
			t.Errorf("attempts: %+v, %v", attempts, err)
		}
	})
}

// A publish asks for no slot, so only the end of the drive keeps it from beginning again and again.
func TestHost_HandsAPublishOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n  - {id: a, run: 2s, publish: {run: 1s}}\n", 0)
		_, host := b.settle(t, "first", boot, nil)
		time.Sleep(time.Second)
		id := b.enqueue(t, "d")
		time.Sleep(time.Second)
		host.broken.Store(true)
		time.Sleep(10 * time.Second)
		if n := host.refused.Load(); n != 1 {
			t.Errorf("the publish was begun %d times, want once", n)
		}
		b.settle(t, "second", boot, nil)
		b.succeeds(t, id)
	})
}

func TestHost_AnApprovalGoesOnElsewhere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n  - {id: ask, action: approval}\n  - {id: a, run: 1s}\n  - {id: c, run: 1s, depends: [ask, a]}\n", 0)
		_, host := b.settle(t, "first", boot, nil)
		host.broken.Store(true)
		time.Sleep(time.Second)
		id := b.enqueue(t, "d")
		time.Sleep(time.Second)
		b.settle(t, "second", boot, nil)
		time.Sleep(time.Minute)
		if _, err := b.Control(t.Context(), queue.Ask{Run: id, Verb: dagrun.VerbApprove, Step: "ask"}); err != nil {
			t.Fatal(err)
		}
		b.succeeds(t, id)
	})
}
