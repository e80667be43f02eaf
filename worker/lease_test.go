package worker_test

import (
	"context"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// faulty is a session with a database that is away as long as the test says so.
type faulty struct {
	worker.Lease
	away *atomic.Bool
}

var errAway = &netError{syscall.ECONNREFUSED}

// netError is the error of a connection that cannot be made.
type netError struct{ error }

func (e *netError) Unwrap() error   { return e.error }
func (e *netError) Timeout() bool   { return false }
func (e *netError) Temporary() bool { return true }

func (f *faulty) Drain(ctx context.Context) error {
	if f.away.Load() {
		return errAway
	}
	return f.Lease.Drain(ctx)
}

// extended is a guard that remembers the last deadline of the lease.
type extended struct{ until *atomic.Int64 }

func (extended) Use(string) error                { return nil }
func (e extended) Extend(deadline time.Duration) { e.until.Store(int64(deadline)) }

// polled is a claimer that looks at the guard whenever it polls.
type polled struct {
	worker.Claimer
	guard extended
	early *atomic.Bool
}

func (p polled) Poll(ctx context.Context, a queue.Want) (queue.Polled, error) {
	if time.Duration(p.guard.until.Load()) < boottime.Now() {
		p.early.Store(true)
	}
	return p.Claimer.Poll(ctx, a)
}

// The guard knows the deadline before the first claim, so that it can end every task.
func TestWorker_TellsTheGuardBeforeItClaims(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n  - {id: a, run: x}\n")
	guard, early := extended{&atomic.Int64{}}, &atomic.Bool{}
	id := b.enqueue(t, "d")
	b.start(t, "w", func(c *worker.Config) {
		register := c.Register
		c.Guard = guard
		c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
			s, err := register(ctx, w)
			s.Claimer = polled{s.Claimer, guard, early}
			return s, err
		}
	})
	b.await(t, id)
	if early.Load() {
		t.Error("it polled before the guard knew a deadline")
	}
}

// unheard is a lease with first renewals that fail.
type unheard struct {
	worker.Lease
	left *atomic.Int64
}

func (u unheard) Renew(ctx context.Context, v queue.Vitals) (queue.Renewal, error) {
	if u.left.Add(-1) >= 0 {
		return queue.Renewal{}, errAway
	}
	return u.Lease.Renew(ctx, v)
}

func TestWorker_OutlivesADatabaseThatGoesRightAfterItRegistered(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n  - {id: a, run: x}\n")
	left := &atomic.Int64{}
	left.Store(2)
	id := b.enqueue(t, "d")
	b.start(t, "w", func(c *worker.Config) {
		register := c.Register
		c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
			s, err := register(ctx, w)
			s.Lease = unheard{s.Lease, left}
			return s, err
		}
	})
	if r := b.await(t, id); r.State != "succeeded" {
		t.Errorf("the run is %s: %s", r.State, r.Reason)
	}
}

// A worker that is told to stop at once ends its tasks at once, also in an outage of the database.
func TestStopNow_EndsTasksThoughTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n  - {id: a, run: hold}\n")
	away := &atomic.Bool{}
	b.enqueue(t, "d")
	w := b.start(t, "w", func(c *worker.Config) {
		register := c.Register
		c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
			s, err := register(ctx, w)
			s.Lease = &faulty{Lease: s.Lease, away: away}
			return s, err
		}
	})
	task := <-b.bodies.started
	away.Store(true)
	w.StopNow()
	<-task.Now // long before the lease is over, or the test times out
	away.Store(false)
}

// silenced is a lease with renewals that fail for a while, though everything else reaches the database.
type silenced struct {
	worker.Lease
	from, until time.Time
}

func (s silenced) Renew(ctx context.Context, v queue.Vitals) (queue.Renewal, error) {
	if now := time.Now(); now.After(s.from) && now.Before(s.until) {
		return queue.Renewal{}, errAway
	}
	return s.Lease.Renew(ctx, v)
}

const beganTooOften = 1000

// beginner is a body that takes a moment to begin, and then stays.
type beginner struct{ begun *atomic.Int64 }

func (b beginner) Execute(ctx context.Context, t *worker.Task) dagrun.Result {
	t.Started()
	if b.begun.Add(1) > beganTooOften {
		return dagrun.Result{} // otherwise no time would pass in the bubble, and the test could not count
	}
	select {
	case <-time.After(time.Millisecond):
		<-ctx.Done()
	case <-ctx.Done():
	}
	return dagrun.Result{Kind: dagrun.KindSignal, Signal: 15, ExitCode: 143, HasExit: true}
}

// A task that is given up because the lease is in danger does not begin again before the danger has passed.
func TestWorker_BeginsNothingWhileItsLeaseIsInDanger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start, begun := time.Now(), &atomic.Int64{}
		boot := func() time.Duration { return time.Since(start) }
		b := &testBundle{Memory: storetest.NewMemory(storetest.Options{Now: time.Now, Boot: boot})}
		b.put(t, "name: d\nsteps:\n  - {id: a, run: x}\n")
		b.enqueue(t, "d")
		w := b.start(t, "w", func(c *worker.Config) {
			register := c.Register
			c.Boot, c.Self.TTL, c.Executors["process"] = boot, 30*time.Second, beginner{begun}
			c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
				s, err := register(ctx, w)
				s.Lease = silenced{s.Lease, start.Add(time.Second), start.Add(17 * time.Second)}
				return s, err
			}
		})
		time.Sleep(16900 * time.Millisecond) // its task was given up after 15 s
		if n := begun.Load(); n != 1 {
			t.Errorf("it began %d times while the lease was in danger", n)
		}
		time.Sleep(10 * time.Second)
		if n, s := begun.Load(), w.Status(); n != 2 || s.Losses != 0 {
			t.Errorf("it began %d times, and the lease was lost %d times", n, s.Losses)
		}
	})
}

// outlived is a lease that is over as soon as it is renewed.
type outlived struct {
	worker.Lease

	over *atomic.Bool
}

func (o outlived) Renew(ctx context.Context, v queue.Vitals) (queue.Renewal, error) {
	if o.over.Load() {
		return queue.Renewal{}, queue.ErrLeaseLost
	}
	return o.Lease.Renew(ctx, v)
}

// Each life leaves a row in the database, so a cause that ends each life at once must not end many in a short time.
func TestWorker_PausesBetweenLivesThatAreLostSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n  - {id: a, run: 20s}\n", 0)
		var over atomic.Bool
		var lives atomic.Int32
		over.Store(true)
		w := b.start(t, "w", func(c *worker.Config) {
			c.Boot, c.Even, c.Self.TTL = boot, true, time.Minute
			register := c.Register
			c.Register = func(ctx context.Context, self queue.Worker) (worker.Session, error) {
				lives.Add(1)
				s, err := register(ctx, self)
				s.Lease = outlived{s.Lease, &over}
				return s, err
			}
		})
		const first, longest = 100 * time.Millisecond, 30 * time.Second
		pass(first / 2)
		if n := lives.Load(); n != 1 {
			t.Errorf("%d lives at once", n)
		}
		pass(10 * time.Minute)
		if n := lives.Load(); n < 10*60/30 || n > 40 {
			t.Errorf("%d lives in ten minutes", n)
		}
		over.Store(false)
		pass(longest + time.Second)
		if s := w.Status(); s.Phase != worker.Live {
			t.Errorf("it is %s once its lease holds", s.Phase)
		}
		pass(2 * time.Minute)
		before := lives.Load()
		over.Store(true)
		pass(w.Status().RenewEvery + time.Millisecond)
		if n := lives.Load(); n == before {
			t.Error("it pauses after a long life")
		}
		over.Store(false)
		pass(longest + time.Second)
	})
}

// renewing is a lease that counts signs of life, and keeps the figures of the last one.
type renewing struct {
	worker.Lease

	n    atomic.Int32
	last atomic.Pointer[queue.Vitals]
}

func (r *renewing) Renew(ctx context.Context, v queue.Vitals) (queue.Renewal, error) {
	r.n.Add(1)
	r.last.Store(&v)
	return r.Lease.Renew(ctx, v)
}

// into has a worker take its lease through r.
func (r *renewing) into(c *worker.Config) {
	register := c.Register
	c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
		s, err := register(ctx, w)
		r.Lease, s.Lease = s.Lease, r
		return s, err
	}
}

// The database shows a worker as its last sign of life described it, so a sign of life follows a change within a second.
func TestWorker_SaysAtOnceThatItsFitnessChanged(t *testing.T) {
	t.Parallel()
	lease := &renewing{}
	onFullDisk(t, lease.into, func(t *testing.T, f *fullDisk) {
		f.fill(t)
		if got := lease.last.Load().Unfit; got != "the database takes no records (disk full, 53100)" {
			t.Errorf("it is unfit, and said last %q", got)
		}
		f.TakeNoRecords(nil)
		pass(2 * time.Second)
		if got := lease.last.Load().Unfit; got != "" {
			t.Errorf("it is fit, and said last %q", got)
		}
	})
}

// noisy is a claimer that hears again and again that notifications may have been missed.
type noisy struct{ worker.Claimer }

func (n noisy) Hear(ctx context.Context) (queue.Heard, error) {
	pass(10 * time.Millisecond)
	return queue.Heard{All: true}, ctx.Err()
}

func TestWorker_GivesNoMoreThanASignOfLifeASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n  - {id: a, run: 1s}\n", 0)
		lease := &renewing{}
		b.start(t, "w", func(c *worker.Config) {
			c.Boot = boot
			lease.into(c)
			register := c.Register
			c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
				s, err := register(ctx, w)
				s.Claimer = noisy{s.Claimer}
				return s, err
			}
		})
		pass(20500 * time.Millisecond)
		if n := lease.n.Load(); n < 20 || n > 22 { // two of them at the beginning
			t.Errorf("%d signs of life in 20 seconds", n)
		}
	})
}

// A run that goes back because the lease is in danger is not recorded as having waited for a slot of a busy worker.
func TestWorker_HandsOnForTheDatabaseWhileItsLeaseIsInDanger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, ids := simulated(t, "name: d\nsteps:\n  - {id: a, run: 1h}\n", 1)
		began := time.Now()
		b.start(t, "w1", func(c *worker.Config) {
			register := c.Register
			c.Boot, c.Self.TTL, c.Executors["process"] = boot, 30*time.Second, sleeper{}
			c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
				s, err := register(ctx, w)
				s.Lease = silenced{s.Lease, began.Add(time.Second), began.Add(17 * time.Second)}
				return s, err
			}
		})
		pass(time.Second)
		b.join(t, "w2", 1, boot)
		pass(16 * time.Second)
		events, err := b.Events(t.Context(), ids[0], 0)
		if err != nil {
			t.Fatal(err)
		}
		var handed []string
		for _, e := range events {
			if e.Kind == "handed_on" {
				handed = append(handed, e.Message)
			}
		}
		if want := []string{"worker w1 could not reach the database, and put the run back into the queue"}; !slices.Equal(handed, want) {
			t.Errorf("got %q, want %q", handed, want)
		}
	})
}
