package storetest

import (
	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var limitPromises = []promise{
	{"max_running bounds what is claimed of a queue", maxRunning},
	{"max_active_runs counts what parks, and lets it go on", maxActive},
	{"max_active_runs bounds what was there before it", laterLimit},
	{"max_queued bounds what waits", maxQueued},
	{"queue_timeout ends what did not start", queueTimeout},
	{"queue_timeout counts anew for what is retried", queueTimeoutAgain},
}

func maxRunning(s *setup) {
	s.put(single)
	two := 2
	s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", MaxRunning: &two}))
	for range 5 {
		s.enqueue(queue.Request{DAG: "single"})
	}
	a, b := s.worker(), s.worker()
	claims := append(s.claim(a, 1), s.claim(b, 1)...)
	s.idle(a, "two are running")
	s.idle(b, "two are running")
	s.drive(a, claims[0], Behaviour{})
	s.claimOne(b)
	s.idle(a, "two are running again")
}

func maxActive(s *setup) {
	s.put("name: few\nmax_active_runs: 1\nsteps: [{id: a, action: approval}]\n")
	one, two := s.enqueue(queue.Request{DAG: "few"}), s.enqueue(queue.Request{DAG: "few"})
	w := s.worker()
	c := s.claimOne(w)
	if c.Run != one {
		s.Fatalf("claimed %d first", c.Run)
	}
	s.idle(w, "one is active")
	if d := s.drive(w, c, Behaviour{}); d.Leave == nil || d.Leave.Drained {
		s.Fatalf("an approval does not park: %+v", d)
	}
	s.idle(w, "the one that parks is active, too")
	s.ask(approve(one, "a"))
	if c = s.claimOne(w); c.Run != one {
		s.Fatalf("claimed %d, while %d was active", c.Run, one)
	}
	s.drive(w, c, Behaviour{})
	if c = s.claimOne(w); c.Run != two {
		s.Errorf("claimed %d, not %d", c.Run, two)
	}
}

func laterLimit(s *setup) {
	s.put(single)
	w := s.worker()
	var ids []queue.RunID
	for range 3 {
		ids = append(ids, s.enqueue(queue.Request{DAG: "single"}))
		s.drive(w, s.claimOne(w), Behaviour{Body: func(Body) dagrun.Result { return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true} }})
	}
	ids = append(ids, s.enqueue(queue.Request{DAG: "single"}))
	s.put("name: single\nmax_active_runs: 1\nsteps: [{id: a, run: \"true\"}]\n")
	for _, id := range ids[:3] {
		s.ask(queue.Ask{Run: id, Verb: dagrun.VerbRetry})
	}
	for range ids {
		c := s.claimInTurns(w) // looks clear the way for what a limit found in a lane of other DAGs
		s.idle(w, "one is active")
		s.drive(w, c, Behaviour{})
	}
	for _, id := range ids {
		s.wantState(id, "succeeded")
	}
}

func maxQueued(s *setup) {
	s.put(single)
	two := 2
	s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", MaxQueued: &two}))
	s.enqueue(queue.Request{DAG: "single"})
	s.enqueue(queue.Request{DAG: "single"})
	_, err := s.Client.Enqueue(s.Context(), queue.Request{DAG: "single"})
	s.wantCode(err, "OA006")
	s.claimOne(s.worker())
	s.enqueue(queue.Request{DAG: "single"})
}

func queueTimeout(s *setup) {
	s.put("name: hurried\nqueue_timeout: 1s\nsteps: [{id: a, run: \"true\"}]\n")
	a, other := s.worker(), s.worker(func(w *queue.Worker) { w.Offers = nil })
	started := s.enqueue(queue.Request{DAG: "hurried"})
	c := s.claimOne(a)
	id := s.enqueue(queue.Request{DAG: "hurried"})
	s.until("it gives up", func() bool {
		s.look(other)
		return s.get(id).Over()
	})
	if r := s.get(id); r.State != "failed" || r.Reason != "queue_timeout" {
		s.Errorf("%s, %s", r.State, r.Reason)
	}
	s.idle(a, "it has ended")
	s.wantState(started, "running")
	s.must(s.record(a, c, row(0, 1, dagrun.TaskSucceeded, s.now(a))))
	s.must(a.Release(s.Context(), c, false))
	s.look(other)
	s.wantState(started, "queued") // what started once has no such deadline
	if d := s.drive(a, s.claimOne(a), Behaviour{}); d.Verdict == nil {
		s.Errorf("driven %+v", d)
	}
}

func queueTimeoutAgain(s *setup) {
	s.put("name: hurried\nqueue_timeout: 1s\nsteps: [{id: a, run: \"true\"}]\n")
	other := s.worker(func(w *queue.Worker) { w.Offers = nil })
	id := s.enqueue(queue.Request{DAG: "hurried"})
	fails := Behaviour{Body: func(Body) dagrun.Result { return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true} }}
	a := s.worker()
	s.drive(a, s.claimOne(a), fails)
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbRetry})
	s.wantState(id, "queued")
	s.until("it gives up", func() bool {
		s.look(other)
		return s.get(id).Over()
	})
	if r := s.get(id); r.State != "failed" || r.Reason != "queue_timeout" || r.Generation != 2 {
		s.Errorf("%s, %s, generation %d", r.State, r.Reason, r.Generation)
	}
	all, err := s.History.Controls(s.Context(), id)
	s.must(err)
	if len(all) != 1 || all[0].Outcome != dagrun.Refused || all[0].Message != "queue_timeout" {
		s.Errorf("left behind: %+v", all)
	}
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbRetry})
	c := s.claimOne(a)
	s.must(a.Release(s.Context(), c, false))
	s.look(other)
	s.drive(a, s.claimOne(a), Behaviour{})
	s.wantState(id, "succeeded")
}
