package worker

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// poolOf is what a task takes of one pool.
func poolOf(name string, weight int) []dagrun.PoolUse {
	return []dagrun.PoolUse{{Pool: name, Weight: weight}}
}

// database stands for oarlock.permits: one pool with some slots, for several permit queues.
type database struct {
	slots  int
	once   bool
	queues []*permitQueue
	rows   map[*permitQueue]map[int64]bool // granted or not
	line   []asked                         // what was asked for, in order
	calls  map[*permitQueue]int
}

// asked is a permit that a queue has asked for.
type asked struct {
	by  *permitQueue
	nth int64
}

func newDatabase(slots, workers int) *database {
	d := &database{slots: slots, rows: map[*permitQueue]map[int64]bool{}, calls: map[*permitQueue]int{}}
	for range workers {
		q := newPermitQueue()
		d.queues = append(d.queues, q)
		d.rows[q] = map[int64]bool{}
	}
	return d
}

func (d *database) taken() (n int) {
	for _, rows := range d.rows {
		for _, granted := range rows {
			if granted {
				n++
			}
		}
	}
	return n
}

// call lets one queue make the call that is due, and grants what is free to what was asked for first. It returns how long the
// queue may wait for its next call.
func (d *database) call(q *permitQueue, free int) time.Duration {
	return d.callWith(q, SlotStats{Free: free})
}

func (d *database) callWith(q *permitQueue, slots SlotStats) time.Duration {
	all, after, some := q.due(slots, time.Now())
	if !some {
		return after
	}
	d.calls[q]++
	rows := map[int64]bool{}
	for _, p := range all {
		rows[p.Nth] = d.rows[q][p.Nth] || p.Held
		if a := (asked{q, p.Nth}); !slices.Contains(d.line, a) {
			d.line = append(d.line, a)
		}
	}
	d.rows[q] = rows
	d.line = slices.DeleteFunc(d.line, func(a asked) bool { _, there := d.rows[a.by][a.nth]; return !there })
	for _, a := range d.line {
		if !d.rows[a.by][a.nth] && d.taken() < d.slots {
			d.rows[a.by][a.nth] = true
			if a.by != q {
				a.by.hear()
			}
		}
	}
	var answers []queue.PermitAnswer
	for nth, granted := range d.rows[q] {
		contested := false
		for o, rows := range d.rows {
			for _, g := range rows {
				contested = contested || o != q && !g
			}
		}
		answers = append(answers, queue.PermitAnswer{Nth: nth, Granted: granted, Contested: contested, Once: d.once, Reason: "the pool is full; 1st in line"})
	}
	q.answered(all, answers, nil)
	return 0
}

// request asks for a permit under a name, which r gets once the task has it.
func (r *granted) request(q *permitQueue, name string, order Order) *permitRequest {
	return q.request(poolOf("heavy", 1), order, 0, nil, func() { r.to(name)(nil) })
}

func TestPermitQueue_CallsNothingWhileNoTaskNeedsAPool(t *testing.T) {
	t.Parallel()
	q := newPermitQueue()
	if all, after, some := q.due(SlotStats{Free: 4}, time.Now().Add(time.Hour)); some || after < time.Minute {
		t.Fatalf("a call with %v is due in %s", all, after)
	}
}

func TestPermitQueue_PassesAPermitOnWithoutACall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(32, 1)
		q := d.queues[0]
		var waiting []*permitRequest
		for range 10_000 {
			waiting = append(waiting, q.request(poolOf("heavy", 1), Order{RunID: 1}, 0, nil, func() {}))
		}
		for len(waiting) > 0 {
			d.call(q, 32)
			waiting = slices.DeleteFunc(waiting, func(r *permitRequest) bool {
				if !r.has() {
					return false
				}
				r.bodyEnded()
				r.release()
				return true
			})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(permitIdle)
		d.call(q, 32)
		if n := d.calls[q]; n >= 20 {
			t.Errorf("%d calls for 10,000 tasks, want fewer than 20", n)
		}
		if n := d.taken(); n != 0 {
			t.Errorf("%d permits are still taken, want 0", n)
		}
	})
}

// A task that follows another one in a chain waits for its permit: the queue asks for no second one.
func TestPermitQueue_AChainKeepsOnePermit(t *testing.T) {
	t.Parallel()
	d := newDatabase(2, 1)
	q := d.queues[0]
	var r granted
	first := r.request(q, "first", Order{RunID: 1})
	d.call(q, 8)
	mustGrant(t, &r, "first")
	first.bodyEnded()
	second := r.request(q, "second", Order{RunID: 1})
	d.call(q, 8)
	mustGrant(t, &r)
	first.release()
	mustGrant(t, &r, "second")
	second.release()
	if n := d.calls[q]; n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

// While another worker waits, a permit is passed on for permitPassing, and then goes back: no worker keeps the pool for itself.
func TestPermitQueue_GivesBackWhatOthersWaitFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(1, 2)
		ours, theirs := d.queues[0], d.queues[1]
		var r, other granted
		held := r.request(ours, "0", Order{})
		d.call(ours, 4)
		mustGrant(t, &r, "0")
		wanted := other.request(theirs, "theirs", Order{})
		d.call(theirs, 4)
		mustGrant(t, &other)
		passed := 0
		for other.names == nil {
			next := r.request(ours, "next", Order{})
			held.release()
			if len(r.take()) == 1 {
				passed++
			}
			held = next
			time.Sleep(20 * time.Millisecond)
			d.call(ours, 4)
			d.call(theirs, 4)
			if time.Since(wanted.place.since) > 5*time.Second {
				t.Fatal("the other worker got no permit")
			}
		}
		if passed == 0 {
			t.Error("no permit was passed on in the first moments")
		}
		if n := d.taken(); n != 1 {
			t.Errorf("%d permits are taken, want 1", n)
		}
		held.release()
		wanted.release()
	})
}

func TestPermitQueue_ContestedCallsStayFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(2, 4)
		held := map[*permitQueue][]*permitRequest{}
		for range 10_000 {
			for _, q := range d.queues {
				for len(held[q]) < 6 {
					held[q] = append(held[q], q.request(poolOf("heavy", 1), Order{}, 0, nil, func() {}))
				}
				for i, r := range held[q] {
					if r.has() {
						r.release()
						held[q] = slices.Delete(held[q], i, i+1)
						break
					}
				}
				d.call(q, 4)
			}
			time.Sleep(time.Millisecond)
		}
		for i, q := range d.queues {
			if n := d.calls[q]; n > 10*4+permitBurst+2 {
				t.Errorf("worker %d made %d calls in 10 s, want at most 4 a second and a burst of %d", i, n, permitBurst)
			}
			for _, r := range held[q] {
				r.release()
			}
		}
	})
}

// A call with an unknown outcome is repeated until it is answered, even if no task needs a permit any more: the database may have
// granted one.
func TestPermitQueue_RepeatsAFailedCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newPermitQueue()
		only := q.request(poolOf("heavy", 1), Order{}, 0, nil, func() {})
		all, _, _ := q.due(SlotStats{Free: 1}, time.Now())
		only.release()
		q.answered(all, nil, errors.New("no answer"))
		for range 2 {
			time.Sleep(permitAskAgain)
			if all, _, some := q.due(SlotStats{Free: 1}, time.Now()); !some || len(all) != 0 {
				t.Fatalf("a call with %v is due: %t, want one with no permits", all, some)
			}
		}
		q.answered(nil, nil, nil)
		time.Sleep(permitAskAgain)
		if _, _, some := q.due(SlotStats{Free: 1}, time.Now()); some {
			t.Error("a call is due after the answer")
		}
	})
}

func TestPermitQueue_AnIdlePermitGoesBackSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(1, 1)
		q := d.queues[0]
		var r granted
		only := r.request(q, "only", Order{})
		d.call(q, 4)
		only.release()
		only.release() // does nothing
		if after := d.call(q, 4); after > permitIdle || d.taken() != 1 {
			t.Errorf("%d permits are taken and the next call is due in %s, want 1 and at most %s", d.taken(), after, permitIdle)
		}
		time.Sleep(permitIdle)
		d.call(q, 4)
		if d.taken() != 0 {
			t.Error("the permit was not given back")
		}
	})
}

// A pool with a rate counts starts, so that no task takes over the permit of another.
func TestPermitQueue_APermitOfARateIsForOneBody(t *testing.T) {
	t.Parallel()
	d := newDatabase(1, 1)
	d.once = true
	q := d.queues[0]
	var r granted
	first := r.request(q, "first", Order{})
	d.call(q, 1)
	d.call(q, 1)
	mustGrant(t, &r, "first")
	second := r.request(q, "second", Order{})
	first.bodyEnded()
	first.release()
	mustGrant(t, &r)
	d.call(q, 1)
	mustGrant(t, &r, "second")
	second.release()
}

func TestPermitQueue_AsksForNoMoreThanItHasSlots(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ free, want int }{{0, 1}, {1, 1}, {3, 3}, {50, 10}} {
		q := newPermitQueue()
		for range 10 {
			q.request(poolOf("heavy", 1), Order{}, 0, nil, func() {})
		}
		all, _, some := q.due(SlotStats{Free: tt.free}, time.Now())
		if !some || len(all) != tt.want {
			t.Errorf("with %d free slots the queue asks for %d permits, want %d", tt.free, len(all), tt.want)
		}
	}
}

// Tasks of many tenants wait on a worker with few slots: it asks for few permits at once, and comes to all of them in time.
func TestPermitQueue_AsksForFewOfManyKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newPermitQueue()
		for i := range 100 {
			q.request([]dagrun.PoolUse{{Pool: "crm", Key: fmt.Sprint(i), Weight: 1}}, Order{Since: int64(i)}, 0, nil, func() {})
		}
		for _, want := range []int{2 + permitsAhead, 2 * (2 + permitsAhead), 3 * (2 + permitsAhead)} {
			all, _, some := q.due(SlotStats{Free: 2}, time.Now())
			if !some || len(all) != want || all[0].Pools[0].Key != "0" {
				t.Fatalf("a call with %d permits is due: %t, want %d, the first for the task that waits longest", len(all), some, want)
			}
			q.answered(all, nil, nil)
			time.Sleep(permitAskAgain) // the database has none for these
		}
		if all, _, _ := q.due(SlotStats{Permitted: 1 + permitsAhead}, time.Now()); len(all) != 3*(2+permitsAhead) {
			t.Errorf("a busy worker asks for %d permits, want no more than before", len(all))
		}
	})
}

// A driver and the loop of the sharer compare requests while other goroutines put them into the slot queue and take them out. The race
// detector judges this test.
func TestSlotRequest_IsComparedWhileItMoves(t *testing.T) {
	t.Parallel()
	g := NewSlotQueue(1)
	running := g.Ask(1, Order{RunID: 1, Run: 1}, func(*SlotRequest) {})
	task := g.newRequest(1, Order{RunID: 2}, func(*SlotRequest) {})
	g.enter(task, false)
	other := g.Ask(1, Order{RunID: 3}, func(*SlotRequest) {})
	var moves sync.WaitGroup
	moves.Go(func() {
		if !task.withdraw() {
			t.Error("the request does not wait")
		}
		g.enter(task, false)
	})
	if inOrder(task, other) >= 0 {
		t.Error("the request goes after one that asked later")
	}
	moves.Wait()

	moves.Go(func() {
		if !running.Transfer(1, Order{RunID: 1, Run: 1, Step: 1}) {
			t.Error("the slots go to a run of lower priority")
		}
	})
	g.lastFirst(blockedDrivers{{request: running}, {request: other}})
	moves.Wait()
}

// A task with a permit that finds no slot gives the permit back once others have waited for it, and asks again. A permit for which no
// other worker waits stays.
func TestPermitQueue_TakesBackWhatFindsNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(1, 2)
		ours, theirs := d.queues[0], d.queues[1]
		g := NewSlotQueue(1)
		var r, other granted
		running := g.Ask(1, Order{RunID: 1}, func(*SlotRequest) {})
		task := g.newRequest(1, Order{RunID: 2}, r.to("task"))
		task.permitted = true
		task.permit = ours.request(poolOf("heavy", 1), Order{RunID: 2}, 0, task, func() { g.enter(task, false) })
		d.callWith(ours, g.Stats())
		if !task.permit.has() || !task.waits() {
			t.Fatal("the task has no permit, or does not wait for a slot")
		}
		time.Sleep(2 * permitPassing)
		d.callWith(ours, g.Stats())
		if !task.permit.has() {
			t.Fatal("the permit went back although no other worker waits")
		}
		next := other.request(theirs, "theirs", Order{})
		for range 8 {
			d.call(theirs, 1)
			d.callWith(ours, g.Stats())
			time.Sleep(permitPassing)
		}
		if mustGrant(t, &other, "theirs"); task.permit.has() || task.waits() {
			t.Error("the task still has the permit")
		}
		next.release()
		running.Release()
		for range 8 {
			d.call(theirs, 1)
			d.callWith(ours, g.Stats())
			time.Sleep(permitPassing)
		}
		mustGrant(t, &r, "task")
		task.Release()
	})
}

// A worker that waits for very many keys asks for a bounded number, and all of them have their turn.
func TestPermitQueue_KeysTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := newPermitQueue()
		for i := range 3 * permitsAsked {
			q.request([]dagrun.PoolUse{{Pool: "crm", Key: fmt.Sprint(i), Weight: 1}}, Order{Since: int64(i)}, 0, nil, func() {})
		}
		asked := map[string]bool{}
		for range 60 {
			all, _, _ := q.due(SlotStats{Free: 4}, time.Now())
			if len(all) > permitsAsked+4+permitsAhead {
				t.Fatalf("the worker asks for %d permits", len(all))
			}
			for _, p := range all {
				asked[p.Pools[0].Key] = true
			}
			q.answered(all, nil, nil)
			time.Sleep(permitAskAgain)
		}
		if len(asked) != 3*permitsAsked {
			t.Errorf("%d of %d keys had their turn", len(asked), 3*permitsAsked)
		}
	})
}

func TestPermitQueue_SaysWhatATaskWaitsFor(t *testing.T) {
	t.Parallel()
	d := newDatabase(1, 1)
	q := d.queues[0]
	var r granted
	holder := r.request(q, "holder", Order{})
	first, second := r.request(q, "first", Order{}), r.request(q, "second", Order{})
	if got := first.why("w"); got != "" && got != "waits for pool heavy; behind other tasks on worker w" {
		t.Errorf("before the call: %q", got)
	}
	d.call(q, 4)
	q.hear()
	d.call(q, 4)
	if got, want := q.stats(), (PermitStats{Held: 1, Waiting: 2}); got != want {
		t.Errorf("stats %+v, want %+v", got, want)
	}
	for name, tt := range map[string]struct {
		request *permitRequest
		want    string
	}{
		"the holder": {holder, ""},
		"the first":  {first, "the pool is full; 1st in line"},
		"the second": {second, "the pool is full; behind other tasks on worker w"},
	} {
		if got := tt.request.why("w"); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	q.answered(nil, nil, errors.New("no answer"))
	if got, want := first.why("w"), "waits for pool heavy: worker w could not ask for a permit: no answer"; got != want {
		t.Errorf("after a failed call: %q, want %q", got, want)
	}
}

// Whatever tasks do, no more of them have permits than the pool has slots, and in the end all permits are back.
func TestPermitQueue_NeverHasMoreThanThePool(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := newDatabase(rapid.IntRange(1, 3).Draw(rt, "slots"), rapid.IntRange(1, 3).Draw(rt, "workers"))
		d.once = rapid.Bool().Draw(rt, "once")
		var all []*permitRequest
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			q := d.queues[rapid.IntRange(0, len(d.queues)-1).Draw(rt, "worker")]
			switch rapid.IntRange(0, 3).Draw(rt, "what") {
			case 0:
				all = append(all, q.request(poolOf("heavy", 1), Order{RunID: queue.RunID(len(all) % 3)}, 0, nil, func() {}))
			case 1:
				if len(all) > 0 {
					r := all[rapid.IntRange(0, len(all)-1).Draw(rt, "which")]
					r.bodyEnded()
					r.release()
				}
			default:
				q.heard = true
				d.call(q, rapid.IntRange(0, 3).Draw(rt, "free"))
			}
			have := 0
			for _, r := range all {
				if r.has() {
					have++
				}
			}
			if have > d.slots {
				rt.Fatalf("%d tasks have permits, the pool has %d", have, d.slots)
			}
		}
		for _, r := range all {
			r.release()
		}
		for _, q := range d.queues {
			if n := q.stats().Waiting; n != 0 {
				rt.Fatalf("%d tasks still wait", n)
			}
			for _, line := range q.lines {
				for _, p := range line.permits {
					if p.holder != nil {
						rt.Fatalf("permit %d is not idle", p.nth)
					}
				}
			}
		}
	})
}

// Tasks of 10 ms wait on each worker, more than the pool has slots. A permit that goes to another worker lies idle until that worker
// calls, so permits must not go to and fro.
func TestPermitQueue_ContestedPermitsAreUsed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slots, lasts, steps = 8, 10, 10_000
		d := newDatabase(slots, 4)
		type task struct {
			*permitRequest

			age int
		}
		tasks := map[*permitQueue][]*task{}
		busy, held := 0, map[*permitQueue]int{}
		for range steps {
			for _, q := range d.queues {
				for len(tasks[q]) < 6 {
					tasks[q] = append(tasks[q], &task{permitRequest: q.request(poolOf("heavy", 1), Order{}, 0, nil, func() {})})
				}
				tasks[q] = slices.DeleteFunc(tasks[q], func(r *task) bool {
					if !r.has() {
						return false
					}
					if r.age++; r.age > lasts {
						r.release()
						return true
					}
					busy++
					held[q]++
					return false
				})
				d.call(q, 4)
			}
			time.Sleep(time.Millisecond)
		}
		if share := float64(busy) / (slots * steps); share < 0.85 {
			t.Errorf("bodies use %.0f %% of the permits, want 85 %%", share*100)
		}
		for i, q := range d.queues {
			if held[q] < steps*slots/4/2 {
				t.Errorf("worker %d has %.1f permits on average, want half of its share at least", i, float64(held[q])/steps)
			}
			for _, r := range tasks[q] {
				r.release()
			}
		}
	})
}

// A task that needs a further pool is in a line of its own. The tasks of another line on its worker do not keep it waiting.
func TestPermitQueue_ALineKeepsNoPoolFromAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDatabase(2, 1)
		q := d.queues[0]
		var many []*permitRequest
		more := func() {
			for len(many) < 4 {
				many = append(many, q.request(poolOf("heavy", 1), Order{}, 0, nil, func() {}))
			}
		}
		more()
		d.call(q, 4)
		only := q.request(append(poolOf("heavy", 1), poolOf("total", 1)...), Order{}, 0, nil, func() {})
		begun := time.Now()
		for !only.has() && time.Since(begun) < time.Minute {
			more()
			if i := slices.IndexFunc(many, (*permitRequest).has); i >= 0 {
				many[i].release()
				many = slices.Delete(many, i, i+1)
			}
			d.call(q, 4)
			time.Sleep(10 * time.Millisecond)
		}
		if waited := time.Since(begun); waited > 2*permitPassing {
			t.Errorf("it waited %s, want %s at most", waited, 2*permitPassing)
		}
		for _, r := range append(many, only) {
			r.release()
		}
	})
}

// Runs that begin with a full pool wait in their lane once enough of them wait here. The worker hears when it may claim more.
func TestPermitQueue_LeavesRunsOfAFullPoolInTheirLane(t *testing.T) {
	t.Parallel()
	q := newPermitQueue()
	crowded := func() bool { return !q.crowdedSince().IsZero() }
	resumed := 0
	q.resumed = func() { resumed++ }
	var all []*permitRequest
	for range laneWaiters {
		if lanes := q.skip(); len(lanes) > 0 {
			t.Fatalf("with %d tasks the lanes %v are skipped", len(all), lanes)
		}
		all = append(all, q.request(poolOf("heavy", 1), Order{}, 7, nil, func() {}))
	}
	for range 2 * permitRuns {
		all = append(all, q.request(poolOf("heavy", 1), Order{}, 8, nil, func() {}))
	}
	if lanes := q.skip(); !slices.Equal(lanes, []int{7, 8}) || crowded() {
		t.Fatalf("the lanes %v are skipped, want 7 and 8; crowded: %t", lanes, crowded())
	}
	for i, r := range all[:laneWaiters/2+1] {
		if resumed > 0 {
			t.Fatalf("resumed after %d tasks", i)
		}
		r.release()
	}
	if lanes := q.skip(); !slices.Equal(lanes, []int{8}) || resumed != 1 {
		t.Errorf("resumed %d times, the lanes %v are skipped; want once, and 8", resumed, lanes)
	}
	for i := range 2 * permitRuns { // of each run two tasks wait
		if i%2 == 0 && crowded() {
			t.Fatalf("with %d runs the worker claims no more", i/2)
		}
		all = append(all, q.request(poolOf("heavy", 1), Order{RunID: queue.RunID(1 + i/2)}, 0, nil, func() {}))
	}
	if !crowded() {
		t.Errorf("with %d runs that need the pool later the worker claims more", permitRuns)
	}
	all[len(all)-1].release()
	all[len(all)-2].release()
	if crowded() {
		t.Errorf("with %d runs the worker claims no more", permitRuns-1)
	}
}
