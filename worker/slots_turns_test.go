package worker

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// modelTask is a task in gateModel.
type modelTask struct {
	request *SlotRequest
	order   Order
	asked   int
	holds   bool
}

// gateModel is the plainest model of which task gets the next slot, for tasks that need one slot.
type gateModel struct {
	tasks  []*modelTask
	turns  map[queue.RunID]int // last turn of a run that waits or holds slots; before that, its first ask
	count  int
	grants int
}

func (m *gateModel) held(id queue.RunID) (n int) {
	for _, t := range m.tasks {
		if t.holds && t.order.RunID == id {
			n++
		}
	}
	return n
}

// next returns the waiting tasks, the next one first.
func (m *gateModel) next() []*modelTask {
	waiting := slices.DeleteFunc(slices.Clone(m.tasks), func(t *modelTask) bool { return t.holds })
	byAge := func(a, b *modelTask) int { return a.asked - b.asked }
	slices.SortFunc(waiting, func(a, b *modelTask) int {
		r, s := a.order.RunID, b.order.RunID
		return cmp.Or(b.order.Run-a.order.Run, m.held(r)-m.held(s), m.turns[r]-m.turns[s],
			b.order.Step-a.order.Step, cmp.Compare(a.order.Since, b.order.Since), byAge(a, b))
	})
	if m.grants >= queue.TurnEvery && len(waiting) > 0 {
		return []*modelTask{slices.MinFunc(waiting, byAge)}
	}
	return waiting
}

func (m *gateModel) ask(t *modelTask) {
	m.count++
	t.asked = m.count
	if m.turns[t.order.RunID] == 0 {
		m.count++
		m.turns[t.order.RunID] = m.count
	}
	m.tasks = append(m.tasks, t)
}

func (m *gateModel) turn(t *modelTask) {
	m.count++
	m.turns[t.order.RunID] = m.count
}

func (m *gateModel) leave(t *modelTask) {
	m.tasks = slices.DeleteFunc(m.tasks, func(other *modelTask) bool { return other == t })
	if !slices.ContainsFunc(m.tasks, func(other *modelTask) bool { return other.order.RunID == t.order.RunID }) {
		delete(m.turns, t.order.RunID)
	}
}

// In any order of asks, ends, withdrawals and hand-ons, each slot goes to the task that the model names.
func TestSlotQueue_GoesByTheModel(t *testing.T) {
	t.Parallel()
	const slots, operations = 5, 10_000
	rnd := rand.New(rand.NewPCG(1, 2))
	g, m := NewSlotQueue(slots), &gateModel{turns: map[queue.RunID]int{}}
	var given []*SlotRequest
	grants := 0
	check := func(i int) { // an operation frees one slot at most
		if len(given) > 0 {
			next := m.next()
			if len(given) > 1 || len(next) == 0 || next[0].request != given[0] && next[0].request != nil {
				t.Fatalf("operation %d: %d slots were given, and not to the first of %d tasks", i, len(given), len(next))
			}
			next[0].holds = true
			m.turn(next[0])
			grants++
		}
		given, m.grants = given[:0], g.grants
		if waiting := m.next(); len(waiting) > 0 && g.Stats().Free > 0 {
			t.Fatalf("operation %d: %d slots are free while tasks wait", i, g.Stats().Free)
		}
	}
	pick := func(holds bool) *modelTask {
		some := slices.DeleteFunc(slices.Clone(m.tasks), func(t *modelTask) bool { return t.holds != holds })
		if len(some) == 0 {
			return nil
		}
		return some[rnd.IntN(len(some))]
	}
	for i := range operations {
		switch kind := rnd.IntN(10); {
		case kind < 4 && len(m.tasks) < 60:
			run := queue.RunID(1 + rnd.IntN(12))
			task := &modelTask{order: Order{RunID: run, Run: int(run) % 3, Step: rnd.IntN(3), Since: rnd.Int64N(50)}}
			m.ask(task)
			task.request = g.Ask(1, task.order, func(t *SlotRequest) { given = append(given, t) })
		case kind < 8:
			if task := pick(true); task != nil {
				m.leave(task)
				task.request.Release()
			}
		case kind < 9:
			if task := pick(false); task != nil {
				m.leave(task)
				task.request.Release()
			}
		default:
			if task := pick(true); task != nil && task.request.Transfer(1, task.order) {
				m.turn(task)
			}
		}
		check(i)
	}
	if grants < operations/5 {
		t.Errorf("only %d slots were given", grants)
	}
}

// fanOut asks for many tasks of a run, each of which takes a second, and counts running and ended tasks.
type fanOut struct {
	holds, ended atomic.Int32
}

func (f *fanOut) ask(g *SlotQueue, tasks int, order Order) {
	for range tasks {
		g.Ask(1, order, func(t *SlotRequest) {
			f.holds.Add(1)
			time.AfterFunc(time.Second, func() {
				f.holds.Add(-1)
				f.ended.Add(1)
				t.Release()
			})
		})
	}
}

func TestSlotQueue_FanOutsShareTheSlots(t *testing.T) {
	t.Parallel()
	for _, step := range []int{0, 100} {
		synctest.Test(t, func(t *testing.T) {
			g := NewSlotQueue(4)
			var first, second fanOut
			first.ask(g, 40, Order{RunID: 1, Step: step}) // a step's priority counts among those of its run alone
			time.Sleep(500 * time.Millisecond)
			second.ask(g, 40, Order{RunID: 2})
			for range 8 {
				time.Sleep(time.Second)
				if one, two := first.holds.Load(), second.holds.Load(); one != 2 || two != 2 {
					t.Fatalf("step priority %d: the first run holds %d slots, the second %d", step, one, two)
				}
			}
			time.Sleep(time.Minute)
			if one, two := first.ended.Load(), second.ended.Load(); one != 40 || two != 40 {
				t.Errorf("%d and %d ended", one, two)
			}
		})
	}
}

// A run that would get the slot back anyway keeps it, however long other runs have waited.
func TestSlotQueue_HandsOnToWhoHoldsLess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := NewSlotQueue(3)
		wide := Order{RunID: 1}
		first := g.Ask(1, wide, func(*SlotRequest) {})
		g.Ask(1, wide, func(*SlotRequest) {})
		chain := g.Ask(1, Order{RunID: 2}, func(*SlotRequest) {})
		g.Ask(1, wide, func(*SlotRequest) {})
		time.Sleep(transferWaitMax)
		if !chain.Transfer(1, Order{RunID: 2}) {
			t.Error("a run of one slot gave it to a run of two")
		}
		g.Ask(1, Order{RunID: 3}, func(*SlotRequest) {})
		time.Sleep(transferWaitMax)
		if first.Transfer(1, wide) {
			t.Error("a run of two slots kept both beside one that has none")
		}
	})
}

// flood asks for one slot for each of an endless series of runs, which hold it for a fixed time.
type flood struct {
	g        *SlotQueue
	runs     atomic.Int64
	priority int
	takes    time.Duration
	over     atomic.Bool
}

func (f *flood) ask() {
	f.g.Ask(1, Order{RunID: queue.RunID(100 + f.runs.Add(1)), Run: f.priority}, func(t *SlotRequest) {
		time.AfterFunc(f.takes, func() {
			if !f.over.Load() {
				f.ask()
			}
			t.Release()
		})
	})
}

func TestSlotQueue_AWideTaskStartsBesideAFlood(t *testing.T) {
	t.Parallel()
	for _, priority := range []int{0, 9} {
		t.Run(fmt.Sprint("priority ", priority), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := NewSlotQueue(4)
				f := &flood{g: g, priority: priority, takes: 20 * time.Second}
				for range 12 {
					f.ask()
					time.Sleep(1700 * time.Millisecond)
				}
				var starts [2]atomic.Int64
				asked := time.Now()
				for i := range starts {
					g.Ask(4, Order{RunID: queue.RunID(1 + i)}, func(request *SlotRequest) {
						starts[i].Store(int64(time.Since(asked)))
						time.AfterFunc(f.takes, request.Release)
					})
				}
				time.Sleep(10 * time.Minute)
				first, second := time.Duration(starts[0].Load()), time.Duration(starts[1].Load())
				if most := wideWaitMax + f.takes; first == 0 || first > most {
					t.Errorf("it started after %v, want at most %v", first, most)
				}
				if least := queue.TurnEvery / 4 * f.takes; second == 0 || priority > 0 && second-first < least {
					t.Errorf("the next one started %v after it: what ranks above has to have its turn for %v", second-first, least)
				}
				f.over.Store(true)
				time.Sleep(time.Minute)
			})
		})
	}
}

// While the slot queue keeps all free slots for one task, no run hands its slot on, and no run that was claimed before takes one.
func TestSlotQueue_ATaskThatKeepsAllIsNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r granted
		g := NewSlotQueue(2)
		high := Order{RunID: 1, Run: 9}
		chain, other := g.Ask(1, high, r.to("chain")), g.Ask(1, high, r.to("other"))
		g.Ask(2, Order{RunID: 2}, r.to("wide"))
		g.Reserve(0, time.Second).KeepFor(1)
		time.Sleep(wideWaitMax - time.Millisecond)
		if !chain.Transfer(1, high) {
			t.Error("a run of higher priority gave its slot up too soon")
		}
		time.Sleep(time.Millisecond)
		if chain.Transfer(1, high) {
			t.Error("a slot was handed on")
		}
		chain.Release()
		g.AskReserved(1, high, r.to("late"))
		g.MayBeDue()
		if look := g.Look(); look.Room != 0 || g.Asked() != nil || g.Reserve(1, time.Second).Slots != 0 {
			t.Errorf("there is room for others: %+v", look)
		}
		mustGrant(t, &r, "chain", "other")
		other.Release()
		mustGrant(t, &r, "wide")
	})
}

// A run with a task that keeps the next task of the run from starting holds up no other run.
func TestSlotQueue_ARunThatBlocksItselfWaitsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r granted
		g := NewSlotQueue(4)
		server := g.Ask(1, Order{RunID: 1}, r.to("server"))
		g.Ask(4, Order{RunID: 1}, r.to("client"))
		time.Sleep(2 * wideWaitMax)
		g.Ask(1, Order{RunID: 2}, r.to("other"))
		time.Sleep(reserveFor)
		synctest.Wait()
		mustGrant(t, &r, "server", "other")
		late := g.Ask(1, Order{RunID: 3}, r.to("late"))
		mustGrant(t, &r, "late")
		server.Release()
		waits := g.Ask(1, Order{RunID: 4}, r.to("waits"))
		if got, want := waits.why("w1"), "waits for a slot: worker w1 keeps its next free slots for a task that waits for 4 slots at once"; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		late.Release()
		mustGrant(t, &r)
	})
}

// The time for which slots are kept for the first task does not begin again when another task comes first because of a release.
func TestSlotQueue_KeepsNoLongerWhenTheOrderChanges(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r granted
		g := NewSlotQueue(4)
		g.Ask(2, Order{RunID: 9}, r.to("long"))
		short := g.Ask(1, Order{RunID: 2}, r.to("short"))
		g.Ask(3, Order{RunID: 1}, r.to("one"))
		g.Ask(3, Order{RunID: 2}, r.to("two"))
		g.Ask(1, Order{RunID: 3}, r.to("small"))
		time.Sleep(reserveFor - time.Second)
		short.Release()
		mustGrant(t, &r, "long", "short")
		g.mu.Lock()
		first := g.waiting.first().order.RunID
		g.mu.Unlock()
		if first != 2 {
			t.Fatalf("run %d comes first", first)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		mustGrant(t, &r, "small")
	})
}
