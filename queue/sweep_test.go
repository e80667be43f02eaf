package queue

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestCadence_WaitsLongWhereALookTakesLong(t *testing.T) {
	t.Parallel()
	c := cadence{every: sweepEvery}
	for _, step := range []struct{ took, rest time.Duration }{
		{0, sweepEvery}, {sweepEvery / sweepShare, sweepEvery}, {time.Second, sweepShare * time.Second},
	} {
		c.looked(time.Hour, step.took)
		if early, due := c.due(time.Hour+step.rest-1), c.due(time.Hour+step.rest); early || !due {
			t.Errorf("after a look of %v: due early %v, due after %v: %v", step.took, early, step.rest, due)
		}
		hurry := max(hurryEvery, hurryShare*step.took)
		if early, may := c.may(time.Hour+hurry-1), c.may(time.Hour+hurry); early || !may {
			t.Errorf("after a look of %v: may early %v, may after %v: %v", step.took, early, hurry, may)
		}
	}
}

// Polls come soon only as long as they take something further.
func TestSweeps_PressOnlyWhereALookMayBegin(t *testing.T) {
	t.Parallel()
	now := time.Hour
	w := &sweeps{now: func() time.Duration { return now }}
	w.strays.looked(now, time.Second)
	if w.doubt(); w.pressing() {
		t.Error("presses before a look may begin")
	}
	if now += hurryShare * time.Second; !w.pressing() {
		t.Error("does not press though a look may begin")
	}
	w.found, w.hurried = make(chan finding), true
	if w.strays.looked(now, time.Second); !w.pressing() {
		t.Error("does not press for what a look finds")
	}
	if w.hurried = false; w.pressing() {
		t.Error("presses for a look that nobody waits for")
	}
}

// heldClaims are holdings of n claims, and what a database says that has the same.
func heldClaims(n int) (*holdings, []*Claim, *strays) {
	h, claims, found := newHoldings(), make([]*Claim, n), new(strays)
	for i := range claims {
		claims[i] = NewClaim(RunID(i+1), uuid.New())
		found.runs, found.claims = append(found.runs, claims[i].Run), append(found.claims, claims[i].ID)
		h.add(claims[i])
	}
	return h, claims, found
}

// P3: while something of a run is left here, nobody else may start it.
func TestHoldings_AForfeitClaimIsGivenBackOnceItsDriverIsGone(t *testing.T) {
	t.Parallel()
	h, claims, found := heldClaims(3)
	doubts := 0
	for _, c := range claims {
		c.leaving = func() { doubts++ }
	}
	h.forfeit(claims[1])
	found.before = h.all()
	found.runs, found.claims = append(found.runs, 77), append(found.claims, uuid.New())
	if back := h.strange(found); !slices.Equal(back.runs, []RunID{77}) {
		t.Errorf("beside its driver: %v are given back", back.runs)
	}
	for i, want := range []int{0, 1} { // the first is not lost
		if claims[i].Leave(); doubts != want {
			t.Errorf("%d doubts, want %d", doubts, want)
		}
	}
	if back := h.strange(found); !slices.Equal(back.runs, []RunID{2, 77}) || back.claims[0] != claims[1].ID {
		t.Errorf("after its driver: %v are given back", back.runs)
	}
	if len(h.given) > 0 {
		t.Errorf("%d claims are remembered for ever", len(h.given))
	}
}

func TestHoldings_WhatEndedMeanwhileIsNeitherMissingNorStrange(t *testing.T) {
	t.Parallel()
	h, claims, found := heldClaims(4)
	found.before = h.all()
	h.remove(claims[0])
	if back := h.strange(found); len(back.runs) > 0 {
		t.Errorf("%v are given back", back.runs)
	}
	h.of(claims[3]).committing.Store(true) // its end may be stored, and the answer under way
	found.claims = found.claims[1:2]
	if missing := h.missing(found); !slices.Equal(missing, claims[2:3]) {
		t.Errorf("missing %v, want run %d", missing, claims[2].Run)
	}
}

// What was committed late is looked for until a look got an answer.
func TestSweeps_ALookWithoutAnAnswerIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := &Session{lanes: newLanes()}
	s.sweeps = &sweeps{now: func() time.Duration { return 0 }, strays: cadence{next: time.Hour, soonest: time.Hour}, old: cadence{next: time.Hour}}
	from := time.Now()
	s.sweeps.since.add(from)
	of, look := s.nextLook()
	if look == nil || s.sweeps.since.some {
		t.Fatal("it does not look")
	}
	if _, err := s.takeIn(t.Context(), finding{of: of}); err != nil || !s.sweeps.since.some || !s.sweeps.since.from.Equal(from) {
		t.Errorf("a look that failed is forgotten: %+v, %v", s.sweeps.since, err)
	}
	s.sweeps.recent.soonest = 0
	of, _ = s.nextLook()
	s.lanes = someLanes(0)
	s.lanes.all[0].floor = place{at: from}
	found := place{from.Add(-time.Hour), 7}
	_, err := s.takeIn(t.Context(), finding{of: of, late: &late{lanes: []int{1}, floors: []time.Time{found.at}, froms: []RunID{found.run}}})
	if err != nil || s.sweeps.since.some || s.lanes.all[0].floor != found {
		t.Errorf("it found %v, the floor is %v, and it is made again: %+v, %v", found, s.lanes.all[0].floor, s.sweeps.since, err)
	}
}
