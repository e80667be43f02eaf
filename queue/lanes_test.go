package queue

import (
	"testing"
	"time"
)

func someLanes(priorities ...int) *lanes {
	l := newLanes()
	for i, p := range priorities {
		lane := &lane{ID: i + 1, Priority: p}
		l.all = append(l.all, lane)
		l.byID[lane.ID] = lane
	}
	return l
}

func TestLanes_TakeTurnsWithinAPriority(t *testing.T) {
	t.Parallel()
	l := someLanes(9, 5, 5, 5, 1)
	first := map[int]int{}
	for range 6 {
		order := l.order()
		if len(order) != 5 || order[0].ID != 1 || order[4].ID != 5 {
			t.Fatalf("priorities are not heeded: %v", order)
		}
		first[order[1].ID]++
		l.gave([]*Claim{{Lane: order[1].ID}})
	}
	for id := 2; id <= 4; id++ {
		if first[id] != 2 {
			t.Errorf("lane %d was first %d times of 6", id, first[id])
		}
	}
}

// polled has polls gone by before, so that floors may rise to shortly before now.
func polled(l *lanes, now time.Time) {
	l.seen.see(snapshot{xid: 100, now: now.Add(-time.Second)})
	l.seen.see(snapshot{xid: 200, now: now})
	l.seen.safe = now
}

func TestLanes_FloorIsTheFirstRunOfAFullPoll(t *testing.T) {
	t.Parallel()
	l := someLanes(0, 0)
	now := time.Now()
	polled(l, now)
	early, late := now.Add(-time.Minute), now.Add(-time.Second)
	claims := []*Claim{{Lane: 1, RunAt: late, Run: 3}, {Lane: 1, RunAt: early, Run: 8}, {Lane: 1, RunAt: early, Run: 7}}
	l.saw(look{lanes: l.all, claims: claims, now: now})
	if l.all[0].floor != (place{early, 7}) || l.all[1].floor != (place{}) {
		t.Errorf("floors %v and %v, want %v and none", l.all[0].floor, l.all[1].floor, early)
	}
	l.saw(look{lanes: l.all, claims: []*Claim{{Lane: 1, RunAt: early.Add(-time.Hour), Run: 9}}, now: now}) // a late commit
	if l.all[0].floor != (place{early, 7}) {
		t.Errorf("the floor fell to %v", l.all[0].floor)
	}
}

func TestLanes_ALaneBeforeOneThatGaveIsEmpty(t *testing.T) {
	t.Parallel()
	l := someLanes(9, 5, 1)
	now := time.Now()
	polled(l, now)
	l.saw(look{lanes: l.all, claims: []*Claim{{Lane: 2, RunAt: now.Add(-time.Hour), Run: 3}}, now: now})
	if l.all[0].floor != (place{at: now}) || l.all[2].floor != (place{}) {
		t.Errorf("floors %v, %v, %v", l.all[0].floor, l.all[1].floor, l.all[2].floor)
	}
}

func TestLanes_NoFloorPassesWhatMayStillCommit(t *testing.T) {
	t.Parallel()
	l := someLanes(0)
	begin := time.Now()
	raise := func(s snapshot) place {
		if forget, _ := l.seen.see(s); forget {
			l.forget()
		}
		l.saw(look{lanes: l.all, emptied: true, now: s.now})
		return l.all[0].floor
	}
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	if got := raise(snapshot{xid: 10, now: at(0)}); got != (place{}) {
		t.Errorf("floor %v after the first poll, which knows of no earlier one", got)
	}
	if got := raise(snapshot{xid: 20, now: at(100)}); got != (place{at: at(0).Add(-clockSlack)}) {
		t.Errorf("floor %v, want that of the poll before", got.at.Sub(begin))
	}
	if got := raise(snapshot{xid: 30, open: []uint64{15}, now: at(200)}); got != (place{at: at(0).Add(-clockSlack)}) {
		t.Errorf("floor %v passed an open transaction", got.at.Sub(begin))
	}
	if got := raise(snapshot{xid: 40, open: []uint64{15}, now: at(200).Add(floorPatience)}); got != (place{at: at(200).Add(-clockSlack)}) {
		t.Errorf("floor %v waits for one that has been open for long", got.at.Sub(begin))
	}
	_, back := l.seen.see(snapshot{xid: 50, now: at(900)})
	if !back.recent.some || !back.recent.from.Equal(at(0).Add(-clockSlack)) {
		t.Errorf("it ended: back to %v (%v)", back.recent.from.Sub(begin), back.recent.some)
	}
	if forget, _ := l.seen.see(snapshot{xid: 60, now: at(100)}); !forget {
		t.Error("the clock was set back, and floors count")
	}
	if forget, _ := l.seen.see(snapshot{xid: 7, now: at(2000)}); !forget {
		t.Error("ids went back, and floors count")
	}
}

// A transaction of long ago that ends with a recent one does not have the recent one looked for later.
func TestLanes_WhatIsLongAgoHoldsUpNothingRecent(t *testing.T) {
	t.Parallel()
	var h horizon
	begin := time.Now()
	h.see(snapshot{xid: 10, now: begin})
	h.see(snapshot{xid: 20, open: []uint64{5, 15}, now: begin.Add(floorPatience)})
	h.see(snapshot{xid: 30, open: []uint64{5, 15}, now: begin.Add(2 * floorPatience)})
	_, back := h.see(snapshot{xid: 40, now: begin.Add(3 * floorPatience)})
	if !back.old.some || !back.old.from.IsZero() || !back.recent.some || !back.recent.from.Equal(begin.Add(-clockSlack)) {
		t.Errorf("back to %+v", back)
	}
}

func TestLanes_NoFloorPassesARunThatIsOnlyLocked(t *testing.T) {
	t.Parallel()
	l := someLanes(0)
	now := time.Now()
	polled(l, now)
	stuck := place{now.Add(-time.Minute), 7}
	k := look{lanes: l.all, emptied: true, now: now, passed: map[int]place{1: stuck}}
	l.saw(k)
	if l.all[0].floor != stuck {
		t.Fatalf("floor %v, want that of the locked run", l.all[0].floor)
	}
	k.now = now.Add(floorPatience)
	if l.saw(k); l.all[0].floor != stuck {
		t.Errorf("floor %v passed it though nobody is known who could have it", l.all[0].floor)
	}
	l.seen.open[150] = &openWriter{low: now, seen: now}
	if l.saw(k); l.all[0].floor != (place{at: now}) {
		t.Errorf("floor %v waits for a run that was locked for long", l.all[0].floor)
	}
	if _, back := l.seen.see(snapshot{xid: 300, now: k.now}); !back.old.some || !back.old.from.Equal(stuck.at) {
		t.Errorf("it was let go: back to %v (%v)", back.old.from, back.old.some)
	}
}

func TestLanes_FloorsGoWhereRunsComeBack(t *testing.T) {
	t.Parallel()
	l := someLanes(0, 0, 0)
	now := time.Now()
	polled(l, now)
	l.saw(look{lanes: l.all, emptied: true, now: now})
	low := now.Add(-time.Hour)
	l.moved(&pollFacts{moved: []int{2, 3, 77}, resets: []int64{5, 6, 5}, floors: []*time.Time{nil, &low, nil}, froms: []RunID{0, 4, 0}})
	if l.all[0].floor != (place{at: now}) || l.all[1].floor != (place{}) || l.all[1].Resets != 5 || l.all[2].floor != (place{low, 4}) {
		t.Errorf("lanes %+v %+v %+v", l.all[0], l.all[1], l.all[2])
	}
}

func TestLanes_FloorsFallToWhatWasCommittedLate(t *testing.T) {
	t.Parallel()
	l := someLanes(0, 0, 0)
	now := time.Now()
	early, later := now.Add(-time.Hour), now.Add(time.Hour)
	polled(l, now)
	l.saw(look{lanes: l.all, emptied: true, now: now})
	l.due(false, false, now)
	l.late(&late{lanes: []int{1, 3, 77}, floors: []time.Time{early, later, early}, froms: []RunID{7, 8, 9}, wakes: &early, expires: &later})
	for i, want := range []place{{early, 7}, {at: now}, {at: now}} {
		if got := l.all[i].floor; got != want {
			t.Errorf("floor of lane %d is %v, want %v", i+1, got, want)
		}
	}
	if !l.slept.Before(early) || l.slept.Before(early.Add(-time.Second)) || !l.waited.Equal(now.Add(-timerSlack)) {
		t.Errorf("what sleeps is looked for from %v, deadlines from %v", l.slept, l.waited)
	}
}

func TestLanes_OneClaimOfSixteenIsForTheLaneThatWaitsLongest(t *testing.T) {
	t.Parallel()
	l := someLanes(9, 5, 1)
	now := time.Now()
	l.all[0].floor, l.all[1].floor, l.all[2].floor = place{at: now}, place{at: now}, place{at: now.Add(-time.Hour)}
	firsts := map[int]int{}
	for range 2 * TurnEvery {
		ordered := l.order()
		most := l.oldestFirst(ordered, 1)
		firsts[ordered[0].ID]++
		if most != 1 {
			t.Errorf("%d runs of it", most)
		}
		l.gave([]*Claim{{Lane: ordered[0].ID}})
	}
	if firsts[3] == 0 || firsts[3] > 2 || firsts[2] > 0 {
		t.Errorf("first in turn: %v", firsts)
	}
}

func TestLanes_OwesWhatHadToWaitEveryOtherTime(t *testing.T) {
	t.Parallel()
	l := someLanes()
	due := []gate{{queue: "q"}}
	l.owe(due, false)
	if l.owed != nil {
		t.Error("owes what had room")
	}
	for n := range 4 {
		l.owe(due, true)
		if owes := len(l.owed) > 0; owes != (n%2 == 0) {
			t.Errorf("full poll %d: owes %v", n, l.owed)
		}
	}
}
