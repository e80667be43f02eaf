package worker_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// unwritten is a session with a database that takes no commits while it is away. As in a queue.Session, a commit under way waits until
// the session is closed, even if its caller gives up. A commit that waits for its turn ends with its caller's context.
type unwritten struct {
	worker.Writer
	worker.Lease
	underWay   bool
	away       *atomic.Bool
	closed     chan struct{}
	once       sync.Once
	failedRuns *atomic.Int32
}

func (u *unwritten) Commit(ctx context.Context, b *queue.Batch) error {
	switch {
	case u.away.Load() && u.underWay:
		<-u.closed
		return fmt.Errorf("commit: %w: %w", queue.ErrClosed, queue.ErrUnknown)
	case u.away.Load():
		<-ctx.Done()
		return ctx.Err()
	}
	return u.Writer.Commit(ctx, b)
}

func (u *unwritten) FailRun(ctx context.Context, c *queue.Claim, why error) error {
	u.failedRuns.Add(1)
	return u.Writer.FailRun(ctx, c, why)
}

func (u *unwritten) Close(ctx context.Context) error {
	u.once.Do(func() { close(u.closed) })
	return u.Lease.Close(ctx)
}

// A worker that is told to stop at once while the database takes nothing ends all the same. It leaves its run to the next driver as
// it is, because a commit that was given up says nothing about the run.
func TestStopNow_LeavesARunWhoseCommitIsGivenUpToTheNextDriver(t *testing.T) {
	t.Parallel()
	for name, underWay := range map[string]bool{"under way": true, "waiting for its turn": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { endUnwritten(t, underWay) })
		})
	}
}

func endUnwritten(t *testing.T, underWay bool) {
	t.Helper()
	began := time.Now()
	boot := func() time.Duration { return time.Since(began) }
	b := &testBundle{Memory: storetest.NewMemory(storetest.Options{Now: time.Now, Boot: boot}), bodies: &bodies{started: make(chan *worker.Task, 10)}}
	b.put(t, "name: d\nsteps:\n  - {id: a, run: hold}\n")
	id := b.enqueue(t, "d")
	u := &unwritten{underWay: underWay, away: &atomic.Bool{}, closed: make(chan struct{}), failedRuns: &atomic.Int32{}}
	w := b.start(t, "w", func(c *worker.Config) {
		c.Boot = boot
		register := c.Register
		c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
			s, err := register(ctx, w)
			u.Writer, u.Lease = s.Writer, s.Lease
			s.Writer, s.Lease = u, u
			return s, err
		}
	})
	task := <-b.bodies.started
	u.away.Store(true)
	w.StopNow()
	<-task.Now
	<-u.closed
	synctest.Wait()
	if r, err := b.Get(t.Context(), id); err != nil || r.State != "queued" || u.failedRuns.Load() > 0 {
		t.Errorf("the run is %s: %s; %v, failed %d times", r.State, r.Reason, err, u.failedRuns.Load())
	}
}

// held are bodies that end when they are stopped, or after a day.
type held chan *worker.Task

func (h held) Execute(ctx context.Context, t *worker.Task) dagrun.Result {
	t.Started()
	h <- t
	select {
	case <-ctx.Done():
	case <-time.After(24 * time.Hour):
	}
	return dagrun.Result{Kind: dagrun.KindSignal, Signal: 15, ExitCode: 143, HasExit: true}
}

// The tasks of a run end at once when its claim is lost, whether or not the lease was in danger before: another worker has the run.
func TestWorker_EndsWhatRunsUnderAClaimThatIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		boot := func() time.Duration { return time.Since(began) }
		b := &testBundle{Memory: storetest.NewMemory(storetest.Options{Now: time.Now, Boot: boot})}
		b.put(t, "name: d\nsteps:\n  - {id: a, run: x}\n")
		b.enqueue(t, "d")
		lives, begun := make(chan uuid.UUID, 10), make(held, 10)
		b.start(t, "w", func(c *worker.Config) {
			c.Boot, c.Executors["process"] = boot, begun
			register := c.Register
			c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
				w.ID = uuid.New()
				lives <- w.ID
				return register(ctx, w)
			}
		})
		task := <-begun
		successor := queue.Worker{Name: "x", Replaces: []uuid.UUID{<-lives}}
		if _, err := b.Register(t.Context(), successor); err != nil {
			t.Fatal(err)
		}
		select {
		case <-task.Now:
		case <-time.After(10 * time.Second):
			t.Error("it goes on")
		}
	})
}
