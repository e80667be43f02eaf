package queue

import (
	"slices"
	"testing"

	"github.com/google/uuid"
)

// After a failover that lost a claim the same worker may claim the run again.
func TestClaimSet_ANewClaimOfARunForfeitsTheOld(t *testing.T) {
	t.Parallel()
	h := newClaimSet()
	old, fresh := NewClaim(7, uuid.New()), NewClaim(7, uuid.New())
	h.add(old)
	h.add(fresh)
	select {
	case <-old.Lost():
	default:
		t.Error("the old driver goes on beside the new one")
	}
	if h.of(fresh) == nil {
		t.Error("the new claim is not held")
	}
}

// heldClaims returns n held claims, and the answer to a sweep in a database that has the same claims.
func heldClaims(n int) (*claimSet, []*Claim, *sweepReply) {
	h, claims, found := newClaimSet(), make([]*Claim, n), new(sweepReply)
	for i := range claims {
		claims[i] = NewClaim(RunID(i+1), uuid.New())
		found.runs, found.claims = append(found.runs, claims[i].Run), append(found.claims, claims[i].ID)
		h.add(claims[i])
	}
	return h, claims, found
}

// P3: while something of a run is left here, no other worker may start it.
func TestClaimSet_AForfeitClaimIsGivenBackOnceItsDriverIsGone(t *testing.T) {
	t.Parallel()
	h, claims, found := heldClaims(3)
	doubts := 0
	for _, c := range claims {
		c.leaving = func() { doubts++ }
	}
	h.forfeit(claims[1])
	found.before = h.all()
	found.runs, found.claims = append(found.runs, 77), append(found.claims, uuid.New())
	if runs, _ := h.unknown(found, nil); !slices.Equal(runs, []RunID{77}) {
		t.Errorf("beside its driver: %v are given back", runs)
	}
	for i, want := range []int{0, 1} { // the first is not lost
		if claims[i].Leave(); doubts != want {
			t.Errorf("%d doubts, want %d", doubts, want)
		}
	}
	if runs, ids := h.unknown(found, nil); !slices.Equal(runs, []RunID{2, 77}) || ids[0] != claims[1].ID {
		t.Errorf("after its driver: %v are given back", runs)
	}
	if len(h.forfeited) > 0 {
		t.Errorf("%d claims are remembered for ever", len(h.forfeited))
	}
}

func TestClaimSet_WhatEndedMeanwhileIsNeitherMissingNorUnknown(t *testing.T) {
	t.Parallel()
	h, claims, found := heldClaims(4)
	found.before = h.all()
	h.remove(claims[0])
	if runs, _ := h.unknown(found, nil); len(runs) > 0 {
		t.Errorf("%v are given back", runs)
	}
	h.of(claims[3]).committing.Store(true) // its end may be stored while the answer is still under way
	found.claims = found.claims[1:2]
	if missing := h.missing(found); !slices.Equal(missing, claims[2:3]) {
		t.Errorf("missing %v, want run %d", missing, claims[2].Run)
	}
}

// Ids that a poll may be bringing are known, both when the database was asked and now.
func TestClaimSet_WhatAPollBringsIsNotUnknown(t *testing.T) {
	t.Parallel()
	h, claims, found := heldClaims(2)
	for _, c := range claims {
		h.remove(c)
	}
	found.expected = []uuid.UUID{claims[0].ID}
	if runs, _ := h.unknown(found, []uuid.UUID{claims[1].ID}); len(runs) > 0 {
		t.Errorf("%v are given back", runs)
	}
	if runs, _ := h.unknown(found, nil); !slices.Equal(runs, []RunID{2}) {
		t.Errorf("%v are given back, want what no poll brings any more", runs)
	}
}
