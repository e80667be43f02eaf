package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// Least times between two polls.
const (
	fastInterval   = 5 * time.Millisecond   // where bodies end fast: a poll for each that ends would claim one run
	fullInterval   = 20 * time.Millisecond  // of a worker that has no room: a flood of notifications has it poll no more often
	rankedInterval = 250 * time.Millisecond // of polls that only let others know how the waiting tasks rank
)

// unpolledMax is for how long polls may fail before the worker counts as unfit: most failures are over with the next one.
const unpolledMax = 3 * time.Second

// claimer is what wakes the loop that polls, and what that loop remembers.
type claimer struct {
	told   signal      // there are runs: poll at once, and closely for a while after
	due    signal      // there may be runs: poll
	wakeup signal      // there may be room: poll if there is
	asks   signal      // a slot is kept for what a poll may bring
	ranked signal      // tasks began to wait: others are to know how they rank
	ration ration      // of runs that it was told of
	sated  atomic.Bool // the last poll got all it wanted
	rests  bool        // nothing was due, and who enters runs tells the worker: looks say whether to poll; the loop's alone

	unpolled Outage // the loop's alone
}

func newClaimer() claimer {
	return claimer{told: newSignal(), due: newSignal(), wakeup: newSignal(), asks: newSignal(), ranked: newSignal()}
}

// claim polls when there is room or a reason, as long as the worker lives; and each queue.PollInterval, unless nothing was due and looks say
// that nothing is.
func (l *life) claim() {
	c := &l.claimer
	var pace queue.Pace
	var last time.Time
	due := time.Now()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		var gap time.Duration // that there has to be between two polls
		forAsk := false       // nothing but an ask wants this poll
		rested := c.rests
		c.rests = false
		select {
		case <-l.ctx.Done():
			return
		case <-c.asks:
			forAsk = true
		case <-c.told:
			l.hear(&pace)
			gap = l.gapUnlessHungry()
		case <-c.due:
			gap = l.gapUnlessHungry()
		case <-c.ranked:
			gap = rankedInterval
		case <-c.wakeup:
			if !l.hungers() {
				c.rests = rested
				continue // every slot that ends says so, and there is no room yet
			}
			if l.ends.count() >= fastEnds {
				gap = fastInterval
			}
		case <-next.C:
			fresh := l.lookout.freshFor(l.config.Boot())
			if rested && fresh > 0 {
				c.rests = true
				due = time.Now().Add(fresh)
				next.Reset(fresh)
				continue
			}
			if fresh <= 0 {
				l.gate.MayBeDue() // while no look says what is due, a slot that ends asks the queue
			}
			if c.drainSignals() {
				l.hear(&pace)
			}
		}
		if c.ration.isCut {
			gap = max(gap, fastInterval) // others who heard of the same runs come first
		}
		if at := last.Add(gap); time.Until(at) > 0 {
			if at.Before(due) {
				due = at
				next.Reset(time.Until(due))
			}
			continue
		}
		last = time.Now()
		asked, pause := l.pollOnce(&pace)
		at := time.Now().Add(pause)
		forAsk = forAsk && asked && !l.hungers()
		if !forAsk || at.Before(due) { // else the poll that was due before still is
			due = at
		}
		if asked && !forAsk {
			c.due.send() // it claimed for the ask alone
		}
		next.Reset(time.Until(due))
	}
}

// pollOnce polls, has what it claims driven, and returns whether it was for an ask, and how long the next poll may wait. What an ask is for
// is all that its poll claims.
func (l *life) pollOnce(pace *queue.Pace) (asked bool, pause time.Duration) {
	c := &l.claimer
	began := time.Now()
	l.lookAtRecords()
	ask := l.gate.Asked()
	want, kept := l.want(ask)
	sent := l.config.Boot()
	polled, err := l.session.Poll(l.ctx, want)
	polled.Hungry = polled.Hungry || err != nil // else the slots that come free now would have it poll at once, for ever
	l.compareClock(polled.Now, sent)            // before what it claimed is driven by it
	l.polled(PollEnd{Wanted: want.Slots, Got: polled, Took: time.Since(began), Err: err})
	l.take(want, kept, &polled)
	l.gate.Answered(ask, len(polled.Claims) > 0 || err != nil)
	if polled.Sweep {
		l.lookout.sweep.send()
	}
	pause = pace.After(polled)
	c.rests = err == nil && polled.Hungry && pause == queue.PollInterval
	if c.ration.isCut {
		pause = min(pause, fastInterval)
	}
	return ask != nil, pause
}

// gapUnlessHungry is the least time between two polls where one was asked for by what may be in the queue.
func (w *Worker) gapUnlessHungry() time.Duration {
	if w.hungers() {
		return 0
	}
	return fullInterval
}

func (l *life) compareClock(now dagrun.Time, asked time.Duration) {
	if now != 0 {
		l.clock.compare(now, asked)
	}
}

// take launches what a poll claimed.
func (l *life) take(want queue.Want, kept *Keeping, polled *queue.Polled) {
	c := &l.claimer
	c.sated.Store(!polled.Hungry)
	expected := min(len(polled.Claims), kept.Slots)
	kept.Expect(expected) // before the gate goes by its order again
	for i, claim := range polled.Claims {
		d := newDriver(l, claim, i < expected)
		d.roused = want.Slots == 0
		l.launch(d)
	}
}

// drainSignals drops wake-ups that are pending, and reports whether the worker was told of runs. The poll that follows answers all of them.
func (c *claimer) drainSignals() (told bool) {
	c.wakeup.take()
	c.due.take()
	return c.told.take()
}

// hear takes in that the worker was told of runs.
func (w *Worker) hear(pace *queue.Pace) {
	pace.Hear()
	w.gate.MayBeDue()
}

// freed is told by the gate that there may be room. While a poll brought less than there was room for, there is nothing to look
// for until a notification or the next poll.
func (w *Worker) freed() {
	if w.claimer.sated.Load() {
		w.claimer.wakeup.send()
	}
}

// polled tells of a poll, unless it was the end that ended it.
func (l *life) polled(p PollEnd) {
	if l.ctx.Err() != nil {
		return
	}
	l.config.Meter.Polled(p)
	unpolled := &l.claimer.unpolled
	unpolled.Tell(l.log, p.Err, "no answer to a poll", "the database answers polls again")
	switch {
	case p.Err == nil:
		l.fitness.clear(unfitPolls)
	case time.Since(unpolled.since) >= unpolledMax:
		failure := queue.Failure{Since: unpolled.since, Err: p.Err}
		l.fitness.set(unfitPolls, failure.Since, fmt.Sprintf("the database answers no polls (%s)", failure.Cause()))
	}
}

// launch has a claimed run driven, or hands it back when it is too late for that.
func (l *life) launch(d *driver) {
	c := d.claim
	if !c.Begun {
		l.config.Meter.RunStarted(c.DAG, max(0, at(l.clock.now()).Sub(c.RunAt)))
	}
	if !l.fleet.launch(d, func() { l.drive(d) }) {
		d.slots.forgo()
		_ = l.session.Release(l.ctx, c, false, 0) // closing the session does it otherwise
	}
}

// drive drives a run to its end here, and says what went wrong.
func (l *life) drive(d *driver) {
	log := l.log.With("run", d.claim.Run, "epoch", d.claim.Epoch)
	err := d.drive(l.ctx)
	d.claim.Leave()
	if d.claim.Schedule != "" {
		defer l.lookout.attend.send() // its end may let the next one fire
	}
	outcome := d.outcomeAfter(err)
	defer func() { l.config.Meter.RunLeft(d.claim.DAG, outcome, d.ending.took) }()
	if l.stopping() && l.leaves(outcome, err) {
		l.handedOn.Add(1)
	}
	switch {
	case err == nil, errors.Is(err, errStopped), errors.Is(err, errGivenBack):
	case errors.Is(err, queue.ErrLeaseLost):
		log.Warn("the claim is lost: its tasks were ended", "err", err)
	case errors.Is(err, queue.ErrRefused):
		log.Error("the database takes no record of this run: it has failed", "err", err)
	case l.ctx.Err() != nil: // cut off: the run is for the next driver
	default:
		log.Error("this run cannot be driven here", "err", err)
		l.condemn(d.claim, err)
	}
	if d.claim.Limited {
		l.claimer.due.send()
	}
	l.freed()
}

// leaves reports whether another worker is to go on after a drive that ended so. Closing the session hands on the runs of
// drives that were cut off.
func (l *life) leaves(outcome Outcome, err error) bool {
	cutOff := l.ctx.Err() != nil && (errors.Is(err, errStopped) || outcome == Undrivable)
	return outcome == HandedOn || outcome == Unfit || cutOff
}

// condemn ends a run that nobody can drive: handing it on would only move the trouble. One that this version cannot read goes to others.
func (l *life) condemn(c *queue.Claim, why error) {
	l.retryUntilDead(func(ctx context.Context) error {
		return l.session.Condemn(ctx, c, why)
	})
}

func (l *life) retryUntilDead(do func(context.Context) error) { l.retry(l.ctx, do) }

func (w *Worker) retry(ctx context.Context, do func(context.Context) error) {
	_, _ = backoff.Retry(ctx, func() (struct{}, error) {
		err := do(ctx)
		if errors.Is(err, queue.ErrLeaseLost) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(w.pauses()))
}

// pauses between two tries of what is tried until it is done.
func (w *Worker) pauses() *backoff.ExponentialBackOff {
	pauses := backoff.NewExponentialBackOff()
	if w.config.Even {
		pauses.RandomizationFactor = 0
	}
	return pauses
}

const (
	crowdedInterval = 200 * time.Millisecond // of looks while runs wait for slots: another worker may have come that has some
	askedInterval   = 100 * time.Millisecond // of sweeps, where each asks for the next
)

// lookout is what the loops that look, do chores, sweep and attend go by, and what the first last saw.
type lookout struct {
	crowded signal                // runs wait for slots: look soon
	looked  signal                // a look has seen what is due: do chores
	sweep   signal                // there is something to mend
	attend  signal                // something is due on the agenda
	shared  atomic.Pointer[[]int] // lanes that another worker may serve, of runs that wait for slots here, sorted; as of the last look, nil: it saw nothing

	seen atomic.Int64 // when the last look was that succeeded, by the time since boot

	begun atomic.Int64 // runs that have begun and are due in the queue, as of the last look

	unseen     Outage // of looks; their loop's alone
	undone     Outage // of chores; their loop's alone
	unswept    Outage // of sweeps; their loop's alone
	unattended Outage // of the agenda; its loop's alone
}

func newLookout() lookout {
	return lookout{crowded: newSignal(), looked: newSignal(), sweep: newSignal(), attend: newSignal()}
}

// sharedLanesMax bounds the lanes that one look asks about.
const sharedLanesMax = 100

// freshFor is for how much longer the last look counts: queue.PollInterval since it was sent.
func (l *lookout) freshFor(now time.Duration) time.Duration {
	return time.Duration(l.seen.Load()) + queue.PollInterval - now
}

// lookAround looks each queue.LookInterval, or soon where runs wait for slots.
func (l *life) lookAround() {
	for {
		l.look()
		if !l.pause(crowdedInterval, nil) || !l.pause(queue.LookInterval-crowdedInterval, l.lookout.crowded) {
			return
		}
	}
}

func (l *life) look() {
	gate, asked := l.gate.Stats(), l.config.Boot()
	_, stalled := l.fleet.look()
	looked, err := l.session.Look(l.ctx, queue.Load{Busy: gate.Slots - gate.Free, Waiting: gate.Waiting, Lanes: stalled.lanes(sharedLanesMax)})
	if l.ctx.Err() != nil {
		return
	}
	l.lookout.unseen.Tell(l.log, err, "could not look at other workers and at what is due", "looks succeed again")
	if looked.Now == 0 { // it saw nothing
		l.lookout.shared.Store(nil)
		return
	}
	l.lookout.seen.Store(int64(asked))
	l.lookout.looked.send()
	l.compareClock(looked.Now, asked)
	l.lookout.shared.Store(&looked.Shared)
	l.lookout.begun.Store(int64(looked.Begun))
	l.gate.Due(looked.Highest)
	if looked.Due {
		l.claimer.due.send()
	}
	if looked.Sweep {
		l.lookout.sweep.send()
	}
	if looked.Attend {
		l.lookout.attend.send()
	}
}

// doChores does after each look what is due for all workers. It has a loop of its own: a chore may wait for a lock.
func (l *life) doChores() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.lookout.looked:
		}
		_, err := l.session.DoChores(l.ctx)
		if l.ctx.Err() != nil {
			return
		}
		l.lookout.undone.Tell(l.log, err, "could not do what was due for all workers", "what is due for all workers is done again")
	}
}

// sweep mends what others left each queue.SweepInterval, or when a look or a poll asks for it.
func (l *life) sweep() {
	for {
		swept, err := l.session.Sweep(l.ctx)
		if l.ctx.Err() != nil {
			return
		}
		if swept.Done || err != nil {
			l.lookout.unswept.Tell(l.log, err, "could not sweep up what was left behind", "sweeps succeed again")
		}
		for _, lost := range swept.Lost {
			l.log.Info("took over from a lost worker", "lost", cmp.Or(lost.Name, lost.ID.String()), "runs", lost.Runs)
		}
		if swept.Late {
			l.claimer.told.send()
		}
		if swept.Sweep {
			l.lookout.sweep.send()
		}
		if !l.pause(askedInterval, nil) || !l.pause(queue.SweepInterval-askedInterval, l.lookout.sweep) {
			return
		}
	}
}

// pause waits for so long, or until the signal. It reports whether the worker lives on.
func (l *life) pause(d time.Duration, until signal) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.ctx.Done():
		return false
	case <-until:
	case <-timer.C:
	}
	return true
}

// attend does what is due on the agenda when a look says that something is, or a run of a schedule has ended here.
func (l *life) attend() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.lookout.attend:
		}
		for more := true; more; {
			done, err := l.session.Attend(l.ctx)
			if l.ctx.Err() != nil {
				return
			}
			l.lookout.unattended.Tell(l.log, err, "could not attend to what is due", "what is due is attended to again")
			for i := range done.Decisions {
				l.tellDecision(&done.Decisions[i])
			}
			more = done.More && err == nil
		}
	}
}

// tellDecision logs what somebody may have to look at. What fired, or was skipped as its schedule says, is in the database.
func (l *life) tellDecision(d *queue.Decision) {
	log := l.log.With("dag", d.DAG, "schedule", d.Schedule, "reason", d.Message)
	switch d.Outcome {
	case "dropped":
		log.Warn("fire times were dropped", "times", d.Times)
	case "refused":
		log.Error("a fire time was refused")
	case "paused":
		log.Warn("the schedule is paused")
	case "ended":
		log.Info("the backfill is over")
	case "failed":
		l.log.Error("an item of the agenda could not be attended to", "kind", d.Kind, "id", d.Schedule, "err", d.Message)
	}
}
