package storetest

import (
	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var uidPromises = []promise{
	{"a run has an id of its own from acceptance on, however it was accepted", uidOfEach},
	{"the id of a run stays through drives, losses and retries", uidStays},
}

func uidOfEach(s *setup) {
	s.put(single)
	first := s.start(parent)
	ids := []queue.RunID{first, s.enqueue(queue.Request{DAG: "single"}), s.enqueue(queue.Request{DAG: "single", Key: "k"})}
	w := s.worker()
	for _, c := range s.claim(w, len(ids)) {
		if got := s.get(c.Run).UID; got != c.UID {
			s.Errorf("run %d is shown as %v, and claimed as %v", c.Run, got, c.UID)
		}
		if c.Run != first {
			continue
		}
		for attempt, detached := range []bool{false, true} {
			child, err := w.EnqueueChild(s.Context(), queue.Child{Claim: c, Attempt: attempt + 1, DAG: "single", Detached: detached})
			s.must(err)
			ids = append(ids, child)
		}
	}
	seen := map[uuid.UUID]queue.RunID{}
	for _, id := range ids {
		uid := s.get(id).UID
		if other, taken := seen[uid]; taken || uid == uuid.Nil {
			s.Errorf("runs %d and %d have the id %v", id, other, uid)
		}
		seen[uid] = id
	}
}

func uidStays(s *setup) {
	id := s.start(single)
	w := s.worker()
	c := s.claimOne(w)
	uid := c.UID
	next := s.worker(replacing(w))
	c = s.claimOne(next)
	if c.Run != id || c.UID != uid {
		s.Errorf("the next drive is of run %d, %v, not of run %d, %v", c.Run, c.UID, id, uid)
	}
	s.drive(next, c, Behaviour{})
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbRetry, Mode: dagrun.RetryAll})
	if c = s.claimOne(next); c.Run != id || c.UID != uid {
		s.Errorf("after a retry run %d has the id %v, not %v", c.Run, c.UID, uid)
	}
}
