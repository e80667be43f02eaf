package dagrun

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestHeap_GivesTheBestOfWhatIsLeft(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	h := newUrgencyHeap()
	var in []*task
	for i := range 2_000 {
		if rnd.IntN(3) > 0 || len(in) == 0 {
			x := &task{TaskRecord: TaskRecord{ID: TaskID{Step: i}}, priority: rnd.IntN(5), since: Time(rnd.IntN(5))}
			in = append(in, x)
			h.push(x)
		} else {
			k := rnd.IntN(len(in))
			h.remove(in[k])
			in = slices.Delete(in, k, k+1)
		}
		if len(in) > 0 && h.first() != slices.MinFunc(in, byUrgency) {
			t.Fatalf("after %d moves the top is %+v", i, h.first())
		}
	}
}
