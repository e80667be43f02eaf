package queue

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

// clock is a monotonic clock that moves only when a test moves it.
type clock struct{ at time.Duration }

func (c *clock) now() time.Duration { return c.at }

func (c *clock) pass(d time.Duration) { c.at += d }

// watch is an observer of one peer with a TTL of ten seconds, polling once a second.
type watch struct {
	t     *testing.T
	clock clock
	o     *observer
	peer  peer
}

func newWatch(t *testing.T) *watch {
	t.Helper()
	w := &watch{t: t, peer: peer{id: uuid.New(), beat: 7, ttl: 10 * time.Second}}
	w.o = newObserver(w.clock.now)
	return w
}

// polls returns how many polls, a second apart, it takes until the peer is found silent; 0: it is not found silent.
func (w *watch) polls(limit int) int {
	for n := 1; n <= limit; n++ {
		w.clock.pass(time.Second)
		if silent := w.o.see([]peer{w.peer}); len(silent) > 0 {
			return n
		}
	}
	return 0
}

func (w *watch) want(got, want int) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("found silent after %d polls, want %d", got, want)
	}
}

func TestObserver_FindsABeatThatStandsStillForAWholeTTL(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	w.want(w.polls(50), 11) // seen once, then ten seconds
	w.want(w.polls(1), 1)   // still silent, until a session takes over
}

func TestObserver_StartsAnewWhenTheBeatMoves(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	for range 5 {
		w.want(w.polls(10), 0)
		w.peer.beat++
	}
	w.want(w.polls(50), 11)
}

func TestObserver_LeavesOutTheTimeOfAFailedPoll(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	w.want(w.polls(6), 0) // five seconds
	w.o.fail()
	w.want(w.polls(50), 6) // the first of them counts nothing
}

// In an hour some poll always fails. A lost worker must be found nevertheless.
func TestObserver_FindsALeaseOfAnHourThroughFailures(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	w.peer.ttl = time.Hour
	for range 6 {
		w.want(w.polls(500), 0)
		w.o.fail()
	}
	w.want(w.polls(3600), 607)
}

func TestObserver_OwnSleepIsNoSilenceOfOthers(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	w.want(w.polls(5), 0)
	w.clock.pass(time.Hour) // frozen, suspended, or waiting for the database
	w.want(w.polls(50), 7)  // the first of them counts nothing
}

// A peer that was silent for a third of its TTL is not counted on to take runs.
func TestObserver_CountsOnNoQuietPeer(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	w.peer.live = true
	w.want(w.polls(5), 0)
	if w.o.others != 1 || len(w.o.quiet) > 0 {
		t.Errorf("after four seconds %d take runs, and %v are quiet", w.o.others, w.o.quiet)
	}
	w.want(w.polls(1), 0)
	if w.o.others != 0 || !slices.Equal(w.o.quiet, []uuid.UUID{w.peer.id}) {
		t.Errorf("after five seconds %d take runs, and %v are quiet", w.o.others, w.o.quiet)
	}
	w.peer.beat++
	w.want(w.polls(1), 0)
	if w.o.others != 1 || len(w.o.quiet) > 0 {
		t.Errorf("after a sign of life %d take runs, and %v are quiet", w.o.others, w.o.quiet)
	}
}

func TestObserver_ForgetsWhoIsGone(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	w.want(w.polls(10), 0)
	w.o.see(nil)
	w.want(w.polls(50), 11)
	if w.o.see(nil); len(w.o.seen) > 0 {
		t.Errorf("still remembers %v", w.o.seen)
	}
}

func TestObserver_AShortTTLIsSeenByPollsASecondApart(t *testing.T) {
	t.Parallel()
	w := newWatch(t)
	w.peer.ttl = time.Second
	w.want(w.polls(50), 2)
	w.peer.beat++
	w.want(w.polls(1), 0)
	w.clock.pass(time.Second)
	w.want(w.polls(1), 0) // one second was left out
	w.want(w.polls(1), 1)
}
