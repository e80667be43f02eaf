package queue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

// clock is a monotonic clock that moves only when a test moves it.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Duration { return time.Duration(c.at.Load()) }

func (c *clock) pass(d time.Duration) { c.at.Add(int64(d)) }

// watcher is a session that watches other workers by a clock of the test.
type watcher struct {
	*queue.Session
	clock clock
}

func (f *sessionBundle) watcher(tb testing.TB) *watcher {
	tb.Helper()
	w := &watcher{Session: f.register(tb)}
	w.SetClock(w.clock.now)
	return w
}

func (w *watcher) pass(d time.Duration) { w.clock.pass(d) }

// silence makes looks until silent workers have been silent for a TTL, except for the one look that finds them.
func (w *watcher) silence(tb testing.TB) {
	tb.Helper()
	for range 30 {
		if look(tb, w.Session).Sweep {
			tb.Fatal("somebody is lost too early")
		}
		w.pass(time.Second)
	}
}

// sweep looks and sweeps, and returns the result of the sweep.
func (w *watcher) sweep(tb testing.TB) queue.Swept {
	tb.Helper()
	look(tb, w.Session)
	return sweep(tb, w.Session)
}

// settle sweeps until there is no reason to sweep.
func (w *watcher) settle(tb testing.TB) {
	tb.Helper()
	for range 10 {
		w.sweep(tb)
		if w.pass(time.Second); !look(tb, w.Session).Sweep {
			return
		}
	}
	tb.Fatal("there is always a reason to sweep")
}

// reap looks, and sweeps until a worker was taken over from. If the machine is so slow that a sweep could not lock the worker's
// fences in time, the next sweep tries again.
func (w *watcher) reap(tb testing.TB) <-chan queue.Swept {
	tb.Helper()
	reaped := make(chan queue.Swept, 1)
	go func() {
		for end := time.Now().Add(time.Minute); ; w.pass(5 * time.Second) {
			_, _ = w.Look(tb.Context(), queue.Load{})
			if swept, _ := w.SweepAll(tb.Context()); len(swept.Lost) > 0 || tb.Context().Err() != nil || time.Now().After(end) {
				reaped <- swept
				return
			}
		}
	}()
	return reaped
}

// hold takes a fence of a worker in a transaction of its own, until the test ends it.
func (f *sessionBundle) hold(tb testing.TB, worker uuid.UUID, channel string) pgx.Tx {
	tb.Helper()
	tx, err := f.db.Conn(tb).Begin(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(tb.Context())) })
	tag, err := tx.Exec(tb.Context(), "SELECT FROM oarlock.fences WHERE worker_id = $1 AND channel = $2 FOR NO KEY UPDATE", worker, channel)
	if err != nil || tag.RowsAffected() != 1 {
		tb.Fatal("no such fence", err)
	}
	return tx
}

// blocked waits until a statement that contains a mark in its text waits for a lock.
func (f *sessionBundle) blocked(tb testing.TB, mark string) {
	tb.Helper()
	await.True(tb, mark+" waits for a lock", func() bool {
		return value[bool](tb, f.clientBundle, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
			AND wait_event_type = 'Lock' AND position($1 IN query) > 0)`, mark)
	})
}

func wantLost(tb testing.TB, s queue.Swept, who uuid.UUID, queued int) {
	tb.Helper()
	if len(s.Lost) != 1 || s.Lost[0] != (queue.LostWorker{ID: who, Name: "w", Runs: queued}) || s.Queued != queued {
		tb.Errorf("lost %v, queued %d: want %v, %d", s.Lost, s.Queued, who, queued)
	}
}

func TestReap_TakesOverFromAWorkerThatIsSilentForATTL(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	ids := f.ask(t, "plain", 6)
	dead, other, w := f.register(t), f.register(t), f.watcher(t)
	claims := poll(t, dead, 3).Claims
	poll(t, other, 1)
	before := value[time.Time](t, f.clientBundle, "SELECT run_at FROM oarlock.runs WHERE run_id = $1", ids[0])
	w.silence(t)
	if _, err := other.Renew(t.Context(), queue.Vitals{}); err != nil {
		t.Fatal(err)
	}
	wantLost(t, w.sweep(t), dead.ID(), 3)
	f.wantStates(t, "queued:5 running:1")
	if events := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.events WHERE kind = 'lost' AND worker = 'w' AND epoch = 1"); events != 3 {
		t.Errorf("%d events", events)
	}
	again := poll(t, w.Session, 2).Claims
	if len(again) != 2 || again[0].Run != ids[0] || again[0].Epoch != 2 || again[0].Losses != 1 || again[0].Fresh() || !again[0].RunAt.Equal(before) {
		t.Errorf("claimed again %+v", again)
	}
	mustBeLost(t, dead, claims)
}

// mustBeLost wants a session to learn that it is lost.
func mustBeLost(tb testing.TB, s *queue.Session, claims []*queue.Claim) {
	tb.Helper()
	if p, err := s.Poll(tb.Context(), queue.Want{Slots: 1, Free: 1}); !errors.Is(err, queue.ErrLeaseLost) || len(p.Claims) > 0 {
		tb.Errorf("poll of a lost worker: %v %v", p, err)
	}
	if _, err := s.Renew(tb.Context(), queue.Vitals{}); !errors.Is(err, queue.ErrLeaseLost) {
		tb.Errorf("renewal of a lost worker: %v", err)
	}
	for _, c := range claims {
		select {
		case <-c.Lost():
		default:
			tb.Errorf("the claim of run %d is not lost", c.Run)
		}
	}
}

func TestReap_ARenewalTellsThatTheLeaseIsLost(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 1)
	s := f.register(t)
	claims := poll(t, s, 1).Claims
	f.exec(t, "UPDATE oarlock.workers SET state = 'lost' WHERE worker_id = $1", s.ID())
	if _, err := s.Renew(t.Context(), queue.Vitals{}); !errors.Is(err, queue.ErrLeaseLost) {
		t.Errorf("renewal of a lost worker: %v", err)
	}
	mustBeLost(t, s, claims)
}

// The claim holds its fence when the reaper comes. The reaper waits, and then finds the claimed runs.
func TestReap_AClaimInFlightIsNotOrphaned(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	ids := f.ask(t, "plain", 2)
	dead, w := f.register(t), f.watcher(t)
	w.silence(t)
	claiming := f.hold(t, dead.ID(), "claim")
	if _, err := claiming.Exec(t.Context(), `UPDATE oarlock.runs SET state = 'running', claim_id = gen_random_uuid(), worker_id = $1,
		epoch = 1, queue_deadline = NULL WHERE run_id = ANY ($2)`, dead.ID(), ids); err != nil {
		t.Fatal(err)
	}
	reaped := w.reap(t)
	f.blocked(t, "queue/lose")
	if err := claiming.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantLost(t, <-reaped, dead.ID(), 2)
	f.wantStates(t, "queued:2")
}

// The reaper comes first. The claim waits for it, and then finds that it may claim nothing.
func TestReap_AClaimThatComesAfterItClaimsNothing(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 2)
	s := f.register(t)
	claims := poll(t, s, 1).Claims
	reaper, err := f.db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reaper.Exec(t.Context(), "DELETE FROM oarlock.fences WHERE worker_id = $1", s.ID()); err != nil {
		t.Fatal(err)
	}
	type answer struct {
		queue.Polled
		err error
	}
	polled := make(chan answer)
	go func() {
		p, err := s.Poll(t.Context(), queue.Want{Slots: 1, Free: 1})
		polled <- answer{p, err}
	}()
	f.blocked(t, "queue/claim")
	if err := reaper.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a := <-polled; len(a.Claims) > 0 || !errors.Is(a.err, queue.ErrLeaseLost) {
		t.Errorf("%+v", a)
	}
	f.wantStates(t, "queued:1 running:1")
	<-claims[0].Lost()
}

func TestReap_WaitsForAFlushAndThenWins(t *testing.T) {
	t.Parallel()
	for _, channel := range []string{"commit", "logs", "settle"} {
		t.Run(channel, func(t *testing.T) {
			t.Parallel()
			f := newSessionBundle(t)
			f.ask(t, "plain", 1)
			dead, w := f.register(t), f.watcher(t)
			claims := poll(t, dead, 1).Claims
			w.silence(t)
			flush := f.hold(t, dead.ID(), channel)
			if _, err := flush.Exec(t.Context(), "UPDATE oarlock.runs SET reason = 'flushed'"); err != nil {
				t.Fatal(err)
			}
			reaped := w.reap(t)
			f.blocked(t, "queue/lose")
			if err := flush.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantLost(t, <-reaped, dead.ID(), 1)
			if got := value[string](t, f.clientBundle, "SELECT state || ' ' || reason FROM oarlock.runs"); got != "queued flushed" {
				t.Errorf("the run is %s", got)
			}
			mustBeLost(t, dead, claims)
		})
	}
}

func TestReap_LeavesAWorkerThatBeatsWhileItWaits(t *testing.T) {
	t.Parallel()
	for range 20 { // on a slow machine the worker may be found lost before it renews
		if leavesAWorkerThatBeats(t) {
			return
		}
	}
	t.Error("no worker beat in time")
}

func leavesAWorkerThatBeats(t *testing.T) (inTime bool) {
	t.Helper()
	f := newSessionBundle(t)
	f.ask(t, "plain", 1)
	slow, w := f.register(t), f.watcher(t)
	poll(t, slow, 1)
	w.silence(t)
	flush := f.hold(t, slow.ID(), "commit")
	if !look(t, w.Session).Sweep {
		t.Fatal("a worker that was silent for a TTL is not found")
	}
	swept := make(chan queue.Swept, 1)
	go func() {
		s, _ := w.SweepAll(t.Context())
		swept <- s
	}()
	f.blocked(t, "queue/lose")
	_, err := slow.Renew(t.Context(), queue.Vitals{}) // waits for no other transaction
	if errors.Is(err, queue.ErrLeaseLost) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := flush.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := <-swept; len(s.Lost) > 0 {
		t.Errorf("took over from %v", s.Lost)
	}
	if n := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.fences WHERE worker_id = $1", slow.ID()); n != 5 {
		t.Errorf("%d fences are left", n)
	}
	f.wantStates(t, "running:1")
	return true
}

// A worker's connection on which half a statement has arrived holds a fence for as long as the network is quiet.
func TestReap_EndsAConnectionThatHoldsAFence(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 1)
	dead, w := f.register(t), f.watcher(t)
	claims := poll(t, dead, 1).Claims
	w.silence(t)
	config, err := pgx.ParseConfig(f.url)
	if err != nil {
		t.Fatal(err)
	}
	config.RuntimeParams["application_name"] = "oarlock/" + dead.ID().String()
	half, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close(t.Context())
	if _, err := half.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := half.Exec(t.Context(), "SELECT FROM oarlock.fences WHERE worker_id = $1 FOR NO KEY UPDATE", dead.ID()); err != nil {
		t.Fatal(err)
	}
	wantLost(t, w.sweep(t), dead.ID(), 1)
	if err := half.Ping(t.Context()); err == nil {
		t.Error("the connection of the dead worker lives on")
	}
	f.wantStates(t, "queued:1")
	mustBeLost(t, dead, claims)
}

func TestReap_SweepsWhatALostWorkerLeft(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 4)
	dead, half, w := f.register(t), f.register(t), f.watcher(t)
	poll(t, dead, 2)
	poll(t, half, 1)
	f.exec(t, "DELETE FROM oarlock.fences WHERE worker_id = $1", dead.ID())                // runs, but no fence
	f.exec(t, "UPDATE oarlock.workers SET state = 'lost' WHERE worker_id = $1", half.ID()) // marked, and nothing more
	if p := w.sweep(t); len(p.Lost) != 2 || p.Queued != 3 {
		t.Errorf("%+v", p)
	}
	f.wantStates(t, "queued:4")
	if n := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.fences WHERE worker_id <> $1", w.ID()); n != 0 {
		t.Errorf("%d fences are left", n)
	}
	if p := w.sweep(t); len(p.Lost) > 0 || p.Queued > 0 {
		t.Errorf("found again: %+v", p)
	}
}

// A control that an open transaction requests does not hold up the other runs of a dead worker.
func TestReap_PassesOverARunThatSomebodyHolds(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	ids := f.ask(t, "plain", 3)
	dead, w := f.register(t), f.watcher(t)
	poll(t, dead, 3)
	tx, err := f.db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT oarlock.pause($1)", ids[1]); err != nil {
		t.Fatal(err)
	}
	f.exec(t, "DELETE FROM oarlock.fences WHERE worker_id = $1", dead.ID())
	if p := w.sweep(t); p.Queued != 2 {
		t.Errorf("%+v", p)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p := w.sweep(t); p.Queued != 1 {
		t.Errorf("%+v", p)
	}
	f.wantStates(t, "queued:3")
}

// A dead worker with a run that another connection holds is found again and again. It does not hide the other dead workers.
func TestReap_FindsWhoeverLeftRuns(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 3)
	w := f.watcher(t)
	for range 3 {
		dead := f.register(t)
		poll(t, dead, 1)
		f.exec(t, "DELETE FROM oarlock.fences WHERE worker_id = $1", dead.ID())
	}
	tx, err := f.db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := tx.Exec(t.Context(), "SELECT FROM oarlock.runs WHERE worker_id IS NOT NULL ORDER BY worker_id LIMIT 1 FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	if p := w.sweep(t); p.Queued != 2 {
		t.Errorf("queued %d of the two that nobody holds", p.Queued)
	}
}

func TestReap_ManyFindTheSameWorkerAndOneTakesOver(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	f.ask(t, "plain", 20)
	dead := f.register(t)
	poll(t, dead, 20)
	watchers := make([]*watcher, 4)
	for i := range watchers {
		watchers[i] = f.watcher(t)
	}
	for range 32 {
		for _, w := range watchers {
			if _, err := w.Renew(t.Context(), queue.Vitals{}); err != nil {
				t.Fatal(err)
			}
		}
		if value[bool](t, f.clientBundle, "SELECT state <> 'live' FROM oarlock.workers WHERE worker_id = $1", dead.ID()) {
			t.Fatal("lost too early")
		}
		f.wantStates(t, "running:20")
		results := make(chan queue.Swept, len(watchers))
		for _, w := range watchers {
			go func() {
				_, err := w.Look(t.Context(), queue.Load{})
				s, sweepErr := w.SweepAll(t.Context())
				if err := errors.Join(err, sweepErr); err != nil {
					t.Error(err)
				}
				results <- s
			}()
		}
		lost := 0
		for _, w := range watchers {
			p := <-results
			lost += len(p.Lost)
			w.clock.pass(time.Second)
		}
		if lost > 0 {
			if lost != 1 {
				t.Errorf("%d took over", lost)
			}
			break
		}
	}
	if n := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.runs WHERE state = 'queued' AND losses = 1"); n != 20 {
		t.Errorf("%d runs were queued once", n)
	}
}

// A cancel of a run that no worker holds ends the run's tasks itself. The ended tasks must not look like late records of a lost
// worker.
func TestReap_ACancelBetweenTwoWorkersIsNoLateRecord(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	run := f.ask(t, "plain", 1)[0]
	at := time.Now().Add(-time.Hour)
	// One worker began a task, and another one followed; both were lost.
	f.exec(t, "UPDATE oarlock.runs SET epoch = 2, started_at = $2 WHERE run_id = $1", run, at)
	f.exec(t, "INSERT INTO oarlock.tasks (run_id, step, item, state, attempt, generation, epoch, seq, started_at, attempt_at) VALUES ($1, 0, '', 'running', 1, 1, 1, 1, $2, $2)", run, at)
	f.exec(t, "INSERT INTO oarlock.events (run_id, at, kind, epoch) SELECT $1, $2, 'lost', e FROM generate_series(1, 2) e", run, at)
	f.exec(t, "SELECT oarlock.cancel($1, now => true)", run)
	f.wantStates(t, "canceled:1")
	if n := value[int](t, f.clientBundle, "SELECT count(*) FROM oarlock.tasks WHERE run_id = $1 AND (epoch, state) IS DISTINCT FROM (2, 'canceled')", run); n != 0 {
		t.Errorf("%d tasks tell of another drive", n)
	}
	pgtest.CheckInvariants(t, f.db.Conn(t))
}
