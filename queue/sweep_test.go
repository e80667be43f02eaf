package queue_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/queue"
)

// through is a session that watches other workers by a clock of the test, and has a network that breaks as the test says.
func (f *sessionBundle) through(t *testing.T, change ...func(*queue.Worker)) (*watcher, *netfault.Proxy) {
	t.Helper()
	proxy, url := netfault.Through(t, f.url)
	w := &watcher{Session: f.registerAt(t, f.open(t, url), change...)}
	w.SetClock(w.clock.now)
	return w, proxy
}

// prepares matches the first message of a statement from the client, by the statement's name.
func prepares(statement string) netfault.Match {
	return func(m netfault.Message) bool {
		return m.From == netfault.Client && m.Type == 'P' && bytes.Contains(m.Body, []byte(statement))
	}
}

// polling is a poll that runs beside the test.
func (w *watcher) polling(t *testing.T, want int) <-chan queue.Polled {
	t.Helper()
	polled := make(chan queue.Polled, 1)
	go func() {
		p, err := w.Poll(t.Context(), queue.Want{Slots: want, Free: want})
		if err != nil {
			t.Error(err)
		}
		polled <- p
	}()
	return polled
}

// wantKept wants these runs to be claimed once, by claims that are held.
func (f *sessionBundle) wantKept(t *testing.T, p queue.Polled, runs int) {
	t.Helper()
	f.wantStates(t, "running:%d", runs)
	if len(p.Claims) != runs {
		t.Errorf("the poll brought %d claims, want %d", len(p.Claims), runs)
	}
	for _, c := range p.Claims {
		if c.Epoch != 1 || isLost(c) {
			t.Errorf("lost: %v, claimed as %+v", isLost(c), c)
		}
	}
}

// P3: a sweep beside a poll finds claims in the database that the poll is still bringing, and does not give them to other
// workers.
func TestSweep_LeavesWhatAPollIsBringing(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 2)
	w, proxy := f.through(t)
	w.sweep(t)
	poll(t, w.Session, 0)
	held := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 2"), Do: netfault.Hold})
	polled := w.polling(t, 2)
	held.MustFire(t)
	for range 5 {
		w.sweep(t)
		w.pass(time.Minute)
		f.wantStates(t, "running:2")
	}
	held.Release()
	f.wantKept(t, <-polled, 2)
}

// A poll may begin and end between the moment when a sweep lists the known claims and the moment when its statement reads the
// database.
func TestSweep_LeavesWhatAPollBroughtMeanwhile(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 2)
	w, proxy := f.through(t)
	poll(t, w.Session, 0)
	held := proxy.Inject(netfault.Fault{When: prepares("queue/sweep"), Do: netfault.Hold})
	swept := make(chan error, 1)
	go func() {
		_, err := w.SweepAll(t.Context())
		swept <- err
	}()
	held.MustFire(t)
	brought := <-w.polling(t, 1)
	reply := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 2"), Do: netfault.Hold})
	f.ask(t, "plain", 1)
	bringing := w.polling(t, 2)
	reply.MustFire(t)
	held.Release()
	if err := <-swept; err != nil {
		t.Fatal(err)
	}
	f.wantStates(t, "running:3")
	reply.Release()
	p := <-bringing
	p.Claims = append(p.Claims, brought.Claims...)
	f.wantKept(t, p, 3)
}

// If the reply to a poll was lost, its server process may still claim, until it is known to be gone.
func TestSweep_WaitsForTheServerProcessOfALostReply(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	ids := f.ask(t, "plain", 2)
	w, proxy := f.through(t)
	w.sweep(t)
	poll(t, w.Session, 0)
	proxy.Refuse(true) // refuses a new connection, which would end the server process
	cut := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 2"), Do: netfault.Cut})
	if _, err := w.Poll(t.Context(), queue.Want{Slots: 2, Free: 2}); err == nil {
		t.Error("no error, without a reply")
	}
	cut.MustFire(t)
	for range 3 {
		w.sweep(t)
		w.pass(time.Minute)
	}
	f.wantStates(t, "running:2")
	if n := w.Expected(); n < 2 {
		t.Errorf("%d ids are expected", n)
	}
	proxy.Refuse(false)
	poll(t, w.Session, 0)
	if n := w.Expected(); n != 0 {
		t.Errorf("%d ids are expected of a server process that is gone", n)
	}
	if !look(t, w.Session).Sweep {
		t.Error("there is no reason to sweep")
	}
	sweep(t, w.Session)
	f.wantStates(t, "queued:2")
	f.wantMended(t, poll(t, w.Session, 2).Claims, ids)
}

// A run that was committed late may be below where polls begin, and further back than a notification makes them go.
func TestSweep_FindsWhatIsBelowWherePollsBegin(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	w := f.watcher(t)
	w.sweep(t)
	poll(t, w.Session, 1)
	poll(t, w.Session, 1)
	late := func(ago string) {
		t.Helper()
		run := f.ask(t, "plain", 1)[0]
		f.exec(t, "UPDATE oarlock.runs SET ready_at = ready_at - $2::text::interval WHERE run_id = $1", run, ago)
		w.RaiseCursors(f.now(t))
		if p := poll(t, w.Session, 1); len(p.Claims) > 0 {
			t.Fatalf("claimed %v, below the cursor", runsOf(p.Claims))
		}
	}
	found := func() {
		t.Helper()
		if swept := sweep(t, w.Session); !swept.Late {
			t.Error("a sweep does not find it")
		}
		if p := poll(t, w.Session, 1); len(p.Claims) != 1 {
			t.Errorf("claimed %d", len(p.Claims))
		}
	}
	late("3 s")
	found()
	late("1 hour")
	w.SweptFor(500 * time.Millisecond)
	if swept, err := w.SweepLately(t.Context()); err != nil || swept.Late {
		t.Error("each sweep goes through all there ever was, however long that takes")
	}
	w.pass(time.Minute)
	found()
}

// A sweep without an answer found nothing: its reasons stay.
func TestSweep_OneWithoutAnAnswerIsMadeAgain(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 1)
	w, proxy := f.through(t)
	w.sweep(t)
	poll(t, w.Session, 1)
	f.exec(t, "UPDATE oarlock.runs SET claim_id = gen_random_uuid()")
	for range 2 { // the sweep notices that the database knows of another claim
		if _, err := w.Renew(t.Context(), queue.Vitals{}); err != nil {
			t.Fatal(err)
		}
	}
	if !look(t, w.Session).Sweep {
		t.Fatal("there is no reason to sweep")
	}
	cut := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 1"), Do: netfault.Cut})
	if _, err := w.SweepAll(t.Context()); err == nil {
		t.Error("no error, without an answer")
	}
	cut.MustFire(t)
	if !look(t, w.Session).Sweep {
		t.Error("a sweep without an answer counts as one")
	}
	sweep(t, w.Session)
	f.wantStates(t, "queued:1")
}

// A worker with fences that cannot be locked, because a connection that this login may not end holds one, costs seconds. Other
// workers come first.
func TestSweep_AStubbornWorkerKeepsNoOtherWaiting(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 2)
	first, last := uuid.UUID{0: 1}, uuid.UUID{0: 0xfe}
	stubborn := f.register(t, func(w *queue.Worker) { w.ID = first })
	other := f.register(t, func(w *queue.Worker) { w.ID = last })
	poll(t, stubborn, 1)
	poll(t, other, 1)
	w := f.watcher(t)
	w.silence(t)
	holds := f.hold(t, first, "claim")
	if _, err := holds.Exec(t.Context(), "SELECT FROM oarlock.workers WHERE worker_id = $1 FOR UPDATE", first); err != nil {
		t.Fatal(err)
	}
	reaped := make(chan queue.Swept, 1)
	go func() {
		_, _ = w.Look(t.Context(), queue.Load{})
		swept, _ := w.SweepAll(t.Context())
		reaped <- swept
	}()
	f.blocked(t, "queue/mark_lost") // it is the turn of the stubborn one
	if got := value[string](t, f.clientBundle, "SELECT state FROM oarlock.workers WHERE worker_id = $1", last); got != "lost" {
		t.Errorf("meanwhile the other worker is %s", got)
	}
	f.wantStates(t, "queued:1 running:1")
	if err := holds.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if swept := <-reaped; len(swept.Lost) != 2 || swept.Queued != 2 {
		t.Errorf("%+v", swept)
	}
	f.wantStates(t, "queued:2")
}

// Under an old snapshot a sweep takes long, but still takes only a small part of the time. Reasons to sweep wait, and takeovers
// do not.
func TestSweep_WaitsForLongWhereItTakesLong(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	store, sent := f.counted(t)
	s := f.registerAt(t, store)
	c := new(clock)
	s.SetClock(c.now)
	poll(t, s, 0)
	sweep(t, s)
	s.SweptFor(time.Second)
	for _, step := range []struct {
		pass time.Duration
		asks bool
	}{{9 * time.Second, false}, {time.Second, true}} {
		c.pass(step.pass)
		sent.n.Store(0)
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		if asked := sent.n.Load() > 0; asked != step.asks {
			t.Errorf("after %v it asks: %v", c.now(), asked)
		}
		if waits := look(t, s).Sweep; waits == step.asks {
			t.Errorf("after %v what asked for it waits: %v", c.now(), waits)
		}
	}
}

// However many stubborn workers there are, they do not use up the room of the others in a sweep.
func TestSweep_ManyStubbornWorkersHideNoOther(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 1)
	w := f.watcher(t)
	for i := range queue.ReapLimit {
		stubborn := uuid.UUID{0: byte(i + 1)}
		f.register(t, func(w *queue.Worker) { w.ID = stubborn })
		w.Postpone(stubborn)
	}
	other := f.register(t, func(w *queue.Worker) { w.ID = uuid.UUID{0: 0xfe} })
	poll(t, other, 1)
	f.exec(t, "UPDATE oarlock.workers SET state = 'lost' WHERE worker_id <> $1", w.ID())
	if swept := w.sweep(t); len(swept.Lost) != 1 || swept.Lost[0].ID != other.ID() {
		t.Errorf("lost %v, want %v", swept.Lost, other.ID())
	}
}

// A run may be parked, or enter the queue, after looks have passed the time that it waits for, because its transaction was open
// for long.
func TestSweep_HasLooksMendTimesThatTheyPassed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ set, want string }{
		"to be woken": {"state = 'waiting', epoch = 1, wake_at = clock_timestamp() - interval '10 s'", "queued:1"},
		"to expire":   {"queue_deadline = clock_timestamp() - interval '10 s'", "failed:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSessionBundle(t)
			s := f.register(t)
			poll(t, s, 0)
			look(t, s)
			f.exec(t, "UPDATE oarlock.runs SET "+c.set+" WHERE run_id = $1", f.ask(t, "plain", 1)[0])
			look(t, s)
			before := f.states(t)
			sweep(t, s)
			look(t, s)
			if f.wantStates(t, "%s", c.want); before == c.want {
				t.Error("a look did without a sweep: this test shows nothing")
			}
		})
	}
}

// If there are more dead workers than one sweep takes over from, it asks for another sweep, and that one takes over from the
// rest.
func TestSweep_AsksForTheRestOfTheDead(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	w := f.watcher(t)
	const dead = queue.ReapLimit + 2
	f.ask(t, "plain", dead)
	for range dead {
		poll(t, f.register(t), 1)
	}
	f.exec(t, "UPDATE oarlock.workers SET state = 'lost' WHERE worker_id <> $1", w.ID())
	look(t, w.Session)
	first := sweep(t, w.Session)
	if len(first.Lost) != queue.ReapLimit || !first.Sweep {
		t.Errorf("the first sweep: %+v", first)
	}
	if second := sweep(t, w.Session); len(second.Lost) != dead-queue.ReapLimit {
		t.Errorf("the second sweep: %+v", second)
	}
	f.wantStates(t, "queued:%d", dead)
}
