package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

const (
	shortTTL = 1500 * time.Millisecond
	prompt   = 3 * time.Second // of work that waits for no lease; long enough for any busy machine
)

// anHour are settings of a worker with a lease that outlives the test, so what happens in time did not wait for the
// lease.
var anHour = []string{"lease_ttl=1h"}

// short are settings of a worker with a short lease.
var short = []string{"lease_ttl=1500ms"}

// corpusSize is how many processes of the corpus stay alive, see library.
const corpusSize = 7

// threeSteps is a DAG with a second step that starts the corpus and stays until it is killed, in its first attempt. Its
// second attempt fails, so after the loss the step needs its only retry.
const threeSteps = `
name: three
steps:
  - {id: a, run: '. $DIR/lib; see start; see end'}
  - id: b
    depends: [a]
    retry_policy: {limit: 1, interval: 1ms}
    run: |
      . $DIR/lib
      see start
      [ $OARLOCK_ATTEMPT != 2 ] || exit 1
      [ $OARLOCK_ATTEMPT != 1 ] || { corpus; echo "before the loss"; see ready; hold never; }
      see end
  - {id: c, depends: [b], run: '. $DIR/lib; see start'}
`

// hides is a DAG with one step. Its first attempt starts a process that shows no sign of the attempt, and waits.
const hides = `
name: hides
steps:
  - id: a
    run: |
      . $DIR/lib
      [ $OARLOCK_ATTEMPT = 1 ] || exit 0
      rm -f $DIR/hidden
      env -i setsid /bin/sh -c '(/bin/sh -c "echo \$\$ >$DIR/hidden; exec /bin/sleep 120" >/dev/null 2>&1 &) ; exit 0' & wait
      until [ -s $DIR/hidden ]; do :; done
      see ready
      hold never
`

// hidden returns the process that a run of hides started.
func (b *testBundle) hidden(t *testing.T) (pid int) {
	t.Helper()
	b.untilSeen(t, b.enqueue(t, "hides", nil), "ready a#1")
	text, err := os.ReadFile(filepath.Join(b.dir, "hidden"))
	if err == nil {
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	if err == nil {
		err = syscall.Kill(pid, 0)
	}
	if err != nil {
		t.Fatalf("the process that hides: %v", err)
	}
	return pid
}

func (b *testBundle) putThree(t *testing.T) {
	t.Helper()
	b.put(t, threeSteps)
}

// checkThree checks a run of threeSteps that lost its driver while the second step ran.
func (b *testBundle) checkThree(t *testing.T, id queue.RunID) {
	t.Helper()
	if got, want := b.await(t, id), "succeeded a=succeeded b=succeeded c=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.once(t, id, "start a", "end a", "start b#1", "start b#2", "start b#3", "start c")
	if got, want := b.attempts(t, id, "b"), []string{"1:lost", "2:exit"}; !slices.Equal(got, want) {
		t.Errorf("attempts of b: %v, want %v", got, want)
	}
	const wrote = "before the loss\n"
	text, end := b.log(t, id, "b", 1)
	if end != "lost" || !strings.HasPrefix(wrote, text) {
		t.Errorf("log of the lost attempt: %q, ends with %q", text, end)
	}
	b.checkEpochs(t)
}

// Script: integration/coretest/script/testdata/lost_retry.txt, lost_finished_not_again.txt.
func TestKill_DriverProcessIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putThree(t)
	var gone, goneOn []time.Duration
	for i := range times(3, 20) {
		name := fmt.Sprintf("w%d", i)
		w := b.worker(t, name, anHour...)
		run := b.enqueue(t, "three", nil)
		b.untilSeen(t, run, "ready b#1")
		id, pid := b.driver(t, name)
		until(t, "the corpus is there", func() bool { return len(carriers(id)) >= corpusSize })

		killed := time.Now()
		signal(t, syscall.SIGKILL, pid)
		until(t, "nothing of it is left", func() bool { return len(carriers(id)) == 0 })
		gone = append(gone, time.Since(killed))
		b.untilSeen(t, run, "start b#2")
		goneOn = append(goneOn, time.Since(killed))

		b.checkThree(t, run)
		w.leave(t)
	}
	figures(t, "kill -9 of the driver process until nothing of it is left", gone)
	if median := figures(t, "until its run goes on", goneOn); median > prompt {
		t.Errorf("a killed driver process is replaced after %v", median)
	}
}

// killAll kills processes at once, so that none of them sees another die.
func killAll(t *testing.T, pids ...int) {
	t.Helper()
	signal(t, syscall.SIGSTOP, pids...)
	signal(t, syscall.SIGKILL, pids...)
}

func TestKill_GuardAndDriverProcessAreSweptAtTheNextStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putThree(t)
	w := b.worker(t, "w1", anHour...)
	run := b.enqueue(t, "three", nil)
	b.untilSeen(t, run, "ready b#1")
	id, pid := b.driver(t, "w1")
	until(t, "the corpus is there", func() bool { return len(carriers(id)) >= corpusSize })

	killAll(t, w.Process.Pid, pid)
	<-w.ended
	if n := len(carriers(id)); n < corpusSize {
		t.Errorf("%d processes are left, the test is of no use", n)
	}
	again := time.Now()
	b.worker(t, "w1", anHour...)
	b.untilSeen(t, run, "start b#2")
	goneOn := time.Since(again)
	if left := carriers(id); len(left) > 0 {
		t.Errorf("the run goes on while %v of its last drive live", left)
	}
	b.checkThree(t, run)
	if figures(t, "guard and driver process killed: from the next start until the run goes on", []time.Duration{goneOn}) > prompt {
		t.Errorf("after %v: the ids of the dead were not replaced at once", goneOn)
	}
}

// The worker is not started again at first. Its tasks live on as orphans, as the documentation says, until it is.
func TestKill_GuardAndDriverProcessAreFollowedByAnotherWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, `
name: orphan
steps:
  - {id: a, run: '. $DIR/lib; see start; see end'}
  - {id: b, depends: [a], run: '. $DIR/lib; see start; [ $OARLOCK_ATTEMPT != 1 ] || { corpus; sleep 120; }'}
`)
	w := b.worker(t, "w1", short...)
	run := b.enqueue(t, "orphan", nil)
	b.untilSeen(t, run, "start b#1")
	id, pid := b.driver(t, "w1")
	until(t, "the corpus is there", func() bool { return len(carriers(id)) >= corpusSize })
	b.worker(t, "w2", short...)
	b.driver(t, "w2")

	killed := time.Now()
	killAll(t, w.Process.Pid, pid)
	b.untilSeen(t, run, "start b#2")
	figures(t, "guard and driver process killed: until another worker goes on, TTL "+shortTTL.String(), []time.Duration{time.Since(killed)})
	if got, want := b.await(t, run), "succeeded a=succeeded b=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.once(t, run, "start a", "start b#1", "start b#2")
	<-w.ended

	b.worker(t, "w1", short...)
	b.driver(t, "w1")
	if left := carriers(id); len(left) > 0 {
		t.Errorf("%v outlive the next start of their worker", left)
	}
}

func TestKill_GuardAloneEndsItsWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putThree(t)
	b.put(t, hides)
	var gone, goneOn []time.Duration
	for i := range times(2, 5) {
		name := fmt.Sprintf("w%d", i)
		w := b.worker(t, name, anHour...)
		run := b.enqueue(t, "three", nil)
		b.untilSeen(t, run, "ready b#1")
		id, pid := b.driver(t, name)
		until(t, "the corpus is there", func() bool { return len(carriers(id)) >= corpusSize })
		hidden := b.hidden(t)
		other := b.worker(t, name+"-other", anHour...)
		b.driver(t, name+"-other")

		killed := time.Now()
		signal(t, syscall.SIGKILL, w.Process.Pid)
		until(t, "its tasks are dead", func() bool { return len(carriers(id)) == 0 })
		gone = append(gone, time.Since(killed))
		b.untilSeen(t, run, "start b#2")
		goneOn = append(goneOn, time.Since(killed))
		b.checkHandedOn(t, run)
		until(t, "the driver process ends", func() bool { return syscall.Kill(pid, 0) != nil })
		if syscall.Kill(hidden, 0) == nil {
			t.Error("a process that hides outlives its worker")
			_ = syscall.Kill(hidden, syscall.SIGKILL)
		}
		if said := w.said.String(); !strings.Contains(said, "guard: it is gone") {
			t.Errorf("it does not say why it ended")
		}
		if live := b.live(t); live != name+"-other" {
			t.Errorf("live: %s", live)
		}
		other.leave(t)
	}
	figures(t, "kill -9 of the guard alone until the tasks are dead", gone)
	if median := figures(t, "until another worker goes on", goneOn); median > prompt {
		t.Errorf("a worker whose guard was killed hands on its runs after %v", median)
	}
}

// checkHandedOn is checkThree for a driver that lived long enough to close the log of its attempt.
func (b *testBundle) checkHandedOn(t *testing.T, run queue.RunID) {
	t.Helper()
	if got, want := b.await(t, run), "succeeded a=succeeded b=succeeded c=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.once(t, run, "start a", "end a", "start b#1", "start b#2", "start b#3", "start c")
	if got, want := b.attempts(t, run, "b"), []string{"1:lost", "2:exit"}; !slices.Equal(got, want) {
		t.Errorf("attempts of b: %v, want %v", got, want)
	}
	if text, end := b.log(t, run, "b", 1); end != "lost" || text != "before the loss\n" {
		t.Errorf("log of the lost attempt: %q, ends with %q", text, end)
	}
	b.checkEpochs(t)
}
