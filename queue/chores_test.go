package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/queue"
)

// chore is a DoChores under way.
type chore struct{ done chan error }

func doChores(ctx context.Context, s *queue.Session) chore {
	c := chore{make(chan error, 1)}
	go func() {
		_, err := s.DoChores(ctx)
		c.done <- err
	}()
	return c
}

func (c chore) wantUnderWay(t *testing.T) {
	t.Helper()
	select {
	case err := <-c.done:
		t.Fatalf("the chore is over: %v", err)
	default:
	}
}

// expiring enters a run that has waited too long.
func (f *sessionBundle) expiring(t *testing.T) queue.RunID {
	t.Helper()
	run := f.ask(t, "plain", 1)[0]
	f.exec(t, "UPDATE oarlock.runs SET queue_deadline = clock_timestamp() - interval '1 s' WHERE run_id = $1", run)
	return run
}

// A run that cannot be ended without waiting for another session hinders neither other runs nor the worker.
func TestChores_PassOverLockedControls(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	s := f.register(t)
	held, free := f.expiring(t), f.expiring(t)
	f.exec(t, "INSERT INTO oarlock.controls (run_id, verb, by) VALUES ($1, 'pause', 'x')", held)
	tx := f.opened(t, "SELECT FROM oarlock.controls FOR UPDATE")
	expire := func() {
		t.Helper()
		look(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := s.DoChores(ctx); err != nil {
			t.Fatal(err)
		}
	}
	expire()
	if r := f.get(t, free); r.Reason != "queue_timeout" {
		t.Errorf("the run that no session holds is %s, %s", r.State, r.Reason)
	}
	if r := f.get(t, held); r.State != "queued" {
		t.Errorf("the run with a locked control is %s, %s", r.State, r.Reason)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	expire()
	if r := f.get(t, held); r.Reason != "queue_timeout" {
		t.Errorf("the run whose control is free again is %s, %s", r.State, r.Reason)
	}
}

// Looks go on each second while a chore gets no answer. They find a silent worker, and it is taken over from.
func TestChores_ABlockedOneDelaysNoTakeover(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	held := f.ask(t, "plain", 1)
	dead := f.register(t)
	w, proxy := f.through(t)
	poll(t, dead, 1)
	expired := f.expiring(t)
	w.looks(t)
	stuck := proxy.Inject(netfault.Fault{When: prepares("queue/expire_queued"), Do: netfault.Hold})
	blocked := doChores(t.Context(), w.Session)
	stuck.MustFire(t)
	for range 30 {
		if w.looks(t).Sweep {
			t.Fatal("a worker is lost too early")
		}
		w.pass(time.Second)
	}
	if !w.looks(t).Sweep {
		t.Error("a worker that is silent for its TTL is not found")
	}
	wantLost(t, sweep(t, w.Session), dead.ID(), len(held))
	blocked.wantUnderWay(t)
	stuck.Release()
	if err := <-blocked.done; err != nil {
		t.Error(err)
	}
	if r := f.get(t, expired); r.Reason != "queue_timeout" {
		t.Errorf("the run that waited too long is %s, %s", r.State, r.Reason)
	}
}

// looks makes one look, without chores.
func (w *watcher) looks(t *testing.T) queue.Looked {
	t.Helper()
	looked, err := w.Look(t.Context(), queue.Load{})
	if err != nil {
		t.Fatal(err)
	}
	return looked
}

// A look finds a connection even while a chore uses the one for looks and a sweep uses its own.
func TestChores_ABlockedOneBesideASweepDelaysNoLook(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	w, proxy := f.through(t)
	f.expiring(t)
	w.looks(t)
	stuck := proxy.Inject(netfault.Fault{When: prepares("queue/expire_queued"), Do: netfault.Hold})
	blocked := doChores(t.Context(), w.Session)
	stuck.MustFire(t)
	held := proxy.Inject(netfault.Fault{When: prepares("queue/sweep"), Do: netfault.Hold})
	swept := make(chan error, 1)
	go func() {
		_, err := w.SweepAll(t.Context())
		swept <- err
	}()
	held.MustFire(t)
	for range 3 {
		w.looks(t)
	}
	blocked.wantUnderWay(t)
	held.Release()
	stuck.Release()
	for _, done := range []chan error{blocked.done, swept} {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Partitions for logs are made once an hour, and after an error at the next chores. A table that another session has locked is no
// error: its days wait for the next hour. An error hinders no other chore.
func TestChores_MakeRoomForLogs(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	w, proxy := f.through(t)
	held := proxy.Inject(netfault.Fault{When: prepares("queue/log_days"), Do: netfault.Hold})
	ctx, cancel := context.WithCancel(t.Context())
	w.looks(t)
	blocked := doChores(ctx, w.Session)
	held.MustFire(t)
	w.looks(t)
	blocked.wantUnderWay(t)
	cancel()
	if err := <-blocked.done; err == nil {
		t.Error("no error, without an answer")
	}
	held.Release()
	made := proxy.Inject(netfault.Fault{When: prepares("queue/log_days"), Do: netfault.Hold})
	again := doChores(t.Context(), w.Session)
	made.MustFire(t)
	made.Release()
	if err := <-again.done; err != nil {
		t.Error(err)
	}
}

// The chores after a look queue the runs that this look found due.
func TestChores_WakeWhatALookFound(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	run := f.ask(t, "plain", 1)[0]
	f.exec(t, "UPDATE oarlock.runs SET state = 'waiting', epoch = 1, wake_at = clock_timestamp() - interval '1 s' WHERE run_id = $1", run)
	s := f.register(t)
	if n, err := s.DoChores(t.Context()); n != 0 || err != nil {
		t.Errorf("before a look it queued %d, %v", n, err)
	}
	if _, err := s.Look(t.Context(), queue.Load{}); err != nil {
		t.Fatal(err)
	}
	f.wantStates(t, "waiting:1")
	if n, err := s.DoChores(t.Context()); n != 1 || err != nil {
		t.Errorf("queued %d, %v", n, err)
	}
	f.wantStates(t, "queued:1")
	if n, err := s.DoChores(t.Context()); n != 0 || err != nil {
		t.Errorf("queued %d more, %v", n, err)
	}
}
