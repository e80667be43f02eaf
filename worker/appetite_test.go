package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// pressed is a worker whose slots are taken, where some tasks wait and bodies have just ended.
func pressed(t *testing.T, waiting, ended int, gaveBack time.Duration) *Worker {
	t.Helper()
	w, err := New(Config{
		Register:  func(context.Context, queue.Worker) (Session, error) { return Session{}, nil },
		Logs:      func(Writer, func() time.Time) Logs { return nil },
		Executors: map[string]Executor{"process": nil},
		Slots:     2,
		Boot:      func() time.Duration { return time.Hour },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.fleet = newFleet()
	for range w.config.Slots + waiting {
		w.gate.Ask(1, Order{}, func(*Ticket) {})
	}
	for range ended {
		w.ends.add()
	}
	if gaveBack != 0 {
		w.gaveBack.Store(int64(gaveBack))
	}
	return w
}

// A worker that gave runs back claims nothing ahead for a while, so nothing that ends has it poll.
func TestAppetite_AWorkerPollsForWhatItWouldClaim(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		waiting, ended int
		gaveBack       time.Duration
		free           bool
		ahead          int
		hungers        bool
	}{
		"nothing ends":                      {waiting: 1},
		"little is claimed ahead":           {waiting: 3, ended: 10, ahead: 7, hungers: true},
		"half is claimed ahead":             {waiting: 5, ended: 10, ahead: 5},
		"enough is claimed ahead":           {waiting: 10, ended: 10},
		"it gave runs back":                 {waiting: 3, ended: 10, gaveBack: time.Hour - time.Second/2},
		"it gave runs back some time ago":   {waiting: 3, ended: 10, gaveBack: time.Hour - 2*time.Second, ahead: 7, hungers: true},
		"it gave runs back, and has a slot": {ended: 10, gaveBack: time.Hour - time.Second/2, free: true, hungers: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := pressed(t, c.waiting, c.ended, c.gaveBack)
				if c.free {
					w.gate = NewGate(1)
				}
				got, kept := w.appetite()
				kept.Expect(0)
				if got.Ahead != c.ahead || (got.Free > 0) != c.free {
					t.Errorf("it would claim %+v, want %d ahead", got, c.ahead)
				}
				if got := w.hungers(); got != c.hungers {
					t.Errorf("it polls: %t", got)
				}
			})
		})
	}
}
