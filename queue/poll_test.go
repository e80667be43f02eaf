package queue_test

import (
	"slices"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestPoll_ClaimsWhatIsDueInItsOrder(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	ids := f.ask(t, "plain", 5)
	s := f.register(t)
	p := poll(t, s, 3)
	if !slices.Equal(runsOf(p.Claims), ids[:3]) || p.Hungry {
		t.Errorf("claimed %v of %v, hungry %v", runsOf(p.Claims), ids, p.Hungry)
	}
	c := p.Claims[0]
	if !c.Fresh() || c.Epoch != 1 || c.DAG != "plain" || c.Version != 1 || c.Queue != "default" || string(c.Params) != "{}" || c.Root != c.Run || c.Row.Generation != 1 {
		t.Errorf("claim %+v", c)
	}
	if p := poll(t, s, 3); !slices.Equal(runsOf(p.Claims), ids[3:]) || !p.Hungry {
		t.Errorf("claimed %v of %v, hungry %v", runsOf(p.Claims), ids, p.Hungry)
	}
	if p := poll(t, s, 3); len(p.Claims) > 0 || !p.Hungry {
		t.Errorf("claimed %v twice", p.Claims)
	}
	r, err := s.Renew(t.Context(), 2)
	if err != nil || r.Desired != queue.WorkerLive || r.Now == 0 || len(r.Mail) > 0 {
		t.Errorf("renewal %+v %v", r, err)
	}
	loaded, err := s.Load(t.Context(), p.Claims)
	if err != nil || len(loaded) != len(p.Claims) {
		t.Errorf("loaded %v %v", loaded, err)
	}
	f.wantStates(t, "running:5")
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	f.wantStates(t, "queued:5")
}
