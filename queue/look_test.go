package queue_test

import (
	"context"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/queue"
)

// A look that hangs because the network swallows its packets makes neither claims nor sweeps wait.
func TestLook_OneThatHangsHoldsUpNoPoll(t *testing.T) {
	t.Parallel()
	f := newSessionBundle(t)
	w, proxy := f.through(t)
	poll(t, w.Session, 1)
	held := proxy.Inject(netfault.Fault{When: prepares("queue/look"), Do: netfault.Hold})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looked := make(chan error, 1)
	go func() {
		_, err := w.Look(ctx, queue.Load{})
		looked <- err
	}()
	held.MustFire(t)
	for range 3 {
		id := f.ask(t, "plain", 1)[0]
		if p := poll(t, w.Session, 1); len(p.Claims) != 1 || p.Claims[0].Run != id {
			t.Errorf("claimed %v, want %d", runsOf(p.Claims), id)
		}
		sweep(t, w.Session)
		if _, err := w.Renew(t.Context(), queue.Vitals{}); err != nil {
			t.Error(err)
		}
	}
	select {
	case err := <-looked:
		t.Fatalf("the look did not hang: %v", err)
	default:
	}
	cancel()
	if err := <-looked; err == nil {
		t.Error("no error, without an answer")
	}
	held.Release()
	look(t, w.Session)
}

// While looks fail or are late, the observer cannot know which workers are silent. That time does not count as silence.
func TestLook_ItsOwnTroubleIsNoSilenceOfOthers(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(*testing.T, *watcher, *netfault.Proxy){
		"it fails": func(t *testing.T, w *watcher, proxy *netfault.Proxy) {
			proxy.Refuse(true)
			proxy.CutAll()
			if _, err := w.Look(t.Context(), queue.Load{}); err == nil {
				t.Error("no error, without a database")
			}
			proxy.Refuse(false)
			w.pass(time.Second)
		},
		"it is late": func(_ *testing.T, w *watcher, _ *netfault.Proxy) { w.pass(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newSessionBundle(t)
			dead := f.register(t)
			w, proxy := f.through(t)
			w.silence(t)
			trouble(t, w, proxy)
			if look(t, w.Session).Sweep {
				t.Error("a worker is taken for silent while nobody looked")
			}
			w.pass(time.Second)
			if swept := w.sweep(t); len(swept.Lost) != 1 || swept.Lost[0].ID != dead.ID() {
				t.Errorf("lost %v, want %v", swept.Lost, dead.ID())
			}
		})
	}
}
