package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Limits of the waits at the end of a life.
const (
	endEvery      = 20 * time.Millisecond // between checks whether a wait is over
	graceSlack    = 3 * time.Second       // after the grace of a body, for processes that it left behind
	killTime      = 10 * time.Second      // for a killed body to be gone
	recordTime    = 10 * time.Second      // for the records of how tasks ended
	closeTimeout  = 10 * time.Second      // for the close of a session
	hurriedClose  = 5 * time.Second       // for the close of a session after StopNow
	hopelessClose = 2 * time.Second       // for the close of a session while the database takes no records
	quitTime      = time.Second           // for a killed body or a close after StopNow while the database takes no records
)

// drainAndClose waits until this life is to end, and ends its drivers and tasks. lost is the reason if the lease was lost or the
// runs were given up; nil: the worker stops in order. left is an error if tasks still run although the worker is to stop.
func (l *life) drainAndClose() (lost, left error) {
	select {
	case <-l.ctx.Done(): // the lease is lost: the drivers see the end of the context
		l.view.enter(Ending)
		l.drivers.close()
		left = l.awaitDrivers(l.driversDone())
		return context.Cause(l.ctx), left
	case why := <-l.tooLong:
		return why, l.giveRunsUp(why)
	case <-l.drain:
	}
	ctx, cancel := context.WithCancel(l.ctx)
	var telling sync.WaitGroup
	telling.Go(func() { l.retry(ctx, l.session.Drain) }) // in a goroutine: an outage of the database must not hold up the drain
	l.drivers.close()
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

// driversDone returns a channel that is closed once the last driver is gone.
func (l *life) driversDone() <-chan struct{} { return after(l.drivers.wg.Wait) }

// after returns a channel that is closed once wait returns.
func after(wait func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	return done
}

// giveRunsUp ends all bodies and leaves the runs to other workers; why is the reason for the log and for the attempts. It asks the
// bodies to end, kills them after the grace before the end of a lease, and waits by awaitDrivers. The life keeps its lease until
// every body is dead. Records are waited for as in awaitDrivers: not at all while the database takes none. It returns an error if
// killed bodies do not end.
func (l *life) giveRunsUp(why error) error {
	l.log.Warn("the worker gives up all runs, because the outage lasts too long", "err", why, "for", l.failsFor(why).Round(time.Second))
	l.view.enter(Ending)
	l.slotQueue.Shut()
	l.drivers.close()
	done := l.driversDone()
	l.drivers.giveUp(order{why: why.Error()})
	_ = l.outlast(done, graceOf(l.config.Self.TTL), nil) // returns nil: the nil channel carries no reason
	l.drivers.giveUp(order{why: why.Error(), now: true})
	return l.awaitDrivers(done)
}

// drainOut gives running tasks the DrainTimeout to end, then asks them to end, and kills them after their grace. StopNow shortens
// this to the kill. If the database takes no records or lets no runs be read for too long meanwhile, drainOut gives the runs up and
// returns the reason in givenUp. left is an error if tasks still run. done is closed once the last driver is gone.
func (l *life) drainOut(done <-chan struct{}) (givenUp, left error) {
	end, why := l.untilDrained(done)
	if end == drainOver {
		l.drivers.giveUp(order{why: "drained"}) // each task has the grace of its step
		why = l.outlast(done, l.drivers.grace()+graceSlack, l.tooLong)
	}
	switch {
	case why != nil:
		return why, l.giveRunsUp(why)
	case end == drainDone:
		return nil, nil
	}
	l.drivers.giveUp(order{why: "drained", now: true})
	return nil, l.awaitDrivers(done)
}

// drainEnd is the reason why a draining worker does not wait for its tasks any longer.
type drainEnd int

const (
	drainDone    drainEnd = iota // the last driver is gone
	drainOver                    // the DrainTimeout has passed
	drainHurried                 // the worker is to stop at once
	drainGivenUp                 // the runs are to be given up
)

// untilDrained waits until done is closed, because the last driver is gone. The DrainTimeout, StopNow, or a reason to give the runs
// up end the wait before; end tells which of them did. givenUp is that reason, and nil in the other cases.
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

// outlast waits until no body runs, for at most atMost. StopNow and the end of the life also end the wait. If tooLong ended it,
// outlast returns the reason received there, and otherwise nil. done is closed once the last driver is gone, so that no body is
// left.
func (l *life) outlast(done <-chan struct{}, atMost time.Duration, tooLong <-chan error) (givenUp error) {
	ctx, cancel := context.WithTimeout(context.Background(), atMost)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	look := time.NewTicker(endEvery)
	defer look.Stop()
	for l.drivers.bodies.Load() > 0 {
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

// awaitDrivers waits until done is closed, because the drivers or other goroutines of the life are gone. After recordTime, or at
// once if isHopeless, it ends the life, so that no further record is waited for: the next driver of a run then closes its attempts
// as lost.
//
// A commit under way ends only when the session is closed, and the close gives the runs to other workers. So awaitDrivers closes
// the session, but only once no body is left; then it waits for closeLimit at most and returns nil even if done is still open. It
// returns an error if the worker is to stop and killed bodies do not end within killLimit.
func (l *life) awaitDrivers(done <-chan struct{}) error {
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
		n := l.drivers.bodies.Load() // cannot grow once the life has ended
		switch {
		case n > 0 && l.stopping() && took >= l.killLimit():
			return fmt.Errorf("%d tasks did not end within %v after they were killed: their runs are left to the lease", n, took.Round(time.Second))
		case n == 0 && l.ctx.Err() != nil && (took >= recordTime || l.isHopeless()):
			_ = l.closeSession() // another close returns the same error
			within(done, l.closeLimit())
			return nil
		}
	}
}

// within waits until done is closed, for at most atMost. It does not tell which came first.
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

// hurries reports whether the worker is to stop at once.
func (s *stopper) hurries() bool {
	select {
	case <-s.hurry:
		return true
	default:
		return false
	}
}

// isHopeless reports whether waiting for records makes no sense: the database has taken none for tellFailure, or, after StopNow, the
// session has waited quitTime for an answer.
func (l *life) isHopeless() bool {
	s := l.session.Stats()
	return s.Failing.Failing() && time.Since(s.Failing.Since) >= tellFailure || l.hurries() && s.Trying >= quitTime
}

// hurryLogs shortens the waits of closing logs if StopNow was called and the logs have a method Hurry. Otherwise it does nothing.
func (l *life) hurryLogs() {
	if hurried, ok := l.logs.(interface{ Hurry() }); ok && l.hurries() {
		hurried.Hurry()
	}
}

// windUp waits for the drivers and loops of a life that has ended, closes its logs and then its session. If a loop hangs in a call
// of the database, windUp logs that and goes on without it. It returns an error if killed bodies do not end, or if the close of the
// session fails.
func (l *life) windUp(helpers *loops) error {
	if err := l.awaitDrivers(after(func() { helpers.Wait(); l.drivers.wg.Wait() })); err != nil {
		return err
	}
	if n := helpers.left.Load(); n > 0 { // the next life has the state of the loops that ended
		l.log.Warn("a call of the database does not return: the worker goes on without waiting for the call", "loops", n)
	}
	if err := l.awaitDrivers(after(l.logs.Close)); err != nil {
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

// cutOnHurry waits for StopNow and then calls cut. It returns without a call if over is closed first.
func (s *stopper) cutOnHurry(over <-chan struct{}, cut func()) {
	select {
	case <-over:
	case <-s.hurry:
		cut()
	}
}

// cutShort waits for StopNow, then for closeLimit, and calls cut. It returns without a call if closed is closed first. closeLimit
// gets shorter if the database stops taking records meanwhile.
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
