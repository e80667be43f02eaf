package storetest_test

import (
	"errors"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
)

// scene is a store with a worker that suffers faults.
type scene struct {
	*testing.T
	store *storetest.Memory
	real  storetest.Session
	*storetest.Faults
	faulty storetest.Session
}

func newScene(t *testing.T, plan storetest.Plan) *scene {
	t.Helper()
	s := &scene{T: t, store: storetest.NewMemory(storetest.Options{Now: newClock().Now}), Faults: storetest.NewFaults(plan)}
	put(t, s.store, diamond)
	s.replace()
	return s
}

// replace registers a worker that replaces the current one.
func (s *scene) replace() {
	s.Helper()
	w := anyWorker
	if s.real.Lease != nil {
		w.Replaces = append(w.Replaces, s.real.ID())
	}
	session, err := s.store.Register(s.Context(), w)
	if err != nil {
		s.Fatal(err)
	}
	s.real = session.Roles()
	s.faulty = s.Session(s.real)
}

func (s *scene) enqueue() queue.RunID {
	s.Helper()
	id, err := s.store.Enqueue(s.Context(), queue.Request{DAG: "diamond"})
	if err != nil {
		s.Fatal(err)
	}
	return id
}

func (s *scene) claim(w storetest.Session) *queue.Claim {
	s.Helper()
	polled, err := w.Poll(s.Context(), queue.Want{Slots: 1, Free: 1})
	if err != nil || len(polled.Claims) != 1 {
		s.Fatalf("polled %+v, %v", polled, err)
	}
	return polled.Claims[0]
}

func (s *scene) stateOfA(id queue.RunID) string {
	s.Helper()
	tasks, err := s.store.Tasks(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	return tasks[0].State
}

func running(c *queue.Claim) *queue.Batch {
	return &queue.Batch{Claim: c, Records: dagrun.Records{Tasks: []dagrun.TaskRecord{
		{Seq: 1, State: dagrun.TaskRunning, Attempt: 1, Generation: 1, AttemptAt: 1, StartedAt: 1},
	}}}
}

func TestFaults_SayWhatTheyDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault   storetest.Fault
		err     error
		applied bool
	}{
		{storetest.Pass, nil, true},
		{storetest.FailBefore, storetest.ErrInjected, false},
		{storetest.FailAfter, storetest.ErrInjected, true},
		{storetest.UnknownBefore, queue.ErrUnknown, false},
		{storetest.UnknownAfter, queue.ErrUnknown, true},
		{storetest.Twice, nil, true},
	} {
		t.Run(c.fault.String(), func(t *testing.T) {
			t.Parallel()
			s := newScene(t, storetest.Script(map[storetest.Call]storetest.Fault{{Op: storetest.OpCommit, N: 1}: c.fault}))
			id := s.enqueue()
			claim := s.claim(s.faulty)
			if err := s.faulty.Commit(t.Context(), running(claim)); !errors.Is(err, c.err) {
				t.Errorf("got %v, want %v", err, c.err)
			}
			if applied := s.stateOfA(id) == "running"; applied != c.applied {
				t.Errorf("applied: %t, want %t", applied, c.applied)
			}
			if err := s.faulty.Commit(t.Context(), running(claim)); err != nil {
				t.Errorf("the second commit has no fault, but %v", err)
			}
		})
	}
}

func TestFaults_HoldUntilFreed(t *testing.T) {
	t.Parallel()
	s := newScene(t, storetest.Script(map[storetest.Call]storetest.Fault{{Op: storetest.OpCommit, N: 1}: storetest.Hold}))
	id := s.enqueue()
	claim := s.claim(s.faulty)
	done := make(chan error)
	go func() { done <- s.faulty.Commit(t.Context(), running(claim)) }()
	held, err := s.Held(t.Context())
	if err != nil || held.Call != (storetest.Call{Op: storetest.OpCommit, N: 1}) {
		t.Fatalf("held %+v, %v", held, err)
	}
	if got := s.stateOfA(id); got != "pending" {
		t.Errorf("a is %s while its commit waits", got)
	}
	held.Free(storetest.UnknownAfter)
	if err := <-done; !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("got %v", err)
	}
	if got := s.stateOfA(id); got != "running" {
		t.Errorf("a is %s once its commit went on", got)
	}
}

func TestFaults_ALostPollGoesBackWithASweep(t *testing.T) {
	t.Parallel()
	for _, fault := range []storetest.Fault{storetest.FailAfter, storetest.UnknownAfter, storetest.Twice} {
		s := newScene(t, storetest.Script(map[storetest.Call]storetest.Fault{{Op: storetest.OpPoll, N: 1}: fault}))
		id := s.enqueue()
		polled, err := s.faulty.Poll(t.Context(), queue.Want{Slots: 1, Free: 1})
		if len(polled.Claims) > 0 || (err == nil) != (fault == storetest.Twice) {
			t.Fatalf("%s: polled %+v, %v", fault, polled, err)
		}
		if r, _ := s.store.Get(t.Context(), id); r.State != "running" {
			t.Errorf("%s: the run is %s", fault, r.State)
		}
		if _, err := s.faulty.Renew(t.Context(), queue.Vitals{}); err != nil {
			t.Error(err)
		}
		if r, _ := s.store.Get(t.Context(), id); r.State != "running" {
			t.Errorf("%s: a renewal makes it %s", fault, r.State)
		}
		if _, err := s.faulty.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		if c := s.claim(s.faulty); c.Run != id || c.Epoch != 2 || c.Losses != 0 {
			t.Errorf("%s: claimed again: %+v", fault, c)
		}
	}
}

func TestFaults_OfAClient(t *testing.T) {
	t.Parallel()
	s := newScene(t, storetest.Script(map[storetest.Call]storetest.Fault{
		{Op: storetest.OpEnqueue, N: 1}: storetest.UnknownAfter, {Op: storetest.OpControl, N: 1}: storetest.FailBefore,
	}))
	client := s.Client(s.store)
	asked := queue.Request{DAG: "diamond", Key: "k"}
	if _, err := client.Enqueue(t.Context(), asked); !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("got %v", err)
	}
	id, err := client.Enqueue(t.Context(), asked)
	if err != nil || id != 1 {
		t.Errorf("run %d, %v: a request with a key is asked for once", id, err)
	}
	if _, err := client.Control(t.Context(), queue.Ask{Run: id, Verb: dagrun.VerbCancel}); !errors.Is(err, storetest.ErrInjected) {
		t.Errorf("got %v", err)
	}
	if r, err := client.Get(t.Context(), id); err != nil || r.State != "queued" {
		t.Errorf("run %+v, %v", r, err)
	}
}

var rough = storetest.Odds{storetest.FailBefore: 40, storetest.FailAfter: 40, storetest.UnknownBefore: 40, storetest.UnknownAfter: 40, storetest.Twice: 40}

func TestSeeded_DependsOnSeedAndCallAlone(t *testing.T) {
	t.Parallel()
	plan, again, other := storetest.Seeded(1, map[storetest.Op]storetest.Odds{storetest.OpCommit: rough}),
		storetest.Seeded(1, map[storetest.Op]storetest.Odds{storetest.OpCommit: rough, storetest.OpPoll: rough}),
		storetest.Seeded(2, map[storetest.Op]storetest.Odds{storetest.OpCommit: rough})
	counts, differ := map[storetest.Fault]int{}, false
	const calls = 20_000
	for n := range calls {
		c := storetest.Call{Op: storetest.OpCommit, N: n}
		counts[plan(c)]++
		differ = differ || plan(c) != other(c)
		if plan(c) != again(c) {
			t.Fatalf("%s: %s and %s", c, plan(c), again(c))
		}
	}
	for f, odds := range rough {
		if n, want := counts[f], calls*odds/1000; n < want*8/10 || n > want*12/10 {
			t.Errorf("%s: %d of %d calls, want some %d", f, n, calls, want)
		}
	}
	if !differ {
		t.Error("two seeds are one")
	}
}

func TestDrive_EndsRightThroughFaults(t *testing.T) {
	t.Parallel()
	odds := map[storetest.Op]storetest.Odds{storetest.OpCommit: rough, storetest.OpLoad: rough, storetest.OpPoll: rough, storetest.OpSweep: rough}
	failures := 0
	for seed := range uint64(300) {
		s := newScene(t, storetest.Seeded(seed, odds))
		id := s.enqueue()
		starts, succeeded := map[string]int{}, map[string]bool{}
		body := func(b storetest.Body) dagrun.Result {
			if succeeded[b.Name] {
				t.Errorf("seed %d: %s was started after it was recorded as succeeded", seed, b.Name)
			}
			starts[b.Name]++
			return dagrun.Result{}
		}
		for range 200 {
			polled, err := s.faulty.Poll(t.Context(), queue.Want{Slots: 1, Free: 1})
			if err == nil && len(polled.Claims) == 1 {
				_, err = storetest.Drive(t.Context(), s.faulty, polled.Claims[0], storetest.Behaviour{Body: body})
			}
			if err != nil {
				failures++
				s.replace()
			}
			tasks, _ := s.store.Tasks(t.Context(), id)
			for _, task := range tasks {
				succeeded[task.Step] = task.State == "succeeded"
			}
			if _, err := s.faulty.Sweep(t.Context()); err != nil {
				continue
			}
			if r, _ := s.store.Get(t.Context(), id); r.Over() {
				break
			}
		}
		if r, _ := s.store.Get(t.Context(), id); r.State != "succeeded" && r.Reason != "too many lost drives" {
			t.Errorf("seed %d: the run is %s: %s; starts %v", seed, r.State, r.Reason, starts)
		}
	}
	if failures < 100 {
		t.Errorf("only %d failures in all", failures)
	}
}
