package storetest

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// Stages of a queued run.
const (
	stageRoused = iota // an event or a request arrived for the run, so it may need no slot
	stageBegun         // the run has begun and waits for a slot
	stageNew
	stages
)

// shelf holds the queued runs of one lane and one stage, sorted by place.
type shelf struct {
	lane  *lane
	stage int
	runs  []*run
}

func byPlace(a, b *run) int { return cmp.Or(a.readyAt.Compare(b.readyAt), cmp.Compare(a.id, b.id)) }

// place returns the place of a run that is queued as new: its time, plus its share of the tenth of a second over which runs of
// one moment are spread. A run that is due has no later place than now.
func (r *run) place(now time.Time) time.Time {
	place := r.runAt.Add(time.Duration(r.id%100_000) * time.Microsecond)
	if !r.runAt.After(now) && place.After(now) {
		return now
	}
	return place
}

// shelve moves a run to a shelf of its lane.
func (r *run) shelve(stage int, readyAt time.Time) {
	r.unshelve()
	r.stage, r.readyAt = stage, readyAt
	r.shelf = &r.lane.shelves[stage]
	at, _ := slices.BinarySearchFunc(r.shelf.runs, r, byPlace)
	r.shelf.runs = slices.Insert(r.shelf.runs, at, r)
}

// unshelve takes a run off its shelf. The run keeps its stage and its place.
func (r *run) unshelve() {
	if r.shelf == nil {
		return
	}
	if at, found := slices.BinarySearchFunc(r.shelf.runs, r, byPlace); found {
		r.shelf.runs = slices.Delete(r.shelf.runs, at, at+1)
	}
	r.shelf = nil
}

// isDue reports whether the clock permits to claim a queued run. Only a new run can have a moment before which it is not
// due.
func (r *run) isDue(now time.Time) bool { return r.stage < stageNew || !r.readyAt.After(now) }

// isPaused reports whether a pause of the queue or the DAG holds up a queued run.
func (r *run) isPaused() bool {
	return r.stage == stageNew && (r.lane.queue.paused || r.version.dag.paused)
}

// order is what a poll claims, and in which order.
type order struct {
	last     int   // the last stage to claim from
	lowest   int   // the lowest priority to claim
	fair     bool  // the oldest runs first, whatever their priority and stage
	newFirst bool  // new runs before runs that have begun and wait for a slot
	skip     []int // lanes from which to claim no new runs
}

// order returns the order of the next poll. Every sixteenth poll for slots is fair, and every other one takes new runs
// first.
func (s *MemorySession) order(want *queue.Want) order {
	o := order{last: stageRoused, lowest: math.MinInt, skip: want.Skip}
	if want.Slots == 0 {
		return o
	}
	s.polls++
	o.last, o.fair, o.newFirst = stageNew, s.polls%queue.TurnEvery == 0, s.polls%2 == 0
	if want.Begun {
		o.last = stageBegun
	}
	if want.Lowest != nil {
		o.lowest, o.fair = *want.Lowest, want.Fair
	}
	return o
}

// rank returns the rank of a stage: the lower rank is claimed first.
func (o order) rank(stage int) int {
	switch {
	case o.fair || stage == stageRoused:
		return 0
	case o.newFirst:
		return stages - stage
	}
	return stage
}

// shelvesFor returns the shelves that a worker claims from, in the order of a poll. turns are the queues that gave runs;
// the queue that gave one longest ago is first.
func (m *Memory) shelvesFor(w *worker, o order, turns []string) []*shelf {
	now := m.now()
	var all []*shelf
	for _, l := range m.lanes {
		if !w.serves(l) || l.priority < o.lowest {
			continue
		}
		for stage := range o.last + 1 {
			if stage == stageNew && slices.Contains(o.skip, l.id) {
				continue
			}
			if s := &l.shelves[stage]; len(s.runs) > 0 && s.runs[0].isDue(now) {
				all = append(all, s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *shelf) int {
		if o.fair {
			return byPlace(a.runs[0], b.runs[0])
		}
		return cmp.Or(
			cmp.Compare(b.lane.priority, a.lane.priority),
			cmp.Compare(slices.Index(turns, a.lane.queue.name), slices.Index(turns, b.lane.queue.name)), // a queue that never gave a run comes first
			cmp.Compare(o.rank(a.stage), o.rank(b.stage)),
			byPlace(a.runs[0], b.runs[0]),
		)
	})
	return all
}

// claimable returns the first runs of a shelf that limits and pauses let a worker claim, at most so many.
func (m *Memory) claimable(w *worker, s *shelf, most int) (found []*run) {
	if q := s.lane.queue; q.maxRunning > 0 {
		most = min(most, q.maxRunning-m.claimed(func(r *run) bool { return r.lane.queue == q }))
	}
	if d := s.lane.owner; s.stage == stageNew && s.lane.limit() > 0 {
		if s.lane.queue.paused || d.paused {
			return nil
		}
		if d.limit > 0 {
			most = min(most, d.limit-m.underWay(d))
		}
		return m.pickKeyed(w, s, most)
	}
	now, room := m.now(), map[*dag]int{} // a lane may have runs from before their DAG had a limit
	for _, r := range s.runs {
		d := r.version.dag
		switch {
		case len(found) >= most || !r.isDue(now):
			return found
		case r.isPaused():
			continue
		case s.stage == stageNew && d.limit > 0:
			if _, known := room[d]; !known {
				room[d] = d.limit - m.underWay(d)
			}
			if room[d] <= 0 {
				continue
			}
			room[d]--
		}
		found = append(found, r)
	}
	return found
}

// underWay counts the runs of a DAG that have begun: claimed runs, parked runs, and runs that wait to go on.
func (m *Memory) underWay(d *dag) int {
	n := 0
	for _, r := range m.runs {
		if r.version.dag == d && !r.over() && (r.claim != nil || r.epoch > 0 && r.stage < stageNew) {
			n++
		}
	}
	return n
}

// claimed counts the claimed runs for which is returns true.
func (m *Memory) claimed(is func(*run) bool) int {
	n := 0
	for _, w := range m.workers {
		for _, r := range w.runs {
			if is(r) {
				n++
			}
		}
	}
	return n
}
