package queue

import (
	"testing"

	"github.com/google/uuid"
)

// After a failover that lost a claim the same worker may claim the run again.
func TestHoldings_ANewClaimOfARunForfeitsTheOld(t *testing.T) {
	t.Parallel()
	h := newHoldings()
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
