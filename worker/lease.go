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
func (w *Worker) keepLease() {
	every := heartbeatOf(w.config.Self.TTL)
	_, pause := renewalLimits(every)
	next := time.NewTimer(every)
	defer next.Stop()
	var last time.Time // the end of the last sign of life
	for {
		w.view.ticked()
		soft, hard := w.session.Deadline()
		danger := time.NewTimer(w.nextDanger(soft, hard))
		select {
		case <-w.ctx.Done():
			danger.Stop()
			return
		case <-next.C:
			w.endangered(soft, hard) // what is due comes first: a renewal may take a while
			w.renewNow.take()
			next.Reset(w.renew(every))
			last = time.Now()
		case <-w.renewNow:
			next.Reset(max(0, pause-time.Since(last)))
		case <-danger.C:
			w.endangered(soft, hard)
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
func (w *Worker) renew(every time.Duration) time.Duration {
	timeout, pause := renewalLimits(every)
	ctx, cancel := context.WithTimeout(w.ctx, timeout)
	defer cancel()
	asked := w.config.Boot()
	soft, _ := w.session.Deadline()
	renewal, err := w.session.Renew(ctx, w.vitals())
	if w.ctx.Err() != nil {
		return every
	}
	w.renewed(asked, soft, err)
	switch {
	case errors.Is(err, queue.ErrLeaseLost):
		w.stop(err)
		return every
	case err != nil:
		w.unrenewed.Failed(w.log, "no sign of life reached the database", err)
		return pause
	}
	w.unrenewed.Over(w.log, "signs of life reach the database again")
	w.warned = 0
	if o := w.danger.Load(); o != nil && o.passing {
		w.danger.CompareAndSwap(o, nil) // unless the worker began to end meanwhile
		w.gate.Open()
	}
	w.clock.set(renewal.Now, asked)
	w.extend(w.session)
	for _, m := range renewal.Mail {
		w.fleet.mail(m)
	}
	if renewal.Desired != queue.WorkerLive && !w.stopping() { // it says so until the worker is gone
		w.log.Info("asked to stop by `oarlock workers drain`, or by oarlock.drain_worker() in SQL", "desired", renewal.Desired)
		w.Stop()
	}
	return every
}

// renewed tells what came of the sign of life that was sent at asked, when the lease held until soft.
func (w *Worker) renewed(asked, soft time.Duration, err error) {
	now := w.config.Boot()
	w.view.renewed(asked, err)
	w.meter.Renewed(soft-now, now-asked, err)
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

func (w *Worker) dangers(soft, hard time.Duration) [forget + 1]time.Duration {
	return [...]time.Duration{0, soft - graceOf(w.config.Self.TTL), soft, hard}
}

// nextDanger is how long it is to the next thing to do.
func (w *Worker) nextDanger(soft, hard time.Duration) time.Duration {
	if w.warned == forget {
		return w.config.Self.TTL
	}
	return max(0, w.dangers(soft, hard)[w.warned+1]-w.config.Boot())
}

// endangered does what the time without a sign of life demands.
func (w *Worker) endangered(soft, hard time.Duration) {
	for at := w.dangers(soft, hard); w.warned < forget && w.config.Boot() >= at[w.warned+1]; {
		w.warned++
		switch w.warned {
		case askBodies:
			w.log.Warn("the lease is in danger: ending tasks")
			w.gate.Shut() // what began now would be given up at once, begin again, and so on
			w.giveUp(order{why: "lease in danger", passing: true})
		case killBodies:
			w.giveUp(order{why: "lease in danger", passing: true, now: true})
		case forget:
			w.stop(queue.ErrLeaseLost)
			if n := w.bodies.Load(); n > 0 && w.config.Overdue != nil {
				w.config.Overdue(int(n))
			}
		}
	}
}

// listen hands on what notifications say.
func (w *Worker) listen() {
	for w.ctx.Err() == nil {
		heard, err := w.session.Hear(w.ctx)
		if err != nil {
			return // the session or the worker ends; looks and renewals find out everything by themselves
		}
		w.claimer.ration.told.Add(int64(heard.Rows))
		if heard.Lanes || heard.All {
			w.claimer.told.send()
		}
		w.fleet.tell(heard.Runs, heard.All)
		if heard.Drain || heard.All {
			w.renewSoon()
		}
	}
}
