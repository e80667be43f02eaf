package worker_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// tally is a Meter that writes all events down.
type tally struct {
	mu      sync.Mutex
	told    []string
	renewed chan error
}

func newTally() *tally { return &tally{renewed: make(chan error, 1000)} }

func (y *tally) note(format string, args ...any) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.told = append(y.told, fmt.Sprintf(format, args...))
}

// sorted returns the notes that begin with one of words, in alphabetical order.
func (y *tally) sorted(words ...string) []string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var some []string
	for _, note := range y.told {
		if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(note, w+" ") }) {
			some = append(some, note)
		}
	}
	slices.Sort(some)
	return some
}

func (y *tally) RunStarted(dag string, waited time.Duration) {
	y.note("start %s %t", dag, waited >= 0 && waited < time.Minute)
}

func (y *tally) RunLeft(dag string, as worker.Outcome, took time.Duration) {
	y.note("run %s %s %t", dag, as, took >= 0 && took < time.Minute)
}

func (y *tally) TaskSettled(dag string, as dagrun.State) { y.note("task %s %s", dag, as) }

func (y *tally) AttemptEnded(a worker.AttemptEnd) {
	y.note("attempt %s %s %s", a.DAG, a.Body, a.Outcome)
}

func (y *tally) Polled(p worker.PollEnd) { y.note("poll %d %d %v", p.Wanted, len(p.Got.Claims), p.Err) }

func (y *tally) Renewed(_, _ time.Duration, err error) { y.renewed <- err }

func TestMeter_IsToldOfRunsTasksAndAttempts(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n  - {id: a, run: x}\n  - {id: b, run: 'exit 1', depends: [a]}\n  - {id: c, run: x, depends: [b]}\n")
	b.put(t, "name: go\nsteps:\n  - {id: f, action: my.func}\n")
	y := newTally()
	b.start(t, "w", func(c *worker.Config) {
		c.Meter, c.Executors["action:my.func"] = y, b.bodies
	})
	b.await(t, b.enqueue(t, "d"))
	b.await(t, b.enqueue(t, "go"))
	await.True(t, "both runs are told of", func() bool { return len(y.sorted("run")) == 2 })
	want := []string{
		"attempt d run exit", "attempt d run succeeded", "attempt go my.func succeeded",
		"run d failed true", "run go succeeded true", "start d true", "start go true",
		"task d failed", "task d succeeded", "task d upstream_failed", "task go succeeded",
	}
	if got := y.sorted("attempt", "run", "start", "task"); !slices.Equal(got, want) {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(y.sorted("poll")) < 2 {
		t.Errorf("polls: %v", y.sorted("poll"))
	}
}

func TestMeter_TellsStoppedAttemptsFromFailedOnes(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n  - {id: a, run: hold, timeout: 100ms}\n")
	b.put(t, "name: c\nsteps:\n  - {id: a, run: hold}\n")
	y := newTally()
	b.start(t, "w", func(c *worker.Config) { c.Meter = y })
	b.await(t, b.enqueue(t, "d"))
	id := b.enqueue(t, "c")
	await.True(t, "the task runs", func() bool {
		tasks, err := b.Tasks(t.Context(), id)
		return err == nil && len(tasks) == 1 && tasks[0].State == "running"
	})
	if _, err := b.Control(t.Context(), queue.Ask{Run: id, Verb: dagrun.VerbCancel, Now: true}); err != nil {
		t.Fatal(err)
	}
	b.await(t, id)
	want := []string{"attempt c run stopped", "attempt d run timeout"}
	if got := y.sorted("attempt"); !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

func TestMeter_TellsWhichDrivesHandedOn(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n  - {id: a, run: hold}\n")
	b.put(t, "name: wait\nsteps:\n  - {id: a, action: approval}\n")
	y := newTally()
	w := b.start(t, "w", func(c *worker.Config) { c.Meter, c.DrainTimeout = y, time.Millisecond })
	b.enqueue(t, "d")
	<-b.bodies.started
	w.Stop()
	await.True(t, "the run is handed on", func() bool { return len(y.sorted("run")) == 1 })
	if got := y.sorted("run", "attempt"); !slices.Equal(got, []string{"attempt d run lost", "run d handed_on true"}) {
		t.Errorf("told %v", got)
	}
}

func TestStatus_FollowsAWorkersLife(t *testing.T) {
	t.Parallel()
	b := setup(t, "name: d\nsteps:\n  - {id: a, run: hold}\n")
	y := newTally()
	w := b.start(t, "w", func(c *worker.Config) { c.Meter, c.Self.TTL, c.Self.Containment = y, 3*time.Second, "group" })
	await.True(t, "it is live", func() bool { return w.Status().Phase == worker.Live })
	id := b.enqueue(t, "d")
	<-b.bodies.started
	s := w.Status()
	if s.Runs != 1 || s.Slots.Slots != 4 || s.Slots.Free != 3 || s.Registrations != 1 || s.Containment != "group" || s.TTL != 3*time.Second {
		t.Errorf("status %+v", s)
	}
	if err := <-y.renewed; err != nil {
		t.Error(err)
	}
	away := errors.New("the database is away")
	b.Break(away)
	await.True(t, "a renewal failed", func() bool { return errors.Is(w.Status().RenewErr, away) })
	b.Break(nil)
	await.True(t, "a renewal was answered", func() bool { return w.Status().RenewErr == nil })
	if later := w.Status(); later.Renewed <= s.Renewed || later.Hard <= s.Hard || !later.Ticked.After(s.Ticked) {
		t.Errorf("after a renewal %+v, before %+v", later, s)
	}
	w.Stop()
	if got := w.Status().Phase; got != worker.Draining {
		t.Errorf("phase %s once it was stopped", got)
	}
	if _, err := b.Control(t.Context(), queue.Ask{Run: id, Verb: dagrun.VerbCancel, Now: true}); err != nil {
		t.Fatal(err)
	}
	await.True(t, "it has stopped", func() bool { return w.Status().Phase == worker.Stopped })
}
