package worker_test

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// stepped is a bench with a database clock that the test can set.
type stepped struct {
	*testBundle
	ahead atomic.Int64
	boot  func() time.Duration
}

// hourAhead is a database in simulated time with a clock that is an hour ahead.
func hourAhead(t *testing.T, source string) *stepped {
	t.Helper()
	start := time.Now()
	s := &stepped{boot: func() time.Duration { return time.Since(start) }}
	s.ahead.Store(int64(time.Hour))
	now := func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }
	s.testBundle = &testBundle{
		Memory: storetest.NewMemory(storetest.Options{Now: now, Boot: s.boot}),
		bodies: &bodies{started: make(chan *worker.Task, 1000)},
	}
	s.put(t, source)
	return s
}

func (s *stepped) works(t *testing.T, name string) {
	t.Helper()
	s.start(t, name, func(c *worker.Config) { c.Boot = s.boot })
}

// takes waits for a state of a run, and returns how long that took.
func (s *stepped) takes(t *testing.T, id queue.RunID, state string) time.Duration {
	t.Helper()
	since, tick := time.Now(), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		r, err := s.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if r.State == state {
			break
		}
		if time.Since(since) > 3*time.Hour {
			t.Fatalf("run %d is still %s: %s", id, r.State, r.Reason)
		}
	}
	return time.Since(since)
}

func wantTook(t *testing.T, what string, took, least, most time.Duration) {
	t.Helper()
	if took < least || took > most {
		t.Errorf("%s took %v, want from %v to %v", what, took, least, most)
	}
}

// inOrder checks that no task of a chain began before the task in front of it had ended.
func (s *stepped) inOrder(t *testing.T, id queue.RunID) {
	t.Helper()
	tasks, err := s.Tasks(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for i := range tasks[1:] {
		if before, after := tasks[i], tasks[i+1]; after.StartedAt.Before(before.FinishedAt) {
			t.Errorf("%s began at %v, and %s ended at %v", after.Step, after.StartedAt, before.Step, before.FinishedAt)
		}
	}
}

// A clock that was an hour ahead delays nothing that begins once it is right: neither what a worker drove meanwhile, nor what it
// drives then, nor a run that had begun and comes back.
func TestWorker_ForgetsAClockThatWasAhead(t *testing.T) {
	t.Parallel()
	const began = "name: d\nsteps:\n  - {id: ask, action: approval}\n  - {id: short, depends: [ask], action: wait, with: {duration: 20s}}\n  - {id: long, depends: [short], action: wait, with: {duration: 20m}}\n"
	synctest.Test(t, func(t *testing.T) {
		s := hourAhead(t, began)
		s.works(t, "w")
		before := s.enqueue(t, "d")
		s.takes(t, before, "waiting")
		s.ahead.Store(0)
		pass(11 * time.Second) // two renewals
		fresh := s.enqueue(t, "d")
		s.takes(t, fresh, "waiting")
		for name, id := range map[string]queue.RunID{"a run that began before": before, "a run that began after": fresh} {
			if _, err := s.Control(t.Context(), queue.Ask{Run: id, Verb: dagrun.VerbApprove, Step: "ask"}); err != nil {
				t.Fatal(err)
			}
			wantTook(t, name, s.takes(t, id, "succeeded"), 20*time.Minute+20*time.Second, 20*time.Minute+40*time.Second)
			s.inOrder(t, id)
		}
	})
}

// A run that is under way when the clock is set back goes on in its own time.
func TestWorker_GoesOnInTimeWhenTheClockIsSetBack(t *testing.T) {
	t.Parallel()
	const chain = "name: d\nsteps:\n  - {id: a, action: wait, with: {duration: 25s}}\n  - {id: b, depends: [a], run: exit 1, retry_policy: {limit: 1, interval: 10s}, continue_on: failed}\n  - {id: c, depends: [b], run: hold, timeout: 15s, continue_on: failed}\n"
	synctest.Test(t, func(t *testing.T) {
		s := hourAhead(t, chain)
		s.works(t, "w")
		id := s.enqueue(t, "d")
		since := time.Now()
		pass(5 * time.Second)
		s.ahead.Store(0)
		s.takes(t, id, "succeeded")
		wantTook(t, "a run that the clock was set back under", time.Since(since), 50*time.Second, 70*time.Second)
		s.inOrder(t, id)
	})
}

// A wait until a moment is over at that moment of the database, whatever the run's records say.
func TestWorker_WaitsUntilAMomentOfTheDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := hourAhead(t, "name: nothing\nsteps: [{id: a, action: noop}]\n")
		until := time.Now().Add(10 * time.Minute).UTC().Format(time.RFC3339)
		s.put(t, "name: d\nsteps:\n  - {id: ask, action: approval}\n  - {id: a, depends: [ask], action: wait, with: {until: '"+until+"'}}\n")
		s.works(t, "w")
		id := s.enqueue(t, "d")
		s.takes(t, id, "waiting")
		s.ahead.Store(0)
		pass(11 * time.Second)
		if _, err := s.Control(t.Context(), queue.Ask{Run: id, Verb: dagrun.VerbApprove, Step: "ask"}); err != nil {
			t.Fatal(err)
		}
		wantTook(t, "until the moment", s.takes(t, id, "succeeded"), 9*time.Minute+40*time.Second, 10*time.Minute)
	})
}

// After the database's clock is set ahead between two signs of life, no wait that begins then ends early.
func TestWorker_NoticesAClockThatIsSetAheadBeforeItDrives(t *testing.T) {
	t.Parallel()
	const parks = "name: d\nsteps: [{id: a, action: wait, with: {duration: 20m}}]\n"
	synctest.Test(t, func(t *testing.T) {
		s := hourAhead(t, parks)
		s.ahead.Store(0)
		s.works(t, "w")
		pass(12 * time.Second)
		s.ahead.Store(int64(time.Hour))
		id := s.enqueue(t, "d")
		wantTook(t, "a wait that parks", s.takes(t, id, "succeeded"), 20*time.Minute, 20*time.Minute+20*time.Second)
	})
}

// Each sign of life asks a worker to stop until it is gone; the worker logs that once.
func TestWorker_SaysOnceThatItIsAskedToStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := hourAhead(t, "name: d\nsteps: [{id: a, run: hold}]\n")
		var said spoken
		w := s.start(t, "w", func(c *worker.Config) { c.Boot, c.Log = s.boot, slog.New(slog.NewTextHandler(&said, nil)) })
		s.enqueue(t, "d")
		<-s.bodies.started
		if n, err := s.DrainWorker(t.Context(), "w"); n != 1 || err != nil {
			t.Fatalf("asked %d workers: %v", n, err)
		}
		pass(40 * time.Second)
		if n := said.lines("asked to stop by `oarlock workers drain`"); n != 1 || w.Status().Phase != worker.Draining {
			t.Errorf("it says so %d times, and is %s", n, w.Status().Phase)
		}
	})
}
