package storetest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var sharePromises = []promise{
	{"what is given back unbegun is canceled at once", releasedIsCanceled},
	{"what is given back unbegun waits for a pause to end", releasedIsPaused},
	{"what is given back unbegun is not active", releasedIsNotActive},
	{"what is given back unbegun does not run", releasedDoesNotRun},
	{"what is given back unbegun has as long to begin as before", releasedExpires},
	{"what is given back unbegun in its second generation is queued", releasedAgain},
	{"what is given back unbegun reads as queued", releasedReads},
	{"what has begun stays begun when it is given back", releasedBegun},
	{"a full worker claims what a request brought back", rousedByControl},
	{"a full worker claims what a timer brought back", rousedByTimer},
	{"a full worker claims what a child's end brought back", rousedByChild},
	{"a full worker claims what a loss brought back", rousedByLoss},
	{"a full worker leaves what waits for a slot, until a request comes for it", slotWanted},
	{"a full worker claims what was given back for anything but want of a slot", noSlotWanted},
	{"a full worker claims what a drain or a close brought back", rousedByDrain},
	{"what waits for a slot is woken when something of it is due", stalledIsWoken},
	{"what was asked in the meantime keeps a run from going back for a slot", askedMeanwhile},
	{"what a full worker claims behind a limit leaves the rest to others", rousedBehindLimit},
	{"a word of runs is passed on by who has no room", passesOn},
	{"a full worker is told of a run that ranks above what waits there", toldOfRank},
	{"a look says which lanes of runs that wait for slots another worker may serve", sharedLanes},
	{"what is claimed for slots that end soon is claimed as for free ones", claimsAhead},
	{"a worker sees how what is due ranks, and claims so much of it", highestAndLowest},
	{"hunger is for free slots", hungryForFree},
	{"nobody counts on a worker that says why it claims nothing, and what waits for it alone says so", unfitAlone},
	{"a worker that leaves slots for its next poll still has room", roomLeft},
}

// giveBack claims the next run, and gives it back before anything was committed under the claim.
func (s *setup) giveBack(w Session, id queue.RunID, waits bool) {
	s.Helper()
	c := s.claimOne(w)
	if c.Run != id {
		s.Fatalf("claimed %d, want %d", c.Run, id)
	}
	s.must(w.Release(s.Context(), c, waits, 0))
}

func (s *setup) wantClaims(what string, got []*queue.Claim, want ...queue.RunID) {
	s.Helper()
	var runs []queue.RunID
	for _, c := range got {
		runs = append(runs, c.Run)
	}
	if !slices.Equal(runs, want) {
		s.Errorf("%s: claimed %v, want %v", what, runs, want)
	}
}

func releasedIsCanceled(s *setup) {
	id := s.start(chain)
	w := s.worker()
	s.giveBack(w, id, true)
	s.cancels(id)
	s.idle(w, "it was canceled")
}

func releasedIsPaused(s *setup) {
	id := s.start(single)
	w := s.worker()
	s.giveBack(w, id, true)
	s.must(s.Admin.SetDAG(s.Context(), queue.DAGChange{Name: "single", Paused: new(true)}))
	s.idle(w, "its DAG is paused")
	s.must(s.Admin.SetDAG(s.Context(), queue.DAGChange{Name: "single", Paused: new(false)}))
	s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", Paused: new(true)}))
	s.idle(w, "its queue is paused")
	s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", Paused: new(false)}))
	s.drive(w, s.claimOne(w), Behaviour{})
	s.wantState(id, "succeeded")
}

func releasedIsNotActive(s *setup) {
	s.put("name: few\nmax_active_runs: 1\nsteps: [{id: a, run: \"true\"}]\n")
	first := s.enqueue(queue.Request{DAG: "few"})
	w := s.worker()
	s.giveBack(w, first, false)
	urgent := s.enqueue(queue.Request{DAG: "few", Priority: new(5)})
	if c := s.claimOne(w); c.Run != urgent {
		s.Errorf("claimed %d, want %d: what nobody drives takes no place", c.Run, urgent)
	}
	s.idle(w, "one is active")
}

func releasedDoesNotRun(s *setup) {
	s.put(single)
	s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", MaxRunning: new(1)}))
	first := s.enqueue(queue.Request{DAG: "single"})
	w := s.worker()
	s.giveBack(w, first, false)
	urgent := s.enqueue(queue.Request{DAG: "single", Priority: new(5)})
	if c := s.claimOne(w); c.Run != urgent {
		s.Errorf("claimed %d, want %d", c.Run, urgent)
	}
	s.idle(w, "one is running")
}

func releasedExpires(s *setup) {
	s.put("name: hurried\nqueue_timeout: 1s\nsteps: [{id: a, run: \"true\"}]\n")
	id := s.enqueue(queue.Request{DAG: "hurried"})
	w, other := s.worker(), s.worker(func(w *queue.Worker) { w.Offers = nil })
	c := s.claimOne(w)
	end := s.get(id).RunAt.Add(time.Second)
	s.until("its time is over while it is claimed", func() bool { return moment(s.now(w)).After(end) })
	s.look(other)
	s.wantState(id, "running")
	s.must(w.Release(s.Context(), c, true, 0))
	s.until("it gives up", func() bool {
		s.look(other)
		return s.get(id).Over()
	})
	if r := s.get(id); r.State != "failed" || r.Reason != "queue_timeout" || !r.StartedAt.IsZero() {
		s.Errorf("%s, %s, started at %v", r.State, r.Reason, r.StartedAt)
	}
}

func releasedAgain(s *setup) {
	id := s.start(single)
	w := s.worker()
	s.drive(w, s.claimOne(w), Behaviour{Body: func(Body) dagrun.Result { return dagrun.Result{Kind: dagrun.KindExit, ExitCode: 1, HasExit: true} }})
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbRetry})
	s.giveBack(w, id, true)
	if r := s.get(id); r.State != "queued" || r.Generation != 2 || !r.StartedAt.IsZero() {
		s.Errorf("run %+v", r)
	}
	s.wantClaims("a full worker", s.poll(w, queue.Want{Idle: 64}).Claims)
	if answer := s.ask(queue.Ask{Run: id, Verb: dagrun.VerbCancel}); answer.Outcome != dagrun.Applied || answer.State != "canceled" {
		s.Errorf("answer %+v", answer)
	}
}

func releasedReads(s *setup) {
	id := s.start(single)
	before := s.get(id)
	w := s.worker()
	c := s.claimOne(w)
	if c.Begun {
		s.Error("a first claim is of a run that has begun")
	}
	s.must(w.Release(s.Context(), c, true, 0))
	after := s.get(id)
	if after.State != "queued" || !after.StartedAt.IsZero() || !after.RunAt.Equal(before.RunAt) {
		s.Errorf("run %+v, was %+v", after, before)
	}
	again := s.claimOne(w)
	if again.Begun || again.Epoch != c.Epoch+1 || again.Losses != 0 {
		s.Errorf("claimed again: %+v", again)
	}
}

func releasedBegun(s *setup) {
	id := s.start(chain)
	w := s.worker()
	s.stalls(w, s.claimOne(w))
	if r := s.get(id); r.State != "queued" || r.StartedAt.IsZero() {
		s.Errorf("run %+v", r)
	}
	s.must(s.Admin.SetDAG(s.Context(), queue.DAGChange{Name: "chain", Paused: new(true)}))
	c := s.claimOne(w)
	if !c.Begun {
		s.Error("it had begun")
	}
	s.must(w.Release(s.Context(), c, true, 0)) // nothing of this drive was committed
	if r := s.get(id); r.StartedAt.IsZero() {
		s.Error("it has begun no more")
	}
}

// rouses expects a worker without a free slot to claim a run.
func (s *setup) rouses(id queue.RunID) {
	s.Helper()
	w := s.worker()
	s.until("a full worker takes it", func() bool {
		claims := s.poll(w, queue.Want{Idle: 64}).Claims
		for _, c := range claims {
			if c.Run != id || !c.Begun {
				s.Fatalf("claimed %+v", c)
			}
		}
		return len(claims) > 0
	})
}

func rousedByControl(s *setup) {
	id := s.start("name: gate\nsteps: [{id: a, action: approval}]\n")
	w := s.worker()
	s.drive(w, s.claimOne(w), Behaviour{})
	s.enqueue(queue.Request{DAG: "gate"}) // this run waits for a slot
	s.ask(approve(id, "a"))
	s.rouses(id)
}

func rousedByTimer(s *setup) {
	id := s.start(chain)
	w := s.worker()
	c := s.claimOne(w)
	at := s.now(w)
	s.must(w.Commit(s.Context(), park(c, c.Inbox, at+dagrun.Time(s.TTL.Milliseconds()), row(0, 1, dagrun.TaskWaiting, at))))
	s.until("a look wakes it", func() bool { return s.wakes(w) })
	s.rouses(id)
}

func rousedByChild(s *setup) {
	s.put(single)
	id := s.start(parent)
	w := s.worker()
	s.drive(w, s.claimOne(w), Behaviour{})
	s.wantState(id, "waiting")
	s.drive(w, s.claimOne(w), Behaviour{})
	s.rouses(id)
}

func rousedByLoss(s *setup) {
	id := s.start(single)
	dead := s.worker()
	s.claimOne(dead)
	s.worker(replacing(dead))
	s.rouses(id)
}

func slotWanted(s *setup) {
	id := s.start(chain)
	w := s.worker()
	s.stalls(w, s.claimOne(w))
	for range 3 {
		s.wantClaims("a full worker", s.poll(w, queue.Want{Idle: 64}).Claims)
	}
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbPause})
	s.rouses(id)
}

func noSlotWanted(s *setup) {
	id := s.start(chain)
	w := s.worker()
	s.stalls(w, s.claimOne(w))
	s.giveBack(w, id, false)
	s.rouses(id)
}

func rousedByDrain(s *setup) {
	for _, gives := range []func(Session, *queue.Claim){
		func(w Session, c *queue.Claim) {
			s.must(w.Commit(s.Context(), drained(c, dagrun.Leave{Drained: true})))
		},
		func(w Session, _ *queue.Claim) { s.must(w.Close(s.Context())) },
	} {
		id := s.start(chain)
		w := s.worker()
		c := s.claimOne(w)
		s.must(s.record(w, c, row(0, 1, dagrun.TaskSucceeded, s.now(w))))
		gives(w, c)
		s.rouses(id)
	}
}

// drained returns a batch that gives a run back to the queue.
func drained(c *queue.Claim, leave dagrun.Leave) *queue.Batch {
	rec := driven(c)
	rec.State, rec.WakeAt = dagrun.RunQueued, leave.WakeAt
	return &queue.Batch{Claim: c, Seen: c.Inbox, Records: dagrun.Records{Run: rec}, Leave: &leave}
}

func stalledIsWoken(s *setup) {
	for _, gives := range []func(Session, *queue.Claim, dagrun.Time){
		func(w Session, c *queue.Claim, wake dagrun.Time) { s.must(w.Release(s.Context(), c, true, wake)) },
		func(w Session, c *queue.Claim, wake dagrun.Time) {
			b := drained(c, dagrun.Leave{Drained: true, WakeAt: wake})
			b.Waits = true
			s.must(w.Commit(s.Context(), b))
		},
	} {
		id := s.start(chain)
		w := s.worker()
		c := s.claimOne(w)
		at := s.now(w)
		s.must(s.record(w, c, row(0, 1, dagrun.TaskSucceeded, at)))
		gives(w, c, at+dagrun.Time(s.TTL.Milliseconds()))
		s.wantState(id, "queued")
		s.wantClaims("a full worker", s.poll(w, queue.Want{Idle: 64}).Claims)
		s.until("a look wakes it", func() bool { return s.wakes(w) })
		s.wantState(id, "queued")
		s.rouses(id)
	}
}

func askedMeanwhile(s *setup) {
	id := s.start(single)
	w := s.worker()
	c := s.claimOne(w)
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbPause})
	if err := w.Release(s.Context(), c, true, 0); !errors.Is(err, queue.ErrInboxMoved) {
		s.Errorf("for want of a slot: %v, want that its inbox moved", err)
	}
	s.must(w.Release(s.Context(), c, false, 0))
}

func rousedBehindLimit(s *setup) {
	s.put("name: gate\nsteps: [{id: a, action: approval}]\n")
	s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", MaxRunning: new(2)}))
	roused := s.enqueue(queue.Request{DAG: "gate"})
	w := s.worker()
	s.drive(w, s.claimOne(w), Behaviour{})
	fresh := s.enqueue(queue.Request{DAG: "gate", Priority: new(5)})
	s.ask(approve(roused, "a"))
	s.wantClaims("a full worker", s.poll(w, queue.Want{Idle: 64}).Claims, roused)
	s.wantClaims("with a free slot", s.poll(w, queue.Want{Slots: 1, Free: 1}).Claims, fresh)
}

// hears waits until a worker is notified of runs.
func (s *setup) hears(w Session) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for {
		heard, err := w.Hear(ctx)
		s.must(err)
		if heard.Lanes {
			return
		}
	}
}

// listens makes a worker hear one notification, so that it misses none from then on.
func (s *setup) listens(w Session) {
	s.Helper()
	id := s.enqueue(queue.Request{DAG: "single"})
	c := s.claimOne(w)
	s.ask(queue.Ask{Run: id, Verb: dagrun.VerbPause})
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	for {
		heard, err := w.Hear(ctx)
		s.must(err)
		if heard.All || slices.Contains(heard.Runs, c.Run) {
			return
		}
	}
}

// The slot that ends on the worker before its next poll would go to a task of lower priority.
func toldOfRank(s *setup) {
	s.put(single)
	w := s.worker()
	s.listens(w)
	s.poll(w, queue.Want{Least: new(0)})
	s.enqueue(queue.Request{DAG: "single", Priority: new(5)})
	s.hears(w)
}

func passesOn(s *setup) {
	s.put(single)
	told, next := s.worker(), s.worker()
	s.listens(told)
	s.listens(next)
	s.poll(next, queue.Want{})
	s.seesOthers(told)
	s.idle(told, "nothing is queued")
	s.enqueue(queue.Request{DAG: "single"})
	s.hears(told)
	s.wantClaims("above all", s.poll(next, queue.Want{Slots: 1, Free: 1, Lowest: new(1000)}).Claims)
	s.poll(told, queue.Want{})
	s.hears(next)
}

func sharedLanes(s *setup) {
	s.put(single)
	s.put("name: wide\nsteps: [{id: a, run: \"true\", slots: 3}]\n")
	w, other := s.worker(), s.worker(func(w *queue.Worker) { w.Slots = 2 })
	s.worker(func(w *queue.Worker) { w.Queues = []string{"elsewhere"} })
	narrow, wide := s.laneOf(w, "single"), s.laneOf(w, "wide")
	for _, test := range []struct {
		what   string
		looked queue.Looked
		shared bool
	}{
		{"where nothing is asked", s.seesOthers(w), false},
		{"a lane that another worker serves", s.seesOthers(w, narrow), true},
		{"a lane that needs more slots than the other worker has", s.seesOthers(w, wide), false},
	} {
		s.wantShared(test.what, test.looked, narrow, test.shared)
	}
	s.poll(other, queue.Want{Slots: 1, Free: 1})
	s.wantShared("where the other worker has room", s.seesOthers(w, wide, narrow), narrow, true)
	s.must(other.Drain(s.Context()))
	s.wantShared("where the other worker drains", s.seesOthers(w, narrow), narrow, false)
}

// laneOf ends a run of the DAG and returns its lane.
func (s *setup) laneOf(w Session, dag string) int {
	s.Helper()
	s.enqueue(queue.Request{DAG: dag})
	c := s.claimOne(w)
	s.drive(w, c, Behaviour{})
	return c.Lane
}

func (s *setup) wantShared(what string, looked queue.Looked, lane int, shared bool) {
	s.Helper()
	var want []int
	if shared {
		want = []int{lane}
	}
	if !slices.Equal(looked.Shared, want) {
		s.Errorf("%s: shared %v, want %v", what, looked.Shared, want)
	}
}

func claimsAhead(s *setup) {
	s.put(single)
	s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", MaxRunning: new(2)}))
	first, second := s.enqueue(queue.Request{DAG: "single"}), s.enqueue(queue.Request{DAG: "single"})
	s.enqueue(queue.Request{DAG: "single"})
	w := s.worker()
	s.giveBack(w, first, true)
	p := s.poll(w, queue.Want{Slots: 4})
	s.wantClaims("behind a limit of two", p.Claims, first, second)
	if p.Hungry {
		s.Error("it has no free slot, and is hungry")
	}
}

func highestAndLowest(s *setup) {
	s.put(single)
	w := s.worker()
	highest := func(want *int, begun int) {
		s.Helper()
		looked, err := w.Look(s.Context(), queue.Load{})
		s.must(err)
		if (looked.Highest == nil) != (want == nil) || want != nil && *looked.Highest != *want || looked.Begun != begun {
			s.Errorf("looked %+v", looked)
		}
	}
	highest(nil, 0)
	low := s.enqueue(queue.Request{DAG: "single"})
	high := s.enqueue(queue.Request{DAG: "single", Priority: new(7)})
	s.enqueue(queue.Request{DAG: "single", Priority: new(3)})
	highest(new(7), 0)
	s.wantClaims("above 3", s.poll(w, queue.Want{Slots: 5, Lowest: new(4)}).Claims, high)
	highest(new(3), 0)
	other := s.worker()
	c := s.claimOne(other)
	s.stalls(other, c)
	highest(new(3), 1)
	s.wantClaims("what has begun", s.poll(w, queue.Want{Slots: 5, Lowest: new(0), Begun: true}).Claims, c.Run)
	s.must(s.Admin.SetQueue(s.Context(), queue.QueueChange{Name: "default", Paused: new(true)}))
	highest(nil, 0)
	s.wantState(low, "queued")
}

func hungryForFree(s *setup) {
	s.start(single)
	w := s.worker()
	if p := s.poll(w, queue.Want{Slots: 6, Free: 1}); len(p.Claims) != 1 || p.Hungry {
		s.Errorf("polled %+v", p)
	}
	if p := s.poll(w, queue.Want{Slots: 5}); p.Hungry {
		s.Error("it has no free slot, and is hungry")
	}
	if p := s.poll(w, queue.Want{Slots: 1, Free: 1}); !p.Hungry {
		s.Error("it has a free slot, and is not hungry")
	}
}

func roomLeft(s *setup) {
	s.put(single)
	one, other := s.worker(), s.worker()
	lane := s.laneOf(one, "single")
	for range 2 {
		s.enqueue(queue.Request{DAG: "single"})
	}
	if p := s.poll(other, queue.Want{Slots: 1, Free: 4}); len(p.Claims) != 1 || p.Hungry {
		s.Errorf("claimed %d, hungry %v: want one, and more to be there", len(p.Claims), p.Hungry)
	}
	s.wantShared("three slots are left", s.seesOthers(one, lane), lane, true)
	s.poll(other, queue.Want{Slots: 1, Free: 1})
	s.wantShared("none is", s.seesOthers(one, lane), lane, true)
}

func unfitAlone(s *setup) {
	s.put(single)
	w, other := s.worker(), s.worker()
	lane := s.laneOf(w, "single")
	s.poll(other, queue.Want{Slots: 1, Free: 1})
	s.wantShared("beside a worker with room", s.seesOthers(w, lane), lane, true)
	s.tells(other, "no space left")
	s.wantShared("beside a worker that claims nothing", s.seesOthers(w, lane), lane, false)
	s.must(w.Drain(s.Context()))
	id := s.enqueue(queue.Request{DAG: "single"})
	waits := func() string {
		r, err := s.Client.Get(s.Context(), id)
		s.must(err)
		return r.Reason
	}
	if got := waits(); !strings.HasSuffix(got, " claims nothing: no space left") {
		s.Errorf("the run waits: %s", got)
	}
	s.tells(other, "")
	if got := waits(); got != "1st in line in queue default; 0 of 8 slots taken" {
		s.Errorf("once the worker claims again the run waits: %s", got)
	}
}

// tells makes a worker report why it claims nothing; "": it claims.
func (s *setup) tells(w Session, unfit string) {
	s.Helper()
	_, err := w.Renew(s.Context(), queue.Vitals{Unfit: unfit, Since: time.Now()})
	s.must(err)
}

// seesOthers makes a worker without a free slot look at the other workers, with runs that wait for slots in the given
// lanes.
func (s *setup) seesOthers(w Session, lanes ...int) queue.Looked {
	s.Helper()
	s.poll(w, queue.Want{})
	return s.look(w, lanes...)
}
