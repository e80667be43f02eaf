package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// driver owns one run while it holds the claim: events in, records and actions out. Its fields belong to its goroutine;
// what happens elsewhere comes through the postbox.
type driver struct {
	life    *life
	claim   *queue.Claim
	def     *queue.Definition
	run     *dagrun.Run
	clock   *runClock
	post    *postbox
	seen    int64 // the inbox read so far
	mail    bool  // there are controls to be read
	slots   runSlots
	bodies  bodies
	kept    map[dagrun.TaskID]Log          // logs of bodies that succeeded, whose publish writes to them too
	left    map[dagrun.TaskID]queue.LogEnd // such logs that a former drive had
	line    []inLine                       // wishes that wait for slots, and may have to be told
	lookAt  time.Time                      // when to look for tasks that a limit of the run holds back
	extra   extra
	timer   *time.Timer
	roused  bool // the run was claimed though no slot was free
	acted   bool // something of this drive is durable
	ending  driveEnding
	errands errands
	ctx     context.Context //nolint:containedctx // of this drive, for what goes on by itself
}

// driveEnding is why a drive ends before its run does, and how it ended.
type driveEnding struct {
	wake    dagrun.Time   // when something of the run is due though it waits for a slot; 0: nothing is
	yields  bool          // another worker is to start what waits for a slot here
	unfit   bool          // this host starts nothing
	outcome Outcome       // once that is durable
	took    time.Duration // of the run, once it is over
}

// errands are what a drive does beside its bodies that may take a while.
type errands struct {
	open    atomic.Int32 // questions that have not been answered
	asking  sync.WaitGroup
	parting sync.WaitGroup // what is to be done before a drive ends in order
}

// ask does what brings the drive an answer, and returns at once.
func (e *errands) ask(do func()) {
	e.open.Add(1)
	e.asking.Go(func() {
		defer e.open.Add(-1)
		do()
	})
}

// extra rides with the next batch, besides what the core records.
type extra struct {
	details   []queue.Detail
	chunks    []queue.Chunk
	decisions []dagrun.Decision
}

func newDriver(l *life, c *queue.Claim, expected bool) *driver {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &driver{
		life: l, claim: c, clock: newRunClock(l.clock, c.Row.StartedAt), post: newPostbox(), seen: c.Inbox, timer: timer,
		slots:  runSlots{gate: l.gate, byTask: map[dagrun.TaskID]*Ticket{}, isExpected: expected},
		bodies: bodies{byTask: map[dagrun.TaskID]*body{}}, kept: map[dagrun.TaskID]Log{}, left: map[dagrun.TaskID]queue.LogEnd{},
	}
}

// drive drives the run until it parks, is drained or ends. With any error the claim is not this driver's any more, and
// nothing of the run is left here.
func (d *driver) drive(ctx context.Context) error {
	var end context.CancelFunc
	d.ctx, end = context.WithCancel(ctx)
	defer d.abandon()
	defer end()
	defer d.slots.forgo()
	if err := d.begin(ctx); err != nil {
		return err
	}
	for {
		wake, err := d.settle(ctx)
		if err != nil {
			return err
		}
		if d.run.Over() {
			d.errands.parting.Wait()
			return nil
		}
		if err := d.wait(ctx, wake); err != nil {
			return err
		}
	}
}

// settle makes durable what the run decided, and performs it, until there is nothing to do but wait. What happens
// meanwhile is taken in before each commit, so that one carries it all.
func (d *driver) settle(ctx context.Context) (wake dagrun.Time, err error) {
	for {
		if err := d.readMail(ctx); err != nil {
			return 0, err
		}
		ready, something := d.run.Ready()
		if !something {
			d.slots.forgo()
			d.slots.releaseSpare()
			return ready.WakeAt, nil
		}
		d.ask(&ready)
		if d.takeIn() || d.mail {
			continue
		}
		switch err := d.commit(ctx, &ready); {
		case errors.Is(err, queue.ErrInboxMoved):
			d.mail = true
			continue
		case err != nil:
			return 0, err
		case ctx.Err() != nil && len(ready.Actions) > 0:
			return 0, context.Cause(ctx) // nothing begins any more
		}
		d.perform(ready.Actions)
		d.run.Advance()
		if d.run.Over() {
			return 0, nil
		}
	}
}

// commit writes what was decided, if anything was.
func (d *driver) commit(ctx context.Context, ready *dagrun.Ready) error {
	rec := ready.Records
	d.closeLogs(ctx, rec.Tasks)
	if ready.Leave != nil {
		d.leaveLogs(ctx)
	}
	rec.Controls = append(d.extra.decisions, rec.Controls...)
	rec.Notes = append(slices.Clip(rec.Notes), d.farewell(ready)...)
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
		return nil // the next commit says it, too
	}
	err := d.life.session.Commit(ctx, batch)
	if err == nil {
		d.acted = true
		d.extra = extra{}
		d.count(ready)
	}
	return err
}

// onlyBegins says whether a batch holds nothing that the run's row does not say since the claim.
func (d *driver) onlyBegins(b *queue.Batch) bool {
	rec := &b.Records
	return b.Leave == nil && b.Result == nil && rec.Run != nil && d.claim.Begins(rec.Run) &&
		len(rec.Tasks)+len(rec.Attempts)+len(rec.Controls)+len(rec.Notes)+len(b.Details)+len(b.Chunks) == 0
}

// farewell tells in the run's own log that another worker is to go on with it.
func (d *driver) farewell(ready *dagrun.Ready) []dagrun.Note {
	if ready.Leave == nil || !ready.Leave.Drained {
		return nil
	}
	text := fmt.Sprintf("worker %s stops: handed on", d.life.config.Self.Name)
	switch {
	case d.ending.unfit:
		text = fmt.Sprintf("worker %s could not start tasks: handed on", d.life.config.Self.Name)
	case d.ending.yields && d.life.fleet.inDanger():
		text = fmt.Sprintf("worker %s could not reach the database: handed on", d.life.config.Self.Name)
	case d.ending.yields:
		text = fmt.Sprintf("worker %s has no free slot: handed on", d.life.config.Self.Name)
	}
	return []dagrun.Note{{At: d.clock.now(), Kind: "handed_on", Text: text}}
}

// keeps are the results that later tasks of their steps may take for their own.
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

// wait waits until something happens, or until a moment.
func (d *driver) wait(ctx context.Context, wake dagrun.Time) error {
	var alarm <-chan time.Time
	if pause, some := d.pause(wake); some {
		d.timer.Reset(pause)
		defer d.timer.Stop()
		alarm = d.timer.C
	}
	if t := d.stuckFor(); t != nil {
		d.ending.wake = wake
		d.life.fleet.stall(stall{d, t})
		defer d.life.fleet.unstall(d)
		if d.ending.unfit = d.life.startsNothing(); d.ending.unfit { // asked after stall: whoever finds out later tells those that are stalled
			return d.yield(ctx)
		}
		d.life.sharer.stuck.send()
	}
	due := false
	select {
	case <-d.post.signal:
	case <-alarm:
		due = true
	case <-d.claim.Lost():
		return fmt.Errorf("run %d: %w", d.claim.Run, queue.ErrLeaseLost)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	some := d.takeIn()
	if d.ending.yields {
		if d.ending.yields = d.stuckFor() != nil; d.ending.yields { // it may have got a slot meanwhile
			d.ending.unfit = d.life.startsNothing()
			return d.yield(ctx)
		}
	}
	if !some && due { // a body that ended in time has not timed out, though the driver was held up meanwhile
		_ = d.step(dagrun.Event{Kind: dagrun.EvTick})
	}
	d.tell(time.Now())
	return nil
}

// pause is how long it is until the run has to be looked at though nothing happens.
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

// step tells the core. An event without a time of its own happens now. Late and repeated events are the core's business: it
// says so, and changes nothing.
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

// takeIn steps everything that happened, and says whether anything did.
func (d *driver) takeIn() (some bool) {
	for _, h := range d.post.take() {
		some = true
		d.happened(&h)
	}
	return some
}
