package worker_test

import (
	"context"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// faulty is a session whose database is away as long as the test says so.
type faulty struct {
	worker.Lease
	away *atomic.Bool
}

var errAway = &netError{syscall.ECONNREFUSED}

// netError is an error as of a connection that cannot be made.
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

// extended is a guard that remembers until when the lease holds.
type extended struct{ until *atomic.Int64 }

func (extended) Use(string) error                { return nil }
func (e extended) Extend(deadline time.Duration) { e.until.Store(int64(deadline)) }

// polled is a reader that looks at the guard whenever it polls.
type polled struct {
	worker.Reader
	guard extended
	early *atomic.Bool
}

func (p polled) Poll(ctx context.Context, want int) (queue.Polled, error) {
	if time.Duration(p.guard.until.Load()) < boottime.Now() {
		p.early.Store(true)
	}
	return p.Reader.Poll(ctx, want)
}

// What a worker claims is somebody's to end from the first moment on.
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
			s.Reader = polled{s.Reader, guard, early}
			return s, err
		}
	})
	b.await(t, id)
	if early.Load() {
		t.Error("it polled before the guard knew a deadline")
	}
}

// unheard is a lease whose first renewals fail.
type unheard struct {
	worker.Lease
	left *atomic.Int64
}

func (u unheard) Renew(ctx context.Context, busy int) (queue.Renewal, error) {
	if u.left.Add(-1) >= 0 {
		return queue.Renewal{}, errAway
	}
	return u.Lease.Renew(ctx, busy)
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

// A database that is away holds nothing up: who is told to stop at once ends its tasks at once.
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
