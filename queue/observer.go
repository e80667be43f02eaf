package queue

import (
	"time"

	"github.com/google/uuid"
)

// How far apart two looks may be for the time between them to count as silence: half a TTL, within these bounds. Over a
// longer gap the observer itself was asleep or cut off, and knows nothing of the others.
const (
	shortestGap = LookInterval + LookInterval/2
	longestGap  = 5 * LookInterval
)

// A worker that is silent for longer than this part of its TTL, two renewals, or than livelyMost, is not counted on to take runs.
// People are told at about the same time, by the database's clock: oarlock.quiet_since.
const (
	lively     = 3
	livelyMost = 10 * time.Second
)

// observer counts how long other workers have been silent, by its own clock and nobody else's.
type observer struct {
	now    func() time.Duration // never goes back
	last   time.Duration        // of the last look that succeeded
	failed bool                 // a look failed since
	seen   map[uuid.UUID]sighting
	others int         // live peers that were heard of lately
	quiet  []uuid.UUID // live peers that were not
}

type sighting struct {
	beat   int64
	silent time.Duration // for how long this observer watched it stand still
	ttl    time.Duration
}

// peer is another worker as a look shows it.
type peer struct {
	id   uuid.UUID
	beat int64
	ttl  time.Duration
	live bool // it claims runs of lanes
}

func newObserver(now func() time.Duration) *observer {
	return &observer{now: now, seen: map[uuid.UUID]sighting{}}
}

// fail leaves out the time from the last look that succeeded to the next one: nobody could show a sign of life meanwhile.
// What was watched before still counts. A long TTL would otherwise never pass without a failure.
func (o *observer) fail() { o.failed = true }

// see takes in a look that succeeded, and returns those whose beat stood still for their whole TTL.
func (o *observer) see(peers []peer) (silent []peer) {
	now := o.now()
	gap, blind := now-o.last, o.failed
	o.last, o.failed = now, false
	next := make(map[uuid.UUID]sighting, len(peers))
	o.others, o.quiet = 0, nil
	for _, p := range peers {
		was, known := o.seen[p.id]
		switch {
		case !known || was.beat != p.beat || was.ttl != p.ttl:
			was = sighting{beat: p.beat, ttl: p.ttl}
		case !blind && gap <= min(longestGap, max(shortestGap, p.ttl/2)):
			was.silent += gap
		}
		next[p.id] = was
		switch {
		case !p.live:
		case was.silent <= min(p.ttl/lively, livelyMost)+LookInterval:
			o.others++
		default:
			o.quiet = append(o.quiet, p.id)
		}
		if was.silent >= p.ttl {
			silent = append(silent, p)
		}
	}
	o.seen = next
	return silent
}
