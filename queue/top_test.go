package queue_test

import (
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

// offered polls for a worker with two free slots and tasks of priority 0 that wait for what ranks above them.
func offered(t *testing.T, s *queue.Session) queue.Polled {
	t.Helper()
	least := 0
	p, err := s.Poll(t.Context(), queue.Want{Slots: 2, Free: 2, Least: &least, Above: &least})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Slots are kept for a run that ranks above only until a poll offered them: what nobody may claim keeps none idle.
func TestTop_NothingIsUrgentBehindALimitThatIsFull(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.put(t, "name: high\npriority: 50\nqueue: one\nsteps: [{id: a, run: \"true\"}]\n")
	f.exec(t, "SELECT oarlock.set_queue('one', max_running => 1)")
	f.ask(t, "high", 2)
	s := f.register(t)
	claimed := 0
	for range 3 {
		p := offered(t, s)
		if claimed += len(p.Claims); p.Top != nil {
			t.Errorf("a run of priority %d is urgent that nobody may claim", *p.Top)
		}
	}
	if claimed != 1 {
		t.Errorf("claimed %d", claimed)
	}
}

func TestTop_NothingIsUrgentThatIsLocked(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.put(t, "name: high\npriority: 50\nsteps: [{id: a, run: \"true\"}]\n")
	f.ask(t, "high", 1)
	s := f.register(t)
	f.opened(t, "SELECT FROM oarlock.runs FOR UPDATE")
	if p := offered(t, s); len(p.Claims) > 0 || p.Top != nil {
		t.Errorf("claimed %d, top %v", len(p.Claims), p.Top)
	}
}
