package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// sluggish is a journal that is slow for commits which come in a certain span of time.
type sluggish struct {
	worker.Writer
	from, until time.Time
	takes       time.Duration
}

func (s sluggish) Commit(ctx context.Context, b *queue.Batch) error {
	if now := time.Now(); now.After(s.from) && now.Before(s.until) {
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.Writer.Commit(ctx, b)
}

// sleeper is a body that takes as long as its text says, unless it is ended.
type sleeper struct{}

func (sleeper) Execute(ctx context.Context, t *worker.Task) dagrun.Result {
	t.Started()
	takes, err := time.ParseDuration(t.Body.Run)
	if err != nil {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}
	}
	select {
	case <-time.After(takes):
		return dagrun.Result{}
	case <-ctx.Done():
		return dagrun.Result{Kind: dagrun.KindSignal, Signal: 15, ExitCode: 143, HasExit: true}
	}
}

// simulated is a store in which runs of d wait, for tests in simulated time: boot counts it from now on.
func simulated(t *testing.T, source string, runs int) (b *testBundle, boot func() time.Duration, ids []queue.RunID) {
	t.Helper()
	start := time.Now()
	boot = func() time.Duration { return time.Since(start) }
	b = &testBundle{Memory: storetest.NewMemory(storetest.Options{Now: time.Now, Boot: boot})}
	b.put(t, source)
	for range runs {
		ids = append(ids, b.enqueue(t, "d"))
	}
	return b, boot, ids
}

// A body that ends before its timeout must not time out because the driver waits for the database just then.
func TestDriver_ABodyThatEndedInTimeDidNotTimeOut(t *testing.T) {
	t.Parallel()
	const runs = 16
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b, boot, ids := simulated(t, "name: d\nsteps:\n  - {id: a, run: 3s, timeout: 4s}\n  - {id: b, run: 2950ms}\n", runs)
		b.start(t, "w", func(c *worker.Config) {
			register := c.Register
			c.Boot, c.Slots, c.Executors["process"] = boot, 2*runs, sleeper{}
			c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
				s, err := register(ctx, w)
				s.Writer = sluggish{s.Writer, start.Add(2900 * time.Millisecond), start.Add(2990 * time.Millisecond), 3 * time.Second}
				return s, err
			}
		})
		time.Sleep(10 * time.Second)
		for _, id := range ids {
			if got := b.states(t, id); got != "a=succeeded b=succeeded" {
				t.Errorf("run %d: %s", id, got)
			}
		}
	})
}

// Each body that ends while the driver waits for the database is recorded with its own end, whichever end is taken in first.
func TestDriver_BodiesThatEndedMeanwhileEndedWhenTheyDid(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b, boot, ids := simulated(t, "name: d\nsteps:\n  - {id: a, run: 3s, timeout: 4s}\n  - {id: b, run: 3s, timeout: 4s}\n"+
			"  - {id: c, run: 2950ms}\n  - {id: next, run: 1s, depends: [a, b, c]}\n", 1)
		b.start(t, "w", func(c *worker.Config) {
			register := c.Register
			c.Boot, c.Slots, c.Executors["process"] = boot, 4, sleeper{}
			c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
				s, err := register(ctx, w)
				s.Writer = sluggish{s.Writer, start.Add(2900 * time.Millisecond), start.Add(2990 * time.Millisecond), time.Minute}
				return s, err
			}
		})
		time.Sleep(2 * time.Minute)
		if got := b.states(t, ids[0]); got != "a=succeeded b=succeeded c=succeeded next=succeeded" {
			t.Fatal(got)
		}
		tasks, err := b.Tasks(t.Context(), ids[0])
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]time.Duration{"a": 3 * time.Second, "b": 3 * time.Second, "c": 2950 * time.Millisecond, "next": time.Second}
		for _, task := range tasks {
			if took := task.FinishedAt.Sub(task.StartedAt); took != want[task.Step] {
				t.Errorf("step %s took %s, want %s", task.Step, took, want[task.Step])
			}
		}
	})
}

// resolute fails a run although the caller has given up, as a journal may do that has room just then.
type resolute struct{ worker.Writer }

func (r resolute) FailRun(ctx context.Context, c *queue.Claim, why error) error {
	return r.Writer.FailRun(context.WithoutCancel(ctx), c, why)
}

// A drive that the end of a worker's life cuts off says nothing about the run: the next driver goes on with it, and it does not fail.
func TestDriver_ACommitThatIsGivenUpDoesNotFailItsRun(t *testing.T) {
	t.Parallel()
	const runs = 16
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b, boot, ids := simulated(t, "name: d\nsteps:\n  - {id: a, run: 3s}\n  - {id: b, run: 1h}\n", runs)
		w := b.start(t, "w", func(c *worker.Config) {
			register := c.Register
			c.Boot, c.Slots, c.Executors["process"] = boot, 2*runs, sleeper{}
			c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
				s, err := register(ctx, w)
				s.Writer = resolute{sluggish{s.Writer, start.Add(2 * time.Second), start.Add(time.Hour), time.Hour}}
				return s, err
			}
		})
		time.Sleep(5 * time.Second)
		w.StopNow()
		time.Sleep(time.Minute)
		for _, id := range ids {
			if r, err := b.Get(t.Context(), id); err != nil || r.Over() {
				t.Errorf("run %d: %+v %v", id, r, err)
			}
		}
	})
}

// A reason is read long after it was stored, so a time in it must be absolute.
func TestDriver_NamesWhenAParkedRunGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, ids := simulated(t, "name: d\nsteps: [{id: a, action: wait, with: {duration: 20m}}]\n", 1)
		b.start(t, "w", func(wc *worker.Config) { wc.Boot = boot })
		began := time.Now()
		time.Sleep(time.Second)
		r, err := b.Get(t.Context(), ids[0])
		if err != nil {
			t.Fatal(err)
		}
		text, found := strings.CutPrefix(r.Reason, "step a: waits until ")
		due, err := time.Parse(time.RFC3339, text)
		if !found || err != nil || due.Before(began.Add(19*time.Minute)) || due.After(began.Add(21*time.Minute)) {
			t.Errorf("%s: %q, which began at %v", r.State, r.Reason, began)
		}
	})
}

// ready counts the ready tasks, by the reason of their rows.
func (b *testBundle) ready(t *testing.T, id queue.RunID, why string) (n int) {
	t.Helper()
	tasks, err := b.Tasks(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if task.State == "ready" && task.Reason == why {
			n++
		}
	}
	return n
}

// The reason of a wait is recorded once the wait has lasted, so that short waits cost no write. Reasons of very many waits are
// recorded a bounded number a second. A task that a limit of the run holds back waits in this sense too.
func TestDriver_TellsOfWaitsThatLast(t *testing.T) {
	t.Parallel()
	var steps, items strings.Builder
	for i := range 251 {
		fmt.Fprintf(&steps, "  - {id: s%d, run: 1h}\n", i)
		fmt.Fprintf(&items, "%d, ", i)
	}
	for name, c := range map[string]struct {
		slots  int
		source string
		why    string
		line   int // tasks in line for slots, recorded besides tasks that a limit holds back
	}{
		"slots":                            {1, "name: d\nsteps:\n" + steps.String(), "waits for a slot: 1 of 1 on worker w are taken, 1 by this run: s0", 0},
		"max_active_steps":                 {8, "name: d\nmax_active_steps: 1\nsteps:\n" + steps.String(), "the limit max_active_steps 1 is reached", 0},
		"max_concurrent":                   {8, "name: d\nsteps: [{id: s, run: 1h, foreach: {items: [" + items.String() + "], max_concurrent: 1}}]\n", "the limit max_concurrent 1 of s is reached", 0},
		"max_concurrent above the slots":   {1, "name: d\nsteps: [{id: s, run: 1h, foreach: {items: [" + items.String() + "], max_concurrent: 2}}]\n", "waits for a slot: 1 of 1 on worker w are taken, 1 by this run: s/0", 1},
		"max_active_steps above the slots": {1, "name: d\nmax_active_steps: 2\nsteps:\n" + steps.String(), "waits for a slot: 1 of 1 on worker w are taken, 1 by this run: s0", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, boot, ids := simulated(t, c.source, 1)
				b.start(t, "w", func(wc *worker.Config) { wc.Boot, wc.Slots, wc.Executors["process"] = boot, c.slots, sleeper{} })
				time.Sleep(900 * time.Millisecond)
				for _, want := range []int{0, 100, 200, 250, 250} {
					if want > 0 {
						want = min(want+c.line, 250)
					}
					if got := b.ready(t, ids[0], c.why); got != want {
						t.Errorf("%d tasks are told to be ready, want %d", got, want)
					}
					time.Sleep(time.Second)
				}
			})
		})
	}
}
