package worker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// ending is a slot queue of one slot at which the tasks of a run wait. end ends the task that holds the slot.
func ending(t *testing.T, waiting int) (g *SlotQueue, end func()) {
	t.Helper()
	g = NewSlotQueue(1)
	granted := make(chan *SlotRequest, waiting+1)
	for range waiting + 1 {
		g.Ask(1, Order{RunID: 1, Run: 5}, func(t *SlotRequest) { granted <- t })
	}
	return g, func() { (<-granted).Release() }
}

func TestSlotQueue_AsksByTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			due  int
			want int // of 32 slots that end a second apart, and how many are for the queue
		}{
			"what is due ranks above": {due: 9, want: 32},
			"it ranks the same":       {due: 5, want: 16},
			"it ranks below":          {due: 1, want: 2},
		} {
			g, end := ending(t, 64)
			asked := 0
			for range 32 {
				g.Due(&c.due)
				end()
				if ask := g.Asked(); ask != nil {
					asked++
					ask.KeepFor(0)
					g.Answered(ask, false)
				}
				time.Sleep(time.Second)
			}
			if asked != c.want {
				t.Errorf("where %s %d of 32 slots are for the queue, want %d", name, asked, c.want)
			}
		}
	})
}

func TestSlotQueue_AsksAgainAfterOneInVain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, end := ending(t, 64)
		asked := func() (lowest []int) {
			for range queue.TurnEvery - 1 {
				end()
				if ask := g.Asked(); ask != nil {
					lowest = append(lowest, ask.Lowest)
					ask.KeepFor(0)
					g.Answered(ask, false)
				}
				time.Sleep(time.Second)
			}
			return lowest
		}
		g.Due(nil)
		if got := asked(); got != nil {
			t.Errorf("where nothing is due it asks for %v", got)
		}
		g.MayBeDue()
		end() // the sixteenth slot is for the run that has waited longest
		if ask := g.Asked(); ask == nil || !ask.Fair {
			t.Errorf("it asks for %+v", ask)
		} else {
			ask.KeepFor(0)
			g.Answered(ask, false)
		}
		time.Sleep(time.Second)
		if got, want := asked(), []int{6, 5}; !slices.Equal(got, want) { // priority above the waiting tasks, then the same, then none
			t.Errorf("it asks for %v, want %v", got, want)
		}
	})
}

// Where slots end fast, few of them wait for a poll.
func TestSlotQueue_AsksSeldomForEquals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, end := ending(t, 1000)
		due, asked := 5, 0
		for range 1000 {
			g.Due(&due)
			end()
			if ask := g.Asked(); ask != nil {
				asked++
				ask.KeepFor(0)
			}
			time.Sleep(time.Millisecond)
		}
		if asked != 10 {
			t.Errorf("asked %d times a second, want 10", asked)
		}
	})
}

// A worker that holds many runs takes no more of their priority.
func TestSlotQueue_AsksForFewEquals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, end := ending(t, 64)
		due := 5
		for i := range 1 + heldMax {
			g.Ask(1, Order{RunID: queue.RunID(2 + i), Run: 1}, func(*SlotRequest) {})
		}
		for range queue.TurnEvery - 1 {
			g.Due(&due)
			end()
			if ask := g.Asked(); ask != nil {
				t.Errorf("asked for %+v", ask)
			}
			time.Sleep(time.Second)
		}
		due = 6
		g.Due(&due)
		if end(); g.Asked() == nil {
			t.Error("what ranks above is not asked for")
		}
	})
}

// The slot of an ask goes to the run that the poll claims for it, also where a chain would hand its slot on.
func TestSlotQueue_AnAskKeepsItsSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r granted
		g := NewSlotQueue(1)
		chain := g.Ask(1, Order{RunID: 1, Run: 5}, r.to("chain"))
		due := 9
		g.Due(&due)
		if chain.Transfer(1, Order{RunID: 1, Run: 5}) {
			t.Fatal("the slot is handed on")
		}
		g.Ask(1, Order{RunID: 1, Run: 5}, r.to("next"))
		chain.Release()
		ask := g.Asked()
		if ask == nil || ask.Slots != 1 || ask.Lowest != 6 {
			t.Fatalf("asked for %+v", ask)
		}
		mustGrant(t, &r, "chain")
		ask.KeepFor(1)
		mustGrant(t, &r)
		g.AskReserved(1, Order{RunID: 2, Run: 9}, r.to("claimed"))
		mustGrant(t, &r, "claimed")
	})
}

// A poll that hangs idles no slot.
func TestSlotQueue_AnAskEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r granted
		g := NewSlotQueue(1)
		first := g.Ask(1, Order{RunID: 1}, r.to("first"))
		g.Ask(1, Order{RunID: 1}, r.to("second"))
		g.MayBeDue()
		first.Release()
		mustGrant(t, &r, "first")
		time.Sleep(maxSlotWait)
		synctest.Wait()
		mustGrant(t, &r, "second")
		if ask := g.Asked(); ask != nil {
			t.Errorf("it asks for %+v", ask)
		}
	})
}
