package queue_test

import (
	"fmt"
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

// serve polls so many times, ends the claimed runs, and counts them by DAG.
func (f *sessionBundle) serve(t *testing.T, s *queue.Session, polls, want int) map[string]int {
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
	f := newSessionBundle(t)
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
	f := newSessionBundle(t)
	f.exec(t, "SELECT oarlock.set_queue('default', max_running => 1)")
	f.ask(t, "plain", 5)
	s := f.register(t)
	poll(t, s, 1) // a run of the limited DAG, which stays
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

// Runs of DAGs at their limits are passed over until there is room. Then they go in the order of their requests.
func TestFair_LimitedRunsGoInTheirOrder(t *testing.T) {
	t.Parallel()
	const dags, each, slots, most = 60, 2, 8, 16
	f := newSessionBundle(t)
	for i := range dags {
		f.put(t, fmt.Sprintf("name: d%d\nmax_active_runs: 2\nsteps: [{id: a, run: \"true\"}]\n", i))
	}
	asked := map[queue.RunID]int{}
	for n := range dags * each {
		asked[f.ask(t, fmt.Sprint("d", n%dags), 1)[0]] = n
	}
	s := f.register(t)
	var held []*queue.Claim
	for started := 0; started < len(asked); {
		look(t, s)
		for _, c := range poll(t, s, slots-len(held)).Claims {
			if late := started - asked[c.Run]; late > most {
				t.Errorf("run %d started %d places later than it was asked for", c.Run, late)
			}
			held, started = append(held, c), started+1
		}
		if len(held) == 0 {
			t.Fatalf("%d of %d started", started, len(asked))
		}
		f.exec(t, finishClaim, held[0].ID)
		held = held[1:]
	}
}

// One claim in sixteen goes to the run that has waited longest, however many runs rank above it, in however many lanes.
func TestFair_LowRunsHaveTheirTurn(t *testing.T) {
	t.Parallel()
	const lanes, low = 75, 20
	f := newSessionBundle(t)
	for i := range lanes {
		f.put(t, fmt.Sprintf("name: d%d\npriority: %d\nsteps: [{id: a, run: \"true\"}]\n", i, i-90))
	}
	f.put(t, "name: flood\npriority: 80\nsteps: [{id: a, run: \"true\"}]\n")
	for i := range low {
		f.ask(t, fmt.Sprint("d", i*3), 1)
	}
	f.ask(t, "flood", 16*low+100)
	s := f.register(t)
	sweep(t, s)
	served := 0
	for n := range 16 * low {
		c := poll(t, s, 1).Claims[0]
		if c.Priority < 80 {
			served++
		}
		if (n+1)%16 == 0 && served != (n+1)/16 {
			t.Fatalf("of %d claims %d are low", n+1, served)
		}
		f.exec(t, finishClaim, c.ID)
	}
}
