package integration

import (
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/chaos/check"
	"github.com/oarlock-dev/oarlock/queue"
)

// lossy returns an arena with a standby that lacked all commits between the tenth and the twentieth second.
func lossy(b *testBundle) *chaosBundle {
	a := &chaosBundle{testBundle: b, asked: newAnswers(), lost: loss{over: make(chan struct{})}}
	a.lost.began, a.lost.ended = a.asked.start.Add(10*time.Second), a.asked.start.Add(20*time.Second)
	close(a.lost.over)
	return a
}

func at(second int) time.Duration { return time.Duration(second) * time.Second }

func ask(from, to int, run int64) check.Call {
	return check.Call{Client: int(run), Object: "key", Verb: "ask", Answer: check.Done, Run: run, From: at(from), To: at(to)}
}

func look(from, to int, state string) check.Call {
	return check.Call{Client: 20, Object: "run 7", Verb: "look", Answer: check.Done, State: state, From: at(from), To: at(to)}
}

// Only commits that were acknowledged while the standby received nothing may be gone.
func TestLoss_ExcusesNothingBeforeOrAfterIt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		calls    []check.Call
		accepted int // when run 7 was accepted
		broken   bool
	}{
		"a run is gone that was accepted meanwhile":      {calls: []check.Call{ask(11, 12, 1), ask(21, 22, 2)}},
		"a run is gone whose acceptance began meanwhile": {calls: []check.Call{ask(9, 11, 1), ask(21, 22, 2)}},
		"a run is gone that was accepted before":         {calls: []check.Call{ask(8, 9, 1), ask(21, 22, 2)}, broken: true},
		"a run is gone that was accepted afterwards":     {calls: []check.Call{ask(21, 22, 1), ask(23, 24, 2)}, broken: true},
		"an end is gone that was seen meanwhile":         {calls: []check.Call{look(12, 13, "succeeded"), look(21, 22, "running")}},
		"an end is gone that was seen before":            {calls: []check.Call{look(8, 9, "succeeded"), look(21, 22, "running")}, broken: true},
		"the number of a run that is gone":               {calls: []check.Call{look(21, 22, "succeeded"), look(23, 24, "running")}, accepted: 12},
		"no other number":                                {calls: []check.Call{look(21, 22, "succeeded"), look(23, 24, "running")}, accepted: 8, broken: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := lossy(nil)
			if test.accepted != 0 {
				a.asked.accepted[7] = a.asked.start.Add(at(test.accepted))
			}
			if broken := check.Calls(a.certain(test.calls), patience); len(broken) > 0 != test.broken {
				t.Errorf("broken: %v, want %t", broken, test.broken)
			}
		})
	}
}

func TestLoss_OfAControlIsAFindingUnlessItWasAcknowledgedMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, relay)
	run := b.enqueue(t, "relay", map[string]any{"n": 1})
	kept, err := b.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbPause})
	if err != nil {
		t.Fatal(err)
	}
	gone := kept
	gone.ID++
	for second, want := range map[int]string{9: "A4", 15: "", 21: "A4"} {
		a := lossy(b)
		a.ctx = t.Context()
		when := a.asked.start.Add(at(second))
		if !a.survived(&kept, when, when) {
			t.Errorf("acknowledged at %d s: what is there is gone", second)
		}
		if a.survived(&gone, when, when) {
			t.Errorf("acknowledged at %d s: what is gone is there", second)
		}
		if got := strings.Join(a.broken, " "); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("acknowledged at %d s: found %q, want %q", second, got, want)
		}
	}
}
