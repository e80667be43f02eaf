package integration

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// handsOn is a DAG with a first step that lives until the test lets it end, and a second step that ignores TERM.
const handsOn = `
name: handson
steps:
  - {id: a, run: '. $DIR/lib; see start; hold go; see end'}
  - id: b
    depends: [a]
    kill: {signal: SIGTERM, grace: 300ms}
    run: |
      . $DIR/lib
      trap 'see term' TERM
      see start
      [ $OARLOCK_ATTEMPT != 1 ] || hold never
  - {id: c, depends: [b], run: '. $DIR/lib; see start'}
`

// quits are the ways to stop a worker.
var quits = map[string]func(t *testing.T, b *testBundle, w *process){
	"SIGTERM": func(t *testing.T, _ *testBundle, w *process) { signal(t, syscall.SIGTERM, w.Process.Pid) },
	"SIGINT":  func(t *testing.T, _ *testBundle, w *process) { signal(t, syscall.SIGINT, w.Process.Pid) },
	"SQL": func(t *testing.T, b *testBundle, _ *process) {
		if _, err := b.DrainWorker(t.Context(), "w1"); err != nil { // oarlock.drain_worker('w1')
			t.Fatal(err)
		}
	},
}

// Script: integration/coretest/script/testdata/drain.txt.
func TestStop_HandsOnOnceRunningTasksEnded(t *testing.T) {
	t.Parallel()
	for name, quit := range quits {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.put(t, handsOn)
			w := b.worker(t, "w1", anHour...)
			run := b.enqueue(t, "handson", nil)
			b.untilSeen(t, run, "start a")
			other := b.worker(t, "w2", "drain_timeout=1ms", "lease_ttl=1h")
			b.driver(t, "w2")

			quit(t, b, w)
			until(t, "it drains", func() bool { return b.live(t) == "w2" })
			b.write(t, "go", "")
			ended := time.Now()
			b.untilSeen(t, run, "start b#1")
			goneOn := time.Since(ended)
			if code := w.exit(t); code != 0 {
				t.Errorf("it ended with %d", code)
			}
			if r, err := b.Get(t.Context(), run); err != nil || r.Worker != "w2" || r.Epoch != 2 {
				t.Errorf("the run is on %s in epoch %d: %v", r.Worker, r.Epoch, err)
			}
			b.once(t, run, "start a", "end a", "start b#1")
			if figures(t, name+": from the end of the last task until another worker goes on", []time.Duration{goneOn}) > prompt {
				t.Errorf("handed on after %v", goneOn)
			}
			b.checkEpochs(t)
			other.leave(t)
		})
	}
}

// beginHandsOn makes w1 run b of a run, with a second worker beside it.
func (b *testBundle) beginHandsOn(t *testing.T, settings ...string) (*process, queue.RunID) {
	t.Helper()
	b.put(t, handsOn)
	w := b.worker(t, "w1", settings...)
	b.write(t, "go", "")
	run := b.enqueue(t, "handson", nil)
	b.untilSeen(t, run, "tick b#1")
	b.worker(t, "w2")
	b.driver(t, "w2")
	return w, run
}

// endHandsOn expects the run to go on after b was first asked and then forced to end.
func (b *testBundle) endHandsOn(t *testing.T, w *process, run queue.RunID) {
	t.Helper()
	if code := w.exit(t); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	if got, want := b.await(t, run), "succeeded a=succeeded b=succeeded c=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.once(t, run, "start a", "end a", "start b#1", "start b#2", "start c")
	if got, want := b.attempts(t, run, "b"), []string{"1:lost"}; !slices.Equal(got, want) {
		t.Errorf("attempts of b: %v, want %v", got, want)
	}
	attempts, err := b.Attempts(t.Context(), run)
	if err != nil || len(attempts) != 1 || attempts[0].Reason != "lost: drained" {
		t.Errorf("attempts: %+v, %v; want one with reason drained", attempts, err)
	}
	if _, end := b.log(t, run, "b", 1); end != "lost" {
		t.Errorf("the log of the lost attempt ends with %q", end)
	}
	b.checkEpochs(t)
}

func TestStop_EndsTasksThatTakeTooLong(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w, run := b.beginHandsOn(t, "drain_timeout=500ms")
	signal(t, syscall.SIGTERM, w.Process.Pid)
	b.endHandsOn(t, w, run)
	b.once(t, run, "term b#1")
}

// The grace of a step may be longer than every limit of the worker.
func TestStop_LeavesTasksTheirGrace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, `
name: slow
steps:
  - id: a
    kill: {signal: SIGTERM, grace: 1m}
    run: |
      . $DIR/lib
      trap 'see term; sleep 11; see saved; exit 1' TERM
      see start
      [ $OARLOCK_ATTEMPT != 1 ] || hold never
`)
	w := b.worker(t, "w1", "drain_timeout=1ms")
	run := b.enqueue(t, "slow", nil)
	b.untilSeen(t, run, "tick a#1")
	signal(t, syscall.SIGTERM, w.Process.Pid)
	if code := w.exit(t); code != 0 {
		t.Errorf("it ended with %d", code)
	}
	b.once(t, run, "start a", "term a#1", "saved a#1")
}

func TestStop_ASecondSignalDoesNotWaitForTasks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w, run := b.beginHandsOn(t, "drain_timeout=10m")
	id, _ := b.driver(t, "w1")
	signal(t, syscall.SIGTERM, w.Process.Pid)
	until(t, "it drains", func() bool { return b.live(t) == "w2" })
	if len(carriers(id)) == 0 {
		t.Error("the first signal ended a task")
	}
	signal(t, syscall.SIGTERM, w.Process.Pid)
	b.endHandsOn(t, w, run)
}
