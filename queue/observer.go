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

// lively is the part of its TTL for which a worker may be silent and is still counted on to take runs: two renewals.
const lively = 3

// observer counts how long other workers have been silent, by its own clock and nobody else's.
type observer struct {
	now    func() time.Duration // never goes back
	last   time.Duration        // of the last poll that succeeded
	seen   map[uuid.UUID]sighting
	others []peer // those at work that were heard of lately
}

type sighting struct {
	beat  int64
	since time.Duration // it has not moved in consecutive polls
	ttl   time.Duration
}

// peer is another worker as a poll shows it.
type peer struct {
	id     uuid.UUID
	beat   int64
	ttl    time.Duration
	kind   int64 // workers of one kind serve the same lanes; 0: it serves none
	live   bool  // else it claims nothing more
	hungry bool  // it wants runs, too
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
	o.others = o.others[:0]
	for _, p := range peers {
		was, known := o.seen[p.id]
		if !known || was.beat != p.beat || was.ttl != p.ttl || gap > min(longestGap, max(shortestGap, p.ttl/2)) {
			was = sighting{beat: p.beat, since: now, ttl: p.ttl}
		}
		next[p.id] = was
		if p.live && p.kind != 0 && now-was.since <= p.ttl/lively+PollEvery {
			o.others = append(o.others, p)
		}
		if now-was.since >= p.ttl {
			silent = append(silent, p)
		}
	}
	o.seen = next
	return silent
}
