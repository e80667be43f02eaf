package world

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

var (
	seeds = flag.Int("seeds", normally, "how many histories to play")
	seed  = flag.Uint64("seed", 0, "play this one alone, and tell it")
	first = flag.Uint64("first", 1, "the seed to begin with")
)

// Enough histories for everything interesting to happen at least this often.
const (
	enough  = 250
	atLeast = 10
	twice   = 20 // histories that are played again
)

func TestMain(m *testing.M) {
	flag.Parse()
	runtime.GOMAXPROCS(1) // so that goroutines of one moment always take turns in the same order
	os.Exit(m.Run())
}

// TestWorld_KeepsItsPromises is not parallel: ids of workers are drawn from the seed, by a source that the whole process has.
func TestWorld_KeepsItsPromises(t *testing.T) {
	if *seed != 0 {
		h := play(t, *seed)
		fmt.Println(h.tell(1 << 30))
		h.judge(t)
		return
	}
	began := time.Now()
	var sum Counts
	for s := *first; s < *first+uint64(*seeds) && !t.Failed(); s++ {
		h := play(t, s)
		h.judge(t)
		sum.add(&h.counts)
	}
	took := time.Since(began)
	t.Logf("%d histories, %d steps, %.0f histories and %.0f steps a minute: %+v", *seeds, sum.Steps(), float64(*seeds)/took.Minutes(),
		float64(sum.Steps())/took.Minutes(), sum)
	if *seeds >= enough && !t.Failed() {
		for _, name := range sum.below(atLeast) {
			t.Errorf("%s happened fewer than %d times: the histories prove nothing about it", name, atLeast)
		}
	}
}

// A machine that takes the processor away in the middle of a moment may change the order in which goroutines take turns.
// One history in four differs for that reason. If chance did not come from the seed alone, far more would differ. Only
// `make simulate` runs the test, since the tests of this package run under the race detector.
func TestWorld_SameSeedSameHistory(t *testing.T) {
	if raced {
		t.Skip("the race detector has goroutines take turns at random")
	}
	var differ []string
	again := min(twice, uint64(*seeds))
	for s := *first; s < *first+again; s++ {
		first, diff := play(t, s).trace, ""
		for range 3 { // on a busy machine, timers that are due at once fire in another order now and then
			if diff = cmp.Diff(first, play(t, s).trace); diff == "" {
				break
			}
		}
		if diff != "" {
			differ = append(differ, fmt.Sprintf("seed %d: %s", s, diff))
		}
	}
	if uint64(len(differ)) > again/2 {
		t.Errorf("%d of %d histories differ:\n%s", len(differ), again, strings.Join(differ, "\n"))
	}
}

// A history ends soon after an invariant is broken. Any of its goroutines may find the breach, so the race detector is
// part of this test.
func TestHistory_EndsOnceItIsBroken(t *testing.T) {
	h := newHistory(1)
	synctest.Test(t, func(t *testing.T) {
		h.began = time.Now()
		h.calmAt = h.began.Add(storm)
		h.store = newStore(h)
		h.setUp(t.Context()) // no worker runs, so no run ends
		h.all.Go(func() {
			time.Sleep(storm + time.Minute)
			h.breaks("a promise")
		})
		h.waitForAll(t.Context())
		if took := time.Since(h.began); took > storm+2*time.Minute {
			t.Errorf("it went on until %v, and was broken after %v", took, storm+time.Minute)
		}
		h.all.Wait()
	})
	if len(h.broken) != 1 {
		t.Errorf("broken: %q", h.broken)
	}
}

// play plays one history.
func play(t *testing.T, seed uint64) *history {
	t.Helper()
	uuid.SetRand(&stream{Rand: draw(seed, "uuid")})
	defer uuid.SetRand(nil)
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the garbage collector must not run in between either
	h := newHistory(seed)
	synctest.Test(t, func(t *testing.T) { h.play(t.Context()) })
	runtime.GC()
	return h
}

// judge fails the test for everything that went wrong.
func (h *history) judge(t *testing.T) {
	t.Helper()
	for _, broken := range h.broken {
		t.Errorf("seed %d: %s", h.seed, broken)
	}
	if len(h.broken) > 0 {
		t.Logf("replay: go test ./integration/world -run Promises -seed %d\n%s", h.seed, h.tell(traceShown))
	}
}
