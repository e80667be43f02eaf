package storetest

import (
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var schedulePromises = []promise{
	{"a schedule fires at its times from when it was put, and its runs say which", scheduleFires},
	{"a time of a schedule is skipped while the run before it is unfinished", scheduleSkips},
	{"what a run of a schedule held back fires when that run ends, however it ends", scheduleHeldBack},
	{"a schedule whose runs fail in a row pauses", schedulePauses},
}

// ticking returns a DAG with the schedule "often", which fires each second.
func ticking(settings string) string {
	return "name: ticking\nschedule: {name: often, every: 1s" + settings + "}\nsteps: [{id: a, run: \"true\"}]\n"
}

// attend looks and, if the look asks for it, attends to the agenda, as a worker does. It returns the decisions.
func (s *setup) attend(w Session) (decided []queue.Decision) {
	s.Helper()
	for more := s.look(w).Attend; more; {
		done, err := w.Attend(s.Context())
		s.must(err)
		decided, more = append(decided, done.Decisions...), done.More
	}
	return decided
}

// fired attends until a run of a schedule can be claimed. It returns the claim and the decisions until then.
func (s *setup) fired(w Session) (c *queue.Claim, decided []queue.Decision) {
	s.Helper()
	s.until("a schedule fires", func() bool {
		decided = append(decided, s.attend(w)...)
		for _, c = range s.poll(w, queue.Want{Slots: 1, Free: 1}).Claims {
			return true
		}
		return false
	})
	return c, decided
}

// outcomes counts fire times by their outcome.
func outcomes(decided []queue.Decision) map[string]int {
	n := map[string]int{}
	for _, d := range decided {
		n[d.Outcome] += d.Times
	}
	return n
}

func scheduleFires(s *setup) {
	w := s.worker()
	before := moment(s.now(w))
	s.put(ticking(", params: {n: 7}, overlap_policy: allow") + "params: [{name: n, type: integer}]\n")
	c, decided := s.fired(w)
	if at := c.LogicalAt; !at.After(before) || !at.Equal(at.Truncate(time.Second)) {
		s.Errorf("put at %v, it fires for %v", before, at)
	}
	if c.Schedule != "often" || c.DAG != "ticking" || c.Trigger != "schedule" || !c.PreviousLogicalAt.Equal(c.LogicalAt.Add(-time.Second)) {
		s.Errorf("the claim says schedule %q of %s, trigger %s, %v after %v", c.Schedule, c.DAG, c.Trigger, c.LogicalAt, c.PreviousLogicalAt)
	}
	s.same("params", decoded(s, c.Params), map[string]any{"n": 7.0})
	if d := decided[0]; d.Kind != "schedule" || d.DAG != "ticking" || d.Schedule != "often" || d.Outcome != "fired" || d.Times != 1 {
		s.Errorf("decided: %+v", d)
	}
	for range 2 {
		next, _ := s.fired(w)
		if !next.LogicalAt.Equal(c.LogicalAt.Add(time.Second)) {
			s.Errorf("after %v it fires for %v", c.LogicalAt, next.LogicalAt)
		}
		c = next
	}
}

func scheduleSkips(s *setup) {
	w := s.worker()
	s.put(ticking(""))
	c, decided := s.fired(w)
	s.until("two times are skipped", func() bool {
		decided = append(decided, s.attend(w)...)
		return outcomes(decided)["skipped"] >= 2
	})
	if n := outcomes(decided)["fired"]; n != 1 {
		s.Errorf("%d times fired while a run was unfinished", n-1)
	}
	s.drive(w, c, Behaviour{})
	next, _ := s.fired(w)
	if gap := next.LogicalAt.Sub(c.LogicalAt); gap < 3*time.Second {
		s.Errorf("after %v and two skipped times it fires for %v", c.LogicalAt, next.LogicalAt)
	}
	if !next.PreviousLogicalAt.Equal(next.LogicalAt.Add(-time.Second)) {
		s.Errorf("the time before %v is %v, skipped or not", next.LogicalAt, next.PreviousLogicalAt)
	}
}

// Unless a run ends before, a schedule looks once a minute, by the clock of the store, at the fire times that it holds
// back.
func scheduleHeldBack(s *setup) {
	w := s.worker()
	s.put(ticking(", overlap_policy: latest"))
	for _, end := range []func(*queue.Claim){
		func(c *queue.Claim) { s.drive(w, c, Behaviour{}) },
		func(c *queue.Claim) {
			s.drive(w, c, Behaviour{Body: func(Body) dagrun.Result { return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true} }})
		},
		func(c *queue.Claim) {
			s.must(w.Release(s.Context(), c, false, 0))
			s.cancels(c.Run)
		},
	} {
		c, _ := s.fired(w)
		s.until("a time is held back", func() bool {
			if n := outcomes(s.attend(w))["fired"]; n > 0 {
				s.Errorf("%d times fired beside run %d", n, c.Run)
			}
			return moment(s.now(w)).After(c.LogicalAt.Add(time.Second))
		})
		s.attend(w)
		end(c)
		ended := moment(s.now(w))
		if next, _ := s.fired(w); next.LogicalAt.After(ended.Add(patience)) {
			s.Errorf("run %d ended at %v, and it fires for %v", c.Run, ended, next.LogicalAt)
		} else {
			s.must(w.Release(s.Context(), next, false, 0))
			s.cancels(next.Run)
		}
	}
}

func schedulePauses(s *setup) {
	w := s.worker()
	s.put(ticking(", pause_on_failure: 2"))
	fails := Behaviour{Body: func(Body) dagrun.Result { return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true} }}
	for range 2 {
		c, _ := s.fired(w)
		s.drive(w, c, fails)
	}
	var decided []queue.Decision
	s.until("it is paused", func() bool {
		decided = append(decided, s.attend(w)...)
		return outcomes(decided)["paused"] > 0
	})
	if n := outcomes(decided)["fired"]; n > 0 {
		s.Errorf("%d more fired", n)
	}
	paused := moment(s.now(w))
	s.until("two more times have passed", func() bool {
		if more := s.attend(w); len(more) > 0 {
			s.Fatalf("paused, it decides %+v", more)
		}
		return moment(s.now(w)).After(paused.Add(2 * time.Second))
	})
	s.idle(w, "the schedule is paused")
}
