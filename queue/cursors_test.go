package queue

import (
	"slices"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// after returns a time so long after noon.
func after(d time.Duration) time.Time { return noon.Add(d) }

const shelfOne = stages*1 + stageNew

// swept returns the cursors of two lanes after a first sweep at noon that found nothing due.
func swept(t *testing.T) *cursors {
	t.Helper()
	c := new(cursors)
	c.sweeping()
	if c.swept([]int{1, 2}, noon, time.Time{}, nil, true) {
		t.Fatal("found something")
	}
	return c
}

func (c *cursors) want(t *testing.T, what string, at time.Time) {
	t.Helper()
	if got := c.ofLocked(shelfOne); !got.Equal(at) {
		t.Errorf("%s the cursor is at %v, want %v", what, got.Format("04:05.000"), at.Format("04:05.000"))
	}
}

func claimAt(at time.Time) []*Claim {
	return []*Claim{{Lane: 1, stage: stageNew, readyAt: at.Add(time.Second)}, {Lane: 1, stage: stageNew, readyAt: at}}
}

func TestCursors_ClaimsRaiseThem(t *testing.T) {
	t.Parallel()
	c := swept(t)
	c.want(t, "after a sweep", after(-slack))
	c.claimed(after(time.Minute), claimAt(after(time.Second)))
	c.want(t, "at the first run claimed", after(time.Second))
	c.claimed(after(time.Minute), claimAt(noon))
	c.want(t, "after a claim below", after(time.Second))
	c.claimed(after(time.Minute), claimAt(after(time.Minute)))
	c.want(t, "where more may be committed", after(time.Minute-slack))
}

func TestCursors_SweepsSetThem(t *testing.T) {
	t.Parallel()
	c := swept(t)
	c.claimed(after(time.Hour), claimAt(after(time.Minute)))
	sweep := func(now, since, at time.Time, hungry bool) bool {
		c.sweeping()
		return c.swept([]int{1, 2}, now, since, []head{{shelfOne, at, 7}}, hungry)
	}
	if sweep(after(time.Hour), time.Time{}, after(2*time.Minute), false) {
		t.Error("a head above its cursor is late")
	}
	c.want(t, "at the head", after(2*time.Minute))
	if !sweep(after(time.Hour), time.Time{}, after(time.Minute), false) {
		t.Error("a head below its cursor is not late")
	}
	c.want(t, "at what was late", after(time.Minute))
	c.claimed(after(time.Hour), claimAt(after(3*time.Minute)))
	if sweep(after(time.Hour), time.Time{}, after(time.Minute), false) {
		t.Error("a head that is locked for long is tried again by a worker without a free slot")
	}
	c.want(t, "past what is locked", after(3*time.Minute))
	if !sweep(after(time.Hour), time.Time{}, after(time.Minute), false) {
		t.Error("a head that was locked is not tried every other sweep")
	}
	c.claimed(after(time.Hour), claimAt(after(3*time.Minute)))
	if sweep(after(time.Hour), time.Time{}, after(time.Minute), true) {
		t.Error("a head that was locked is new each time")
	}
	c.want(t, "at what is locked, where a slot is free", after(time.Minute))
	sweep(after(time.Hour), after(59*time.Minute), after(59*time.Minute), true)
	c.want(t, "below what a sweep reached", after(time.Minute))
}

// A claim under way may not have seen runs that are notified meanwhile.
func TestCursors_ClaimsRaiseNoneThatWasTold(t *testing.T) {
	t.Parallel()
	c := swept(t)
	c.asking()
	c.told(1, after(-time.Minute/2))
	c.claimed(after(time.Minute), claimAt(after(time.Second)))
	c.want(t, "at what was told meanwhile", after(-time.Minute/2))
	c.asking()
	c.claimed(after(time.Minute), claimAt(after(time.Second)))
	c.want(t, "after a claim that could see it", after(time.Second))
}

// After a new connection, a sweep of the last minute says nothing about runs that have waited longer.
func TestCursors_StayAtTheStartUntilSwept(t *testing.T) {
	t.Parallel()
	c := swept(t)
	c.forget()
	c.sweeping()
	c.swept([]int{1, 2}, after(time.Hour), after(59*time.Minute), nil, true)
	c.want(t, "after a sweep of a minute", time.Time{})
	if c.areKnown() {
		t.Error("nothing asks for a sweep from the start")
	}
	c.swept([]int{1, 2}, after(time.Hour), time.Time{}, nil, true)
	c.want(t, "after one from the start", after(time.Hour-slack))
}

func TestCursors_NoticesLowerThem(t *testing.T) {
	t.Parallel()
	c := swept(t)
	if c.told(1, after(-time.Second)) {
		t.Error("a second ago is too long ago")
	}
	c.want(t, "at what was told", after(-time.Second))
	c.sweeping()
	c.told(1, after(-2*time.Second))
	c.swept([]int{1, 2}, after(time.Second), time.Time{}, nil, false)
	c.want(t, "at what was told while the sweep was under way", after(-2*time.Second))
	c.sweeping()
	c.swept([]int{1, 2}, after(2*time.Second), time.Time{}, nil, false)
	c.want(t, "after a sweep that could see it", after(2*time.Second-slack))
	if !c.told(1, after(-time.Hour)) {
		t.Error("an hour ago is for polls")
	}
	c.want(t, "no further back than that", after(2*time.Second-slack-noticeReach))
	for lane := range 10_000 {
		c.told(3+lane, noon)
	}
	c.told(1<<31-1, noon)
	if shelves, ats, _ := c.args(); len(shelves) > stages*2 || len(ats) != len(shelves) {
		t.Errorf("claims send %d shelves and %d cursors, and the worker serves 2 lanes", len(shelves), len(ats))
	}
}

// Prune closes a lane, and sweeps name it no more. A retry opens it again, and its run keeps its place.
func TestCursors_ASweepFindsRunsOfLanesOpenedAgain(t *testing.T) {
	t.Parallel()
	c := swept(t)
	const lane = 7
	if c.told(lane, after(time.Second)) {
		t.Error("a run of a new lane is below where polls begin")
	}
	if !c.told(lane, after(-time.Hour)) {
		t.Error("no sweep looks for a run of a lane that was opened again")
	}
	c.sweeping()
	if !c.swept([]int{1, 2, lane}, after(time.Second), after(-time.Hour), []head{{shelfOf(lane, stageNew), after(-time.Hour), 8}}, false) {
		t.Error("the sweep passes over it")
	}
	if shelves, ats, _ := c.args(); !slices.Equal(shelves, []int{shelfOf(lane, stageNew)}) || !ats[0].Equal(after(-time.Hour)) {
		t.Errorf("polls begin at %v on the shelves %v", ats, shelves)
	}
}

// Any login that enqueues can raise the number of the next lane: each enqueue that is rolled back takes one.
func TestCursors_AHighNumberCostsNoMore(t *testing.T) {
	t.Parallel()
	const lane = 1<<31 - 1 // highest of a lane; its shelf is no int of the database
	c := new(cursors)
	c.sweeping()
	c.swept([]int{1, lane}, noon, time.Time{}, []head{{shelfOf(lane, stageNew), after(-time.Hour), 7}, {shelfOf(1, stageBegun), after(-time.Minute), 8}}, false)
	c.told(lane, after(-time.Second))
	shelves, ats, _ := c.args()
	if want := []int{shelfOf(1, stageBegun), shelfOf(lane, stageRoused), shelfOf(lane, stageBegun), shelfOf(lane, stageNew)}; !slices.Equal(shelves, want) {
		t.Errorf("claims send the shelves %v, want %v", shelves, want)
	}
	if want := []time.Time{after(-time.Minute), after(-time.Second), after(-time.Second), after(-time.Hour)}; !slices.Equal(ats, want) {
		t.Errorf("claims send the cursors %v, want %v", ats, want)
	}
}

// However many lanes have a backlog, each has a cursor of its own.
func TestCursors_EachShelfHasItsOwn(t *testing.T) {
	t.Parallel()
	c := new(cursors)
	var heads []head
	var lanes []int
	for lane := range 200 {
		lanes = append(lanes, 1+lane)
		heads = append(heads, head{shelfOf(1+lane, stageNew), after(-time.Duration(1+lane) * time.Hour), 1})
	}
	c.sweeping()
	c.swept(lanes, noon, time.Time{}, heads, false)
	shelves, ats, rest := c.args()
	for i, h := range heads {
		if shelves[i] != h.shelf || !ats[i].Equal(h.at) {
			t.Errorf("shelf %d is read from %v on, want shelf %d from %v on", shelves[i], ats[i], h.shelf, h.at)
		}
	}
	if len(shelves) != len(heads) || !rest.Equal(after(-slack)) {
		t.Errorf("%d shelves have a cursor of their own, the rest is read from %v on", len(shelves), rest)
	}
}
