package integration

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// ticking is a DAG with a second step that lives long, and ends when the test lets it.
const ticking = `
name: ticking
steps:
  - {id: a, run: '. $DIR/lib; see start; see end'}
  - {id: b, depends: [a], run: '. $DIR/lib; see start; hold go; see end'}
  - {id: c, depends: [b], run: '. $DIR/lib; see start'}
`

// beginTicking makes a worker run b of n runs.
func (b *testBundle) beginTicking(t *testing.T, n int) (runs []queue.RunID) {
	t.Helper()
	b.put(t, ticking)
	for range n {
		runs = append(runs, b.enqueue(t, "ticking", nil))
	}
	for _, run := range runs {
		b.untilSeen(t, run, "tick b#1")
	}
	return runs
}

// endTicking lets the runs end, each of which was lost once.
func (b *testBundle) endTicking(t *testing.T, runs []queue.RunID) {
	t.Helper()
	b.write(t, "go", "")
	for _, run := range runs {
		if got, want := b.await(t, run), "succeeded a=succeeded b=succeeded c=succeeded"; got != want {
			t.Errorf("run %d: got %s, want %s", run, got, want)
		}
		b.once(t, run, "start a", "end a", "start b#1", "start b#2", "end b#2", "start c")
		if got, want := b.attempts(t, run, "b"), []string{"1:lost"}; !slices.Equal(got, want) {
			t.Errorf("run %d: attempts of b: %v, want %v", run, got, want)
		}
		if _, end := b.log(t, run, "b", 1); end != "lost" {
			t.Errorf("run %d: the log of the lost attempt ends with %q", run, end)
		}
	}
}

// Script: lost_retry.txt; the driver process is never woken again.
func TestFreeze_TasksOfAFrozenDriverProcessDieBeforeOthersStart(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string][]string{
		"listening": short,
		// The first renewal after the one at the start comes late: the deadline that the guard got then must last until
		// here.
		"polling only": {"lease_ttl=6s", "poll_only=true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			freeze(t, settings)
		})
	}
}

func freeze(t *testing.T, settings []string) {
	t.Helper()
	b := setup(t)
	w := b.worker(t, "w1", settings...)
	runs := b.beginTicking(t, 4)
	id, pid := b.driver(t, "w1")
	b.worker(t, "w2", settings...)
	b.driver(t, "w2")

	frozen := time.Now()
	signal(t, syscall.SIGSTOP, pid)
	until(t, "its tasks are dead", func() bool { return len(carriers(id)) == 0 })
	figures(t, fmt.Sprintf("SIGSTOP of the driver process until its tasks are dead, %v", settings), []time.Duration{time.Since(frozen)})
	for _, run := range runs {
		b.untilSeen(t, run, "start b#2")
	}
	b.checkEpochs(t)
	b.endTicking(t, runs)
	b.checkEpochs(t)
	b.driver(t, "w1", id) // its guard has started another driver process
	w.leave(t)
}

// A whole host is frozen: guard, driver process and tasks. No process there can be killed in time, so when they wake only
// the database fences them, and they stop soon. Script: lost_retry.txt; stale events are in stale_events.txt.
func TestFreeze_AWorkerWokenAfterItsRunsWentOnWritesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	w := b.worker(t, "w1", short...)
	runs := b.beginTicking(t, 3)
	id, pid := b.driver(t, "w1")
	b.worker(t, "w2", short...)
	b.driver(t, "w2")

	wake := freezeHost(t, id, w.Process.Pid, pid)
	b.endTicking(t, runs)
	woken := time.Now()
	wake()
	until(t, "its tasks are dead", func() bool { return len(carriers(id)) == 0 })
	figures(t, "SIGCONT of a host whose runs went on elsewhere until its tasks are dead", []time.Duration{time.Since(woken)})
	next, _ := b.driver(t, "w1", id)
	for _, run := range runs {
		if got, want := b.shown(t, run), "succeeded a=succeeded b=succeeded c=succeeded"; got != want {
			t.Errorf("run %d: got %s, want %s", run, got, want)
		}
	}
	if next == id {
		t.Errorf("it goes on as %s, which was lost", id)
	}
}

// freezeHost freezes a worker and all its tasks, until wake is called.
func freezeHost(t *testing.T, id string, pids ...int) (wake func()) {
	t.Helper()
	signal(t, syscall.SIGSTOP, pids...)
	stopped := map[int]bool{}
	until(t, "the tasks are stopped", func() bool {
		fresh := 0
		for _, pid := range carriers(id) {
			if !stopped[pid] && syscall.Kill(pid, syscall.SIGSTOP) == nil {
				stopped[pid] = true
				fresh++
			}
		}
		return fresh == 0
	})
	wake = sync.OnceFunc(func() {
		for _, pid := range append(pids, carriers(id)...) {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	})
	t.Cleanup(wake)
	return wake
}
