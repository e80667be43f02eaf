package integration

import (
	"bytes"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/queue"
)

// Each test here loses a driver at another moment. Two moments are elsewhere: while a task runs in kill_test.go, and
// frozen in freeze_test.go.

const chain = `
name: chain
steps:
  - {id: a, run: '. $DIR/lib; see start; hold go; see end'}
  - {id: b, depends: [a], run: '. $DIR/lib; see start; see end'}
`

// flush matches the message that begins to write records on the server.
func flush(m netfault.Message) bool {
	return m.From == netfault.Client && m.Type == 'B' && bytes.Contains(m.Body, []byte("oarlock_flush"))
}

// written matches the answer to a flush, which has an array of booleans. The records are durable, and the driver does not
// know it yet.
func written() netfault.Match {
	var sent atomic.Bool
	array := []byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 16}
	return func(m netfault.Message) bool {
		if flush(m) {
			sent.Store(true)
		}
		return sent.Load() && m.From == netfault.Server && m.Type == 'D' && bytes.Contains(m.Body, array)
	}
}

// throughProxy returns a bench with workers that reach the database through a proxy.
func throughProxy(t *testing.T) (*testBundle, *netfault.Proxy) {
	t.Helper()
	b := setup(t)
	b.put(t, chain)
	return b, b.proxied(t)
}

func (b *testBundle) proxied(t *testing.T) *netfault.Proxy {
	t.Helper()
	proxy, url := netfault.Through(t, b.url)
	b.url = url
	return proxy
}

// killDriver kills the driver process of w1 when a fault has begun. Once the run went on, it releases the message that
// the fault held: a dead process must not write.
func (b *testBundle) killDriver(t *testing.T, run queue.RunID, fault *netfault.Injected, goesOn string) {
	t.Helper()
	fault.MustFire(t)
	_, pid := b.driver(t, "w1")
	signal(t, syscall.SIGKILL, pid)
	b.untilSeen(t, run, goesOn)
	fault.Release()
}

// finished expects a chain to have succeeded, with these lost attempts of its steps, and with these lines in the witness
// once.
func (b *testBundle) finished(t *testing.T, run queue.RunID, lostA, lostB []string, once ...string) {
	t.Helper()
	b.write(t, "go", "")
	if got, want := b.await(t, run), "succeeded a=succeeded b=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for step, want := range map[string][]string{"a": lostA, "b": lostB} {
		if got := b.attempts(t, run, step); !slices.Equal(got, want) {
			t.Errorf("attempts of %s: %v, want %v", step, got, want)
		}
	}
	b.once(t, run, once...)
	b.checkEpochs(t)
}

var lost = []string{"1:lost"}

// Script: integration/coretest/script/testdata/crash_before_commit.txt.
func TestCrash_BeforeTheCommitOfAStart(t *testing.T) {
	t.Parallel()
	b, proxy := throughProxy(t)
	held := proxy.Inject(netfault.Fault{When: flush, Do: netfault.Hold})
	b.worker(t, "w1")
	run := b.enqueue(t, "chain", nil)
	b.killDriver(t, run, held, "start a#1")
	b.finished(t, run, nil, nil, "start a", "end a", "start b")
}

// Script: lost_retry.txt.
func TestCrash_AfterTheCommitBeforeTheStart(t *testing.T) {
	t.Parallel()
	b, proxy := throughProxy(t)
	held := proxy.Inject(netfault.Fault{When: written(), Do: netfault.Hold})
	b.worker(t, "w1")
	run := b.enqueue(t, "chain", nil)
	b.killDriver(t, run, held, "start a#2")
	b.finished(t, run, lost, nil, "start a", "end a", "start b")
}

// The end was seen and is not recorded, so no other worker can know of it: the task runs again. Script:
// crash_before_commit.txt.
func TestCrash_AfterTheEndBeforeItsCommit(t *testing.T) {
	t.Parallel()
	b, proxy := throughProxy(t)
	b.worker(t, "w1")
	run := b.enqueue(t, "chain", nil)
	b.untilSeen(t, run, "tick a#1")
	held := proxy.Inject(netfault.Fault{When: flush, Do: netfault.Hold})
	b.write(t, "go", "")
	b.killDriver(t, run, held, "start a#2")
	b.finished(t, run, lost, nil, "start a#1", "end a#1", "start a#2", "end a#2", "start b")
}

// Script: lost_finished_not_again.txt.
func TestCrash_AfterTheCommitOfTheEndBeforeChildrenStart(t *testing.T) {
	t.Parallel()
	b, proxy := throughProxy(t)
	b.worker(t, "w1")
	run := b.enqueue(t, "chain", nil)
	b.untilSeen(t, run, "tick a#1")
	held := proxy.Inject(netfault.Fault{When: written(), Do: netfault.Hold})
	b.write(t, "go", "")
	b.killDriver(t, run, held, "start b#2")
	b.finished(t, run, nil, lost, "start a", "end a", "start b")
}

const liveRetry = `
name: live
steps:
  - {id: slow, run: '. $DIR/lib; see start; hold go; see end'}
  - {id: a, run: '. $DIR/lib; see start; test $OARLOCK_ATTEMPT -gt 1'}
  - {id: b, depends: [a], run: '. $DIR/lib; see start; see end'}
`

// A retry of a step was accepted while the run is under way, and its reset is durable. Script: retry_live_crash.txt.
func TestCrash_AfterARetryUnderWayBeforeItsStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, liveRetry)
	proxy := b.proxied(t)
	b.worker(t, "w1")
	run := b.enqueue(t, "live", nil)
	b.untilSeen(t, run, "tick slow#1")
	until(t, "b is upstream_failed", func() bool {
		tasks, err := b.Tasks(t.Context(), run)
		return err == nil && slices.ContainsFunc(tasks, func(task queue.Task) bool { return task.State == "upstream_failed" })
	})
	held := proxy.Inject(netfault.Fault{When: written(), Do: netfault.Hold})
	if c, err := b.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbRetry, Mode: dagrun.RetryStep, Step: "a"}); err != nil || c.Outcome != "" {
		t.Fatalf("retry: %+v, %v", c, err)
	}
	b.killDriver(t, run, held, "start a#2")
	b.write(t, "go", "")
	if got, want := b.await(t, run), "succeeded slow=succeeded a=succeeded b=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := b.attempts(t, run, "a"), []string{"1:exit"}; !slices.Equal(got, want) {
		t.Errorf("attempts of a: %v, want %v", got, want)
	}
	all, err := b.Controls(t.Context(), run)
	if err != nil || len(all) != 1 || all[0].Outcome != dagrun.Applied {
		t.Errorf("controls %+v, %v", all, err)
	}
	b.once(t, run, "start a#1", "start a#2", "start b")
	b.checkEpochs(t)
}

// A live driver does not know the outcome of a commit. It finds out, and nothing is done twice. The core does not notice.
func TestCrash_OfAConnectionInTheMiddleOfACommit(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func() netfault.Fault{
		"before it reaches the server": func() netfault.Fault { return netfault.Fault{When: flush, Do: netfault.Cut} },
		"half of it sent":              func() netfault.Fault { return netfault.Fault{When: flush, Do: netfault.CutHalf} },
		"its reply lost":               func() netfault.Fault { return netfault.Fault{When: written(), Do: netfault.Cut} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, proxy := throughProxy(t)
			first := proxy.Inject(fault())
			b.worker(t, "w1")
			run := b.enqueue(t, "chain", nil)
			first.MustFire(t)
			b.untilSeen(t, run, "tick a#1")
			second := proxy.Inject(fault())
			b.write(t, "go", "")
			second.MustFire(t)
			b.finished(t, run, nil, nil, "start a", "end a", "start b", "end b")
			if r, err := b.Get(t.Context(), run); err != nil || r.Epoch != 1 {
				t.Errorf("driven in epoch %d: %v", r.Epoch, err)
			}
		})
	}
}

// The server freezes with a commit under way, and wakes long after the worker has sent the commit again, or wanted to.
func TestCrash_OfNobodyWhenTheServerFreezesInACommit(t *testing.T) {
	t.Parallel()
	b, node := setupOn(t, nil)
	b.put(t, chain)
	proxy := b.proxied(t)
	b.worker(t, "w1")
	run := b.enqueue(t, "chain", nil)
	b.untilSeen(t, run, "tick a#1")
	held := proxy.Inject(netfault.Fault{When: flush, Do: netfault.Hold})
	b.write(t, "go", "")
	held.MustFire(t)
	frozen := backends(t, node)
	signal(t, syscall.SIGSTOP, frozen...)
	held.Release()
	b.pass(t, 4*time.Second)
	for _, pid := range frozen {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
	b.finished(t, run, nil, nil, "start a", "end a", "start b", "end b")
}
