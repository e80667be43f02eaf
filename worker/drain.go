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
func (l *life) seeOut() (lost, left error) {
	select {
	case <-l.ctx.Done(): // the lease is lost: every driver sees that by itself
		l.view.enter(Ending)
		l.fleet.close()
		left = l.part(l.driversDone())
		return context.Cause(l.ctx), left
	case why := <-l.tooLong:
		return why, l.giveRunsUp(why)
	case <-l.drain:
	}
	ctx, cancel := context.WithCancel(l.ctx)
	var telling sync.WaitGroup
	telling.Go(func() { l.retry(ctx, l.session.Drain) }) // beside: a database that is away holds nothing up
	l.fleet.close()
	givenUp, left := l.drainOut(l.driversDone())
	cancel()
	telling.Wait()
	switch lost = context.Cause(l.ctx); {
	case givenUp != nil:
		lost = givenUp
	case errors.Is(lost, errStopped):
		lost = nil
	}
	return lost, left
}

// driversDone is closed once the last driver is gone.
func (l *life) driversDone() <-chan struct{} { return after(l.fleet.wg.Wait) }

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
func (l *life) giveRunsUp(why error) error {
	l.log.Warn("giving all runs up: it lasts too long", "err", why, "for", l.failsFor(why).Round(time.Second))
	l.view.enter(Ending)
	l.gate.Shut()
	l.fleet.close()
	done := l.driversDone()
	l.fleet.giveUp(order{why: why.Error()})
	_ = l.outlast(done, graceOf(l.config.Self.TTL), nil) // nothing comes over nil
	l.fleet.giveUp(order{why: why.Error(), now: true})
	return l.part(done)
}

// drainOut lets what runs end by itself for a while, then asks it to end, then sees to it. Where the database takes no records or lets
// no runs be read for too long meanwhile, the runs are given up, and givenUp says why.
func (l *life) drainOut(done <-chan struct{}) (givenUp, left error) {
	end, why := l.untilDrained(done)
	if end == drainOver {
		l.fleet.giveUp(order{why: "drained"}) // each task has the grace of its step
		why = l.outlast(done, l.fleet.grace()+graceSlack, l.tooLong)
	}
	switch {
	case why != nil:
		return why, l.giveRunsUp(why)
	case end == drainDone:
		return nil, nil
	}
	l.fleet.giveUp(order{why: "drained", now: true})
	return nil, l.part(done)
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
func (l *life) untilDrained(done <-chan struct{}) (end drainEnd, givenUp error) {
	timer := time.NewTimer(l.config.DrainTimeout)
	defer timer.Stop()
	select {
	case <-done:
		return drainDone, nil
	case <-timer.C:
	case <-l.hurry:
	case why := <-l.tooLong:
		return drainGivenUp, why
	}
	if l.hurries() {
		return drainHurried, nil
	}
	return drainOver, nil
}

// outlast waits for the last body, as long as there is time. It returns what came over tooLong and ended that; nil: nothing comes.
func (l *life) outlast(done <-chan struct{}, atMost time.Duration, tooLong <-chan error) (givenUp error) {
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	look := time.NewTicker(endEvery)
	defer look.Stop()
	for l.fleet.bodies.Load() > 0 {
		select {
		case <-done:
		case why := <-tooLong:
			return why
		case <-l.hurry:
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
func (l *life) part(done <-chan struct{}) error {
	began := time.Now()
	look := time.NewTicker(endEvery)
	defer look.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-look.C:
		}
		l.hurryLogs()
		took := time.Since(began)
		if took >= recordTime || l.isHopeless() {
			l.stop(errStopped)
		}
		n := l.fleet.bodies.Load() // once the life has ended none begins
		switch {
		case n > 0 && l.stopping() && took >= l.killLimit():
			return fmt.Errorf("%d tasks did not end within %v after they were killed: their runs are left to the lease", n, took.Round(time.Second))
		case n == 0 && l.ctx.Err() != nil && (took >= recordTime || l.isHopeless()):
			_ = l.closeSession() // it says the same when it is closed once more
			within(done, l.closeLimit())
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

func (l *life) killLimit() time.Duration {
	if l.hurries() && l.isHopeless() {
		return quitTime
	}
	return killTime
}

// hurries says whether the worker was told to stop at once.
func (s *stopper) hurries() bool {
	select {
	case <-s.hurry:
		return true
	default:
		return false
	}
}

// isHopeless says whether nothing of what becomes of tasks will be recorded before long.
func (l *life) isHopeless() bool {
	s := l.session.Stats()
	return s.Failing.Failing() && time.Since(s.Failing.Since) >= tellFailure || l.hurries() && s.Trying >= quitTime
}

// hurryLogs has logs end without waiting, where the worker is told to stop at once.
func (l *life) hurryLogs() {
	if hurried, ok := l.logs.(interface{ Hurry() }); ok && l.hurries() {
		hurried.Hurry()
	}
}

// windUp ends what is left of a life that runs nothing any more.
func (l *life) windUp(helpers *sync.WaitGroup) error {
	if err := l.part(after(func() { helpers.Wait(); l.fleet.wg.Wait() })); err != nil {
		return err
	}
	if err := l.part(after(l.logs.Close)); err != nil {
		return err
	}
	return l.closeSession()
}

func (l *life) closeSession() error {
	ctx, cancel := context.WithTimeout(context.Background(), l.closeLimit())
	defer cancel()
	closed := make(chan struct{})
	defer close(closed)
	go l.cutShort(closed, cancel)
	if err := l.session.Close(ctx); err != nil {
		return fmt.Errorf("close the session: %w", err)
	}
	return nil
}

// cutOnHurry calls cut when the worker is told to stop at once. It returns without when over is closed first.
func (s *stopper) cutOnHurry(over <-chan struct{}, cut func()) {
	select {
	case <-over:
	case <-s.hurry:
		cut()
	}
}

// cutShort has a close end soon after the worker was told to stop at once, and sooner where nothing is answered.
func (l *life) cutShort(closed <-chan struct{}, cut func()) {
	select {
	case <-closed:
		return
	case <-l.hurry:
	}
	hurried := time.Now()
	look := time.NewTicker(endEvery)
	defer look.Stop()
	for time.Since(hurried) < l.closeLimit() {
		select {
		case <-closed:
			return
		case <-look.C:
		}
	}
	cut()
}

func (l *life) closeLimit() time.Duration {
	hopeless := l.isHopeless()
	switch {
	case hopeless && l.hurries():
		return quitTime
	case hopeless:
		return hopelessClose
	case l.hurries():
		return hurriedClose
	}
	return closeTimeout
}
