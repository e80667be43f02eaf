package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var cancelPromises = []promise{
	{"a cancel of what no worker holds is applied at once", cancelReleased},
	{"a cancel ends a run that is parked, and its tasks", cancelParked},
	{"a cancel ends a run whose worker is lost, and its logs", cancelOrphan},
	{"a cancel waits for a worker where handlers are to run, unless they are skipped", cancelHandled},
	{"a cancel waits for a worker where a child is open", cancelWithChild},
	{"a cancel waits for a worker where a child is asked for", cancelOpening},
	{"a cancel waits for a worker where a result is settled", cancelSettled},
	{"a canceled run that no worker held runs again in full", cancelThenRetry},
}

func cancelReleased(s *setup) {
	id := s.start(chain)
	w := s.worker()
	c := s.claimOne(w)
	s.must(s.record(w, c, row(0, 1, dagrun.TaskSucceeded, s.now(w))))
	s.must(w.Release(s.Context(), c, false, 0))
	s.cancels(id)
	s.idle(w, "it was canceled")
	for name, t := range s.tasks(id) {
		if name != "a" && (t.State != "canceled" || t.Attempt != 0 || t.FinishedAt.IsZero()) {
			s.Errorf("task %s: %+v", name, t)
		}
	}
	if answer := s.ask(queue.Ask{Run: id, Verb: dagrun.VerbCancel}); answer.Outcome != dagrun.Refused || answer.State != "canceled" {
		s.Errorf("second answer %+v", answer)
	}
}

// cancels sends a cancel to a run that no worker holds, and expects the run to end at once.
func (s *setup) cancels(id queue.RunID) {
	s.Helper()
	if answer := s.ask(queue.Ask{Run: id, Verb: dagrun.VerbCancel}); answer.Outcome != dagrun.Applied || answer.State != "canceled" || answer.DecidedAt.IsZero() {
		s.Errorf("answer %+v", answer)
	}
	s.wantState(id, "canceled")
	if r := s.get(id); !strings.HasPrefix(r.Reason, "canceled by ") || r.Counts.Open != 0 {
		s.Errorf("run %+v", r)
	}
	controls, err := s.History.Controls(s.Context(), id)
	s.must(err)
	for _, c := range controls {
		if c.DecidedAt.IsZero() {
			s.Errorf("left behind: %+v", c)
		}
	}
}

const asked = "name: asked\nsteps: [{id: a, action: approval}, {id: b, run: \"true\", depends: [a]}, {id: c, run: \"true\"}]\n"

func cancelParked(s *setup) {
	id := s.start(asked)
	w := s.worker()
	s.drive(w, s.claimOne(w), Behaviour{})
	s.wantState(id, "waiting")
	s.cancels(id)
	s.same("tasks", s.states(id), map[string]string{"a": "canceled", "b": "canceled", "c": "succeeded"})
	if r := s.get(id); r.Counts != (dagrun.Counts{Total: 3, Succeeded: 1, Canceled: 2}) {
		s.Errorf("counts %+v", r.Counts)
	}
	s.idle(w, "the run is over")
}

func cancelOrphan(s *setup) {
	id := s.start(chain)
	w := s.worker()
	c := s.claimOne(w)
	at := s.now(w)
	s.must(s.record(w, c, row(0, 1, dagrun.TaskRunning, at)))
	s.must(w.AppendLogs(s.Context(), chunks(c, at, 0, "begun")))
	next := s.successor(w, id)
	s.cancels(id)
	s.same("tasks", s.states(id), map[string]string{"a": "canceled", "b": "canceled", "c": "canceled"})
	log, err := s.Logs.ReadLogs(s.Context(), queue.LogQuery{Run: id, Step: "a"})
	s.must(err)
	if len(log) != 2 || !log[1].Final || log[1].Seq != 1 || log[1].Reason != "lost" {
		s.Errorf("log %+v", log)
	}
	s.idle(next, "the run is over")
}

func cancelHandled(s *setup) {
	id := s.start("name: handled\nsteps: [{id: a, action: approval}]\nhandler_on: {exit: {run: \"true\"}, abort: {run: \"true\"}}\n")
	w := s.worker()
	s.drive(w, s.claimOne(w), Behaviour{})
	s.wantState(id, "waiting")
	answer := s.ask(queue.Ask{Run: id, Verb: dagrun.VerbCancel})
	if answer.Outcome != dagrun.Accepted || answer.State != "queued" || !strings.Contains(answer.Message, "@abort and @exit") {
		s.Errorf("answer %+v", answer)
	}
	s.wantState(id, "queued")
	s.cancels(id) // the second one skips them
	s.same("tasks", s.states(id), map[string]string{"a": "canceled"})
}

func cancelWithChild(s *setup) {
	s.put(single)
	id := s.start(parent)
	w := s.worker()
	c := s.claimOne(w)
	child, err := w.EnqueueChild(s.Context(), queue.Child{Claim: c, Task: dagrun.TaskID{Step: 0}, Attempt: 1, DAG: "single"})
	s.must(err)
	s.must(w.Release(s.Context(), c, false, 0))
	answer := s.ask(queue.Ask{Run: id, Verb: dagrun.VerbCancel, Now: true})
	if answer.Outcome != dagrun.Accepted || !strings.Contains(answer.Message, fmt.Sprintf("child run %d", child)) {
		s.Errorf("answer %+v", answer)
	}
	s.cancels(child)
	s.cancels(id)
}

// The worker may be lost while its request for the child run is still under way.
func cancelOpening(s *setup) {
	s.put(single)
	id := s.start(parent)
	w := s.worker()
	c := s.claimOne(w)
	s.must(s.record(w, c, row(0, 1, dagrun.TaskWaiting, s.now(w))))
	next := s.successor(w, id)
	answer := s.ask(queue.Ask{Run: id, Verb: dagrun.VerbCancel, Now: true})
	if answer.Outcome != dagrun.Accepted || !strings.Contains(answer.Message, "a child run is being asked for") {
		s.Errorf("answer %+v", answer)
	}
	s.drive(next, s.claimOne(next), Behaviour{})
}

func cancelSettled(s *setup) {
	id := s.start(chain)
	w := s.worker()
	c := s.claimOne(w)
	s.must(s.record(w, c, row(0, 1, dagrun.TaskRunning, s.now(w))))
	s.must(s.Settle(s.Context(), w, queue.Settlement{Claim: c, Task: dagrun.TaskID{Step: 0}, Attempt: 1, Outputs: `{"n": 1}`}))
	next := s.successor(w, id)
	if answer := s.ask(queue.Ask{Run: id, Verb: dagrun.VerbCancel, Now: true}); answer.Outcome != dagrun.Accepted || answer.Message == "" {
		s.Errorf("answer %+v", answer)
	}
	s.drive(next, s.claimOne(next), Behaviour{})
	s.wantState(id, "canceled")
	s.same("tasks", s.states(id), map[string]string{"a": "succeeded", "b": "canceled", "c": "canceled"})
}

func cancelThenRetry(s *setup) {
	id := s.start("name: each\nsteps: [{id: a, foreach: {items: [x, y], max_concurrent: 1}, run: \"true\"}, {id: b, run: \"true\", depends: [a]}]\n")
	w := s.worker()
	c := s.claimOne(w)
	at := s.now(w)
	grown := row(0, 1, dagrun.TaskRunning, at)
	grown.AttemptAt, grown.Growth = 0, &dagrun.Growth{Generation: 1, Items: []dagrun.Item{{Key: "0", Value: `"x"`}, {Key: "1", Value: `"y"`}}}
	done := row(0, 2, dagrun.TaskSucceeded, at)
	done.ID.Item = "0"
	s.must(s.record(w, c, grown, done))
	next := s.successor(w, id)
	s.cancels(id)
	s.same("tasks", s.states(id), map[string]string{"a": "canceled", "a/0": "succeeded", "a/1": "canceled", "b": "canceled"})
	s.same("items in the list of a", s.tasks(id)["a"].Items, 2)
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbRetry})
	var started []string
	s.drive(next, s.claimOne(next), Behaviour{Body: func(b Body) dagrun.Result {
		started = append(started, b.Name)
		return dagrun.Result{}
	}})
	s.wantState(id, "succeeded")
	slices.Sort(started)
	s.same("starts", started, []string{"a/1", "b"})
}

// successor returns a worker that replaces the lost one and does not claim the lost worker's run.
func (s *setup) successor(lost Session, id queue.RunID) Session {
	s.Helper()
	next := s.worker(replacing(lost))
	s.until("the run is queued again", func() bool {
		_, err := next.Poll(s.Context(), queue.Want{})
		s.must(err)
		return s.get(id).State == "queued"
	})
	return next
}

func (s *setup) states(id queue.RunID) map[string]string {
	s.Helper()
	states := map[string]string{}
	for name, t := range s.tasks(id) {
		states[name] = t.State
	}
	return states
}
