package worker_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// join starts a worker with this many slots on a simulated store.
func (b *testBundle) join(t *testing.T, name string, slots int, boot func() time.Duration) *worker.Worker {
	t.Helper()
	return b.start(t, name, func(c *worker.Config) { c.Boot, c.Slots, c.Executors["process"] = boot, slots, sleeper{} })
}

// held counts the runs that workers hold, and the tasks of step that run.
func (b *testBundle) held(t *testing.T, ids []queue.RunID, step string) (runs, running int) {
	t.Helper()
	for _, id := range ids {
		r, err := b.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if r.State == "running" {
			runs++
		}
		tasks, err := b.Tasks(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		for i := range tasks {
			if tasks[i].Step == step && tasks[i].State == "running" {
				running++
			}
		}
	}
	return runs, running
}

// over waits, in simulated time, until a run has ended.
func (b *testBundle) over(t *testing.T, id queue.RunID) *queue.Run {
	t.Helper()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range 10_000 {
		if r, err := b.Get(t.Context(), id); err != nil || r.Over() {
			return r
		}
		<-tick.C
	}
	t.Fatalf("run %d does not end", id)
	return nil
}

func TestShare_AWorkerHoldsWhatItCanStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, ids := simulated(t, "name: d\nsteps:\n  - {id: a, run: 1h}\n", 8)
		b.join(t, "small", 2, boot)
		time.Sleep(time.Minute)
		if runs, running := b.held(t, ids, "a"); runs != 2 || running != 2 {
			t.Errorf("with 2 slots it holds %d runs, of which %d run", runs, running)
		}
		b.join(t, "large", 6, boot)
		time.Sleep(time.Second)
		if runs, running := b.held(t, ids, "a"); runs != 8 || running != 8 {
			t.Errorf("with 6 slots more %d runs are held, of which %d run", runs, running)
		}
	})
}

// A burst spreads over all workers that have room, though one could take all of it.
func TestShare_ABurstSpreadsOverAllThatHaveRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n  - {id: a, run: 1h}\n", 0)
		var all []*worker.Worker
		for i := range 3 {
			all = append(all, b.join(t, fmt.Sprint("w", i), 16, boot))
		}
		time.Sleep(5*time.Second + queue.LookInterval/2) // between two looks: a look would find the runs without a notification
		const burst = 30                                 // two workers have room for all; notifications go to a worker by chance, but 30 reach each of three
		for range burst {
			b.enqueue(t, "d")
		}
		time.Sleep(100 * time.Millisecond)
		running := 0
		for i, w := range all {
			s := w.Status().Slots
			running += s.Slots - s.Free
			if n := s.Slots - s.Free; n == 0 {
				t.Errorf("worker %d runs %d of %d", i, n, burst)
			}
		}
		if running != burst {
			t.Errorf("%d of %d run", running, burst)
		}
	})
}

// The first steps need no slot, so a worker that is alone begins all runs. Runs that then wait for its slots go to another worker.
func TestShare_RunsThatWaitGoToAWorkerThatJoins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, ids := simulated(t, "name: d\nsteps:\n  - {id: a, action: wait, with: {duration: 1s}}\n  - {id: b, run: 1h, depends: [a]}\n", 40)
		b.join(t, "first", 4, boot)
		time.Sleep(time.Minute)
		if runs, running := b.held(t, ids, "b"); running != 4 || runs == 4 {
			t.Fatalf("alone it runs %d of the %d that it holds", running, runs)
		}
		b.join(t, "second", 4, boot)
		time.Sleep(500 * time.Millisecond)
		if runs, running := b.held(t, ids, "b"); running != 8 || runs != 8 {
			t.Errorf("half a second after another one joined %d of the %d that are held run", running, runs)
		}
	})
}

// Runs that wait go back although the other worker is full as well. When a slot comes free there, that worker finds them in the queue
// at once; otherwise this worker would have to see the free slot first.
func TestShare_RunsThatWaitGoBackBeforeAnotherHasRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n  - {id: a, action: wait, with: {duration: 5s}}\n  - {id: b, run: 1h, depends: [a]}\n", 0)
		b.join(t, "first", 4, boot)
		b.join(t, "second", 4, boot)
		time.Sleep(time.Minute)
		var ids []queue.RunID
		for range 40 {
			ids = append(ids, b.enqueue(t, "d"))
		}
		time.Sleep(time.Minute)
		if runs, running := b.held(t, ids, "b"); runs != 8 || running != 8 {
			t.Errorf("both are full, and hold %d runs, of which %d run", runs, running)
		}
	})
}

// Runs that begin to wait one after the other do not put off the check of runs that wait already.
func TestShare_ManyThatBeginToWaitPutNothingOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n  - {id: b, run: 1ms}\n", 0)
		var ids []queue.RunID
		for i := range 40 {
			name := fmt.Sprint("d", i)
			b.put(t, fmt.Sprintf("name: %s\nsteps:\n  - {id: a, action: wait, with: {duration: %dms}}\n  - {id: b, run: 1h, depends: [a]}\n", name, 2000+20*i))
			ids = append(ids, b.enqueue(t, name))
		}
		b.join(t, "first", 4, boot)
		time.Sleep(1900 * time.Millisecond)
		b.join(t, "second", 4, boot)
		time.Sleep(750 * time.Millisecond) // until then one run after the other begins to wait
		if _, running := b.held(t, ids, "b"); running != 8 {
			t.Errorf("%d run", running)
		}
	})
}

// late answers polls a while after they claimed.
type late struct {
	worker.Claimer
	by *atomic.Int64
}

func (l late) Poll(ctx context.Context, a queue.Want) (queue.Polled, error) {
	p, err := l.Claimer.Poll(ctx, a)
	select {
	case <-time.After(time.Duration(l.by.Load())):
	case <-ctx.Done():
	}
	return p, err
}

// While a poll looks for a run for a slot, tasks of other runs here do not get the slot, unless the poll hangs.
func TestShare_ASlotIsKeptWhileAPollIsUnderWay(t *testing.T) {
	t.Parallel()
	for by, want := range map[time.Duration]string{200 * time.Millisecond: "claimed", time.Minute: "held"} {
		synctest.Test(t, func(t *testing.T) {
			b, boot, ids := simulated(t, "name: d\nsteps:\n  - {id: a, action: wait, with: {duration: 10s}}\n  - {id: b, run: 1h, depends: [a]}\n", 1)
			b.put(t, "name: claimed\nsteps:\n  - {id: b, run: 1h}\n")
			var takes atomic.Int64
			b.start(t, "w", func(c *worker.Config) {
				register := c.Register
				c.Boot, c.Slots, c.Executors["process"] = boot, 1, sleeper{}
				c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
					s, err := register(ctx, w)
					s.Claimer = late{s.Claimer, &takes}
					return s, err
				}
			})
			pass(9900 * time.Millisecond)
			takes.Store(int64(by))
			claimed := b.enqueue(t, "claimed")
			pass(time.Second)
			for name, id := range map[string]queue.RunID{"held": ids[0], "claimed": claimed} {
				if _, running := b.held(t, []queue.RunID{id}, "b"); (running == 1) != (name == want) {
					t.Errorf("where polls take %v, %d tasks of the run that is %s run", by, running, name)
				}
			}
		})
	}
}

// A run with a task under way stays where it is, however many of its tasks wait.
func TestShare_ARunThatIsUnderWayStays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, ids := simulated(t, "name: d\nsteps:\n  - {id: a, run: 10s}\n  - {id: b, run: 10s}\n  - {id: c, run: 10s}\n", 1)
		b.join(t, "first", 1, boot)
		time.Sleep(time.Second)
		b.join(t, "second", 1, boot)
		time.Sleep(40 * time.Second)
		if r := b.over(t, ids[0]); r.Epoch != 1 || r.State != "succeeded" {
			t.Errorf("it is %s after %d drives", r.State, r.Epoch)
		}
	})
}

// A run that ranks above all waiting tasks gets the next slot that comes free, and waits in the database until then.
func TestShare_AnUrgentRunGetsTheNextSlot(t *testing.T) {
	t.Parallel()
	for trial := range 20 {
		synctest.Test(t, func(t *testing.T) {
			b, boot, _ := simulated(t, "name: d\nsteps:\n"+steps(100, "10m"), 1)
			b.put(t, "name: urgent\npriority: 100\nsteps:\n  - {id: a, run: 1s}\n")
			b.join(t, "only", 2, boot)
			time.Sleep(time.Minute + time.Duration(trial)*29*time.Second)
			id := b.enqueue(t, "urgent")
			time.Sleep(100 * time.Millisecond)
			if r, err := b.Get(t.Context(), id); err != nil || r.State != "queued" {
				t.Errorf("trial %d: it is %s before a slot is free, %v", trial, r.State, err)
			}
			r := b.over(t, id)
			asked := time.Minute + time.Duration(trial)*29*time.Second
			next := asked.Truncate(10*time.Minute) + 10*time.Minute
			if waited := r.FinishedAt.Sub(r.CreatedAt); waited > next-asked+2*time.Second {
				t.Errorf("trial %d: it took %v, and the next slot ended after %v", trial, waited, next-asked)
			}
		})
	}
}

// A run of one task beside fan-outs of its priority starts within a few of their bodies, however many of them there are.
func TestShare_SmallRunsStartBesideFanOuts(t *testing.T) {
	t.Parallel()
	for _, drivers := range []struct{ workers, slots int }{{1, 1}, {2, 1}, {2, 2}, {1, 8}} {
		for _, times := range []int{1, 2} {
			synctest.Test(t, func(t *testing.T) {
				b, boot, _ := simulated(t, "name: d\nsteps:\n"+steps(40, "1s"), drivers.workers*drivers.slots*times)
				b.put(t, "name: small\nsteps:\n  - {id: a, run: 1ms}\n")
				for i := range drivers.workers {
					b.join(t, fmt.Sprint("w", i), drivers.slots, boot)
				}
				time.Sleep(5 * time.Second)
				for trial := range 10 {
					r := b.over(t, b.enqueue(t, "small"))
					if waited := r.StartedAt.Sub(r.CreatedAt); waited > 5*time.Second {
						t.Errorf("trial %d beside %d fan-outs on %d workers of %d slots: it waited for %v", trial, drivers.workers*drivers.slots*times, drivers.workers, drivers.slots, waited)
					}
				}
			})
		}
	}
}

// A chain is one task after the other, each in the slot of the one before: a run that ranks above takes it all the same.
func TestShare_AnUrgentRunInterruptsAChain(t *testing.T) {
	t.Parallel()
	for name, dag := range map[string]string{
		"a chain":             "name: d\nsteps:\n" + chained(100, "10s"),
		"few items at a time": "name: d\nsteps:\n  - {id: f, foreach: {items: [" + strings.Repeat("x, ", 99) + "x], max_concurrent: 1}, run: 10s}\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			b, boot, _ := simulated(t, dag, 1)
			b.put(t, "name: urgent\npriority: 100\nsteps:\n  - {id: a, run: 1s}\n")
			b.join(t, "only", 1, boot)
			time.Sleep(time.Minute)
			r := b.over(t, b.enqueue(t, "urgent"))
			if waited := r.StartedAt.Sub(r.CreatedAt); waited > 12*time.Second {
				t.Errorf("behind %s it waited for %v", name, waited)
			}
		})
	}
}

// Two fan-outs of one priority share the slots once the second is there.
func TestShare_FanOutsShareTheSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n"+steps(100, "1s"), 1)
		b.join(t, "only", 4, boot)
		time.Sleep(10 * time.Second)
		second := b.enqueue(t, "d")
		time.Sleep(13 * time.Second)
		if done := b.done(t, second); done < 18 || done > 30 { // two each second, of four
			t.Errorf("after 13 s %d of its tasks are done", done)
		}
	})
}

// Turns have a bound: a worker must not begin all runs of the queue and end none.
func TestShare_ManyFanOutsEndOneAfterTheOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, ids := simulated(t, "name: d\nsteps:\n"+steps(10, "1s"), 200)
		b.join(t, "only", 4, boot)
		time.Sleep(100 * time.Second)
		held, over := 0, 0
		for _, id := range ids {
			r, err := b.Get(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case r.Over():
				over++
			case r.State == "running":
				held++
			}
		}
		if held > 4+8+1 || over < 30 { // 40 would be over if the runs went one after the other
			t.Errorf("after 100 s %d are held, and %d over", held, over)
		}
	})
}

// Fan-outs go on, however many small runs there are beside them.
func TestShare_FanOutsGoOnBesideAFlood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, ids := simulated(t, "name: d\nsteps:\n"+steps(100, "1s"), 2)
		b.put(t, "name: small\nsteps:\n  - {id: a, run: 500ms}\n")
		b.join(t, "only", 4, boot)
		for range 100 {
			b.enqueue(t, "small")
			time.Sleep(100 * time.Millisecond) // two and a half times what the worker can do
		}
		for _, id := range ids {
			if done := b.done(t, id); done < 3 {
				t.Errorf("after 10 s %d tasks of a fan-out are done", done)
			}
		}
	})
}

// A step that needs most slots of a worker starts although small runs take each slot that comes free.
func TestShare_AWideStepStartsBesideSmallRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: small\nsteps:\n  - {id: a, run: 12s}\n", 0)
		b.put(t, "name: wide\nsteps:\n  - {id: a, run: 1s, slots: 3}\n")
		b.join(t, "only", 4, boot)
		var wide queue.RunID
		var asked time.Time
		for n := range 40 {
			b.enqueue(t, "small")
			if n == 10 {
				wide, asked = b.enqueue(t, "wide"), time.Now()
			}
			time.Sleep(3 * time.Second)
		}
		tasks, err := b.Tasks(t.Context(), wide)
		if err != nil {
			t.Fatal(err)
		}
		if waited := tasks[0].AttemptAt.Sub(asked); tasks[0].AttemptAt.IsZero() || waited > 45*time.Second {
			t.Errorf("it started after %v: %+v", waited, tasks[0])
		}
	})
}

// done counts the tasks of a run that succeeded.
func (b *testBundle) done(t *testing.T, id queue.RunID) (n int) {
	t.Helper()
	tasks, err := b.Tasks(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if task.State == "succeeded" {
			n++
		}
	}
	return n
}

// chained returns n steps, one after the other.
func chained(n int, span string) (text string) {
	for i := range n {
		text += fmt.Sprintf("  - {id: s%d, run: %s", i, span)
		if i > 0 {
			text += fmt.Sprintf(", depends: [s%d]", i-1)
		}
		text += "}\n"
	}
	return text
}

// steps returns n root steps of equal duration.
func steps(n int, span string) (text string) {
	for i := range n {
		text += fmt.Sprintf("  - {id: s%d, run: %s}\n", i, span)
	}
	return text
}
