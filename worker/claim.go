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
	fastInterval   = 5 * time.Millisecond   // while bodies end fast: otherwise each body that ends causes a poll for one run
	fullInterval   = 20 * time.Millisecond  // while the worker has no room: bounds the polls in a flood of notifications
	rankedInterval = 250 * time.Millisecond // between polls that only publish the priority of the waiting tasks
)

// unpolledMax is how long polls may fail before the worker counts as unfit. Most failures are over with the next poll.
const unpolledMax = 3 * time.Second

// claimer holds the signals and the state of the poll loop, life.claim.
type claimer struct {
	told   signal      // a notification announced runs: poll at once, and often for a while
	due    signal      // runs may be due: poll
	wakeup signal      // the worker may have room again: poll if it has
	asks   signal      // the slot queue keeps a slot for a QueueAsk: poll for it
	ranked signal      // tasks began to wait: poll, so that other workers learn their priority
	ration ration      // limits a poll to the runs that this worker was notified of
	sated  atomic.Bool // the last poll claimed as many runs as it wanted
	rests  bool        // the last poll found nothing more due: skip the regular polls while looks succeed; owned by the poll loop

	unpolled Outage // owned by the poll loop
}

func newClaimer() claimer {
	return claimer{told: newSignal(), due: newSignal(), wakeup: newSignal(), asks: newSignal(), ranked: newSignal()}
}

// claim is the poll loop of a life, until the life ends. It polls when a signal gives a reason, and otherwise every
// queue.PollInterval. It skips the regular polls while the last poll found nothing more due and looks succeed, because a look
// signals what becomes due.
func (l *life) claim() {
	c := &l.claimer
	var pace queue.Pace
	var last time.Time
	due := time.Now()
	next := time.NewTimer(0)
	defer next.Stop()
	for l.ctx.Err() == nil {
		var gap time.Duration // least time since the last poll
		forAsk := false       // an ask is the only reason for this poll
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
				continue // each slot that comes free sends a wakeup, but the worker has no room yet
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
				l.slotQueue.MayBeDue() // while no look shows what is due, slots that come free are kept for asks
			}
			if c.drainSignals() {
				l.hear(&pace)
			}
		}
		if c.ration.isCut {
			gap = max(gap, fastInterval) // lets other workers that were notified of the same runs poll first
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
		if !forAsk || at.Before(due) { // a poll for an ask does not put off the next regular poll
			due = at
		}
		if asked && !forAsk {
			c.due.send() // the poll claimed for the ask alone: its other reason needs one more
		}
		next.Reset(time.Until(due))
	}
}

// pollOnce polls once and launches the claimed runs. If the slot queue has a QueueAsk, the poll claims for the ask alone and asked
// is true. pause is the longest time until the next poll. pollOnce sets c.rests, and c.sated by take. It logs an error, which
// counts as a poll that found nothing. Once the life has ended, it returns false and 0.
func (l *life) pollOnce(pace *queue.Pace) (asked bool, pause time.Duration) {
	c := &l.claimer
	began := time.Now()
	l.lookAtRecords()
	ask := l.slotQueue.Asked()
	want, kept := l.want(ask)
	sent := l.config.Boot()
	polled, err := l.session.Poll(l.ctx, want)
	polled.Hungry = polled.Hungry || err != nil // a failed poll must not count as sated: each free slot would then poll at once
	l.compareClock(polled.Now, sent)            // before the launches: the drivers go by this clock
	l.polled(PollEnd{Wanted: want.Slots, Got: polled, Took: time.Since(began), Err: err})
	l.take(want, kept, &polled)
	l.slotQueue.Answered(ask, len(polled.Claims) > 0 || err != nil)
	if l.ctx.Err() != nil { // the poll may be so late that the poll loop of the next life owns the claimer
		return false, 0
	}
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

// gapUnlessHungry returns the least time between two polls if the reason is a run that may be due: 0 if the worker has room, else
// fullInterval.
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

// take launches the runs that a poll claimed, and records in c.sated whether the poll found as many runs as it wanted. It ends the
// reservation kept: each of the first kept.Slots runs keeps one of the slots until it asks for it, and the other slots come free.
func (l *life) take(want queue.Want, kept *SlotReservation, polled *queue.Polled) {
	c := &l.claimer
	c.sated.Store(!polled.Hungry)
	expected := min(len(polled.Claims), kept.Slots)
	kept.KeepFor(expected) // before the launches: each of these runs asks the slot queue for the slot kept for it
	for i, claim := range polled.Claims {
		d := newDriver(l, claim, i < expected)
		d.roused = want.Slots == 0
		l.launch(d)
	}
}

// drainSignals removes the pending tokens of wakeup, due and told, because the poll that follows answers them all. It reports
// whether told had one: a notification announced runs.
func (c *claimer) drainSignals() (told bool) {
	c.wakeup.take()
	c.due.take()
	return c.told.take()
}

// hear is called after a notification announced runs. It makes the next polls come close together, and tells the slot queue that
// runs of any priority may be due.
func (w *Worker) hear(pace *queue.Pace) {
	pace.Hear()
	w.slotQueue.MayBeDue()
}

// freed is called when there may be room for another run. It wakes the poll loop if the last poll claimed as many runs as it
// wanted. After a poll that found fewer, nothing more is due until a notification or the next regular poll.
func (w *Worker) freed() {
	if w.claimer.sated.Load() {
		w.claimer.wakeup.send()
	}
}

// polled reports a poll to the meter, and logs when polls begin to fail or succeed again. It sets unfitPolls once polls have failed
// for unpolledMax, and clears it after a poll that succeeded. Once the life has ended, it does nothing: the end may have cut the
// poll off.
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

// launch starts the driver of a claimed run in a goroutine. If the driver set is closed because the life is to end, it releases the
// claim and the slot kept for the run instead.
func (l *life) launch(d *driver) {
	c := d.claim
	if !c.Begun {
		l.config.Meter.RunStarted(c.DAG, max(0, at(l.clock.now()).Sub(c.RunAt)))
	}
	if !l.drivers.launch(d, func() { l.drive(d) }) {
		d.slots.releaseReserved()
		_ = l.session.Release(l.ctx, c, false, 0) // on an error, closing the session releases the claim
	}
}

// drive runs a driver until its drive ends. Then it reports the outcome to the meter and wakes the loops that have work because of
// the end. It logs an error, and fails the run by failRun if the error is about the run itself and not about the claim, the
// database or the end of the life.
func (l *life) drive(d *driver) {
	log := l.log.With("run", d.claim.Run, "epoch", d.claim.Epoch)
	err := d.drive(l.ctx)
	d.claim.Leave()
	if d.claim.Schedule != "" {
		defer l.lookout.attend.send() // the end of a run may let its schedule fire again
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
	case l.ctx.Err() != nil: // the end of the life cut the drive off: the next driver goes on
	default:
		log.Error("this run cannot be driven here", "err", err)
		l.failRun(d.claim, err)
	}
	if d.claim.Limited {
		l.claimer.due.send()
	}
	l.freed()
}

// leaves reports whether another worker goes on with the run of a drive that ended with outcome and err. Drives that the end of
// the life cut off count as well, because closing the session hands on their runs.
func (l *life) leaves(outcome Outcome, err error) bool {
	cutOff := l.ctx.Err() != nil && (errors.Is(err, errStopped) || outcome == Undrivable)
	return outcome == HandedOn || outcome == Unfit || cutOff
}

// failRun ends a run as failed, for the reason why, because another worker would fail on it in the same way. If this version of the
// program cannot read the DAG of the run, the session leaves the run to other workers instead. failRun tries until one of the two
// is stored, the claim is lost, or the life ends.
func (l *life) failRun(c *queue.Claim, why error) {
	l.retryUntilDead(func(ctx context.Context) error {
		return l.session.FailRun(ctx, c, why)
	})
}

func (l *life) retryUntilDead(do func(context.Context) error) { l.retry(l.ctx, do) }

// retry calls do until it succeeds, until it returns ErrLeaseLost, or until ctx ends. It drops the error, because no caller could
// do more.
func (w *Worker) retry(ctx context.Context, do func(context.Context) error) {
	_, _ = backoff.Retry(ctx, func() (struct{}, error) {
		err := do(ctx)
		if errors.Is(err, queue.ErrLeaseLost) {
			return struct{}{}, backoff.Permanent(err)
		}
		return struct{}{}, err
	}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(w.pauses()))
}

// pauses returns the pauses between tries of a call that is repeated until it succeeds. They vary by chance unless Config.Even is
// set.
func (w *Worker) pauses() *backoff.ExponentialBackOff {
	pauses := backoff.NewExponentialBackOff()
	if w.config.Even {
		pauses.RandomizationFactor = 0
	}
	return pauses
}

const (
	crowdedInterval = 200 * time.Millisecond // between looks while runs wait for slots: a worker with free slots may have started
	askedInterval   = 100 * time.Millisecond // between sweeps while each asks for the next
)

// lookout holds the signals of the loops that look, do chores, sweep and attend to the agenda, and the results of the last look.
type lookout struct {
	crowded signal // runs wait for slots: look soon
	looked  signal // a look succeeded: do chores
	sweep   signal // other workers left something to mend: sweep
	attend  signal // an item of the agenda is due: attend

	// shared lists, sorted, the lanes of runs that wait for slots here and that another worker may serve, as of the last look.
	// nil: the last look failed.
	shared atomic.Pointer[[]int]

	seen atomic.Int64 // when the last successful look was sent, in time since boot

	begun atomic.Int64 // runs in the queue that have begun before and are due, as of the last look

	unseen     Outage // looks that fail; owned by lookAround
	undone     Outage // chores that fail; owned by doChores
	unswept    Outage // sweeps that fail; owned by life.sweep
	unattended Outage // attending to the agenda that fails; owned by life.attend
}

func newLookout() lookout {
	return lookout{crowded: newSignal(), looked: newSignal(), sweep: newSignal(), attend: newSignal()}
}

// sharedLanesMax is how many lanes one look asks about at most.
const sharedLanesMax = 100

// freshFor returns how long the results of the last successful look still count: until queue.PollInterval after the look was sent.
// With 0 or less they are out of date.
func (l *lookout) freshFor(now time.Duration) time.Duration {
	return time.Duration(l.seen.Load()) + queue.PollInterval - now
}

// lookAround is the loop that looks: every queue.LookInterval, and every crowdedInterval while runs wait for slots. It returns when
// the life has ended.
func (l *life) lookAround() {
	for {
		l.look()
		if !l.pause(crowdedInterval, nil) || !l.pause(queue.LookInterval-crowdedInterval, l.lookout.crowded) {
			return
		}
	}
}

// look sends one Look. It stores the results in l.lookout, adjusts the clock, and signals the loops for which the look found work.
// If the look read nothing, no lane counts as shared with other workers until the next one.
func (l *life) look() {
	slotQueue, asked := l.slotQueue.Stats(), l.config.Boot()
	_, blocked := l.drivers.look()
	looked, err := l.session.Look(l.ctx, queue.Load{Busy: slotQueue.Slots - slotQueue.Free, Waiting: slotQueue.Waiting, Lanes: blocked.lanes(sharedLanesMax)})
	if l.ctx.Err() != nil {
		return
	}
	l.lookout.unseen.Tell(l.log, err, "could not look at other workers and at what is due", "looks succeed again")
	if looked.Now == 0 { // the look failed before it read anything
		l.lookout.shared.Store(nil)
		return
	}
	l.lookout.seen.Store(int64(asked))
	l.lookout.looked.send()
	l.compareClock(looked.Now, asked)
	l.lookout.shared.Store(&looked.Shared)
	l.lookout.begun.Store(int64(looked.Begun))
	l.slotQueue.Due(looked.Highest)
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

// doChores is the loop that does the chores of the database after each look: work that is due for all workers together. It is a
// loop of its own because a chore may wait for a lock, and must not hold up looks. It returns when the life has ended.
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

// sweep is the loop that mends what other workers left behind: every queue.SweepInterval, and sooner if a look, a poll or the last
// sweep asks for it. It logs each lost worker that it took over from. It returns when the life has ended.
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

// pause waits until d has passed or the signal comes; a nil signal never comes. It returns false if the life ended meanwhile.
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

// attendAgenda is the loop that attends to the agenda when a look finds an item due, or when a run of a schedule has ended here.
// Each time it goes on until no more items are due or a call fails. It returns when the life has ended.
func (l *life) attendAgenda() {
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

// tellDecision logs decisions of the agenda that an operator may have to look at. Fire times that fired, or were skipped because
// their schedule says so, are not logged: the database keeps them.
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
