package worker

import "testing"

func TestRation_LeavesOthersTheirShare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ told, free, ahead, want, wantAhead int }{
		"it was told of nothing":           {0, 8, 2, 8, 2},
		"it was told of fewer":             {3, 8, 2, 3, 0},
		"it was told of as many":           {8, 8, 0, 8, 0},
		"it was told of more":              {20, 8, 2, 8, 2},
		"no slot is free, and some end":    {1, 0, 5, 0, 5},
		"nothing is free or about to be":   {4, 0, 0, 0, 0},
		"one is free, and others end soon": {1, 1, 5, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r ration
			r.told.Add(int64(c.told))
			if free, ahead := r.cut(c.free, c.ahead); free != c.want || ahead != c.wantAhead {
				t.Errorf("%d and %d ahead, want %d and %d", free, ahead, c.want, c.wantAhead)
			}
		})
	}
}

// A steady flow of notifications for single runs does not keep a worker from a backlog that no notification announced.
func TestRation_NeverCutsTwiceRunning(t *testing.T) {
	t.Parallel()
	const slots, backlog = 512, 20_000
	var r ration
	claimed, polls := 0, 0
	for ; claimed < backlog; polls++ {
		r.told.Add(1)
		free, _ := r.cut(slots, 0)
		claimed += free
	}
	if most := 2 * (backlog/slots + 1); polls > most {
		t.Errorf("%d polls claim %d runs, want %d at most", polls, backlog, most)
	}
}
