package embed

import (
	"runtime"
	"testing"
)

func TestRoomy_LeavesLargeHeapsAlone(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{
		0: mostRoomy, 1 << 20: mostRoomy, room / 4: 400, room / 2: 200, room: standard, 10 * room: standard,
	} {
		if got := percent(live); got != want {
			t.Errorf("with %d bytes live: %d, want %d", live, got, want)
		}
	}
}

var keep []byte

// Collections are rarer while the heap is small, and as frequent as usual when it is large.
func TestRoomy_FollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	Roomy()
	small := collections(t)
	keep = make([]byte, 2*room)
	runtime.GC()
	large := collections(t)
	keep = nil
	if small >= 10 || large > small {
		t.Errorf("%d and %d collections for %d bytes", small, large, 4*room)
	}
}

var garbage []byte

// collections returns the number of collections while four times room is allocated.
func collections(t *testing.T) uint32 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 4 * room / 4096 {
		garbage = make([]byte, 4096)
	}
	runtime.ReadMemStats(&after)
	return after.NumGC - before.NumGC
}
