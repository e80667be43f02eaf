package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/queue"
)

// A lost network answers nothing: statements under way hang, and so do new connections and requests on others. A Close still ends
// with its context, and Close of the store soon after.
func TestClose_EndsWithItsContextInALostNetwork(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	run := f.ask(t, "plain", 1)[0]
	proxy, url := netfault.Through(t, f.url)
	store := f.open(t, url)
	s := f.registerAt(t, store)
	claims := poll(t, s, 1).Claims
	if _, err := s.Renew(t.Context(), queue.Vitals{}); err != nil {
		t.Fatal(err)
	}
	proxy.Freeze()
	for _, use := range []func(){
		func() { _, _ = s.Poll(t.Context(), queue.Want{Slots: 1, Free: 1}) },
		func() { _, _ = s.Look(t.Context(), queue.Load{}) },
		func() { _, _ = s.SweepAll(t.Context()) },
		func() { _, _ = s.Renew(t.Context(), queue.Vitals{}) },
		func() { _, _ = s.Load(t.Context(), claims) },
		func() {
			_ = s.Commit(t.Context(), &queue.Batch{Claim: claims[0], Seen: claims[0].Inbox, Leave: &dagrun.Leave{}})
		},
		func() { _ = s.AppendLogs(t.Context(), []queue.Chunk{{Run: run, Attempt: 1, Day: queue.LogDay(1)}}) },
		func() { _, _ = store.Get(t.Context(), run) },
	} {
		go use()
	}
	await.True(t, "all are in use", func() bool { return s.InUse() == 7 })
	const bound = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	began := time.Now()
	if err := s.Close(ctx); err == nil {
		t.Error("it says that all is closed in order")
	}
	if took := time.Since(began); took > 2*bound {
		t.Errorf("the session took %v to close, want %v and a little", took, bound)
	}
	began = time.Now()
	store.Close()
	if took := time.Since(began); took > 2*bound {
		t.Errorf("the store took %v to close", took)
	}
}
