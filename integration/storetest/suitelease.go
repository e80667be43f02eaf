package storetest

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var leasePromises = []promise{
	{"a silent worker is lost, and its runs are claimed again", silentIsLost},
	{"a worker that renews is not lost", renewedIsKept},
	{"a look that asks for a sweep names why it must: a silent worker is taken over by the sweep, not by the look", sweepTakesOver},
	{"a poll alone takes nothing over and wakes nothing", pollClaimsAlone},
	{"replacing takes exactly the ids that are named", replacesExactly},
	{"a renewal brings mail and moves the deadline", renewalBrings},
	{"a draining worker claims nothing and writes on", drainingClaimsNothing},
	{"a worker that closes gives back what it holds", closeGivesBack},
	{"a worker is registered again as long as it lives", registeredAgain},
	{"the drive limit reaches the next driver", driveLimit},
}

func silentIsLost(s *setup) {
	id := s.start(chain)
	a := s.worker(s.shortLived)
	c := s.claimOne(a)
	at := s.now(a)
	s.must(s.record(a, c, row(0, 1, dagrun.TaskRunning, at)))
	b := s.worker()
	var lost []queue.LostWorker
	var again *queue.Claim
	s.until("it is claimed again", func() bool {
		swept, polled := s.turn(b, queue.Want{Slots: 1, Free: 1})
		lost = append(lost, swept.Lost...)
		if len(polled.Claims) > 0 {
			again = polled.Claims[0]
		}
		return again != nil
	})
	s.same("lost", lost, []queue.LostWorker{{ID: a.ID(), Name: "w", Runs: 1}})
	if again.Run != id || again.Epoch != 2 || again.Losses != 1 {
		s.Errorf("claimed again: %+v", again)
	}
	s.enqueue(queue.Request{DAG: "chain"})
	if polled, err := a.Poll(s.Context(), queue.Want{Slots: 1, Free: 1}); len(polled.Claims) > 0 {
		s.Error("a lost worker claimed a run")
	} else {
		s.wantError(err, queue.ErrLeaseLost)
	}
	_, err := a.Renew(s.Context(), queue.Vitals{})
	s.wantError(err, queue.ErrLeaseLost)
	s.wantLost(c)
	s.wantError(s.record(a, c, row(0, 2, dagrun.TaskSucceeded, at)), queue.ErrLeaseLost)
	s.claimOne(b)
}

func renewedIsKept(s *setup) {
	s.start(chain)
	ttl := 4 * s.TTL // a worker on a busy machine must not look silent
	a, b := s.worker(func(w *queue.Worker) { w.TTL = ttl }), s.worker()
	c := s.claimOne(a)
	end := moment(s.now(a)).Add(2 * ttl)
	s.until("two TTLs are over", func() bool {
		now := s.now(a)
		if swept, polled := s.turn(b, queue.Want{Slots: 1, Free: 1}); len(swept.Lost)+len(polled.Claims) > 0 {
			s.Fatalf("swept %+v, polled %+v", swept, polled)
		}
		return moment(now).After(end)
	})
	s.must(s.record(a, c, row(0, 1, dagrun.TaskRunning, s.now(a))))
}

func sweepTakesOver(s *setup) {
	id := s.start(single)
	a, b := s.worker(s.shortLived), s.worker()
	c := s.claimOne(a)
	asks := func() {
		s.until("a look asks for a sweep", func() bool { return s.look(b).Sweep })
		s.wantState(id, "running")
		s.wantClaims("before the sweep", s.poll(b, queue.Want{Slots: 1, Free: 1}).Claims)
	}
	asks()
	s.now(a) // the worker renews after the look
	if swept := s.sweep(b); len(swept.Lost) > 0 {
		s.Errorf("a worker that renewed after the look is lost: %+v", swept)
	}
	s.must(s.record(a, c, row(0, 1, dagrun.TaskRunning, s.now(a))))
	asks()
	swept := s.sweep(b)
	s.same("lost", swept.Lost, []queue.LostWorker{{ID: a.ID(), Name: "w", Runs: 1}})
	if swept.Queued != 1 {
		s.Errorf("%d runs were queued, want one", swept.Queued)
	}
	if again := s.claimOne(b); again.Run != id || again.Losses != 1 {
		s.Errorf("claimed again: %+v", again)
	}
	s.until("looks ask for nothing more", func() bool { s.sweep(b); return !s.look(b).Sweep })
}

func pollClaimsAlone(s *setup) {
	s.put(chain)
	held, parked := s.enqueue(queue.Request{DAG: "chain"}), s.enqueue(queue.Request{DAG: "chain"})
	a, b := s.worker(s.shortLived), s.worker()
	s.wantClaims("the first", s.claim(a, 1), held)
	c := s.claimOne(b)
	at := s.now(b)
	end := at + dagrun.Time(s.TTL.Milliseconds())
	s.must(b.Commit(s.Context(), park(c, c.Inbox, end, row(0, 1, dagrun.TaskWaiting, at))))
	s.until("two TTLs are over", func() bool {
		s.wantClaims("a poll alone", s.poll(b, queue.Want{Slots: 2, Free: 2}).Claims)
		return s.now(b) > at+dagrun.Time(2*s.TTL.Milliseconds())
	})
	s.wantState(held, "running")
	s.wantState(parked, "waiting")
	if looked, queued := s.lookAndDo(b); queued != 1 {
		s.Errorf("looked %+v and queued %d, want run %d", looked, queued, parked)
	}
	s.wantState(held, "running") // no other worker observed its worker
	s.wantClaims("after a look", s.claim(b, 1), parked)
}

func replacesExactly(s *setup) {
	s.put(chain)
	sessions := []Session{s.worker(), s.worker(), s.worker()}
	claims := make([]*queue.Claim, len(sessions))
	for i, w := range sessions {
		s.enqueue(queue.Request{DAG: "chain"})
		claims[i] = s.claimOne(w)
	}
	next := s.worker(replacing(sessions[0]), replacing(sessions[2]), func(w *queue.Worker) {
		w.Replaces = append(w.Replaces, uuid.New()) // ids of workers that do not exist
	})
	var again []queue.RunID
	for _, c := range s.claim(next, 2) {
		again = append(again, c.Run)
		if c.Losses != 1 {
			s.Errorf("run %d has %d losses", c.Run, c.Losses)
		}
	}
	slices.Sort(again)
	s.same("claimed again", again, []queue.RunID{claims[0].Run, claims[2].Run})
	s.idle(next, "the other worker lives")
	at := s.now(next)
	s.must(s.record(sessions[1], claims[1], row(0, 1, dagrun.TaskRunning, at)))
	s.wantError(s.record(sessions[0], claims[0], row(0, 1, dagrun.TaskRunning, at)), queue.ErrLeaseLost)
	s.wantError(s.record(sessions[2], claims[2], row(0, 1, dagrun.TaskRunning, at)), queue.ErrLeaseLost)
}

func renewalBrings(s *setup) {
	id := s.start(chain)
	w := s.worker(func(w *queue.Worker) { w.TTL = 10 * time.Second })
	c := s.claimOne(w)
	soft, hard := w.Deadline()
	if soft >= hard || hard-soft != time.Second {
		s.Errorf("deadlines %v and %v of a TTL of 10 s", soft, hard)
	}
	s.Tick()
	renewed, err := w.Renew(s.Context(), queue.Vitals{Busy: 3})
	s.must(err)
	if len(renewed.Mail) > 0 || renewed.Desired != queue.WorkerLive || renewed.Now == 0 {
		s.Errorf("renewed %+v", renewed)
	}
	if later, latest := w.Deadline(); later <= soft || latest <= hard {
		s.Error("a renewal does not move the deadline")
	}
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbPause})
	renewed, err = w.Renew(s.Context(), queue.Vitals{Busy: 3})
	s.must(err)
	if len(renewed.Mail) != 1 || renewed.Mail[0].Run != id || renewed.Mail[0].Inbox != s.mail(w, c).Inbox {
		s.Errorf("renewed %+v", renewed)
	}
	s.drive(w, c, Behaviour{})
	if n, err := s.Admin.DrainWorker(s.Context(), w.ID().String()); err != nil || n != 1 {
		s.Errorf("asked %d workers to drain, %v", n, err)
	}
	renewed, err = w.Renew(s.Context(), queue.Vitals{})
	s.must(err)
	if renewed.Desired != queue.WorkerDraining {
		s.Errorf("desired %s", renewed.Desired)
	}
	if len(renewed.Mail) > 0 {
		s.Errorf("mail %+v of a run that parked", renewed.Mail)
	}
}

func drainingClaimsNothing(s *setup) {
	id := s.start(single)
	a := s.worker()
	c := s.claimOne(a)
	s.must(a.Drain(s.Context()))
	s.enqueue(queue.Request{DAG: "single"})
	s.idle(a, "it drains")
	s.must(s.record(a, c, row(0, 1, dagrun.TaskRunning, s.now(a))))
	s.drive(a, c, Behaviour{})
	s.wantState(id, "succeeded")
}

func closeGivesBack(s *setup) {
	s.put(chain)
	ids := []queue.RunID{s.enqueue(queue.Request{DAG: "chain"}), s.enqueue(queue.Request{DAG: "chain"})}
	a := s.worker()
	s.claim(a, 2)
	s.must(a.Close(s.Context()))
	s.must(a.Close(s.Context()))
	_, err := a.Poll(s.Context(), queue.Want{Slots: 1, Free: 1})
	if err == nil {
		s.Error("a closed session polls")
	}
	b := s.worker()
	for _, c := range s.claim(b, 2) {
		if !slices.Contains(ids, c.Run) || c.Losses != 0 || c.Epoch != 2 {
			s.Errorf("claimed again: %+v", c)
		}
	}
}

func registeredAgain(s *setup) {
	id := uuid.New()
	same := func(w *queue.Worker) { w.ID = id }
	a := s.worker(same)
	if a.ID() != id {
		s.Errorf("id %s, not %s", a.ID(), id)
	}
	again := s.worker(same)
	s.start(single)
	s.claimOne(again)
	s.worker(replacing(again))
	if _, err := s.Register(s.Context(), queue.Worker{ID: id, Name: "w", Slots: 1}); err == nil {
		s.Error("a worker that was lost is registered again under its id")
	}
}

func driveLimit(s *setup) {
	id := s.start("name: limited\nmax_drives: 2\nsteps:\n  - {id: a, run: \"true\"}\n")
	w := s.worker()
	for range 2 {
		c := s.claimOne(w)
		s.must(s.record(w, c, row(0, int64(c.Epoch), dagrun.TaskRunning, s.now(w))))
		w = s.worker(replacing(w))
	}
	d := s.drive(w, s.claimOne(w), Behaviour{})
	if d.Verdict == nil || d.Verdict.State != dagrun.RunFailed {
		s.Errorf("driven %+v", d)
	}
	s.wantState(id, "failed")
}
