package worker

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// driver owns one run while it holds the claim. It feeds events to the core, commits the records that the core returns, and
// performs the actions. Its fields belong to its goroutine; other goroutines reach the driver through the event queue.
type driver struct {
	life        *life
	claim       *queue.Claim
	def         *queue.Definition
	run         *dagrun.Run
	clock       *runClock
	events      *eventQueue
	seen        int64 // the run's inbox counter up to which controls were read
	hasControls bool  // there are controls to read
	slots       runSlots
	pools       map[string]dagspec.PoolNeed // of the DAG; nil: not needed yet
	bodies      bodies
	losses      map[dagrun.TaskID]int          // by task: lost attempts of this drive since one that did not fail; none: 0
	kept        map[dagrun.TaskID]Log          // open logs of bodies that succeeded and have a publish, which writes to the same log
	left        map[dagrun.TaskID]queue.LogEnd // ends of such logs that an earlier drive left open
	line        []inLine                       // tasks that wait for slots and have no recorded reason yet, the oldest ask first
	lookAt      time.Time                      // when to look for tasks that a limit of the run holds back
	extra       extra
	timer       *time.Timer
	roused      bool // the run was claimed although no slot was free
	acted       bool // a commit of this drive was stored
	ending      driveEnding
	calls       driveCalls
	ctx         context.Context //nolint:containedctx // of this drive, for the goroutines that it starts
}

// driveEnding holds why a drive ends before its run is over, and how it ended.
type driveEnding struct {
	wake    dagrun.Time   // when the core wants to be called although the run waits for a slot; 0: never
	yields  bool          // the run is to go back to the queue, for another worker
	unfit   bool          // this host cannot start tasks
	outcome Outcome       // set once the end of the drive is stored
	took    time.Duration // how long the run took, once it is over
}

// driveCalls counts the goroutines of a drive besides its bodies.
type driveCalls struct {
	open    atomic.Int32 // calls of ask that have not returned an answer yet
	asking  sync.WaitGroup
	parting sync.WaitGroup // work that must be done before a drive ends in order
}

// ask runs do in a goroutine, and counts it in e.open until do returns. do must post an answer to the event queue of the drive.
func (e *driveCalls) ask(do func()) {
	e.open.Add(1)
	e.asking.Go(func() {
		defer e.open.Add(-1)
		do()
	})
}

// extra holds rows that the next batch stores besides the records of the core.
type extra struct {
	details []queue.Detail
	chunks  []queue.Chunk
}

// newDriver returns the driver of a claimed run, which has not begun. expected means that the slot queue keeps a slot for the run
// until the run asks for it.
func newDriver(l *life, c *queue.Claim, expected bool) *driver {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &driver{
		life: l, claim: c, clock: newRunClock(l.clock, c.Row.StartedAt), events: newEventQueue(), seen: c.Inbox, timer: timer,
		slots:  runSlots{queue: l.slotQueue, permits: l.permits, byTask: map[dagrun.TaskID]*SlotRequest{}, isExpected: expected},
		bodies: bodies{byTask: map[dagrun.TaskID]*body{}}, losses: map[dagrun.TaskID]int{}, kept: map[dagrun.TaskID]Log{}, left: map[dagrun.TaskID]queue.LogEnd{},
	}
}

// drive drives the run until it parks, is handed on or ends. An error means that the drive cannot go on: the claim is lost, the run
// went back to the queue, the life has ended, or the run cannot be driven here. When drive returns, no body of the run is left
// here.
func (d *driver) drive(ctx context.Context) error {
	var end context.CancelFunc
	d.ctx, end = context.WithCancel(ctx)
	defer d.abandon()
	defer end()
	defer d.slots.releaseReserved()
	if err := d.begin(ctx); err != nil {
		return err
	}
	for {
		wake, err := d.settle(ctx)
		if err != nil {
			return err
		}
		if d.run.Over() {
			d.calls.parting.Wait()
			return nil
		}
		if err := d.wait(ctx, wake); err != nil {
			return err
		}
	}
}

// settle commits the decisions of the core and performs their actions, until the run can only wait or is over. wake is when the
// core wants to be called then; 0: never. Before each commit settle takes in what has happened meanwhile, so that one commit
// carries all of it. After an error the drive cannot go on.
func (d *driver) settle(ctx context.Context) (wake dagrun.Time, err error) {
	for {
		if err := d.readControls(ctx); err != nil {
			return 0, err
		}
		ready, something := d.run.Ready()
		if !something {
			d.slots.releaseReserved()
			d.slots.releaseSpare()
			d.slots.releasePermits()
			return ready.WakeAt, nil
		}
		d.ask(&ready)
		if d.takeIn() || d.hasControls {
			continue
		}
		switch err := d.commit(ctx, &ready); {
		case errors.Is(err, queue.ErrInboxMoved):
			d.hasControls = true
			continue
		case err != nil:
			return 0, err
		case ctx.Err() != nil && len(ready.Actions) > 0:
			return 0, context.Cause(ctx) // the life has ended: no action begins any more
		}
		d.slots.releasePermits() // the ends of their bodies are durable
		d.perform(ready.Actions)
		d.run.Advance()
		if d.run.Over() {
			return 0, nil
		}
	}
}

// commit stores the decisions in ready and the rows in d.extra as one batch, waits until they are durable, and empties d.extra. It
// sends nothing if there is nothing to store. It sends nothing either if the first batch of a drive would say only that the run
// begins: the next commit stores that as well. It may replace ready.Leave. Errors are those of queue.Session.Commit; after
// ErrInboxMoved the caller reads the controls and commits again.
func (d *driver) commit(ctx context.Context, ready *dagrun.Ready) error {
	rec := ready.Records
	d.closeLogs(ctx, rec.Tasks)
	if ready.Leave != nil {
		d.leaveLogs(ctx)
	}
	rec.Notes = append(slices.Clip(rec.Notes), d.handOnNotes(ready)...)
	if len(rec.Tasks)+len(rec.Attempts)+len(rec.Controls)+len(rec.Notes) == 0 && rec.Run == nil && ready.Leave == nil && ready.Result == nil {
		return nil
	}
	if left := ready.Leave; left != nil && left.Drained && d.ending.yields {
		ready.Leave = &dagrun.Leave{Drained: true, WakeAt: d.ending.wake}
	}
	leave := d.clock.stored(&rec, ready.Leave)
	batch := &queue.Batch{
		Claim: d.claim, Seen: d.seen, Records: rec, Leave: leave, Result: ready.Result,
		Details: d.extra.details, Chunks: d.extra.chunks, Keeps: d.keeps(rec.Tasks), Waits: d.ending.yields,
	}
	if !d.acted && d.onlyBegins(batch) {
		return nil // the next commit stores the begin as well
	}
	err := d.life.session.Commit(ctx, batch)
	if err == nil {
		d.acted = true
		d.extra = extra{}
		d.count(ready)
	}
	return err
}

// onlyBegins reports whether a batch only says that the run begins, which the claim has written to the run's row already.
func (d *driver) onlyBegins(b *queue.Batch) bool {
	rec := &b.Records
	return b.Leave == nil && b.Result == nil && rec.Run != nil && d.claim.Begins(rec.Run) &&
		len(rec.Tasks)+len(rec.Attempts)+len(rec.Controls)+len(rec.Notes)+len(b.Details)+len(b.Chunks) == 0
}

// handOnNotes returns a note for the history of the run, with the reason why this worker puts the run back into the queue. It
// returns nil if this commit does not put it back.
func (d *driver) handOnNotes(ready *dagrun.Ready) []dagrun.Note {
	if ready.Leave == nil || !ready.Leave.Drained {
		return nil
	}
	text := fmt.Sprintf("worker %s stops, and put the run back into the queue", d.life.config.Self.Name)
	switch {
	case d.ending.unfit:
		text = fmt.Sprintf("worker %s could not start tasks, and put the run back into the queue", d.life.config.Self.Name)
	case d.ending.yields && d.life.drivers.inDanger():
		text = fmt.Sprintf("worker %s could not reach the database, and put the run back into the queue", d.life.config.Self.Name)
	case d.ending.yields:
		text = fmt.Sprintf("worker %s has no free slot, and put the run back into the queue", d.life.config.Self.Name)
	}
	return []dagrun.Note{{At: d.clock.now(), Kind: "handed_on", Text: text}}
}

// keeps returns an entry for each of the tasks that succeeded with a cache key: the batch stores its result in the cache of the
// step, for later tasks.
func (d *driver) keeps(tasks []dagrun.TaskRecord) (keeps []queue.Keep) {
	for i := range tasks {
		t := &tasks[i]
		if t.State != dagrun.TaskSucceeded || t.CacheKey == "" {
			continue
		}
		if body, err := d.bodyOf(t.ID); err == nil && body.Cache != nil {
			keeps = append(keeps, queue.Keep{Task: t.ID, Step: d.stepName(t.ID), TTL: body.Cache.TTL.Std(), Shared: body.Cache.Shared()})
		}
	}
	return keeps
}

// wait waits until something happens or until wake, and feeds it to the core. wake is 0 if the core waits for no moment. At its end
// wait records why tasks still wait for slots.
//
// If the run can do nothing without a slot and an event asks the driver to yield, wait gives the run back. It returns an error if
// the drive must end: from giveBack, ErrLeaseLost if the claim is lost, or the reason for the end of the life.
func (d *driver) wait(ctx context.Context, wake dagrun.Time) error {
	var alarm <-chan time.Time
	if pause, some := d.pause(wake); some {
		d.timer.Reset(pause)
		defer d.timer.Stop()
		alarm = d.timer.C
	}
	if t := d.stuckFor(); t != nil {
		d.ending.wake = wake
		d.life.drivers.block(blockedDriver{d, t})
		defer d.life.drivers.unblock(d)
		if d.ending.unfit = d.life.startsNothing(); d.ending.unfit { // read after block: cannotStart has all blocked drivers give their run back
			return d.giveBack(ctx)
		}
		d.life.sharer.stuck.send()
	}
	due := false
	select {
	case <-d.events.signal:
	case <-alarm:
		due = true
	case <-d.claim.Lost():
		return fmt.Errorf("run %d: %w", d.claim.Run, queue.ErrLeaseLost)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	some := d.takeIn()
	if d.ending.yields {
		if d.ending.yields = d.stuckFor() != nil; d.ending.yields { // the run may have got a slot meanwhile
			d.ending.unfit = d.life.startsNothing()
			return d.giveBack(ctx)
		}
	}
	if !some && due { // no tick before posted events: a body that ended in time must not time out because the driver was held up
		_ = d.step(dagrun.Event{Kind: dagrun.EvTick})
	}
	d.explainWaits(time.Now())
	return nil
}

// pause returns after how long the driver has to look at the run even if nothing happens; some is false: never.
func (d *driver) pause(wake dagrun.Time) (pause time.Duration, some bool) {
	if wake != 0 {
		pause, some = d.clock.until(wake), true
	}
	soonest := func(at time.Time) {
		if due := time.Until(at); !some || due < pause {
			pause, some = max(due, 0), true
		}
	}
	if len(d.line) > 0 {
		soonest(d.line[0].due)
	}
	if d.run.Bounded() {
		soonest(d.lookAt)
	}
	return pause, some
}

// step feeds an event to the core. An event without a time happens now. The core ignores a late or repeated event, and step then
// returns ErrStale or ErrOver. step panics if the core finds an event invalid.
func (d *driver) step(e dagrun.Event) error {
	if e.At == 0 {
		e.At = d.clock.now()
	}
	err := d.run.Step(e)
	if err != nil && !errors.Is(err, dagrun.ErrStale) && !errors.Is(err, dagrun.ErrOver) {
		panic(fmt.Sprintf("run %d: the core refuses event %+v: %v", d.claim.Run, e, err))
	}
	return err
}

// takeIn feeds everything in the event queue to the core, and reports whether there was anything.
func (d *driver) takeIn() (some bool) {
	for _, h := range d.events.take() {
		some = true
		d.handle(&h)
	}
	return some
}

// begin loads the run as the last drive left it, and begins a new drive of it. It sets d.def, d.run, d.clock and d.lookAt. After an
// error the drive cannot begin.
func (d *driver) begin(ctx context.Context) error {
	var err error
	if d.def, err = d.definition(ctx); err != nil {
		return fmt.Errorf("definition of %s version %d: %w", d.claim.DAG, d.claim.Version, err)
	}
	left, err := d.load(ctx)
	if err != nil {
		return err
	}
	d.clock = newRunClock(d.life.clock, latest(&left.Saved))
	d.clock.restored(&left.Saved)
	options, invalid := d.options()
	if d.run, err = dagrun.Restore(d.def.Graph, options, left.Saved); err != nil {
		return fmt.Errorf("run %d: %w", d.claim.Run, err)
	}
	d.beforeBegin(left, invalid)
	_ = d.step(dagrun.Event{Kind: dagrun.EvBegin, Text: "driver lost"})
	d.lookAt = time.Now().Add(tellAfter)
	return nil
}

// definition returns the DAG of the run. The session nearly always has it in memory, so the first read goes without the goroutine
// that ask starts. If that read fails for a reason that lies in the database, ask repeats it.
func (d *driver) definition(ctx context.Context) (*queue.Definition, error) {
	read := func(ctx context.Context) (*queue.Definition, error) {
		return d.life.session.Definition(ctx, d.claim.DAGID, d.claim.Version)
	}
	def, err := read(ctx)
	if err != nil && saysNothingOfRun(err) {
		return ask(ctx, d, readDefinition, read)
	}
	return def, err
}

// load reads what earlier drives stored. For a fresh run it makes the result from the claim, without a read. It returns
// ErrLeaseLost if the claim is lost.
func (d *driver) load(ctx context.Context) (*queue.Loaded, error) {
	if d.claim.Fresh() {
		return &queue.Loaded{Saved: dagrun.Saved{Run: d.claim.Row}, Mailbox: queue.Mailbox{Inbox: d.claim.Inbox}}, nil
	}
	all, err := ask(ctx, d, readRun, func(ctx context.Context) ([]*queue.Loaded, error) {
		return d.life.session.Load(ctx, []*queue.Claim{d.claim})
	})
	if err != nil {
		return nil, err
	}
	if all[0] == nil {
		return nil, fmt.Errorf("load run %d: %w", d.claim.Run, queue.ErrLeaseLost)
	}
	return all[0], nil
}

// beforeBegin feeds the core everything that must come before EvBegin, from the rows in left: that the limit of lost drives is
// reached, the results that tasks settled in transactions of their own, and the controls. It also takes up the logs that a lost
// driver left open. If invalid is not nil, the core then refuses the run for this reason.
func (d *driver) beforeBegin(left *queue.Loaded, invalid error) {
	if limit := d.def.Spec.MaxDrives; limit > 0 && d.claim.Losses >= limit {
		_ = d.step(dagrun.Event{Kind: dagrun.EvDriveLimit, Text: fmt.Sprintf("gave up after %d lost drives", d.claim.Losses)})
	}
	settled := map[dagrun.TaskID]bool{}
	for _, s := range left.Settled {
		settled[s.Task] = true
		_ = d.step(dagrun.Event{Kind: dagrun.EvSettled, Task: s.Task, Attempt: s.Attempt, Result: &dagrun.Result{Outputs: s.Outputs}})
	}
	d.takeUpLogs(left, settled)
	d.stepControls(&left.Mailbox)
	if invalid != nil {
		_ = d.step(dagrun.Event{Kind: dagrun.EvRefuse, Text: "invalid: " + invalid.Error()})
	}
}

// options returns the options of the run for the core, the same in every drive, and binds d.def to the params of the run. invalid
// is why the run has to be refused: the DAG does not take its params, or its precomputed results cannot be read.
func (d *driver) options() (o dagrun.Options, invalid error) {
	scope := dagspec.Context{
		RunID: int64(d.claim.Run), DAG: d.claim.DAG, LogicalAt: d.claim.LogicalAt,
		Schedule: d.claim.Schedule, PreviousLogicalAt: d.claim.PreviousLogicalAt, Env: d.life.config.Env,
	}
	var given map[string]any
	decoder := json.NewDecoder(bytes.NewReader(d.claim.Params))
	decoder.UseNumber() // Params says of a number that is too large in which param it is
	if err := decoder.Decode(&given); err != nil {
		invalid = fmt.Errorf("params: %w", err)
	} else if scope.Params, err = d.def.Spec.Params(given); err != nil {
		invalid = err
	} else if bound, err := d.def.Bind(scope.Params); err != nil {
		invalid = err
	} else {
		d.def = bound
	}
	o = dagrun.Options{Context: scope, Seed: uint64(d.claim.Run), Generation: d.claim.Row.Generation, TimeText: timeText}
	var err error
	if o.Precomputed, err = d.claim.Results(); err != nil {
		invalid = err
	}
	return o, invalid
}

// timeText formats a time in the same way as reasons that the database writes.
func timeText(at dagrun.Time) string { return time.UnixMilli(int64(at)).UTC().Format(time.RFC3339) }

// readControls reads the undecided controls of the run if d.hasControls, feeds them to the core, and clears d.hasControls. It
// returns ErrLeaseLost if the claim is lost.
func (d *driver) readControls(ctx context.Context) error {
	if !d.hasControls {
		return nil
	}
	boxes, err := ask(ctx, d, readMail, func(ctx context.Context) ([]*queue.Mailbox, error) {
		return d.life.session.ReadMail(ctx, []*queue.Claim{d.claim})
	})
	if err != nil {
		return err
	}
	if boxes[0] == nil {
		return fmt.Errorf("mail of run %d: %w", d.claim.Run, queue.ErrLeaseLost)
	}
	d.hasControls = false
	d.stepControls(boxes[0])
	return nil
}

// stepControls feeds the controls in box to the core, and sets d.seen to the inbox counter of box. It has the core refuse a control
// that does not fit this DAG.
func (d *driver) stepControls(box *queue.Mailbox) {
	for i := range box.Controls {
		c := &box.Controls[i]
		control, err := c.For(d.def.Graph)
		if err == nil {
			err = d.checkOutputs(control)
		}
		if err != nil {
			control = &dagrun.Control{ID: c.ID, Verb: c.Verb, By: c.By, Refusal: err.Error()}
		}
		_ = d.step(dagrun.Event{Kind: dagrun.EvControl, Control: control})
	}
	d.seen = box.Inbox
}

// checkOutputs gives the outputs of a mark the types that the step declares. It returns why a control cannot give an approval its
// inputs, or a step its outputs, or nil.
func (d *driver) checkOutputs(c *dagrun.Control) error {
	if c.Task == nil || c.Verb != dagrun.VerbApprove && (c.Verb != dagrun.VerbMark || c.As != dagrun.TaskSucceeded) {
		return nil
	}
	body, err := d.bodyOf(*c.Task)
	if err != nil {
		return nil //nolint:nilerr // the core answers for a task that there is not
	}
	if err := body.CheckInputs(c.Outputs); err != nil || c.Verb != dagrun.VerbMark || body.Foreach != nil && c.Task.Item == "" {
		return err
	}
	c.Outputs, err = body.MarkedOutputs(c.Outputs)
	return err
}

// driverEvent is a message to a driver: an event for the core, mail or yield.
type driverEvent struct {
	event   dagrun.Event
	request *SlotRequest // with EvGranted: the request that was granted
	body    *body        // with EvFinished and EvLost: the body that ended
	mail    bool         // there are new controls; event is empty
	yield   bool         // give the run back if it still waits for a slot; event is empty
}

// eventQueue queues the messages to a driver until it has time. Its length is bounded by what the run has under way.
type eventQueue struct {
	mu     sync.Mutex
	posted []driverEvent
	signal chan struct{}
}

func newEventQueue() *eventQueue { return &eventQueue{signal: make(chan struct{}, 1)} }

func (p *eventQueue) put(h driverEvent) {
	p.mu.Lock()
	p.posted = append(p.posted, h)
	p.mu.Unlock()
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

func (p *eventQueue) take() []driverEvent {
	p.mu.Lock()
	defer p.mu.Unlock()
	posted := p.posted
	p.posted = nil
	return posted
}

// driverSet holds the drivers of one life of a worker.
type driverSet struct {
	bodies atomic.Int64          // bodies under way, of all drivers
	danger atomic.Pointer[order] // the order that bodies which begin now get at once; nil: none
	mu     sync.Mutex
	byRun  map[queue.RunID]*driver
	idle   map[*driver]blockedDriver // drivers that have nothing under way and wait for a slot
	closed bool
	wg     sync.WaitGroup
}

// blockedDriver is a driver that can do nothing until it gets a slot.
type blockedDriver struct {
	driver  *driver
	request *SlotRequest // its first waiting request in order
}

func newDriverSet() *driverSet {
	return &driverSet{byRun: map[queue.RunID]*driver{}, idle: map[*driver]blockedDriver{}}
}

// launch runs drive in a goroutine for the driver d. It returns false and does nothing once the driver set is closed.
func (f *driverSet) launch(d *driver, drive func()) bool {
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

func (f *driverSet) remove(d *driver) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byRun[d.claim.Run] == d {
		delete(f.byRun, d.claim.Run)
	}
}

// block records that a driver can do nothing until it gets a slot; unblock ends that.
func (f *driverSet) block(s blockedDriver) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.idle[s.driver] = s
}

func (f *driverSet) unblock(d *driver) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.idle, d)
}

// look returns the number of drivers, and the blocked ones.
func (f *driverSet) look() (size int, idle blockedDrivers) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.byRun), slices.Collect(maps.Values(f.idle))
}

// blockedDrivers is a list of blocked drivers, in no order.
type blockedDrivers []blockedDriver

// runs returns the runs of the drivers, sorted.
func (all blockedDrivers) runs() (runs []queue.RunID) {
	for _, s := range all {
		runs = append(runs, s.driver.claim.Run)
	}
	slices.Sort(runs)
	return runs
}

// roused counts the blocked drivers that were launched without a free slot.
func (all blockedDrivers) roused() (n int) {
	for _, s := range all {
		if s.driver.roused {
			n++
		}
	}
	return n
}

// lanes returns the lanes of the drivers' runs, each lane once, and not more than most of them. Lanes of runs that have waited
// longest come first.
func (all blockedDrivers) lanes(most int) (lanes []int) {
	oldest := slices.SortedFunc(slices.Values(all), func(a, b blockedDriver) int { return a.request.since.Compare(b.request.since) })
	for _, s := range oldest {
		if lane := s.driver.claim.Lane; len(lanes) < most && !slices.Contains(lanes, lane) {
			lanes = append(lanes, lane)
		}
	}
	return lanes
}

// longerThan returns the drivers that have waited for a slot for longer than wait.
func (all blockedDrivers) longerThan(wait time.Duration) blockedDrivers {
	return slices.DeleteFunc(slices.Clone(all), func(s blockedDriver) bool { return time.Since(s.request.since) <= wait })
}

// close makes launch refuse further drivers, and posts a drain to the event queue of each driver. It does not wait for them.
func (f *driverSet) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.each(func(d *driver) { d.events.put(driverEvent{event: dagrun.Event{Kind: dagrun.EvDrain}}) })
}

// each calls do for every driver in the order of runs, outside of the lock.
func (f *driverSet) each(do func(*driver)) {
	f.mu.Lock()
	all := slices.Collect(maps.Values(f.byRun))
	f.mu.Unlock()
	slices.SortFunc(all, func(a, b *driver) int { return cmp.Compare(a.claim.Run, b.claim.Run) })
	for _, d := range all {
		do(d)
	}
}

// grace returns the longest grace of all bodies under way; 0: none has a grace.
func (f *driverSet) grace() (longest time.Duration) {
	f.each(func(d *driver) { d.bodies.each(func(b *body) { longest = max(longest, b.grace) }) })
	return longest
}

// order is an order to end every body. The attempts are recorded as lost.
type order struct {
	why     string
	now     bool // kill at once, without grace
	passing bool // the order ends when the lease is safe again
}

// giveUp asks the bodies of all drivers to end, or kills them if o.now is set, and does the same to bodies that begin later. It
// does not wait for their end. The order replaces an earlier one. A passing order holds until liftDanger, any other order for good.
func (f *driverSet) giveUp(o order) {
	f.danger.Store(&o)
	f.each(func(d *driver) { d.bodies.each(func(b *body) { b.giveUp(&o) }) })
}

// inDanger reports whether a passing order is in force: the worker ends its tasks and starts none because no sign of life is
// answered.
func (f *driverSet) inDanger() bool {
	o := f.danger.Load()
	return o != nil && o.passing
}

// liftDanger takes back a passing order, so that bodies may begin again, and reports whether there was one. An order that came
// after that one stays.
func (f *driverSet) liftDanger() bool {
	o := f.danger.Load()
	if o == nil || !o.passing {
		return false
	}
	f.danger.CompareAndSwap(o, nil)
	return true
}

// tell tells the drivers of these runs, or all drivers, that their runs may have new controls. It skips runs without a driver here,
// and does not wait for the drivers.
func (f *driverSet) tell(runs []queue.RunID, all bool) {
	if all {
		f.each(func(d *driver) { d.events.put(driverEvent{mail: true}) })
		return
	}
	for _, run := range runs {
		f.mu.Lock()
		d := f.byRun[run]
		f.mu.Unlock()
		if d != nil {
			d.events.put(driverEvent{mail: true})
		}
	}
}
