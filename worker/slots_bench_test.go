package worker

import (
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

// BenchmarkGate asks for a slot and gives it back: while slots are free, while a slot is handed on from task to task, and while tasks
// of many runs wait.
func BenchmarkGate(b *testing.B) {
	none := func(*SlotRequest) {}
	order := func(i int) Order { return Order{RunID: queue.RunID(i)} }
	b.Run("free", func(b *testing.B) {
		g := NewSlotQueue(8)
		for i := range b.N {
			g.Ask(1, order(i), none).Release()
		}
	})
	b.Run("hand on", func(b *testing.B) {
		g := NewSlotQueue(8)
		t := g.Ask(1, order(1), none)
		for range b.N {
			t.Transfer(1, order(1))
		}
	})
	b.Run("crowded", func(b *testing.B) {
		g := NewSlotQueue(1)
		held := make(chan *SlotRequest, 2)
		take := func(t *SlotRequest) { held <- t }
		for i := range 1000 {
			g.Ask(1, order(i%100), take)
		}
		b.ResetTimer()
		for i := range b.N {
			g.Ask(1, order(i%100), take)
			(<-held).Release()
		}
	})
}
