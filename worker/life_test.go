package worker_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// latePoll is a claimer with an answer to a poll that stays on its way: a poll that brings claims returns once late is closed.
type latePoll struct {
	worker.Claimer

	late chan struct{}
}

func (l latePoll) Poll(ctx context.Context, want queue.Want) (queue.Polled, error) {
	polled, err := l.Claimer.Poll(ctx, want)
	if len(polled.Claims) > 0 {
		<-l.late
	}
	return polled, err
}

// writes is a Writer that keeps the ids of the claims that it was called for.
type writes struct {
	worker.Writer

	mu        sync.Mutex
	committed []uuid.UUID
	released  []uuid.UUID
}

func (w *writes) Commit(ctx context.Context, b *queue.Batch) error {
	w.mu.Lock()
	w.committed = append(w.committed, b.Claim.ID)
	w.mu.Unlock()
	return w.Writer.Commit(ctx, b)
}

func (w *writes) Release(ctx context.Context, c *queue.Claim, waits bool, wake dagrun.Time) error {
	w.mu.Lock()
	w.released = append(w.released, c.ID)
	w.mu.Unlock()
	return w.Writer.Release(ctx, c, waits, wake)
}

func (w *writes) all() (committed, released []uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.committed), slices.Clone(w.released)
}

// A life does not wait without end for a poll, so the claims of its last poll may come while the next life is at work. They go
// back over the session that made them. The next life neither drives nor releases them.
func TestLife_LateClaimsStayWithTheirSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, ids := simulated(t, "name: d\nsteps:\n  - {id: a, run: 1s}\n", 1)
		var over atomic.Bool
		late, lives := make(chan struct{}), make(chan *writes, 2)
		registered := 0
		b.start(t, "w", func(c *worker.Config) {
			register := c.Register
			c.Boot, c.Self.TTL, c.Executors["process"] = boot, 30*time.Second, sleeper{}
			c.Register = func(ctx context.Context, self queue.Worker) (worker.Session, error) {
				s, err := register(ctx, self)
				if registered++; registered == 1 {
					s.Lease, s.Claimer = outlived{s.Lease, &over}, latePoll{s.Claimer, late}
				}
				w := &writes{Writer: s.Writer}
				s.Writer = w
				lives <- w
				return s, err
			}
		})
		first := <-lives
		pass(time.Second)
		over.Store(true)
		second := <-lives
		pass(500 * time.Millisecond) // the run is queued again, and the second life drives it
		close(late)
		pass(time.Minute)
		if r := b.await(t, ids[0]); r.State != "succeeded" || r.Epoch != 2 {
			t.Errorf("the run is %s in epoch %d", r.State, r.Epoch)
		}
		committed, released := first.all()
		if len(committed) != 0 || len(released) != 1 {
			t.Errorf("the first life committed for %v and released %v, want to release one claim", committed, released)
		}
		again, back := second.all()
		if len(again) == 0 || len(back) != 0 || slices.ContainsFunc(again, func(id uuid.UUID) bool { return slices.Contains(released, id) }) {
			t.Errorf("the second life committed for %v and released %v; the late claim is %v", again, back, released)
		}
	})
}
