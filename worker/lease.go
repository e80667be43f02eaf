package worker

import (
	"context"
	"errors"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// Signs of life per TTL: several may fail before the lease is in danger. However long it is, one comes every few seconds:
// it also brings what was asked of runs, where a notification was lost.
const (
	renewals        = 6
	longestInterval = 5 * time.Second
)

// After a sign of life that failed the next one follows sooner, so that the end of an outage is noticed soon.
const (
	renewTimeout = 5 * time.Second
	hasten       = 5 // of the interval, this part
	longestPause = time.Second
)

// heartbeatOf is the time between two signs of life.
func heartbeatOf(ttl time.Duration) time.Duration { return min(ttl/renewals, longestInterval) }

// renewalLimits are how long one sign of life may take, and the pause after one that failed.
func renewalLimits(every time.Duration) (timeout, pause time.Duration) {
	return min(every, renewTimeout), min(every/hasten, longestPause)
}

// keepLease gives signs of life, hands on what the answers say, and ends what runs in time when they stay out.
func (l *life) keepLease() {
	every := heartbeatOf(l.config.Self.TTL)
	_, pause := renewalLimits(every)
	next := time.NewTimer(every)
	defer next.Stop()
	var last time.Time // the end of the last sign of life
	for {
		l.view.ticked()
		soft, hard := l.session.Deadline()
		danger := time.NewTimer(l.nextDanger(soft, hard))
		select {
		case <-l.ctx.Done():
			danger.Stop()
			return
		case <-next.C:
			l.endangered(soft, hard) // what is due comes first: a renewal may take a while
			l.renewNow.take()
			next.Reset(l.renew(every))
			last = time.Now()
		case <-l.renewNow:
			next.Reset(max(0, pause-time.Since(last)))
		case <-danger.C:
			l.endangered(soft, hard)
		}
		danger.Stop()
	}
}

// renewSoon has the keeper of the lease give a sign of life at once, or a short pause after the last one.
func (w *Worker) renewSoon() { w.renewNow.send() }

// vitals are what a sign of life tells of this worker now.
func (w *Worker) vitals() queue.Vitals {
	gate, first := w.gate.Stats(), w.fitness.first()
	return queue.Vitals{Busy: gate.Slots - gate.Free, Waiting: gate.Waiting, Unfit: first.why, Since: first.since}
}

// renew gives one sign of life, and says after how long the next one is due.
func (l *life) renew(every time.Duration) time.Duration {
	timeout, pause := renewalLimits(every)
	ctx, cancel := context.WithTimeout(l.ctx, timeout)
	defer cancel()
	asked := l.config.Boot()
	soft, _ := l.session.Deadline()
	renewal, err := l.session.Renew(ctx, l.vitals())
	if l.ctx.Err() != nil {
		return every
	}
	l.renewed(asked, soft, err)
	switch {
	case errors.Is(err, queue.ErrLeaseLost):
		l.stop(err)
		return every
	case err != nil:
		l.unrenewed.Failed(l.log, "no sign of life reached the database", err)
		return pause
	}
	l.unrenewed.Over(l.log, "signs of life reach the database again")
	l.warned = 0
	if l.fleet.liftDanger() {
		l.gate.Open()
	}
	l.clock.set(renewal.Now, asked)
	l.extend()
	for _, m := range renewal.Mail {
		l.fleet.tell([]queue.RunID{m.Run}, false)
	}
	if renewal.Desired != queue.WorkerLive && !l.stopping() { // it says so until the worker is gone
		l.log.Info("asked to stop by `oarlock workers drain`, or by oarlock.drain_worker() in SQL", "desired", renewal.Desired)
		l.Stop()
	}
	return every
}

// renewed tells what came of the sign of life that was sent at asked, when the lease held until soft.
func (l *life) renewed(asked, soft time.Duration, err error) {
	now := l.config.Boot()
	l.view.renewed(asked, err)
	l.config.Meter.Renewed(soft-now, now-asked, err)
}

// What a worker does while its signs of life stay out, in this order.
const (
	askBodies  = 1 + iota // well before the soft deadline, so that grace fits: ask every body to end
	killBodies            // at the soft deadline: kill them
	forget                // at the hard deadline the runs are somebody else's
)

// This share of the time until the soft deadline is left to bodies that end by themselves, and no more than that.
const (
	graceShare   = 6
	longestGrace = 10 * time.Second
)

// graceOf is how long before the soft deadline bodies are asked to end.
func graceOf(ttl time.Duration) time.Duration {
	soft, _ := queue.LeaseEnds(ttl)
	return min(soft/graceShare, longestGrace)
}

func (l *life) dangers(soft, hard time.Duration) [forget + 1]time.Duration {
	return [...]time.Duration{0, soft - graceOf(l.config.Self.TTL), soft, hard}
}

// nextDanger is how long it is to the next thing to do.
func (l *life) nextDanger(soft, hard time.Duration) time.Duration {
	if l.warned == forget {
		return l.config.Self.TTL
	}
	return max(0, l.dangers(soft, hard)[l.warned+1]-l.config.Boot())
}

// endangered does what the time without a sign of life demands.
func (l *life) endangered(soft, hard time.Duration) {
	for at := l.dangers(soft, hard); l.warned < forget && l.config.Boot() >= at[l.warned+1]; {
		l.warned++
		switch l.warned {
		case askBodies:
			l.log.Warn("the lease is in danger: ending tasks")
			l.gate.Shut() // what began now would be given up at once, begin again, and so on
			l.fleet.giveUp(order{why: "lease in danger", passing: true})
		case killBodies:
			l.fleet.giveUp(order{why: "lease in danger", passing: true, now: true})
		case forget:
			l.stop(queue.ErrLeaseLost)
			if n := l.fleet.bodies.Load(); n > 0 && l.config.Overdue != nil {
				l.config.Overdue(int(n))
			}
		}
	}
}

// listen hands on what notifications say.
func (l *life) listen() {
	for l.ctx.Err() == nil {
		heard, err := l.session.Hear(l.ctx)
		if err != nil {
			return // the session or the worker ends; looks and renewals find out everything by themselves
		}
		l.claimer.ration.told.Add(int64(heard.Rows))
		if heard.Lanes || heard.All {
			l.claimer.told.send()
		}
		l.fleet.tell(heard.Runs, heard.All)
		if heard.Drain || heard.All {
			l.renewSoon()
		}
	}
}
