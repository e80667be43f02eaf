package worker

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// fleet is the drivers of one life of a worker.
type fleet struct {
	bodies atomic.Int64          // of all drivers, under way
	danger atomic.Pointer[order] // why bodies that begin now are to be given up at once; nil: they are not
	mu     sync.Mutex
	byRun  map[queue.RunID]*driver
	idle   map[*driver]stall // those that have nothing under way and wait for a slot
	closed bool
	wg     sync.WaitGroup
}

// stall is a driver that can do nothing until it gets a slot.
type stall struct {
	driver *driver
	ticket *Ticket // its first
}

func newFleet() *fleet { return &fleet{byRun: map[queue.RunID]*driver{}, idle: map[*driver]stall{}} }

// launch starts a driver; once the fleet is closed it does not.
func (f *fleet) launch(d *driver, drive func()) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return false
	}
	f.byRun[d.claim.Run] = d
	f.wg.Go(func() {
		defer f.remove(d)
		drive()
	})
	return true
}

func (f *fleet) remove(d *driver) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byRun[d.claim.Run] == d {
		delete(f.byRun, d.claim.Run)
	}
}

// stall and unstall say that a driver can do nothing until it gets a slot, and that this is over.
func (f *fleet) stall(s stall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle[s.driver] = s
}

func (f *fleet) unstall(d *driver) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.idle, d)
}

// look counts the drivers, and lists those that can do nothing until they get a slot.
func (f *fleet) look() (size int, idle stalls) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.byRun), slices.Collect(maps.Values(f.idle))
}

// stalls are stalled drivers, in no order.
type stalls []stall

// runs are sorted.
func (all stalls) runs() (runs []queue.RunID) {
	for _, s := range all {
		runs = append(runs, s.driver.claim.Run)
	}
	slices.Sort(runs)
	return runs
}

// roused counts the stalled drivers whose runs were claimed without a slot.
func (all stalls) roused() (n int) {
	for _, s := range all {
		if s.driver.roused {
			n++
		}
	}
	return n
}

// lanes are those of the runs, up to so many: of the runs that have waited longest.
func (all stalls) lanes(most int) (lanes []int) {
	oldest := slices.SortedFunc(slices.Values(all), func(a, b stall) int { return a.ticket.since.Compare(b.ticket.since) })
	for _, s := range oldest {
		if lane := s.driver.claim.Lane; len(lanes) < most && !slices.Contains(lanes, lane) {
			lanes = append(lanes, lane)
		}
	}
	return lanes
}

// longerThan are those that have waited for a slot for longer.
func (all stalls) longerThan(wait time.Duration) stalls {
	return slices.DeleteFunc(slices.Clone(all), func(s stall) bool { return time.Since(s.ticket.since) <= wait })
}

// close lets nothing more start, and tells all that the worker drains.
func (f *fleet) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.each(func(d *driver) { d.post.put(happening{event: dagrun.Event{Kind: dagrun.EvDrain}}) })
}

// each calls do for every driver in the order of runs, outside of the lock.
func (f *fleet) each(do func(*driver)) {
	f.mu.Lock()
	all := slices.Collect(maps.Values(f.byRun))
	f.mu.Unlock()
	slices.SortFunc(all, func(a, b *driver) int { return cmp.Compare(a.claim.Run, b.claim.Run) })
	for _, d := range all {
		do(d)
	}
}

// grace is the longest that a body under way has to end by itself.
func (f *fleet) grace() (longest time.Duration) {
	f.each(func(d *driver) { d.bodies.each(func(b *body) { longest = max(longest, b.grace) }) })
	return longest
}

// order is to give up every body; its attempt is recorded as lost.
type order struct {
	why     string
	now     bool // without grace
	passing bool // it ends when the lease is safe again
}

// giveUp has every driver end its bodies, those that begin later as well.
func (f *fleet) giveUp(o order) {
	f.danger.Store(&o)
	f.each(func(d *driver) { d.bodies.each(func(b *body) { b.giveUp(&o) }) })
}

// inDanger reports whether tasks are ended, and none is started, because no sign of life is answered.
func (f *fleet) inDanger() bool {
	o := f.danger.Load()
	return o != nil && o.passing
}

// liftDanger takes back an order that is passing, and reports whether there was one. One that came after it stays.
func (f *fleet) liftDanger() bool {
	o := f.danger.Load()
	if o == nil || !o.passing {
		return false
	}
	f.danger.CompareAndSwap(o, nil)
	return true
}

// tell says that runs have mail; of none in particular: all.
func (f *fleet) tell(runs []queue.RunID, all bool) {
	if all {
		f.each(func(d *driver) { d.post.put(happening{mail: true}) })
		return
	}
	for _, run := range runs {
		f.mu.Lock()
		d := f.byRun[run]
		f.mu.Unlock()
		if d != nil {
			d.post.put(happening{mail: true})
		}
	}
}
