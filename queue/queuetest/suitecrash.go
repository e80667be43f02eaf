package queuetest

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var crashPromises = []promise{
	{"a crash at any commit of a diamond repeats nothing that succeeded", crashDiamond},
	{"a crash at any commit of a retry repeats nothing that succeeded", crashRetry},
}

// maxCrashes bounds the enumeration: a run has fewer commits.
const maxCrashes = 40

var errCrash = errors.New("the worker was killed")

// crashing is a journal whose worker dies at the nth commit, before it or after it.
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

// witness sees what is started, and what was recorded as succeeded by then.
type witness struct {
	*setup
	run    queue.RunID
	starts map[string]int
	fails  string // what fails the first time
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

// crashOnce drives a run with a crash, and once more without. It says whether the crash came.
func (w *witness) crashOnce(at int, after bool) bool {
	w.Helper()
	a := w.worker()
	doomed := a
	doomed.Journal = &crashing{a.Journal, at, after}
	behaviour := w.paced(a, Behaviour{Body: w.body})
	_, err := Drive(w.Context(), doomed, w.claimOne(a), behaviour)
	if err == nil {
		return false
	}
	w.wantError(err, errCrash)
	saved := map[string]bool{}
	for name, t := range w.tasks(w.run) {
		saved[name] = t.State == "succeeded"
	}
	before := maps.Clone(w.starts)
	b := w.worker(replacing(a))
	if w.get(w.run).Over() { // the last commit landed
		w.idle(b, "it has ended")
		return true
	}
	w.drive(b, w.claimOne(b), behaviour)
	for name, done := range saved {
		if done && w.starts[name] != before[name] {
			w.Errorf("%s was started again after it was recorded as succeeded", name)
		}
	}
	return true
}

// crashEverywhere tries each commit until a drive gets through without a crash.
func crashEverywhere(s *setup, ready func(*witness)) {
	s.Helper()
	crashes := 0
	for _, after := range []bool{false, true} {
		for at := 1; ; at++ {
			if at > maxCrashes {
				s.Fatal("the enumeration does not end")
			}
			w := &witness{setup: s, starts: map[string]int{}}
			ready(w)
			crashed := w.crashOnce(at, after)
			if r := s.get(w.run); r.State != "succeeded" {
				s.Errorf("crash %t at commit %d: the run is %s: %s", after, at, r.State, r.Reason)
			}
			if !crashed {
				break
			}
			crashes++
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
		first := s.worker()
		s.drive(first, s.claimOne(first), Behaviour{Body: w.body})
		s.wantState(w.run, "failed")
		s.ask(queue.Ask{Run: w.run, Verb: dagrun.VerbRetry})
	})
}
