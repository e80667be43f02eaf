package integration

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

func (b *testBundle) cancel(t *testing.T, run queue.RunID, now bool) queue.Control {
	t.Helper()
	c, err := b.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbCancel, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// deaf is a DAG with a step that starts the corpus and ignores TERM, and with a handler that shows that it ran.
const deaf = `
name: deaf
handler_on: {abort: {run: '. $DIR/lib; see handled'}}
steps:
  - id: a
    kill: {signal: SIGTERM, grace: %s}
    run: |
      . $DIR/lib
      trap 'see term' TERM
      see start
      corpus
      see ready
      hold never
`

// Script: cancel_run.txt, cancel_now.txt, handlers.txt.
func TestCancel_EndsProcessesWithinTheirGrace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		grace   time.Duration
		now     bool
		asked   int // how often the step gets SIGTERM
		handled int
		want    string
	}{
		{"cancel", 500 * time.Millisecond, false, 1, 1, "canceled a=canceled @abort=succeeded"},
		{"now", time.Minute, true, 0, 0, "canceled a=canceled @abort=canceled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.put(t, fmt.Sprintf(deaf, test.grace))
			b.worker(t, "w1")
			var took []time.Duration
			for range 5 {
				run := b.enqueue(t, "deaf", nil)
				b.untilSeen(t, run, "ready a#1")
				id, _ := b.driver(t, "w1")
				until(t, "the corpus is there", func() bool { return len(carriers(id)) >= corpusSize })
				asked := time.Now()
				b.cancel(t, run, test.now)
				until(t, "nothing of it is left", func() bool { return len(carriers(id)) == 0 })
				took = append(took, time.Since(asked))
				if got := b.await(t, run); got != test.want {
					t.Errorf("got %s, want %s", got, test.want)
				}
				if n := b.seen(t, run, "term a#1"); n != test.asked {
					t.Errorf("the step heard SIGTERM %d times, want %d", n, test.asked)
				}
				if n := b.seen(t, run, "handled @abort"); n != test.handled {
					t.Errorf("the handler ran %d times, want %d", n, test.handled)
				}
			}
			median := figures(t, fmt.Sprintf("%s with grace %v until nothing of the run is left", test.name, test.grace), took)
			if most := test.grace + time.Second; median > most {
				t.Errorf("%v, want %v at the most", median, most)
			}
		})
	}
}

// At any moment: an accepted cancel ends the run as canceled, and the answer to a late cancel names the state that won.
// Script: cancel_wins_over_success.txt, cancel_wins_over_uncommitted_end.txt, cancel_during_exit.txt.
func TestCancel_WinsOrLosesAtAnyMoment(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, `
name: short
steps:
  - {id: a, run: '. $DIR/lib; see start; see end'}
  - {id: b, depends: [a], run: '. $DIR/lib; see start; see end'}
`)
	b.worker(t, "w1")
	b.driver(t, "w1")
	const seeds = 50
	won, lost := 0, 0
	for seed := range uint64(seeds) {
		moment := time.Duration(rand.New(rand.NewPCG(seed, 0)).Int64N(int64(60 * time.Millisecond)))
		run := b.enqueue(t, "short", nil)
		b.pass(t, moment)
		control := b.cancel(t, run, seed%2 == 1)
		b.await(t, run)
		control, err := b.AwaitControl(t.Context(), control)
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Get(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		switch control.Outcome {
		case dagrun.Applied, dagrun.Accepted:
			won++
			if r.State != "canceled" {
				t.Errorf("seed %d: the cancel was %v after %v, and the run %s", seed, control.Outcome, moment, r.State)
			}
		case dagrun.Refused:
			lost++
			if r.State != "succeeded" || control.State != r.State {
				t.Errorf("seed %d: the cancel was refused after %v, state %q, and the run %s", seed, moment, control.State, r.State)
			}
			b.once(t, run, "end a", "end b")
		default:
			t.Errorf("seed %d: after %v the answer is %v", seed, moment, control.Outcome)
		}
	}
	t.Logf("measured: of %d cancels %d won and %d lost", seeds, won, lost)
	if won == 0 || lost == 0 {
		t.Errorf("%d won and %d lost: the moments show nothing", won, lost)
	}
}
