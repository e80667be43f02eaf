package queue_test

import (
	"fmt"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

// serve polls so many times, ends what it got, and counts by DAG.
func (f *fleet) serve(t *testing.T, s *queue.Session, polls, want int) map[string]int {
	t.Helper()
	served := map[string]int{}
	for range polls {
		for _, c := range poll(t, s, want).Claims {
			served[c.DAG]++
			f.exec(t, finishClaim, c.ID)
		}
	}
	return served
}

// Each of many limits has something due at every poll, and one poll does not go through all of them.
func TestFair_EveryLimitHasItsTurn(t *testing.T) {
	t.Parallel()
	const limits, runs = 17, 3
	f := newFleet(t)
	for i := range limits {
		name := fmt.Sprintf("q%d", i)
		f.put(t, fmt.Sprintf("name: %s\nqueue: %s\nsteps: [{id: a, run: \"true\"}]\n", name, name))
		f.exec(t, "SELECT oarlock.set_queue($1, max_running => 1)", name)
		f.ask(t, name, runs)
	}
	s := f.register(t)
	served := map[string]int{}
	for range 20 {
		for _, c := range poll(t, s, 50).Claims { // and holds them
			served[c.DAG]++
		}
	}
	if len(served) != limits {
		t.Errorf("%d limits of %d were served: %v", len(served), limits, served)
	}
}

func TestFair_EqualLanesGetTheSameBesideALimit(t *testing.T) {
	t.Parallel()
	const lanes, want, polls = 4, 10, 40
	f := newFleet(t)
	f.exec(t, "SELECT oarlock.set_queue('default', max_running => 1)")
	f.ask(t, "plain", 5)
	s := f.register(t)
	poll(t, s, 1) // of the limited one: it stays
	for i := range lanes {
		f.put(t, fmt.Sprintf("name: d%d\nqueue: q%d\nsteps: [{id: a, run: \"true\"}]\n", i, i))
		f.ask(t, fmt.Sprint("d", i), want*polls)
	}
	served := f.serve(t, s, polls, want)
	for i := range lanes {
		if n := served[fmt.Sprint("d", i)]; n < want*polls/lanes-want || n > want*polls/lanes+want {
			t.Errorf("served unequally: %v", served)
		}
	}
}
