package queue

import (
	"testing"
	"time"
)

// All claims are counted from time to time, as long as something differs, and where another server process answers.
func TestHeartbeat_CountsAllClaimsWhereItMayNotKnowThem(t *testing.T) {
	t.Parallel()
	h := newHeartbeat(time.Minute, 0)
	for _, step := range []struct {
		what   string
		now    time.Duration
		server uint32
		same   bool
		want   bool
	}{
		{"the first", 1, 7, true, true},
		{"the next", 2, 7, true, false},
		{"on a new connection", 3, 8, true, true},
		{"on the same", 4, 8, false, false},
		{"after a difference", 5, 8, true, true},
		{"after none", 6, 8, true, false},
		{"after a while", 5 + recountEvery, 8, true, true},
	} {
		whole := h.recount(step.now, step.server)
		if whole != step.want {
			t.Errorf("%s: %v, want %v", step.what, whole, step.want)
		}
		h.compared(step.same, step.now, whole)
	}
}
