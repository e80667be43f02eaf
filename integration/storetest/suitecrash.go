package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var crashPromises = []promise{
	{"a crash at any commit of a diamond repeats nothing that succeeded", crashDiamond},
	{"a crash at any commit of a retry repeats nothing that succeeded", crashRetry},
	{"attempts are numbered without gap, and history tells of each", historyTells},
}

// maxCrashes bounds the number of commits that crashEverywhere tries. A run here has fewer.
const maxCrashes = 40

var errCrash = errors.New("the worker was killed")

// crashing is a journal with a worker that dies at the nth commit, before or after the commit is applied.
type crashing struct {
	Journal
	at    int
	after bool
}

func (c *crashing) Commit(ctx context.Context, b *queue.Batch) error {
	c.at--
	switch {
	case c.at > 0:
		return c.Journal.Commit(ctx, b)
	case c.at == 0 && c.after:
		return errors.Join(errCrash, c.Journal.Commit(ctx, b))
	default:
		return errCrash
	}
}

// witness sees which tasks start, and which were recorded as succeeded by then.
type witness struct {
	*setup
	worker Session // the worker that does not crash
	run    queue.RunID
	starts map[string]int
	fails  string // the task that fails in its first attempt
}

func (w *witness) body(b Body) dagrun.Result {
	w.starts[b.Name]++
	if t := w.tasks(w.run)[b.Name]; t.State != "running" || t.Attempt != b.Attempt {
		w.Errorf("attempt %d of %s was started while attempt %d was recorded as %s", b.Attempt, b.Name, t.Attempt, t.State)
	}
	if b.Name == w.fails && w.starts[b.Name] == 1 {
		return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true}
	}
	return dagrun.Result{Outputs: dagrun.JSON(fmt.Sprintf(`{"by":%q}`, b.Name))}
}

// crashOnce drives a run with a crash, and then once more without. It reports whether the crash happened.
func (w *witness) crashOnce(at int, after bool) bool {
	w.Helper()
	doomed := w.worker
	doomed.Journal = &crashing{w.worker.Journal, at, after}
	behaviour := w.paced(w.worker, Behaviour{Body: w.body})
	_, err := Drive(w.Context(), doomed, w.claimOne(w.worker), behaviour)
	if err == nil {
		return false
	}
	w.wantError(err, errCrash)
	saved, before := map[string]bool{}, maps.Clone(w.starts)
	for name, t := range w.tasks(w.run) {
		saved[name] = t.State == "succeeded"
	}
	w.takeOver()
	if w.get(w.run).Over() { // the last commit was applied
		w.idle(w.worker, "it has ended")
		return true
	}
	w.drive(w.worker, w.claimOne(w.worker), behaviour)
	for name, done := range saved {
		if done && w.starts[name] != before[name] {
			w.Errorf("%s was started again after it was recorded as succeeded", name)
		}
	}
	return true
}

// takeOver makes another worker replace the one that crashed.
func (w *witness) takeOver() {
	w.Helper()
	next := w.setup.worker(replacing(w.worker))
	_ = w.worker.Close(w.Context()) // frees its connections; the store knows already that it was lost
	w.worker = next
}

// crashEverywhere crashes at each commit in turn, until a drive ends without a crash.
func crashEverywhere(s *setup, ready func(*witness)) {
	s.Helper()
	w, crashes := &witness{setup: s, worker: s.worker()}, 0
	for _, after := range []bool{false, true} {
		for at, crashed := 1, true; crashed; at++ {
			if at > maxCrashes {
				s.Fatal("the enumeration does not end")
			}
			w.starts = map[string]int{}
			ready(w)
			if crashed = w.crashOnce(at, after); crashed {
				crashes++
			}
			if r := s.get(w.run); r.State != "succeeded" {
				s.Errorf("crash %t at commit %d: the run is %s: %s", after, at, r.State, r.Reason)
			}
		}
	}
	if crashes < 6 {
		s.Errorf("only %d crashes", crashes)
	}
}

func crashDiamond(s *setup) {
	s.put(diamond)
	crashEverywhere(s, func(w *witness) { w.run = s.enqueue(queue.Request{DAG: "diamond"}) })
}

func crashRetry(s *setup) {
	s.put(diamond)
	crashEverywhere(s, func(w *witness) {
		w.run, w.fails = s.enqueue(queue.Request{DAG: "diamond"}), "b"
		s.drive(w.worker, s.claimOne(w.worker), Behaviour{Body: w.body})
		s.wantState(w.run, "failed")
		s.ask(queue.Ask{Run: w.run, Verb: dagrun.VerbRetry})
	})
}

func historyTells(s *setup) {
	id := s.start(chain)
	a := s.worker()
	c := s.claimOne(a)
	s.must(s.record(a, c, row(0, 1, dagrun.TaskRunning, s.now(a))))
	b := s.worker(replacing(a))
	s.drive(b, s.claimOne(b), Behaviour{Body: func(body Body) dagrun.Result {
		if body.Name == "b" {
			return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 3, HasExit: true}
		}
		return dagrun.Result{}
	}})
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbRetry})
	s.drive(b, s.claimOne(b), Behaviour{})
	s.wantState(id, "succeeded")
	attempts, err := s.History.Attempts(s.Context(), id)
	s.must(err)
	three := 3
	var got []queue.Attempt
	for _, t := range attempts {
		got = append(got, queue.Attempt{Step: t.Step, Attempt: t.Attempt, Generation: t.Generation, State: t.State, FailureKind: t.FailureKind, ExitCode: t.ExitCode})
	}
	s.same("attempts", got, []queue.Attempt{
		{Step: "a", Attempt: 1, Generation: 1, State: "failed", FailureKind: "lost"},
		{Step: "b", Attempt: 1, Generation: 1, State: "failed", FailureKind: "exit", ExitCode: &three},
	})
	tasks := s.tasks(id)
	s.same("attempts of the tasks", []int{tasks["a"].Attempt, tasks["b"].Attempt, tasks["c"].Attempt}, []int{2, 2, 1})
	controls, err := s.History.Controls(s.Context(), id)
	s.must(err)
	if len(controls) != 1 || controls[0].Outcome != dagrun.Applied || controls[0].DecidedAt.IsZero() {
		s.Errorf("controls %+v", controls)
	}
	events, err := s.History.Events(s.Context(), id, 0)
	s.must(err)
	if !slices.ContainsFunc(events, func(e queue.Event) bool { return e.Kind == "lost" }) {
		s.Errorf("events %+v", events)
	}
}
