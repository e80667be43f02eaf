package queue

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
)

func TestCadence_WaitsLongWhereALookTakesLong(t *testing.T) {
	t.Parallel()
	c := cadence{every: lateEvery}
	for _, step := range []struct{ took, rest time.Duration }{
		{0, lateEvery}, {lateEvery / sweepShare, lateEvery}, {time.Second, sweepShare * time.Second},
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
	h.forfeit(claims[1])
	found.before = h.all()
	found.runs, found.claims = append(found.runs, 77), append(found.claims, uuid.New())
	if back, doubtful := h.strange(found); !slices.Equal(back.runs, []RunID{77}) || !doubtful {
		t.Errorf("beside its driver: %v are given back, doubtful %v", back.runs, doubtful)
	}
	claims[1].Leave()
	if back, doubtful := h.strange(found); !slices.Equal(back.runs, []RunID{2, 77}) || doubtful || back.claims[0] != claims[1].ID {
		t.Errorf("after its driver: %v are given back, doubtful %v", back.runs, doubtful)
	}
	if len(h.given) > 0 {
		t.Errorf("%d claims are remembered for ever", len(h.given))
	}
}

func TestHoldings_WhatEndedMeanwhileIsNeitherMissingNorStrange(t *testing.T) {
	t.Parallel()
	h, claims, found := heldClaims(3)
	found.before = h.all()
	h.remove(claims[0])
	if back, doubtful := h.strange(found); len(back.runs) > 0 || doubtful {
		t.Errorf("%v are given back, doubtful %v", back.runs, doubtful)
	}
	found.claims = found.claims[1:2]
	missing := h.missing(found)
	if len(missing) != 1 || missing[claims[2].ID] != claims[2] {
		t.Errorf("missing %v, want run %d", missing, claims[2].Run)
	}
}
