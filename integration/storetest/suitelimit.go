package storetest

import (
	"fmt"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var limitPromises = []promise{
	{"max_running bounds what is claimed of a queue", maxRunning},
	{"max_active_runs counts what parks, and lets it go on", maxActive},
	{"max_active_runs bounds what was there before it", laterLimit},
	{"max_active_runs lets no more runs begin than it says, however many park", parkedCount},
	{"a full worker claims what a request brought back behind max_active_runs", rousedBehindActive},
	{"a lane of several DAGs holds back what is new of those that are paused or limited", sharedLaneHolds},
	{"of lanes behind limits and others the higher goes first, and each gets its turn", limitedAndOpen},
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
		c := s.claimInTurns(w) // sweeps are needed, because the new limit found these runs in a lane that other DAGs share
		s.idle(w, "one is active")
		s.drive(w, c, Behaviour{})
	}
	for _, id := range ids {
		s.wantState(id, "succeeded")
	}
}

func parkedCount(s *setup) {
	const most = 2
	s.put(fmt.Sprintf("name: few\nmax_active_runs: %d\nsteps: [{id: a, action: approval}]\n", most))
	var ids []queue.RunID
	for range 4 * most {
		ids = append(ids, s.enqueue(queue.Request{DAG: "few"}))
	}
	w := s.worker()
	s.until("all are over", func() bool {
		s.look(w)
		for _, c := range s.poll(w, queue.Want{Slots: len(ids), Free: len(ids)}).Claims {
			s.drive(w, c, Behaviour{})
		}
		var open []queue.RunID
		for _, id := range ids {
			if r := s.get(id); !r.Over() && !r.StartedAt.IsZero() {
				open = append(open, id)
			}
		}
		if len(open) > most {
			s.Errorf("runs %v are under way", open)
		}
		if len(open) > 0 {
			s.ask(approve(open[0], "a"))
		}
		return len(open) == 0
	})
	for _, id := range ids {
		s.wantState(id, "succeeded")
	}
}

func rousedBehindActive(s *setup) {
	s.put("name: few\nmax_active_runs: 1\nsteps: [{id: a, action: approval}]\n")
	roused := s.enqueue(queue.Request{DAG: "few"})
	w := s.worker()
	s.drive(w, s.claimOne(w), Behaviour{})
	s.enqueue(queue.Request{DAG: "few", Priority: new(5)})
	s.look(w)
	s.wantClaims("before the request", s.poll(w, queue.Want{Idle: 64}).Claims)
	s.ask(approve(roused, "a"))
	s.look(w)
	s.wantClaims("a full worker", s.poll(w, queue.Want{Idle: 64}).Claims, roused)
}

func sharedLaneHolds(s *setup) {
	for _, dag := range []string{"stopped", "few", "free"} {
		s.put(lines(dag, "a", "b: a"))
	}
	begun := s.enqueue(queue.Request{DAG: "few"})
	first, w := s.worker(), s.worker()
	s.stalls(first, s.claimOne(first))
	stopped, second, free := s.enqueue(queue.Request{DAG: "stopped"}), s.enqueue(queue.Request{DAG: "few"}), s.enqueue(queue.Request{DAG: "free"})
	s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", MaxRunning: new(10)}))
	s.must(s.Admin.SetDAG(s.Context(), queue.DAGChange{Name: "stopped", Paused: new(true)}))
	s.put("name: few\nmax_active_runs: 1\nsteps: [{id: a, run: \"true\"}]\n")
	s.look(w)
	claims := s.poll(w, queue.Want{Slots: 5, Free: 5}).Claims
	s.wantClaims("what has begun, and what nothing holds", claims, begun, free)
	s.sweep(w)
	s.idle(w, "what is left is paused, or behind a limit that is full")
	s.must(s.Admin.SetDAG(s.Context(), queue.DAGChange{Name: "stopped", Paused: new(false)}))
	if c := s.claimInTurns(w); c.Run != stopped {
		s.Errorf("claimed %d, not %d, which is paused no more", c.Run, stopped)
	}
	s.drive(w, claims[0], Behaviour{})
	if c := s.claimInTurns(w); c.Run != second {
		s.Errorf("claimed %d, not %d, for which there is room", c.Run, second)
	}
}

func limitedAndOpen(s *setup) {
	const polls = 4 * queue.TurnEvery
	for name, test := range map[string]struct{ open, limited int }{"above": {0, 5}, "below": {5, 0}, "beside": {0, 0}} {
		file := "name: %s\nqueue: %s\npriority: %d\nsteps: [{id: a, run: \"true\"}]\n"
		open, limited := name+"-open", name+"-limited"
		s.put(fmt.Sprintf(file, open, open, test.open))
		s.put(fmt.Sprintf(file, limited, limited, test.limited))
		s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: limited, MaxRunning: new(2 * polls)}))
		for range polls {
			s.enqueue(queue.Request{DAG: open})
			s.enqueue(queue.Request{DAG: limited})
		}
		w := s.worker(func(w *queue.Worker) { w.Queues = []string{open, limited} })
		n := map[string]int{}
		for range polls {
			s.look(w)
			n[s.claimOne(w).Queue]++
		}
		low, least, most := open, 1, polls/queue.TurnEvery // the lower queue gets the fair polls; at equal rank each gets about half
		switch {
		case test.open == test.limited:
			least, most = polls/4, polls*3/4
		case test.open > test.limited:
			low = limited
		}
		if n[low] < least || n[low] > most {
			s.Errorf("%s: %d of %d runs are of %s, want from %d to %d", name, n[low], polls, low, least, most)
		}
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
	s.must(a.Release(s.Context(), c, false, 0))
	s.look(other)
	s.wantState(started, "queued") // the deadline of the queue applies only before the first start
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
	s.must(a.Release(s.Context(), c, false, 0))
	s.look(other)
	s.drive(a, s.claimOne(a), Behaviour{})
	s.wantState(id, "succeeded")
}
