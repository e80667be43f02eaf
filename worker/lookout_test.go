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

// blind is a claimer without answers to looks, from a certain one on, or to sweeps, or to chores. It hears no notifications.
type blind struct {
	worker.Claimer
	looks, sweeps, chores bool
	answered              int // looks before the first one without an answer
	n                     *atomic.Int64
}

func (b blind) Look(ctx context.Context, load queue.Load) (queue.Looked, error) {
	if n := b.n.Add(1); b.looks && n > int64(b.answered) {
		<-ctx.Done()
		return queue.Looked{}, ctx.Err()
	}
	return b.Claimer.Look(ctx, load)
}

func (b blind) Sweep(ctx context.Context) (queue.Swept, error) {
	if b.sweeps {
		<-ctx.Done()
		return queue.Swept{}, ctx.Err()
	}
	return b.Claimer.Sweep(ctx)
}

func (b blind) DoChores(ctx context.Context) (int, error) {
	if b.chores {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	return b.Claimer.DoChores(ctx)
}

func (b blind) Hear(ctx context.Context) (queue.Heard, error) {
	<-ctx.Done()
	return queue.Heard{}, ctx.Err()
}

// A worker without notifications finds a run within queue.LookInterval; if no look is answered, within queue.PollInterval.
func TestLookout_ACallThatHangsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		blind
		within time.Duration
	}{
		"no sweep is answered":    {blind{sweeps: true}, queue.LookInterval},
		"no chore is done":        {blind{chores: true}, queue.LookInterval},
		"no look is answered":     {blind{looks: true}, queue.PollInterval},
		"looks are answered once": {blind{looks: true, answered: 5}, queue.PollInterval},
		"neither is":              {blind{looks: true, sweeps: true}, queue.PollInterval},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, boot, _ := simulated(t, "name: d\nsteps:\n  - {id: a, run: 1ms}\n", 0)
				b.start(t, "w", func(config *worker.Config) {
					config.Boot, config.Slots, config.Executors["process"] = boot, 1, sleeper{}
					register := config.Register
					config.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
						s, err := register(ctx, w)
						c.Claimer, c.n = s.Claimer, new(atomic.Int64)
						s.Claimer = c.blind
						return s, err
					}
				})
				for range 20 {
					time.Sleep(7777 * time.Millisecond) // by now the worker polls as rarely as it ever does
					id := b.enqueue(t, "d")
					time.Sleep(c.within + 10*time.Millisecond)
					if r, err := b.Get(t.Context(), id); err != nil || r.State != "succeeded" {
						t.Fatalf("after %v the run is %s, %v", c.within, r.State, err)
					}
				}
			})
		})
	}
}

// A full worker without answers to its looks keeps the next slot that comes free for an urgent run all the same.
func TestLookout_WithoutLooksUrgentRunsGetSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n"+steps(100, "10s"), 1)
		b.put(t, "name: urgent\npriority: 100\nsteps:\n  - {id: a, run: 1s}\n")
		b.start(t, "w", func(config *worker.Config) {
			config.Boot, config.Slots, config.Executors["process"] = boot, 1, sleeper{}
			register := config.Register
			config.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
				s, err := register(ctx, w)
				s.Claimer = blind{Claimer: s.Claimer, looks: true, answered: 5, n: new(atomic.Int64)}
				return s, err
			}
		})
		time.Sleep(time.Minute)
		r := b.over(t, b.enqueue(t, "urgent"))
		if waited := r.StartedAt.Sub(r.CreatedAt); waited > 12*time.Second {
			t.Errorf("it waited for %v, and a slot ends every 10 s", waited)
		}
	})
}

// paced is a claimer with sweeps that return, one after the other: an error, twice "too soon", an error, and then done.
type paced struct {
	worker.Claimer
	n int
}

func (p *paced) Sweep(context.Context) (queue.Swept, error) {
	p.n++
	switch p.n {
	case 1, 4:
		return queue.Swept{Sweep: true}, errAway
	case 2, 3:
		return queue.Swept{Sweep: true}, nil
	}
	return queue.Swept{Done: true}, nil
}

// A sweep that came too soon is no success: it ends no outage.
func TestLookout_ASweepThatCameTooSoonIsNoNews(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, boot, _ := simulated(t, "name: d\nsteps:\n  - {id: a, run: 1ms}\n", 0)
		log := new(strings.Builder)
		b.start(t, "w", func(config *worker.Config) {
			config.Boot, config.Log = boot, slog.New(slog.NewTextHandler(log, nil))
			register := config.Register
			config.Register = func(ctx context.Context, w queue.Worker) (worker.Session, error) {
				s, err := register(ctx, w)
				s.Claimer = &paced{Claimer: s.Claimer}
				return s, err
			}
		})
		time.Sleep(7 * time.Second)
		synctest.Wait()
		if failed, over := strings.Count(log.String(), "could not sweep"), strings.Count(log.String(), "sweeps succeed again"); failed != 1 || over != 1 {
			t.Errorf("told %d failures and %d ends of them:\n%s", failed, over, log)
		}
	})
}
