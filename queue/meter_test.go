package queue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/queue"
)

// metered is a store of the fleet's login, at a URL, with the calls of its Meter.
func (f *sessionBundle) metered(t *testing.T, at string) (store *queue.Store, tries chan queue.FlushTry, lost *atomic.Int32) {
	t.Helper()
	tries, lost = make(chan queue.FlushTry, 100), &atomic.Int32{}
	store, err := queue.Open(t.Context(), queue.Config{URL: at, Meter: queue.Meter{
		Flushed: func(try queue.FlushTry) { tries <- try }, FenceLost: func() { lost.Add(1) },
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return store, tries, lost
}

func starting(c *queue.Claim) *queue.Batch {
	task := dagrun.TaskRecord{Seq: 1, Generation: 1, State: dagrun.TaskRunning, Attempt: 1, StartedAt: 1000, AttemptAt: 1000}
	return &queue.Batch{Claim: c, Seen: c.Inbox, Records: dagrun.Records{Tasks: []dagrun.TaskRecord{task}}}
}

func TestMeter_IsToldOfEveryTryOfAFlush(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	proxy, through := netfault.Through(t, f.url)
	store, tries, _ := f.metered(t, through)
	s := f.registerAt(t, store)
	f.ask(t, "plain", 1)
	claim := poll(t, s, 1).Claims[0]
	cut := proxy.Inject(netfault.Fault{When: func(m netfault.Message) bool {
		return m.From == netfault.Client && m.Type == 'B' && bytes.Contains(m.Body, []byte("oarlock_flush"))
	}})
	if err := s.Commit(t.Context(), starting(claim)); err != nil {
		t.Fatal(err)
	}
	cut.MustFire(t)
	first, second := <-tries, <-tries
	if first.Err == nil || second.Err != nil {
		t.Errorf("tries ended as %v and %v", first.Err, second.Err)
	}
	if second.Batches != 1 || second.Records != 2 || second.Bytes < 100 || second.Took <= 0 {
		t.Errorf("second try: %+v", second)
	}
	if stats := s.Stats(); stats.Held != 1 || stats.Waiting != 0 {
		t.Errorf("stats %+v", stats)
	}
}

func TestMeter_IsToldOnceThatTheFenceIsLost(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	store, _, lost := f.metered(t, f.url)
	s := f.registerAt(t, store)
	f.ask(t, "plain", 1)
	claim := poll(t, s, 1).Claims[0]
	f.exec(t, "DELETE FROM oarlock.fences")
	for _, err := range []error{s.Commit(t.Context(), starting(claim)), s.Commit(t.Context(), starting(claim))} {
		if !errors.Is(err, queue.ErrLeaseLost) {
			t.Errorf("commit: %v", err)
		}
	}
	if _, err := s.Poll(t.Context(), queue.Want{Slots: 1, Free: 1}); !errors.Is(err, queue.ErrLeaseLost) {
		t.Errorf("poll: %v", err)
	}
	if got := lost.Load(); got != 1 {
		t.Errorf("told %d times", got)
	}
}

func TestMeter_CountsRunsOfAWorkerThatIsReplaced(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	var workers, runs atomic.Int64
	store := openFor(t, queue.Config{URL: f.url, Meter: queue.Meter{Requeued: func(w, r int) {
		workers.Add(int64(w))
		runs.Add(int64(r))
	}}})
	f.ask(t, "plain", 3)
	former := f.register(t)
	poll(t, former, 2)
	f.registerAt(t, store, func(w *queue.Worker) { w.Replaces = []uuid.UUID{former.ID()} })
	if workers.Load() != 0 || runs.Load() != 2 {
		t.Errorf("counted %d workers and %d runs, want 0 and 2", workers.Load(), runs.Load())
	}
}

func TestMeter_CountsCallsThatHadSomethingToDo(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	var told []string
	note := func(what string) func(error) {
		return func(err error) { told = append(told, fmt.Sprint(what, " ", err == nil)) }
	}
	s := f.registerAt(t, openFor(t, queue.Config{URL: f.url, Meter: queue.Meter{Looked: note("look"), Swept: note("sweep"), ChoresDone: note("chores")}}))
	s.SetClock(func() time.Duration { return time.Hour })
	sweep(t, s)
	look(t, s)
	s.SweptFor(time.Second)
	if swept, err := s.Sweep(t.Context()); err != nil || swept.Done {
		t.Errorf("a sweep that comes too soon: %+v, %v", swept, err)
	}
	if _, err := s.DoChores(t.Context()); err != nil {
		t.Errorf("chores when nothing is due: %v", err)
	}
	run := f.ask(t, "plain", 1)[0]
	f.exec(t, "UPDATE oarlock.runs SET state = 'waiting', epoch = 1, wake_at = clock_timestamp() - interval '1 s' WHERE run_id = $1", run)
	if _, err := s.Look(t.Context(), queue.Load{}); err != nil { // finds the run, and leaves it to DoChores
		t.Error(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.DoChores(gone); err == nil {
		t.Error("chores without a context succeed")
	}
	if _, err := s.Look(gone, queue.Load{}); err == nil {
		t.Error("a look without a context succeeds")
	}
	if want := []string{"sweep true", "look true", "chores true", "look true", "chores false", "look false"}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
}
