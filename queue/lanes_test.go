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

// polled has polls gone by before, so that floors may rise to shortly before now.
func polled(l *lanes, now time.Time) {
	l.seen.see(snapshot{xid: 100, now: now.Add(-time.Second)})
	l.seen.see(snapshot{xid: 200, now: now})
	l.seen.safe = now
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
