package world

import (
	"flag"
	"testing"
)

var (
	seeds = flag.Int("seeds", 400, "how many histories to play")
	seed  = flag.Uint64("seed", 0, "play this one alone")
)

func TestWorld_KeepsItsInvariants(t *testing.T) {
	t.Parallel()
	if *seed != 0 {
		if err := play(*seed).err; err != nil {
			t.Fatal(err)
		}
		return
	}
	var sum Counts
	for s := range uint64(*seeds) {
		h := play(s + 1)
		if h.err != nil {
			t.Fatal(h.err)
		}
		sum.add(h.counts)
	}
	t.Logf("%d histories: %+v", *seeds, sum)
	if *seeds >= enough {
		for _, name := range sum.below(atLeast) {
			t.Errorf("%s happened fewer than %d times: the histories prove nothing about it", name, atLeast)
		}
	}
}

// enough histories for everything interesting to have happened at least so often.
const (
	enough  = 300
	atLeast = 20
)

func TestWorld_SameSeedSameHistory(t *testing.T) {
	t.Parallel()
	for s := range uint64(20) {
		if a, b := play(s+1), play(s+1); a.counts != b.counts {
			t.Errorf("seed %d: %+v, then %+v", s+1, a.counts, b.counts)
		}
	}
}

type history struct {
	counts Counts
	err    error
}

func play(seed uint64) history {
	w := New(Config{Seed: seed, Workers: 2 + int(seed%3), Runs: 1 + int(seed%4), Turns: 1200})
	err := w.Run()
	return history{w.Counts, err}
}
