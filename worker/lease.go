package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
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

// clock tells database time: that of the last renewal, and what has passed here since. It goes back where the database's
// clock does, so that a clock that was ahead is forgotten with the next renewal.
type clock struct {
	boot func() time.Duration

	mu   sync.Mutex
	base dagrun.Time
	at   time.Duration // boottime of base
}

// set takes over what the database said in an answer to a question asked at.
func (c *clock) set(now dagrun.Time, at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.at = now, at
}

// compare takes over what the database said in passing, unless it is what the clock says anyway: a clock that was set is noticed
// with the next poll or look. The question was asked at asked, and may have waited before the database looked at its clock.
func (c *clock) compare(now dagrun.Time, asked time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answered := c.boot()
	here := c.base + passed(answered-c.at)
	if here < now-clockSlack || here > now+passed(answered-asked)+clockSlack {
		c.base, c.at = now, asked
	}
}

func (c *clock) now() dagrun.Time {
	now, _ := c.read()
	return now
}

// read is the time of the database, and the time since boot that it belongs to.
func (c *clock) read() (dagrun.Time, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	boot := c.boot()
	return c.base + passed(boot-c.at), boot
}

// passed is a span in the unit of the core.
func passed(d time.Duration) dagrun.Time { return dagrun.Time(d.Milliseconds()) }

// clockSlack is how far the database may seem to be behind before its clock counts as set back. A renewal that was under way
// for long makes it seem so by a little.
const clockSlack = dagrun.Time(1000)

// runClock tells the time of one run, which never goes back: no record of it is before an earlier one. It is the database's
// time, unless the run has records of a later one. Then it goes on from there, a second a second, until the database's clock
// has come as far. So what a run waits for takes as long as it should, though its records are ahead.
type runClock struct {
	of *clock

	mu     sync.Mutex
	last   dagrun.Time   // that was told
	anchor dagrun.Time   // the run's time at an instant
	at     time.Duration // since boot, of anchor
}

// newRunClock makes one for a run whose records go as far as latest.
func newRunClock(of *clock, latest dagrun.Time) *runClock {
	_, boot := of.read()
	return &runClock{of: of, last: latest, anchor: latest, at: boot}
}

func (c *runClock) now() dagrun.Time {
	now, _ := c.read()
	return now
}

// read is the run's time, and how far that is ahead of the database's: 0 unless the database's clock was set back.
func (c *runClock) read() (now, ahead dagrun.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	database, boot := c.of.read()
	expected := c.anchor + passed(boot-c.at)
	if database < expected-clockSlack {
		c.last = max(c.last, expected)
		return c.last, c.last - database
	}
	c.last = max(c.last, database)
	c.anchor, c.at = c.last, boot
	return c.last, 0
}

// until is how long it is to a moment of the run's time, at least nothing.
func (c *runClock) until(t dagrun.Time) time.Duration {
	return max(0, time.Duration(t-c.now())*time.Millisecond)
}

// database is a moment of the run's time as the database's clock has it. 0 stays 0: there is none.
func (c *runClock) database(t dagrun.Time) dagrun.Time {
	if _, ahead := c.read(); t != 0 {
		return max(t-ahead, 1)
	}
	return 0
}

// own is a moment of the database's clock in the run's time.
func (c *runClock) own(t dagrun.Time) dagrun.Time {
	if _, ahead := c.read(); t != 0 {
		return t + ahead
	}
	return 0
}

// at is a moment in the words of the standard library.
func at(t dagrun.Time) time.Time { return time.UnixMilli(int64(t)).UTC() }

// Moments that are still to come are stored by the database's clock, which wakes parked runs, and which the next drive goes
// by. What has happened is stored by the run's own clock, so that its order stays.

// stored has what is to come in records by the database's clock.
func (c *runClock) stored(rec *dagrun.Records, leave *dagrun.Leave) *dagrun.Leave {
	if _, ahead := c.read(); ahead == 0 {
		return leave
	}
	rec.Tasks = slices.Clone(rec.Tasks) // the core's own are as they were
	for i := range rec.Tasks {
		t := &rec.Tasks[i]
		t.NextAt, t.Deadline = c.database(t.NextAt), c.database(t.Deadline)
	}
	if rec.Run != nil {
		run := *rec.Run
		run.WakeAt, run.Deadline = c.database(run.WakeAt), c.database(run.Deadline)
		rec.Run = &run
	}
	if leave != nil {
		left := *leave
		left.WakeAt = c.database(left.WakeAt)
		leave = &left
	}
	return leave
}

// restored has what is to come in a run that was loaded by the run's clock.
func (c *runClock) restored(s *dagrun.Saved) {
	if _, ahead := c.read(); ahead == 0 {
		return
	}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		t.NextAt, t.Deadline = c.own(t.NextAt), c.own(t.Deadline)
	}
	s.Run.Deadline = c.own(s.Run.Deadline)
}

// latest is the largest time stored: the core's time must not be before it.
func latest(s *dagrun.Saved) dagrun.Time {
	last := max(s.Run.StartedAt, s.Run.FinishedAt)
	for i := range s.Tasks {
		last = max(last, s.Tasks[i].StartedAt, s.Tasks[i].AttemptAt, s.Tasks[i].FinishedAt)
	}
	return last
}

const (
	sayAgain   = 30 * time.Second // how often an outage that goes on, or that comes and goes, is mentioned
	longRepeat = 5 * time.Second  // an outage that comes back is mentioned sooner once it lasts as long
)

// Outage logs what fails again and again: at once, then now and then, and when it is over. It belongs to one goroutine.
type Outage struct {
	since, said time.Time
	mentioned   bool // this one was, not one before
}

// Tell takes in how a call ended: it logs a failure, or that calls succeed again.
func (o *Outage) Tell(log *slog.Logger, err error, failed, over string) {
	if err != nil {
		o.Failed(log, failed, err)
		return
	}
	o.Over(log, over)
}

// Failed logs a failure, in one line, unless that was done a short while ago.
func (o *Outage) Failed(log *slog.Logger, msg string, err error) {
	o.FailedSince(log, time.Now(), msg, err)
}

// FailedSince is Failed for what began before.
func (o *Outage) FailedSince(log *slog.Logger, since time.Time, msg string, err error) {
	now := time.Now()
	if o.since.IsZero() {
		o.since = since
	}
	if !o.said.IsZero() && now.Sub(o.said) < sayAgain && (o.mentioned || now.Sub(o.since) < longRepeat) {
		return
	}
	o.said, o.mentioned = now, true
	log.Warn(msg, "err", strings.Join(strings.Fields(err.Error()), " "), "for", now.Sub(o.since).Round(time.Second))
}

// Over logs that it is over, if there was one that was mentioned.
func (o *Outage) Over(log *slog.Logger, msg string) {
	if o.mentioned {
		log.Info(msg, "after", time.Since(o.since).Round(time.Millisecond))
	}
	*o = Outage{said: o.said}
}

// Outages says what an outage of the database does to the tasks that run on a worker with this lease.
type Outages struct {
	TTL      time.Duration
	Harmless time.Duration // no task notices one that is no longer
	Fatal    time.Duration // every task ends in one that is longer
	TakeOver time.Duration // after so long a worker on a lost host is taken for lost by another that has the database meanwhile
}

// OutagesOf derives it from the rules of the lease. The outage may begin just before a sign of life was due. When it is over,
// one that waits in vain may have to time out before the next one is tried.
func OutagesOf(ttl time.Duration) Outages {
	soft, _ := queue.LeaseEnds(ttl)
	heartbeat := heartbeatOf(ttl)
	timeout, pause := renewalLimits(heartbeat)
	return Outages{
		TTL:      ttl,
		Harmless: soft - graceOf(ttl) - heartbeat - timeout - pause,
		Fatal:    soft,
		TakeOver: ttl + 2*queue.LookInterval + takeOverSlack,
	}
}

// takeOverSlack is for the statements of a takeover.
const takeOverSlack = 500 * time.Millisecond

// Over says what becomes of running tasks in an outage that lasts for d.
func (o Outages) Over(d time.Duration) string {
	switch {
	case d <= o.Harmless:
		return "go on"
	case d <= o.Fatal:
		return "may end"
	}
	return "end"
}

// String is for the log of a worker that starts.
func (o Outages) String() string {
	return fmt.Sprintf("an outage of the database longer than %v ends running tasks (lease_ttl %v); one of up to %v ends none",
		spell(o.Fatal), spell(o.TTL), spell(o.Harmless))
}

func spell(d time.Duration) string {
	return dagspec.Duration(d.Milliseconds()).String()
}
