package worker_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// unpolled is a claimer with polls that the database may refuse.
type unpolled struct {
	worker.Claimer
	refusal atomic.Pointer[pgconn.PgError]
}

func (r *unpolled) Poll(ctx context.Context, want queue.Want) (queue.Polled, error) {
	if err := r.refusal.Load(); err != nil {
		return queue.Polled{}, err
	}
	return r.Claimer.Poll(ctx, want)
}

// noted is a claimer that notes when it is polled and whether for an ask.
type noted struct {
	worker.Claimer
	asks, after *int // polls for asks, and polls that follow one at once
	last        *time.Time
}

func (n noted) Poll(ctx context.Context, want queue.Want) (queue.Polled, error) {
	if time.Since(*n.last) < 50*time.Millisecond {
		*n.after++
	}
	if *n.last = (time.Time{}); want.Lowest != nil {
		*n.asks++
		*n.last = time.Now()
	}
	return n.Claimer.Poll(ctx, want)
}

// A full worker that asks the queue for a run when a slot comes free needs no further poll, because no other slot is free.
func TestClaimer_NoPollFollowsAnAsk(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n"+steps(50, "1300ms"), 30)
		n := noted{asks: new(int), after: new(int), last: new(time.Time)}
		b.start(t, "w", func(c *worker.Config) {
			register := c.Register
			c.Boot, c.Slots, c.Executors["process"] = boot, 1, sleeper{}
			c.Register = func(ctx context.Context, self queue.Worker) (worker.Session, error) {
				s, err := register(ctx, self)
				n.Claimer = s.Claimer
				s.Claimer = n
				return s, err
			}
		})
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if t.Logf("%d asks, %d polls right after one", *n.asks, *n.after); *n.asks < 20 || *n.after > *n.asks/4 {
			t.Errorf("%d polls follow %d asks", *n.after, *n.asks)
		}
	})
}

// A worker reports to people and to programs that its polls are refused, and only once that has lasted.
func TestClaimer_AWorkerWhosePollsFailIsUnfit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n  - {id: a, run: 1ms}\n", 0)
		claimer := &unpolled{}
		w := b.start(t, "w", func(c *worker.Config) {
			register := c.Register
			c.Boot, c.Executors["process"] = boot, sleeper{}
			c.Register = func(ctx context.Context, self queue.Worker) (worker.Session, error) {
				s, err := register(ctx, self)
				claimer.Claimer, s.Claimer = s.Claimer, claimer
				return s, err
			}
		})
		pass(5 * time.Second)
		claimer.refusal.Store(&pgconn.PgError{Code: "42501"})
		run := b.enqueue(t, "d")
		pass(2500 * time.Millisecond)
		if s := w.Status(); len(s.UnfitFor) > 0 {
			t.Errorf("right after the first failure it is unfit for %v", s.UnfitFor)
		}
		pass(10 * time.Second)
		if s := w.Status(); !slices.Equal(s.UnfitFor, []string{"polls"}) {
			t.Errorf("it is unfit for %v", s.UnfitFor)
		}
		claimer.refusal.Store(nil)
		pass(5 * time.Second)
		if s := w.Status(); len(s.UnfitFor) > 0 {
			t.Errorf("when it is over it is unfit for %v", s.UnfitFor)
		}
		if r := b.over(t, run); r.State != "succeeded" {
			t.Errorf("the run is %s", r.State)
		}
	})
}
