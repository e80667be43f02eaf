package storetest

import (
	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var ownPromises = []promise{
	{"a worker of one run claims that and its children, wherever they are, and nothing else", ownFamily},
	{"a worker of one run waits for limits and for what is paused", ownInTurn},
}

func only(id queue.RunID) func(*queue.Worker) {
	return func(w *queue.Worker) { w.Only = id }
}

func ownFamily(s *setup) {
	s.put(single)
	s.put(parent)
	here := map[string]string{"oarlock": "here"}
	s.enqueue(queue.Request{DAG: "parent", Selector: here})
	id := s.enqueue(queue.Request{DAG: "parent", Selector: here})
	s.enqueue(queue.Request{DAG: "single"})
	anybody := s.worker()
	other := s.claimOne(anybody)
	if other.Run == id || other.DAG != "single" {
		s.Fatalf("claimed %+v, which another worker is to serve", other)
	}
	w := s.worker(only(id))
	s.same("why the run is queued", s.get(id).Reason, "waits for its worker w")
	c := s.claimOne(w)
	if c.Run != id {
		s.Fatalf("claimed %d, not %d", c.Run, id)
	}
	s.idle(w, "the other runs are not of its family")
	ask := queue.Child{Claim: c, Task: dagrun.TaskID{Step: 0}, Attempt: 1, DAG: "parent"}
	child, err := w.EnqueueChild(s.Context(), ask)
	s.must(err)
	ask.Claim = s.claimOne(w)
	if ask.Claim.Run != child {
		s.Fatalf("claimed %d, not its child %d", ask.Claim.Run, child)
	}
	grandchild, err := w.EnqueueChild(s.Context(), ask)
	s.must(err)
	if c := s.claimOne(w); c.Run != grandchild {
		s.Errorf("claimed %d, not its grandchild %d", c.Run, grandchild)
	}
	ask.Attempt, ask.Detached = 2, true
	detached, err := w.EnqueueChild(s.Context(), ask)
	s.must(err)
	s.idle(w, "nobody waits for that one")
	if c := s.claimOne(anybody); c.Run != detached {
		s.Errorf("claimed %d, not %d", c.Run, detached)
	}
}

func ownInTurn(s *setup) {
	s.put("name: few\nmax_active_runs: 1\nsteps: [{id: gate, action: approval}]\n")
	yes, no, one := true, false, 1
	first, second := s.enqueue(queue.Request{DAG: "few"}), s.enqueue(queue.Request{DAG: "few"})
	s.must(s.Admin.SetDAG(s.Context(), queue.DAGChange{Name: "few", Paused: &yes}))
	w := s.worker(only(second))
	s.idle(w, "its DAG is paused")
	s.must(s.Admin.SetDAG(s.Context(), queue.DAGChange{Name: "few", Paused: &no}))
	s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", MaxRunning: &one}))
	other := s.worker(only(first))
	c := s.claimOne(other)
	s.idle(w, "one is active")
	s.must(s.Admin.SetDAG(s.Context(), queue.DAGChange{Name: "few", Paused: &yes}))
	s.drive(other, c, Behaviour{}) // the run parks
	s.ask(approve(first, "gate"))
	s.drive(other, s.claimOne(other), Behaviour{}) // a run that has begun goes on, though its DAG is paused
	s.idle(w, "its DAG is paused again")
	s.must(s.Admin.SetDAG(s.Context(), queue.DAGChange{Name: "few", Paused: &no}))
	if c := s.claimOne(w); c.Run != second {
		s.Errorf("claimed %d, not %d", c.Run, second)
	}
}
