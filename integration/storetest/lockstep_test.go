package storetest_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// The store in memory and the store in Postgres get the same calls and must give the same answers. A seed determines the
// sequence of calls. A sequence that shows a difference is shortened as far as possible before it is reported.
var (
	nightly       = flag.Bool("nightly", false, "play more, and try every cell")
	lockstepSeeds = flag.Int("lockstep.seeds", 24, "how many sequences to play; fifty times as many with -nightly")
	lockstepSeed  = flag.Uint64("lockstep.seed", 0, "play this one alone, and tell it")
)

const (
	lockstepLanes = 2  // databases, each of which plays one sequence at a time
	lockstepCalls = 24 // at most, in a sequence
	maxShrinks    = 200
)

func TestLockstep_BothStoresAnswerTheSame(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("wants a database")
	}
	count := *lockstepSeeds
	if *nightly {
		count *= 50
	}
	seeds := make(chan uint64, count)
	for i := range uint64(count) {
		seeds <- i + 1
	}
	if *lockstepSeed != 0 {
		seeds = make(chan uint64, 1)
		seeds <- *lockstepSeed
	}
	close(seeds)
	lanes := make([]*lockstep, min(lockstepLanes, len(seeds)))
	t.Cleanup(func() { wantAllVerbs(t, lanes, count) })
	for n := range lanes {
		t.Run(fmt.Sprintf("lane %d", n), func(t *testing.T) {
			t.Parallel()
			l := newLockstep(t)
			lanes[n] = l
			for seed := range seeds {
				l.compare(t, seed)
			}
			pgtest.CheckInvariants(t, l.db.Conn(t))
		})
	}
}

// wantAllVerbs fails if, of many sequences, a verb rarely did something: such a test proves nothing about the verb.
func wantAllVerbs(t *testing.T, lanes []*lockstep, played int) {
	t.Helper()
	const enough, times = 120, 3
	for _, v := range verbs {
		n := 0
		for _, l := range lanes {
			if l != nil {
				n += l.done[v.name]
			}
		}
		if played >= enough && *lockstepSeed == 0 && n < times {
			t.Errorf("%q did something %d times only", v.name, n)
		}
		t.Logf("%-12s %5d", v.name, n)
	}
}

// compare plays a sequence. If the answers differ, it reports the shortest sequence that shows the same difference.
func (l *lockstep) compare(t *testing.T, seed uint64) {
	t.Helper()
	calls := drawCalls(seed)
	diff := l.play(t, calls)
	if *lockstepSeed != 0 {
		t.Logf("seed %d:\n%s", seed, told(calls))
	}
	if diff == "" {
		return
	}
	calls, diff = l.shrink(t, calls, diff)
	t.Errorf("seed %d: the stores differ (-memory +postgres) at the end of:\n%s\n%s\nreplay: go test ./integration/storetest -run Lockstep -lockstep.seed %d",
		seed, told(calls), diff, seed)
}

// shrink removes calls as long as the difference stays.
func (l *lockstep) shrink(t *testing.T, calls []call, diff string) (shorter []call, why string) {
	t.Helper()
	tries := 0
	for i := len(calls) - 1; i >= 0 && tries < maxShrinks; i-- {
		tries++
		without := slices.Delete(slices.Clone(calls), i, i+1)
		if d := l.play(t, without); d != "" {
			calls, diff = without, d
			i = min(i, len(calls))
		}
	}
	return calls, diff
}

// play makes both stores answer the calls in turn, and returns how the first answers that differ do so.
func (l *lockstep) play(t *testing.T, calls []call) (diff string) {
	t.Helper()
	l.sequence++
	sides := l.sides(t)
	defer func() {
		for _, s := range sides {
			s.leave()
		}
	}()
	for _, c := range calls {
		answer := sides[0].do(c)
		if diff := cmp.Diff(answer, sides[1].do(c)); diff != "" {
			return c.String() + ":\n" + diff
		}
		if answer != nothing {
			l.done[c.Verb]++
		}
	}
	if diff := cmp.Diff(sides[0].everything(), sides[1].everything()); diff != "" {
		return "all there is:\n" + diff
	}
	return ""
}

func told(calls []call) string {
	var b strings.Builder
	for i, c := range calls {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, c)
	}
	return b.String()
}

// drawCalls returns the sequence of a seed: first a worker, then any calls. A store may choose which of several lanes it
// takes runs from first. So polls take all runs there are, unless all runs are of one DAG and priority and share a lane.
func drawCalls(seed uint64) []call {
	r := rand.New(rand.NewPCG(seed, 7))
	single := -1
	if r.IntN(3) == 0 {
		single = r.IntN(len(inOneLane))
	}
	verbs := []string{"register", "enqueue", "enqueue", "poll"}
	for len(verbs) < lockstepCalls/3 || len(verbs) < lockstepCalls && r.IntN(12) > 0 {
		verbs = append(verbs, pick(r))
	}
	var calls []call
	for i, verb := range verbs {
		c := call{Verb: verb, A: r.IntN(6), B: max(r.IntN(5)-2, 0), C: r.IntN(8), Luck: r.Uint64()}
		if i == 0 {
			c.B = 0
		}
		switch {
		case single >= 0 && c.Verb == "enqueue":
			c.A, c.B = inOneLane[single], 0
		case single >= 0 && c.Verb != "control": // other sessions know only since their last poll that a worker is hungry
			c.B = 0
		case single < 0 && c.Verb == "poll":
			c.C = pollAll
		case single < 0 && c.Verb == "limit queue":
			c.Verb = "show"
		}
		calls = append(calls, c)
	}
	return calls
}

func pick(r *rand.Rand) string {
	total := 0
	for _, v := range verbs {
		total += v.odds
	}
	n := r.IntN(total)
	for _, v := range verbs {
		if n -= v.odds; n < 0 {
			return v.name
		}
	}
	return verbs[0].name
}

// A planted difference is found, and the sequence that shows it is short. The plant is a second store in memory that
// forgets to pause its queue.
func TestLockstep_FindsAPlantedDifference(t *testing.T) {
	t.Parallel()
	l := &lockstep{plant: true, done: map[string]int{}}
	for seed := range uint64(200) {
		calls := drawCalls(seed + 1)
		diff := l.play(t, calls)
		if diff == "" {
			continue
		}
		calls, diff = l.shrink(t, calls, diff)
		const short = 5 // register, pause, enqueue, poll, and one more that the order may need
		if len(calls) > short {
			t.Errorf("%d calls are left where %d do:\n%s%s", len(calls), short, told(calls), diff)
		}
		return
	}
	t.Error("two hundred sequences do not see that one of the stores forgets what is paused")
}

func TestLockstep_SameSeedSameCalls(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(drawCalls(5), drawCalls(5)); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(drawCalls(5), drawCalls(6)) {
		t.Error("two seeds, one sequence")
	}
}
