package worker

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/oarlock-dev/oarlock/queue"
)

// granted records the names of the tasks that got a grant, in order.
type granted struct {
	mu    sync.Mutex
	names []string
}

func (r *granted) to(name string) func(*SlotRequest) {
	return func(*SlotRequest) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.names = append(r.names, name)
	}
}

func (r *granted) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := r.names
	r.names = nil
	return names
}

func mustGrant(t *testing.T, r *granted, want ...string) {
	t.Helper()
	if got := r.take(); !slices.Equal(got, want) {
		t.Fatalf("granted %v, want %v", got, want)
	}
}

func TestSlotQueue_GrantsAtOnceWhileSlotsAreFree(t *testing.T) {
	t.Parallel()
	var r granted
	g := NewSlotQueue(2)
	g.Ask(1, Order{}, r.to("a"))
	mustGrant(t, &r, "a")
	g.Ask(1, Order{}, r.to("b"))
	mustGrant(t, &r, "b")
	g.Ask(1, Order{}, r.to("c"))
	mustGrant(t, &r)
}

func TestSlotQueue_GoesByPriorityThenAgeThenFIFO(t *testing.T) {
	t.Parallel()
	var r granted
	g := NewSlotQueue(1)
	first := g.Ask(1, Order{}, r.to("first"))
	var later []*SlotRequest
	for _, ask := range []struct {
		name  string
		order Order
	}{
		{"plain", Order{Since: 5}},
		{"plain again", Order{Since: 5}},
		{"older", Order{Since: 4}},
		{"step first", Order{Step: 1, Since: 9}},
		{"run first", Order{Run: 1, Step: -1, Since: 9}},
	} {
		later = append(later, g.Ask(1, ask.order, r.to(ask.name)))
	}
	first.Release()
	for _, i := range []int{4, 3, 2, 0, 1} {
		later[i].Release()
	}
	mustGrant(t, &r, "first", "run first", "step first", "older", "plain", "plain again")
}

func TestSlotQueue_ACancelledWaiterBlocksNobody(t *testing.T) {
	t.Parallel()
	var r granted
	g := NewSlotQueue(2)
	g.Ask(1, Order{}, r.to("runs"))
	big := g.Ask(2, Order{}, r.to("big"))
	g.Ask(1, Order{}, r.to("small"))
	mustGrant(t, &r, "runs")
	big.Release()
	mustGrant(t, &r, "small")
	big.Release()
	if s := g.Stats(); s.Active != 2 || s.Free != 0 || s.Waiting != 0 {
		t.Errorf("stats %+v", s)
	}
}

func TestSlotQueue_WhoNeedsNoSlotWaitsForNobody(t *testing.T) {
	t.Parallel()
	var r granted
	g := NewSlotQueue(1)
	g.Ask(1, Order{}, r.to("runs"))
	g.Ask(1, Order{}, r.to("waits"))
	publish := g.Ask(0, Order{}, r.to("publish"))
	mustGrant(t, &r, "runs", "publish")
	publish.Release()
	if s := g.Stats(); s.Free != 0 || s.Active != 1 || s.Waiting != 1 {
		t.Errorf("stats %+v", s)
	}
}

func TestSlotQueue_KeepsSlotsForTheFirstForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r granted
		g := NewSlotQueue(3)
		two := g.Ask(2, Order{}, r.to("two"))
		g.Ask(3, Order{}, r.to("three"))
		small := g.Ask(1, Order{}, r.to("small"))
		mustGrant(t, &r, "two")
		time.Sleep(reserveFor - time.Millisecond)
		synctest.Wait()
		mustGrant(t, &r)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		mustGrant(t, &r, "small")
		if s := g.Stats(); s.IdleSlotSeconds != 5 {
			t.Errorf("one slot was idle for %v s, want 5", s.IdleSlotSeconds)
		}
		two.Release()
		mustGrant(t, &r)
		small.Release()
		mustGrant(t, &r, "three")
	})
}

func TestSlotQueue_HandsOnUnlessSomebodyGoesBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r granted
		g := NewSlotQueue(1)
		first := g.Ask(1, Order{}, r.to("first"))
		waits := g.Ask(1, Order{}, r.to("waits"))
		mustGrant(t, &r, "first")
		for _, ask := range []struct {
			what  string
			slots int
			order Order
			want  bool
		}{
			{"the next task", 1, Order{Since: 1}, true},
			{"one that needs more, which is all there is", 2, Order{Since: 1}, true},
			{"one that needs none", 0, Order{Since: 1}, false},
			{"one of less priority", 1, Order{Step: -1}, false},
			{"one of more", 1, Order{Run: 1}, true},
		} {
			if got := first.Transfer(ask.slots, ask.order); got != ask.want {
				t.Errorf("%s: %v, want %v", ask.what, got, ask.want)
			}
		}
		if waits.Transfer(1, Order{Run: 1}) {
			t.Error("a request that waits was transferred")
		}
		time.Sleep(transferWaitMax)
		if first.Transfer(1, Order{}) {
			t.Error("slots were handed on though somebody waits for long")
		}
		mustGrant(t, &r)
		first.Release()
		mustGrant(t, &r, "waits")
		g.Shut()
		if waits.Transfer(1, Order{}) {
			t.Error("slots were handed on while none are given")
		}
	})
}

func TestSlotQueue_CutsWhatNobodyCanHave(t *testing.T) {
	t.Parallel()
	var r granted
	g := NewSlotQueue(2)
	g.Ask(5, Order{}, r.to("all"))
	mustGrant(t, &r, "all")
	if s := g.Stats(); s.Free != 0 {
		t.Errorf("stats %+v", s)
	}
}

// In any order of asks and releases, the slot queue grants no more slots than it has, and no request gets two grants. Once all
// slots are given back, each request that did not give up has had a grant.
func TestSlotQueue_NeverGivesMoreThanItHas(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 5).Draw(t, "slots")
		g := NewSlotQueue(slots)
		type one struct {
			request *SlotRequest
			slots   int
			grants  int
			release bool
		}
		var all []*one
		check := func() {
			out := 0
			for i, o := range all {
				if o.grants > 1 || o.grants > 0 && o.release && o.request.held {
					t.Fatalf("request %d: %d grants", i, o.grants)
				}
				if o.grants == 1 && !o.release {
					out += o.slots
				}
			}
			if s := g.Stats(); out > slots || s.Free != slots-out {
				t.Fatalf("%d of %d slots are out, stats %+v", out, slots, s)
			}
		}
		for i := range rapid.IntRange(1, 40).Draw(t, "moves") {
			if k := rapid.IntRange(0, 2*len(all)).Draw(t, fmt.Sprint("move ", i)); k < len(all) {
				all[k].release = true
				all[k].request.Release()
			} else {
				o := &one{slots: rapid.IntRange(1, slots).Draw(t, "size")}
				all = append(all, o)
				o.request = g.Ask(o.slots, Order{Run: rapid.IntRange(-1, 1).Draw(t, "priority")}, func(*SlotRequest) { o.grants++ })
			}
			check()
		}
		for i := 0; i < len(all); {
			if o := all[i]; o.grants == 1 && !o.release {
				o.release = true
				o.request.Release()
				i = 0
				continue
			}
			i++
		}
		for i, o := range all {
			if o.grants == 0 && !o.release {
				t.Fatalf("request %d waits for ever", i)
			}
		}
	})
}

// While tasks of a higher priority never run out, one grant of queue.TurnEvery goes to the task that has waited longest, also where
// slots would be handed on from step to step.
func TestSlotQueue_NothingStarves(t *testing.T) {
	t.Parallel()
	for name, hands := range map[string]bool{"asks anew": false, "hands on": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var r granted
			g := NewSlotQueue(1)
			high := g.Ask(1, Order{Run: 9}, r.to("high"))
			g.Ask(1, Order{}, r.to("low"))
			turns := 0
			for r.take(); turns < 3*queue.TurnEvery; turns++ {
				if hands && high.Transfer(1, Order{Run: 9}) {
					continue
				}
				next := g.Ask(1, Order{Run: 9}, r.to("high"))
				high.Release()
				if got := r.take(); slices.Contains(got, "low") {
					break
				}
				high = next
			}
			if turns < queue.TurnEvery/2 || turns > queue.TurnEvery+1 {
				t.Errorf("its turn came after %d grants", turns)
			}
		})
	}
}

// A slot for which a run was claimed stays reserved for that run, although other tasks ask before it arrives.
func TestSlotQueue_KeepsSlotsForRunsThatAreExpected(t *testing.T) {
	t.Parallel()
	var r granted
	g := NewSlotQueue(2)
	g.Reserve(2, time.Hour).KeepFor(1)
	g.Ask(1, Order{Run: 9}, r.to("a"))
	g.Ask(1, Order{Run: 9}, r.to("b"))
	mustGrant(t, &r, "a")
	g.AskReserved(1, Order{}, r.to("expected"))
	mustGrant(t, &r, "expected")
	g.Reserve(1, time.Hour).KeepFor(1)
	if n := g.Look().Room; n != 0 {
		t.Errorf("room for %d", n)
	}
	g.ReleaseReserved()
	mustGrant(t, &r)
}
