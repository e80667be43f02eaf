package worker_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// line returns the only logged line with a text in it.
func (s *spoken) line(t *testing.T, text string) string {
	t.Helper()
	var found []string
	for line := range strings.Lines(s.String()) {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d lines with %q:\n%s", len(found), text, s)
	}
	return found[0]
}

func TestWorker_SaysWhomItTookOverFrom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps: [{id: a, run: 1ms}]\n", 2)
		dead, err := b.Register(t.Context(), queue.Worker{Name: "dead", Slots: 2, Offers: []string{"process"}, TTL: queue.MinTTL})
		if err != nil {
			t.Fatal(err)
		}
		if polled, err := dead.Poll(t.Context(), queue.Want{Slots: 2, Free: 2}); len(polled.Claims) != 2 || err != nil {
			t.Fatalf("claimed %d runs: %v", len(polled.Claims), err)
		}
		var said spoken
		b.start(t, "w", func(c *worker.Config) {
			c.Boot, c.Executors["process"], c.Log = boot, sleeper{}, slog.New(slog.NewTextHandler(&said, nil))
		})
		pass(time.Minute)
		if line := said.line(t, "took over from a lost worker"); !strings.Contains(line, " lost=dead runs=2") {
			t.Error(line)
		}
	})
}

// dispossessed is a lease that is lost with the second sign of life.
type dispossessed struct {
	worker.Lease

	renewals *atomic.Int32
}

func (d dispossessed) Renew(ctx context.Context, v queue.Vitals) (queue.Renewal, error) {
	if d.renewals.Add(1) == 2 {
		return queue.Renewal{}, queue.ErrLeaseLost
	}
	return d.Lease.Renew(ctx, v)
}

func TestWorker_NamesItselfOnceWhenItsLeaseIsLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps: [{id: a, run: 1ms}]\n", 0)
		var said spoken
		var renewals atomic.Int32
		b.start(t, "w", func(c *worker.Config) {
			c.Boot, c.Log = boot, slog.New(slog.NewTextHandler(&said, nil))
			register := c.Register
			c.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
				s, err := register(ctx, w)
				s.Lease = dispossessed{s.Lease, &renewals}
				return s, err
			}
		})
		pass(time.Minute)
		if line := said.line(t, "the lease is lost: "); strings.Count(line, " worker=") != 1 {
			t.Error(line)
		}
	})
}

// The last line of a worker says that it has stopped and how many runs it left to other workers. Of the two runs that it drives here,
// one ends during the drain.
func TestWorker_SaysLastThatItHasStopped(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		second string // duration of the step of the second run
		stop   func(*worker.Worker)
		want   string
	}{
		"nothing is left":       {"1s", (*worker.Worker).Stop, " runs_handed_on=0\n"},
		"a step is to come":     {"1s\n  - {id: b, run: 1s, depends: [a]}", (*worker.Worker).Stop, " runs_handed_on=1\n"},
		"a step takes too long": {"1h", (*worker.Worker).Stop, " runs_handed_on=1\n"},
		"it is to stop at once": {"1h", (*worker.Worker).StopNow, " runs_handed_on=1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, boot, _ := simulated(t, "name: d\nsteps: [{id: a, run: 10ms}]\n", 1)
				b.put(t, "name: e\nsteps:\n  - id: a\n    run: "+test.second+"\n")
				b.enqueue(t, "e")
				var said spoken
				w := b.start(t, "w", func(c *worker.Config) {
					c.Boot, c.Executors["process"], c.Log = boot, sleeper{}, slog.New(slog.NewTextHandler(&said, nil))
				})
				pass(500 * time.Millisecond)
				test.stop(w)
				pass(10 * time.Minute)
				if line := said.line(t, "the worker has stopped"); !strings.HasSuffix(said.String(), line) || !strings.HasSuffix(line, test.want) {
					t.Errorf("want%s%s", test.want, &said)
				}
			})
		})
	}
}
