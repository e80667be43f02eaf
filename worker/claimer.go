package worker

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

// pollGap is the least time between two polls where bodies end fast: a poll for each that ends would claim one run.
const pollGap = 5 * time.Millisecond

// deafGap is the least time between two polls of a worker that has no room: whoever floods it with notifications has it poll no
// more often.
const deafGap = 20 * time.Millisecond

// rankGap is the least time between two polls that only let others know how the waiting tasks rank.
const rankGap = 250 * time.Millisecond

// crowdedPause is how often a worker polls whose runs wait for slots: another one may have come that has some.
const crowdedPause = 200 * time.Millisecond

// claim polls as long as the worker lives, also when it wants nothing: a poll looks after other workers' runs.
func (w *Worker) claim() {
	var pace queue.Pace
	var last time.Time
	spare := false // slots were left for the next poll, so that others who heard of the same runs come first
	due := time.Now()
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		var gap time.Duration // that there has to be between two polls
		select {
		case <-w.ctx.Done():
			return
		case <-w.heard:
			pace.Hear()
			if !w.hungers() {
				gap = deafGap
			}
		case <-w.ranked:
			gap = rankGap
		case <-w.nudge:
			if !w.hungers() {
				continue // every slot that ends says so, and there is no room yet
			}
			if w.ends.count() >= fastEnds {
				gap = pollGap
			}
		case <-next.C:
			w.hush(&pace)
		}
		if spare {
			gap = max(gap, pollGap)
		}
		if at := last.Add(gap); time.Until(at) > 0 {
			if at.Before(due) {
				due = at
				next.Reset(time.Until(due))
			}
			continue
		}
		last = time.Now()
		w.lookAtRecords()
		a, kept := w.appetite()
		asked := w.config.Boot()
		polled, err := w.session.Poll(w.ctx, a)
		if polled.Now != 0 {
			w.clock.compare(polled.Now, asked) // before what it claimed is driven by it
		}
		w.polled(PollEnd{Wanted: a.Free + a.Ahead, Got: polled, Took: time.Since(last), Err: err})
		w.take(a, kept, &polled)
		pause := w.pause(pace.After(polled))
		if spare = a.Spare > 0 && !polled.Hungry; spare {
			pause = pollGap
		}
		due = time.Now().Add(pause)
		next.Reset(time.Until(due))
	}
}

// pause is how long the claimer waits at most.
func (w *Worker) pause(pause time.Duration) time.Duration {
	m := w.moment()
	if _, idle := w.fleet.look(); m.Waiting > m.ends && len(idle) > 0 {
		return min(pause, crowdedPause)
	}
	return pause
}

// take launches what a poll claimed.
func (w *Worker) take(a queue.Appetite, kept *Keeping, polled *queue.Polled) {
	w.sated.Store(!polled.Hungry)
	w.others.Store(&others{polled.Shared, polled.Open, polled.Rivals})
	if left := w.due.Load(); polled.Hungry {
		w.due.Add(-left) // others were quicker
	} else {
		w.due.Add(-min(left, int64(len(polled.Claims))))
	}
	if a.Free > 0 && a.Above == nil {
		w.ahead = 0
	} else if a.Ahead > 0 {
		w.ahead += len(polled.Claims)
	}
	expected := min(len(polled.Claims), a.Free)
	kept.Expect(expected)                              // before the gate goes by its order again
	if a.Above == nil || len(polled.Claims) < a.Free { // else there may be another one that ranks above
		w.gate.Urge(polled.Top)
	}
	for i, c := range polled.Claims {
		d := newDriver(w, c, i < expected)
		d.roused = a.Free+a.Ahead == 0
		w.launch(d)
	}
	for _, id := range polled.Lost {
		w.log.Info("took over from a lost worker", "lost", id)
	}
}

// hush takes nudges back that a poll is about to answer anyway.
func (w *Worker) hush(pace *queue.Pace) {
	select {
	case <-w.nudge:
	default:
	}
	select {
	case <-w.heard:
		pace.Hear()
	default:
	}
}

// crowded is told by the gate when tasks begin to wait.
func (w *Worker) crowded() {
	select {
	case w.ranked <- struct{}{}:
	default:
	}
}

// freed is told by the gate that there may be room. While a poll brought less than there was room for, there is nothing to look
// for until a notification or the next poll.
func (w *Worker) freed() {
	if w.sated.Load() {
		w.look()
	}
}

// polled tells of a poll, unless it was the end that ended it.
func (w *Worker) polled(p PollEnd) {
	if w.ctx.Err() != nil {
		return
	}
	w.meter.Polled(p)
	if p.Err != nil {
		w.unpolled.Failed(w.log, "no answer to a poll", p.Err)
		return
	}
	w.unpolled.Over(w.log, "the database answers polls again")
}

// launch has a claimed run driven, or hands it back when it is too late for that.
func (w *Worker) launch(d *driver) {
	c := d.claim
	if !c.Begun {
		w.meter.RunStarted(c.DAG, max(0, at(w.clock.now()).Sub(c.RunAt)))
	}
	if !w.fleet.launch(d, func() { w.drive(d) }) {
		d.forgo()
		_ = w.session.Release(w.ctx, c, false) // closing the session does it otherwise
	}
}

// drive drives a run to its end here, and says what went wrong.
func (w *Worker) drive(d *driver) {
	log := w.log.With("run", d.claim.Run, "epoch", d.claim.Epoch)
	err := d.drive(w.ctx)
	d.claim.Leave()
	defer func() { w.meter.RunLeft(d.claim.DAG, d.outcomeAfter(err), d.took) }()
	switch {
	case err == nil, errors.Is(err, errStopped), errors.Is(err, errGivenBack):
	case errors.Is(err, queue.ErrLeaseLost):
		log.Warn("the claim is lost: its tasks were ended", "err", err)
	case errors.Is(err, queue.ErrRefused):
		log.Error("the database takes no record of this run: it has failed", "err", err)
	case w.ctx.Err() != nil: // cut off: the run is for the next driver
	default:
		log.Error("this run cannot be driven here", "err", err)
		w.condemn(d.claim, err)
	}
	w.freed()
}

// condemn ends a run that nobody can drive: handing it on would only move the trouble.
func (w *Worker) condemn(c *queue.Claim, why error) {
	w.retryUntilDead(func(ctx context.Context) error {
		return w.session.Condemn(ctx, c, "internal: "+why.Error())
	})
}

func (w *Worker) retryUntilDead(do func(context.Context) error) { w.retry(w.ctx, do) }

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
