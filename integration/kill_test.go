package integration

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

const defaultTTL = 30 * time.Second

// corpusSize is how many processes of the corpus, see library, are there to stay.
const corpusSize = 7

// threeSteps is a graph whose second step starts the corpus and is there for a while: in its first attempt until it is
// killed. Its second one fails, so that the one retry it has is needed after the loss.
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

func (b *bench) putThree(t *testing.T) {
	t.Helper()
	b.put(t, threeSteps)
}

// checkThree looks at a run of threeSteps whose driver was lost while the second step ran.
func (b *bench) checkThree(t *testing.T, id queue.RunID) {
	t.Helper()
	if got, want := b.await(t, id), "succeeded a=succeeded b=succeeded c=succeeded"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	b.once(t, id, "start a", "end a", "start b#1", "start b#2", "start b#3", "start c")
	if got, want := b.attempts(t, id, "b"), []string{"1:lost", "2:exit"}; !slices.Equal(got, want) {
		t.Errorf("attempts of b: %v, want %v", got, want)
	}
	text, end := b.log(t, id, "b", 1)
	if end != "lost" || !strings.HasPrefix("before the loss\n", text) {
		t.Errorf("log of the lost attempt: %q, ends with %q", text, end)
	}
	b.checkEpochs(t)
}

// Script: dagrun/dagruntest/script/testdata/lost_retry.txt, lost_finished_not_again.txt.
func TestKill_DriverProcessIsReplacedAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.putThree(t)
	const trials = 20
	var gone, goneOn []time.Duration
	for i := range trials {
		name := fmt.Sprintf("w%d", i)
		w := b.worker(t, name)
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
		w.stop(t)
	}
	figures(t, "kill -9 of the driver process until nothing of it is left", gone)
	if median := figures(t, "until its run goes on", goneOn); median > defaultTTL/10 {
		t.Errorf("a killed driver process is replaced after %v, its lease is %v", median, defaultTTL)
	}
}
