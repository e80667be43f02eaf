package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/oarlock-dev/oarlock/queue"
)

// claim polls as long as the worker lives, also when it wants nothing: a poll looks after other workers' runs.
func (w *Worker) claim() {
	var pace queue.Pace
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-w.nudge:
			if pace.Hear(); w.want() == 0 {
				continue // every run that ends says so, and there is no room yet
			}
		case <-next.C:
			w.hush(&pace)
		}
		want := w.want()
		start := time.Now()
		polled, err := w.session.Poll(w.ctx, want)
		w.polled(PollEnd{Wanted: want, Got: polled, Took: time.Since(start), Err: err})
		for _, c := range polled.Claims {
			w.launch(c)
		}
		w.sated.Store(!polled.Hungry)
		for _, id := range polled.Lost {
			w.log.Info("took over from a lost worker", "lost", id)
		}
		next.Reset(pace.After(polled))
	}
}

// hush takes a nudge back that a poll is about to answer anyway.
func (w *Worker) hush(pace *queue.Pace) {
	select {
	case <-w.nudge:
		pace.Hear()
	default:
	}
}

// want is how many runs to claim.
func (w *Worker) want() int {
	if w.stopping() {
		return 0
	}
	return w.appetite.Want(w.busy())
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

// busy is how many tasks are ready or running; a run without any counts as one.
func (w *Worker) busy() int {
	stats := w.gate.Stats()
	return max(w.fleet.size(), stats.Active+stats.Waiting)
}

// launch has a claimed run driven, or hands it back when it is too late for that.
func (w *Worker) launch(c *queue.Claim) {
	d := newDriver(w, c)
	if c.Epoch == 1 {
		w.meter.RunStarted(c.DAG, max(0, at(w.clock.now()).Sub(c.RunAt)))
	}
	if !w.fleet.launch(d, func() { w.drive(d) }) {
		_ = w.session.Release(w.ctx, c) // closing the session does it otherwise
	}
}

// drive drives a run to its end here, and says what went wrong.
func (w *Worker) drive(d *driver) {
	log := w.log.With("run", d.claim.Run, "epoch", d.claim.Epoch)
	err := d.drive(w.ctx)
	d.claim.Leave()
	defer func() { w.meter.RunLeft(d.claim.DAG, d.outcomeAfter(err), d.took) }()
	switch {
	case err == nil, errors.Is(err, errStopped):
	case errors.Is(err, queue.ErrLeaseLost):
		log.Warn("the claim is lost: its tasks were ended", "err", err)
	case errors.Is(err, queue.ErrRefused):
		log.Error("the database takes no record of this run: it has failed", "err", err)
	case w.ctx.Err() != nil: // cut off: the run is for the next driver
	default:
		log.Error("this run cannot be driven here", "err", err)
		w.condemn(d.claim, err)
	}
	if w.sated.Load() {
		w.look() // there was more to claim than it wanted
	}
}

// condemn ends a run that nobody can drive: handing it on would only move the trouble.
func (w *Worker) condemn(c *queue.Claim, why error) {
	w.retryUntilDead(func(ctx context.Context) error {
		return w.session.Condemn(ctx, c, "internal: "+why.Error())
	})
}

// seeOut waits until the worker is to end, and hands on what it runs.
func (w *Worker) seeOut() {
	select {
	case <-w.ctx.Done(): // the lease is lost: every driver sees that by itself
		w.view.enter(Ending)
		w.fleet.close()
		w.part(w.driversDone())
		return
	case <-w.drain:
	}
	ctx, cancel := context.WithCancel(w.ctx)
	var telling sync.WaitGroup
	telling.Go(func() { w.retry(ctx, w.session.Drain) }) // beside: a database that is away holds nothing up
	w.fleet.close()
	w.drainOut(w.driversDone())
	cancel()
	telling.Wait()
}

// driversDone is closed once the last driver is gone.
func (w *Worker) driversDone() <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.fleet.wg.Wait()
	}()
	return done
}

// drainOut lets what runs end by itself for a while, then asks it to end, then sees to it.
func (w *Worker) drainOut(done <-chan struct{}) {
	if w.waits(done, w.config.DrainTimeout) {
		return
	}
	w.giveUp(order{why: "drained"}) // each task has the grace of its step
	select {
	case <-done:
		return
	case <-w.hurry:
	}
	w.giveUp(order{why: "drained", now: true})
	w.part(done)
}

// part waits for the last driver. When the database does not take what became of its tasks, whoever takes over finds out; a
// commit under way ends with its session alone, and that gives runs to others, so no body may be left by then.
func (w *Worker) part(done <-chan struct{}) {
	recorded := time.NewTimer(closeTimeout)
	defer recorded.Stop()
	for {
		select {
		case <-done:
			return
		case <-recorded.C:
			w.stop(errStopped)
		}
		if w.bodies.Load() == 0 {
			_ = w.closeSession(w.session) // it says the same when it is closed once more
			<-done
			return
		}
		recorded.Reset(time.Second)
	}
}

// waits is for the last driver, as long as there is time.
func (w *Worker) waits(done <-chan struct{}, atMost time.Duration) bool {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-w.hurry:
	}
	return false
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
