package queue_test

import (
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/queue"
)

func halfAMinute(w *queue.Worker) { w.TTL = 30 * time.Second }

func TestRenew_NeverWaitsForAFlush(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	s := f.register(t, halfAMinute)
	for _, channel := range []string{"commit", "claim", "logs", "settle"} {
		f.hold(t, s.ID(), channel)
	}
	soft, hard := s.Deadline()
	before := boottime.Now()
	if _, err := s.Renew(t.Context(), queue.Vitals{Busy: 7}); err != nil {
		t.Fatal(err)
	}
	soft2, hard2 := s.Deadline()
	if sent := soft2 - 18*time.Second; sent < before || sent > boottime.Now() || hard2-soft2 != 3*time.Second || soft2 <= soft || hard2 <= hard {
		t.Errorf("deadlines %v and %v, now %v", soft2, hard2, boottime.Now())
	}
	if got := value[string](t, f.clientBundle, "SELECT beat || ' ' || busy FROM oarlock.workers"); got != "1 7" {
		t.Errorf("the row says %s", got)
	}
}

func TestRenew_TellsWhyAWorkerClaimsNothingAndSinceWhen(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	s := f.register(t, halfAMinute)
	unfit := queue.Vitals{Unfit: "no space\x00 left", Since: time.Now().Add(-time.Minute)}
	for _, told := range []struct {
		queue.Vitals

		want string
	}{{unfit, "no space left for 1 m"}, {queue.Vitals{Since: time.Now()}, ""}} {
		if _, err := s.Renew(t.Context(), told.Vitals); err != nil {
			t.Fatal(err)
		}
		if got := value[string](t, f.clientBundle, `SELECT unfit || coalesce(' for ' || round(extract(epoch FROM clock_timestamp() - unfit_since) / 60) || ' m', '') FROM oarlock.workers`); got != told.want {
			t.Errorf("the row says %q, want %q", got, told.want)
		}
		workers, err := f.store.Workers(t.Context())
		if err != nil || len(workers) != 1 || (workers[0].Unfit == "") != (told.want == "") || workers[0].UnfitSince.IsZero() != (told.want == "") {
			t.Errorf("listed as %+v, %v", workers, err)
		}
	}
}

// listening waits until the session hears notifications, because a fault meant for another connection must not hit this one.
func listening(t *testing.T, s *queue.Session) {
	t.Helper()
	if _, err := s.Hear(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestRenew_AFailedOneMovesNoDeadline(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	proxy, url := netfault.Through(t, f.url)
	s := f.registerAt(t, f.open(t, url))
	if _, err := s.Renew(t.Context(), queue.Vitals{}); err != nil {
		t.Fatal(err)
	}
	listening(t, s)
	soft, hard := s.Deadline()
	cut := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 1"), Do: netfault.Cut})
	if _, err := s.Renew(t.Context(), queue.Vitals{}); err == nil {
		t.Error("no error")
	}
	cut.MustFire(t)
	if soft2, hard2 := s.Deadline(); soft2 != soft || hard2 != hard {
		t.Error("the deadline moved")
	}
	if _, err := s.Renew(t.Context(), queue.Vitals{}); err != nil {
		t.Error(err)
	}
}

// A watcher counts silence from the moment when the database got the renewal. The worker may hear of its renewal much later.
func TestRenew_CountsTheLeaseFromBeforeItWasSent(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	proxy, url := netfault.Through(t, f.url)
	s := f.registerAt(t, f.open(t, url), halfAMinute)
	listening(t, s)
	held := proxy.Inject(netfault.Fault{When: netfault.Completed("SELECT 1"), Do: netfault.Hold})
	renewed := make(chan error, 1)
	go func() {
		_, err := s.Renew(t.Context(), queue.Vitals{})
		renewed <- err
	}()
	held.MustFire(t)
	counted := boottime.Now() // the latest moment of the renewal by the database
	held.Release()
	if err := <-renewed; err != nil {
		t.Fatal(err)
	}
	if soft, hard := s.Deadline(); soft > counted+18*time.Second || hard > counted+21*time.Second {
		t.Errorf("the lease of 30s is believed in until %v and %v after it began", soft-counted, hard-counted)
	}
}

// A promoted database may have claims that their worker has given up, and lack claims that the worker has.
func TestSweep_SettlesWhatOnlyOneSideKnows(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	ids := f.ask(t, "plain", 3)
	w := f.watcher(t)
	claims := poll(t, w.Session, 2).Claims
	f.exec(t, `UPDATE oarlock.runs SET state = 'running', claim_id = gen_random_uuid(), worker_id = $2, epoch = 1 WHERE run_id = $1`, ids[2], w.ID())
	f.exec(t, `UPDATE oarlock.runs SET state = 'waiting', claim_id = NULL, worker_id = NULL WHERE run_id = $1`, ids[1])
	w.sweep(t)
	w.settle(t) // a claim that is missing in one sweep may be under way
	f.wantStates(t, "queued:1 running:1 waiting:1")
	if n := value[int](t, f.clientBundle, "SELECT losses FROM oarlock.runs WHERE run_id = $1", ids[2]); n != 0 {
		t.Error("counted as a loss")
	}
	if isLost(claims[0]) || !isLost(claims[1]) {
		t.Errorf("the claim that both know is lost: %v, the one that is gone: %v", isLost(claims[0]), isLost(claims[1]))
	}
	if p := poll(t, w.Session, 1); len(p.Claims) != 1 || p.Claims[0].Run != ids[2] {
		t.Errorf("claimed %v", runsOf(p.Claims))
	}
}

func TestRenew_NoticesAnotherClaimOfARunThatItHolds(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	ids := f.ask(t, "plain", 2)
	w := f.watcher(t)
	claims := poll(t, w.Session, 2).Claims
	f.exec(t, `UPDATE oarlock.runs SET claim_id = gen_random_uuid() WHERE run_id = $1`, ids[1])
	for range 2 {
		if _, err := w.Renew(t.Context(), queue.Vitals{}); err != nil {
			t.Fatal(err)
		}
	}
	if !look(t, w.Session).Sweep {
		t.Fatal("it has no reason to sweep")
	}
	w.settle(t)
	f.wantStates(t, "queued:1 running:1")
	if isLost(claims[0]) || !isLost(claims[1]) {
		t.Errorf("the claim that both know is lost: %v, the one that is gone: %v", isLost(claims[0]), isLost(claims[1]))
	}
}

func isLost(c *queue.Claim) bool {
	select {
	case <-c.Lost():
		return true
	default:
		return false
	}
}
