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

func TestLanes_FloorIsTheFirstRunOfAFullPoll(t *testing.T) {
	t.Parallel()
	l := someLanes(0, 0)
	now := time.Now()
	early, late := now.Add(-time.Minute), now.Add(-time.Second)
	l.saw(l.all, []*Claim{{Lane: 1, RunAt: late, Run: 3}, {Lane: 1, RunAt: early, Run: 8}, {Lane: 1, RunAt: early, Run: 7}}, false, now)
	if l.all[0].floor != (place{early, 7}) || l.all[1].floor != (place{}) {
		t.Errorf("floors %v and %v, want %v and none", l.all[0].floor, l.all[1].floor, early)
	}
	l.saw(l.all, []*Claim{{Lane: 1, RunAt: early.Add(-time.Hour), Run: 9}}, false, now) // a late commit
	if l.all[0].floor != (place{early, 7}) {
		t.Errorf("the floor fell to %v", l.all[0].floor)
	}
}

func TestLanes_FloorStaysBelowWhatMayBeOnItsWay(t *testing.T) {
	t.Parallel()
	l := someLanes(0, 0)
	now := time.Now()
	l.saw(l.all, []*Claim{{Lane: 1, RunAt: now}}, true, now)
	for _, lane := range l.all {
		if lane.floor != (place{at: now.Add(-floorSlack)}) {
			t.Errorf("floor of lane %d is %v below now", lane.ID, now.Sub(lane.floor.at))
		}
	}
}

func TestLanes_FloorsGoWhereRunsComeBack(t *testing.T) {
	t.Parallel()
	l := someLanes(0, 0)
	l.saw(l.all, nil, true, time.Now())
	l.moved([]int{2, 77}, []int64{5, 5})
	if l.all[0].floor == (place{}) || l.all[1].floor != (place{}) || l.all[1].Resets != 5 {
		t.Errorf("lanes %+v %+v", l.all[0], l.all[1])
	}
}

func TestLanes_FloorsFallToWhatWasCommittedLate(t *testing.T) {
	t.Parallel()
	l := someLanes(0, 0, 0)
	now := time.Now()
	early, later := now.Add(-time.Hour), now.Add(time.Hour)
	l.saw(l.all, nil, true, now)
	l.due(false, false, now)
	seen := now.Add(-floorSlack)
	l.late(&late{lanes: []int{1, 3, 77}, floors: []time.Time{early, later, early}, froms: []RunID{7, 8, 9}, wakes: &early, expires: &later})
	for i, want := range []place{{early, 7}, {at: seen}, {at: seen}} {
		if got := l.all[i].floor; got != want {
			t.Errorf("floor of lane %d is %v, want %v", i+1, got, want)
		}
	}
	if !l.slept.Before(early) || l.slept.Before(early.Add(-time.Second)) || !l.waited.Equal(seen) {
		t.Errorf("what sleeps is looked for from %v, deadlines from %v", l.slept, l.waited)
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
