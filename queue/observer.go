package queue

import (
	"time"

	"github.com/google/uuid"
)

// How far apart two polls may be for a silence to go on from one to the other: half a TTL, within these bounds. Over a
// longer gap the observer itself was asleep or cut off, and knows nothing of the others.
const (
	shortestGap = PollEvery + PollEvery/2
	longestGap  = 5 * PollEvery
)

// observer counts how long other workers have been silent, by its own clock and nobody else's.
type observer struct {
	now    func() time.Duration // never goes back
	last   time.Duration        // of the last poll that succeeded
	seen   map[uuid.UUID]sighting
	hungry int // how many of them want runs too
}

type sighting struct {
	beat  int64
	since time.Duration // it has not moved in consecutive polls
	ttl   time.Duration
}

// peer is another worker as a poll shows it.
type peer struct {
	id   uuid.UUID
	beat int64
	ttl  time.Duration
}

func newObserver(now func() time.Duration) *observer {
	return &observer{now: now, seen: map[uuid.UUID]sighting{}}
}

// fail starts all counting anew: after a poll that failed, silence proves nothing.
func (o *observer) fail() { clear(o.seen) }

// see takes in a poll that succeeded, and returns those whose beat stood still for their whole TTL.
func (o *observer) see(peers []peer) (silent []peer) {
	now := o.now()
	gap := now - o.last
	o.last = now
	next := make(map[uuid.UUID]sighting, len(peers))
	for _, p := range peers {
		was, known := o.seen[p.id]
		if !known || was.beat != p.beat || was.ttl != p.ttl || gap > min(longestGap, max(shortestGap, p.ttl/2)) {
			was = sighting{beat: p.beat, since: now, ttl: p.ttl}
		}
		next[p.id] = was
		if now-was.since >= p.ttl {
			silent = append(silent, p)
		}
	}
	o.seen = next
	return silent
}

// peersOf are the peers in a poll's facts.
func peersOf(f *pollFacts) []peer {
	peers := make([]peer, len(f.peers))
	for i, id := range f.peers {
		peers[i] = peer{id: id, beat: f.beats[i], ttl: time.Duration(f.ttls[i]) * time.Millisecond}
	}
	return peers
}
