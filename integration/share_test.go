package integration

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// How work is shared: `make share` measures it and judges the figures. All other runs of these tests only show that work
// is shared.
var shareTrials = flag.Int("share.trials", 1, "how often each way of sharing work is tried; figures are judged where it is more than once")

// judgesFigures reports whether times are judged. On a machine that others use too, they prove nothing.
func judgesFigures() bool { return *shareTrials > 1 }

// staying is a DAG of one step that ends once the test lets it.
const staying = `
name: held
queue: four
steps:
  - {id: a, run: '. $DIR/lib; hold go'}
`

// tally returns the only value of a statement about all runs. It keeps its connection, since tests use it again and
// again.
func tally[T any](t *testing.T, b *testBundle, name string, args ...any) T {
	t.Helper()
	if b.conn == nil {
		b.conn = b.db.Conn(t)
	}
	value, err := answerOn[T](t.Context(), b.conn, chaosStatement(name), args...)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// underWay waits until n tasks run at the same time.
func (b *testBundle) underWay(t *testing.T, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d tasks under way", n), func() bool {
		return tally[int](t, b, "share_running") == n
	})
}

// longestWait returns the longest time that a run waited for its first task to start, in the trial that began after run.
func (b *testBundle) longestWait(t *testing.T, after queue.RunID) time.Duration {
	t.Helper()
	seconds := tally[float64](t, b, "share_longest", after)
	return time.Duration(seconds * float64(time.Second))
}

func (b *testBundle) lastRun(t *testing.T) queue.RunID {
	t.Helper()
	return tally[queue.RunID](t, b, "share_last")
}

// end lets all held tasks end, and waits until they have.
func (b *testBundle) end(t *testing.T) {
	t.Helper()
	b.write(t, "go", "")
	until(t, "nothing left to do", func() bool {
		return tally[int](t, b, "open") == 0
	})
	if err := os.Remove(filepath.Join(b.dir, "go")); err != nil {
		t.Fatal(err)
	}
}

// driver set starts a worker for each number of slots, and waits until all are hungry.
func (b *testBundle) fleet(t *testing.T, slots ...int) {
	t.Helper()
	for i, n := range slots {
		b.worker(t, fmt.Sprint("w", i), fmt.Sprint("slots=", n), "$DIR="+b.dir)
	}
	b.hungry(t, len(slots))
}

func (b *testBundle) hungry(t *testing.T, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d hungry workers", n), func() bool {
		return tally[int](t, b, "share_hungry") == n
	})
}

// As many runs as there are slots all start at once, however they are asked for, and whatever the sizes of the workers.
func TestShare_RunsGoWhereSlotsAreFree(t *testing.T) {
	t.Parallel()
	oneByOne := func(t *testing.T, b *testBundle, n int) {
		for range n {
			b.enqueue(t, "held", nil)
		}
	}
	for name, try := range map[string]struct {
		slots []int
		ask   func(t *testing.T, b *testBundle, n int)
	}{
		"asked one by one": {[]int{4, 4, 4}, oneByOne},
		"two and six":      {[]int{2, 6}, oneByOne},
		"asked at once": {[]int{4, 4, 4}, func(t *testing.T, b *testBundle, n int) {
			tally[int](t, b, "share_many", "held", n)
		}},
		"behind a limit that is lifted": {[]int{4, 4, 4}, func(t *testing.T, b *testBundle, n int) {
			limit := func(n int) { tally[string](t, b, "share_limit", "four", n) }
			limit(1)
			oneByOne(t, b, n)
			b.underWay(t, 1)
			limit(0)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.put(t, staying)
			b.fleet(t, try.slots...)
			total := 0
			for _, n := range try.slots {
				total += n
			}
			for trial := range *shareTrials {
				last := b.lastRun(t)
				try.ask(t, b, total)
				b.underWay(t, total)
				t.Logf("measured trial %d: the last of %d runs started after %v", trial, total, b.longestWait(t, last))
				b.end(t)
				b.hungry(t, len(try.slots))
			}
		})
	}
}

// A worker holds no more runs than it can start, so a worker that joins finds the waiting ones.
func TestShare_AWorkerThatJoinsFindsWhatWaits(t *testing.T) {
	t.Parallel()
	for trial := range *shareTrials {
		t.Run(fmt.Sprint(trial), func(t *testing.T) { // its workers end with it
			b := setup(t)
			b.put(t, staying)
			b.worker(t, "small", "slots=2", "$DIR="+b.dir)
			b.hungry(t, 1)
			for range 8 {
				b.enqueue(t, "held", nil)
			}
			b.underWay(t, 2)
			b.worker(t, "large", "slots=6", "$DIR="+b.dir)
			b.underWay(t, 8)
			joined := tally[float64](t, b, "share_joined", 0)
			t.Logf("measured trial %d: all were under way %.3f s after it joined", trial, joined)
			b.end(t)
		})
	}
}

// A single worker begins all runs with a short first step and a long second one. A worker that joins gets the runs that
// wait for slots on the first.
func TestShare_BegunRunsThatWaitGoToAWorkerThatJoins(t *testing.T) {
	t.Parallel()
	for trial := range *shareTrials {
		t.Run(fmt.Sprint(trial), func(t *testing.T) { // its workers end with it
			b := setup(t)
			b.put(t, `
name: burst
steps:
  - {id: a, action: noop}
  - {id: b, run: '. $DIR/lib; hold go', depends: [a]}
`)
			b.worker(t, "first", "slots=4", "$DIR="+b.dir)
			b.hungry(t, 1)
			tally[int](t, b, "share_many", "burst", 60)
			b.underWay(t, 4)
			b.worker(t, "second", "slots=4", "$DIR="+b.dir)
			b.underWay(t, 8)
			joined := tally[float64](t, b, "share_joined", 1)
			t.Logf("measured trial %d: it was busy %.3f s after it joined", trial, joined)
			b.end(t)
		})
	}
}

// A run of a high priority gets the next slot that ends, whatever waits for slots on the only worker.
func TestShare_AnUrgentRunGetsTheNextSlot(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, `
name: plow
params: [{name: items, type: json, required: true}]
steps:
  - id: each
    foreach: {items: '${params.items}', max_concurrent: 0}
    run: sleep 0.5
`)
	b.put(t, "name: urgent\npriority: 100\nsteps: [{id: a, run: 'true'}]\n")
	b.worker(t, "only", "slots=2")
	b.hungry(t, 1)
	plow := b.enqueue(t, "plow", map[string]any{"items": make([]int, 1000)})
	until(t, "items under way", func() bool {
		return tally[int](t, b, "share_items") > 0
	})
	overtaken := 0
	for trial := range *shareTrials * 3 {
		run := b.enqueue(t, "urgent", nil)
		b.untilOver(t, run)
		before := tally[int](t, b, "share_overtaken", plow, run)
		t.Logf("measured trial %d: it started after %v", trial, b.longestWait(t, run-1))
		if before >= queue.TurnEvery {
			t.Errorf("trial %d: %d other tasks started while it waited", trial, before)
		}
		if before > 0 {
			overtaken++
		}
	}
	// A slot may end in the few milliseconds after the insert in which no worker knows of the run.
	if overtaken > *shareTrials*3/20 && judgesFigures() {
		t.Errorf("in %d of %d trials other tasks started while it waited", overtaken, *shareTrials*3)
	}
	b.oarlock(t, "cancel", fmt.Sprint(plow), "--now")
	b.untilOver(t, plow)
}

// Children that a foreach asks for at once all start at once on another worker: none is left below a cursor.
func TestShare_ChildrenStartAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, "name: child\nqueue: children\nsteps: [{id: a, run: 'true'}]\n")
	b.put(t, `
name: parent
queue: parents
params: [{name: items, type: json, required: true}]
steps:
  - id: each
    foreach: {items: '${params.items}', max_concurrent: 0}
    action: dag.run
    with: {dag: child}
`)
	b.worker(t, "parents", "slots=4", "queues=parents")
	b.worker(t, "children", "slots=8", "queues=children")
	b.hungry(t, 2)
	var waits []time.Duration
	for range *shareTrials * 10 {
		b.untilOver(t, b.enqueue(t, "parent", map[string]any{"items": []int{1, 2, 3}}))
	}
	seconds := tally[[]float64](t, b, "share_children")
	for _, s := range seconds {
		waits = append(waits, time.Duration(s*float64(time.Second)))
	}
	slices.Sort(waits)
	t.Logf("measured %d children: median %v, p99 %v, max %v", len(waits), waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1])
	if late := waits[len(waits)*9/10]; late >= queue.LookInterval && judgesFigures() {
		t.Errorf("one child of ten waits %v: as long as if nobody had been told of it", late)
	}
}
