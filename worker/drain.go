package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Bounds of what a worker waits for once it is to end.
const (
	endEvery      = 20 * time.Millisecond // how often it looks how far that is
	graceSlack    = 3 * time.Second       // after the grace of a body, for what its processes leave behind
	killTime      = 10 * time.Second      // until a body that is killed must be dead
	recordTime    = 10 * time.Second      // for the records of what became of tasks
	closeTimeout  = 10 * time.Second      // of a session
	hurriedClose  = 5 * time.Second       // the same after a second signal
	hopelessClose = 2 * time.Second       // the same where the database takes no records
	quitTime      = time.Second           // of any of these after a second signal, where the database takes no records
)

// seeOut waits until this life is to end, and ends what it runs. It says what the life was lost by, if it was, and what is left of it
// although the worker is to stop.
func (w *Worker) seeOut() (lost, left error) {
	select {
	case <-w.ctx.Done(): // the lease is lost: every driver sees that by itself
		w.view.enter(Ending)
		w.fleet.close()
		left = w.part(w.driversDone())
		return context.Cause(w.ctx), left
	case why := <-w.records.tooLong:
		return why, w.giveRunsUp(why)
	case <-w.drain:
	}
	ctx, cancel := context.WithCancel(w.ctx)
	var telling sync.WaitGroup
	telling.Go(func() { w.retry(ctx, w.session.Drain) }) // beside: a database that is away holds nothing up
	w.fleet.close()
	givenUp, left := w.drainOut(w.driversDone())
	cancel()
	telling.Wait()
	switch lost = context.Cause(w.ctx); {
	case givenUp != nil:
		lost = givenUp
	case errors.Is(lost, errStopped):
		lost = nil
	}
	return lost, left
}

// driversDone is closed once the last driver is gone.
func (w *Worker) driversDone() <-chan struct{} { return after(w.fleet.wg.Wait) }

// after is closed once wait returns.
func after(wait func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	return done
}

// giveRunsUp ends what runs as before the end of a lease, and leaves the runs to others. The lease is kept until every body is dead; then
// nothing is waited for, since isHopeless holds.
func (w *Worker) giveRunsUp(why error) error {
	w.log.Warn("giving all runs up: it lasts too long", "err", why, "for", w.failsFor(why).Round(time.Second))
	w.view.enter(Ending)
	w.gate.Shut()
	w.fleet.close()
	done := w.driversDone()
	w.giveUp(order{why: why.Error()})
	_ = w.outlast(done, graceOf(w.config.Self.TTL), nil) // nothing comes over nil
	w.giveUp(order{why: why.Error(), now: true})
	return w.part(done)
}

// drainOut lets what runs end by itself for a while, then asks it to end, then sees to it. Where the database takes no records or lets
// no runs be read for too long meanwhile, the runs are given up, and givenUp says why.
func (w *Worker) drainOut(done <-chan struct{}) (givenUp, left error) {
	end, why := w.untilDrained(done)
	if end == drainOver {
		w.giveUp(order{why: "drained"}) // each task has the grace of its step
		why = w.outlast(done, w.fleet.grace()+graceSlack, w.records.tooLong)
	}
	switch {
	case why != nil:
		return why, w.giveRunsUp(why)
	case end == drainDone:
		return nil, nil
	}
	w.giveUp(order{why: "drained", now: true})
	return nil, w.part(done)
}

// drainEnd is why a worker that drains waits no longer for its tasks.
type drainEnd int

const (
	drainDone    drainEnd = iota // the last driver is gone
	drainOver                    // they had DrainTimeout
	drainHurried                 // the worker is to stop at once
	drainGivenUp                 // the runs are to be given up
)

// untilDrained waits for the last driver, as long as there is time. givenUp says why the runs are to be given up, if they are.
func (w *Worker) untilDrained(done <-chan struct{}) (end drainEnd, givenUp error) {
	timer := time.NewTimer(w.config.DrainTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return drainDone, nil
	case <-timer.C:
	case <-w.hurry:
	case why := <-w.records.tooLong:
		return drainGivenUp, why
	}
	if w.hurries() {
		return drainHurried, nil
	}
	return drainOver, nil
}

// outlast waits for the last body, as long as there is time. It returns what came over tooLong and ended that; nil: nothing comes.
func (w *Worker) outlast(done <-chan struct{}, atMost time.Duration, tooLong <-chan error) (givenUp error) {
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	look := time.NewTicker(endEvery)
	defer look.Stop()
	for w.bodies.Load() > 0 {
		select {
		case <-done:
		case why := <-tooLong:
			return why
		case <-w.hurry:
			return nil
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
	return nil
}

// part waits for the last driver. When the database does not take what became of its tasks, the next driver finds out; a
// commit under way ends with its session alone, and that gives runs to others, so no body may be left by then.
func (w *Worker) part(done <-chan struct{}) error {
	began := time.Now()
	look := time.NewTicker(endEvery)
	defer look.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-look.C:
		}
		w.hurryLogs()
		took := time.Since(began)
		if took >= recordTime || w.isHopeless() {
			w.stop(errStopped)
		}
		n := w.bodies.Load() // once the life has ended none begins
		switch {
		case n > 0 && w.stopping() && took >= w.killLimit():
			return fmt.Errorf("%d tasks did not end within %v after they were killed: their runs are left to the lease", n, took.Round(time.Second))
		case n == 0 && w.ctx.Err() != nil && (took >= recordTime || w.isHopeless()):
			_ = w.closeSession(w.session) // it says the same when it is closed once more
			within(done, w.closeLimit(w.session))
			return nil
		}
	}
}

// within waits for the end of something, for a while.
func within(done <-chan struct{}, atMost time.Duration) {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}

func (w *Worker) killLimit() time.Duration {
	if w.hurries() && w.isHopeless() {
		return quitTime
	}
	return killTime
}

// hurries says whether the worker was told to stop at once.
func (w *Worker) hurries() bool {
	select {
	case <-w.hurry:
		return true
	default:
		return false
	}
}

// isHopeless says whether nothing of what becomes of tasks will be recorded before long.
func (w *Worker) isHopeless() bool { return w.isHopelessIn(w.session) }

func (w *Worker) isHopelessIn(session Session) bool {
	s := session.Stats()
	return s.Failing.Failing() && time.Since(s.Failing.Since) >= tellFailure || w.hurries() && s.Trying >= quitTime
}

// hurryLogs has logs end without waiting, where the worker is told to stop at once.
func (w *Worker) hurryLogs() {
	if hurried, ok := w.logs.(interface{ Hurry() }); ok && w.hurries() {
		hurried.Hurry()
	}
}

// windUp ends what is left of a life that runs nothing any more.
func (w *Worker) windUp(helpers *sync.WaitGroup) error {
	if err := w.part(after(func() { helpers.Wait(); w.fleet.wg.Wait() })); err != nil {
		return err
	}
	if err := w.part(after(w.logs.Close)); err != nil {
		return err
	}
	return w.closeSession(w.session)
}

func (w *Worker) closeSession(session Session) error {
	ctx, cancel := context.WithTimeout(context.Background(), w.closeLimit(session))
	defer cancel()
	closed := make(chan struct{})
	defer close(closed)
	go w.cutShort(closed, session, cancel)
	if err := session.Close(ctx); err != nil {
		return fmt.Errorf("close the session: %w", err)
	}
	return nil
}

// cutOnHurry calls cut when the worker is told to stop at once. It returns without when over is closed first.
func (w *Worker) cutOnHurry(over <-chan struct{}, cut func()) {
	select {
	case <-over:
	case <-w.hurry:
		cut()
	}
}

// cutShort has a close end soon after the worker was told to stop at once, and sooner where nothing is answered.
func (w *Worker) cutShort(closed <-chan struct{}, session Session, cut func()) {
	select {
	case <-closed:
		return
	case <-w.hurry:
	}
	hurried := time.Now()
	look := time.NewTicker(endEvery)
	defer look.Stop()
	for time.Since(hurried) < w.closeLimit(session) {
		select {
		case <-closed:
			return
		case <-look.C:
		}
	}
	cut()
}

func (w *Worker) closeLimit(session Session) time.Duration {
	hopeless := w.isHopelessIn(session)
	switch {
	case hopeless && w.hurries():
		return quitTime
	case hopeless:
		return hopelessClose
	case w.hurries():
		return hurriedClose
	}
	return closeTimeout
}
