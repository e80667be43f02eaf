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

// The worker sends several signs of life per TTL, so that some may fail before the lease is in danger. Even with a long TTL it sends
// one every few seconds: the answer also brings requests to runs if their notification was lost.
const (
	renewals        = 6 // per TTL
	longestInterval = 5 * time.Second
)

// After a failed sign of life the next one follows sooner, so that the worker notices the end of an outage soon.
const (
	renewTimeout = 5 * time.Second
	hasten       = 5 // the pause after a failure is the interval divided by this
	longestPause = time.Second
)

// heartbeatOf returns the time between two signs of life.
func heartbeatOf(ttl time.Duration) time.Duration { return min(ttl/renewals, longestInterval) }

// renewalLimits returns how long one sign of life may take, and the pause after a failed one.
func renewalLimits(every time.Duration) (timeout, pause time.Duration) {
	return min(every, renewTimeout), min(every/hasten, longestPause)
}

// keepLease is the loop that sends signs of life and does what their answers ask for. While none is answered, it ends the running
// tasks before the lease is over. It returns when the life has ended.
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
			l.endangered(soft, hard) // before the renewal, which may take a while
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

// renewSoon has keepLease send a sign of life at once, or a short pause after the last one.
func (w *Worker) renewSoon() { w.renewNow.send() }

// vitals returns the figures of this worker that a sign of life stores.
func (w *Worker) vitals() queue.Vitals {
	slotQueue, first := w.slotQueue.Stats(), w.fitness.first()
	if since := w.permits.crowdedSince(); first.why == "" && !since.IsZero() {
		first.why, first.since = fmt.Sprintf("%d runs on this worker wait for pools", permitRuns), since
	}
	return queue.Vitals{Busy: slotQueue.Slots - slotQueue.Free, Waiting: slotQueue.Waiting, Unfit: first.why, Since: first.since}
}

// renew sends one sign of life, waits for the answer, and returns the time until the next one is due: every, or a shorter pause
// after a failure.
//
// An answer sets the clock, moves the deadline of the guard, lets slots be granted again if the lease was in danger, and tells
// drivers about new controls. It may also ask the worker to stop. If the answer says that the lease is lost, renew ends the life.
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
	if l.drivers.liftDanger() {
		l.slotQueue.Open()
	}
	l.clock.set(renewal.Now, asked)
	l.extend()
	for _, m := range renewal.Mail {
		l.drivers.tell([]queue.RunID{m.Run}, false)
	}
	if renewal.Desired != queue.WorkerLive && !l.stopping() { // every answer says so until the worker is gone
		l.log.Info("asked to stop by `oarlock workers drain`, or by oarlock.drain_worker() in SQL", "desired", renewal.Desired)
		l.Stop()
	}
	return every
}

// renewed reports the outcome of a sign of life to the status and the meter; err is nil if it was answered. asked is when it was
// sent, in time since boot. soft is the soft deadline that held then.
func (l *life) renewed(asked, soft time.Duration, err error) {
	now := l.config.Boot()
	l.view.renewed(asked, err)
	l.config.Meter.Renewed(soft-now, now-asked, err)
}

// Steps that a worker takes, in this order, while no sign of life is answered.
const (
	askBodies  = 1 + iota // graceOf before the soft deadline: ask every body to end
	killBodies            // at the soft deadline: kill every body
	forget                // at the hard deadline: end the life, because other workers may take over the runs
)

// Bodies that are asked to end get one part in graceShare of the time from a renewal to the soft deadline, and no more than
// longestGrace.
const (
	graceShare   = 6
	longestGrace = 10 * time.Second
)

// graceOf returns how long before the soft deadline bodies are asked to end.
func graceOf(ttl time.Duration) time.Duration {
	soft, _ := queue.LeaseEnds(ttl)
	return min(soft/graceShare, longestGrace)
}

func (l *life) dangers(soft, hard time.Duration) [forget + 1]time.Duration {
	return [...]time.Duration{0, soft - graceOf(l.config.Self.TTL), soft, hard}
}

// nextDanger returns how long it is to the next step of endangered; 0: the step is due. After the last step it returns a TTL.
func (l *life) nextDanger(soft, hard time.Duration) time.Duration {
	if l.warned == forget {
		return l.config.Self.TTL
	}
	return max(0, l.dangers(soft, hard)[l.warned+1]-l.config.Boot())
}

// endangered takes the steps that are due because no sign of life has been answered: it asks bodies to end, then kills them, and
// ends the life. soft and hard are the deadlines of the lease. l.warned holds the last step, so that none is taken twice.
func (l *life) endangered(soft, hard time.Duration) {
	for at := l.dangers(soft, hard); l.warned < forget && l.config.Boot() >= at[l.warned+1]; {
		l.warned++
		switch l.warned {
		case askBodies:
			l.log.Warn("the lease is in danger: ending tasks")
			l.slotQueue.Shut() // a body that began now would be given up at once and begin again, over and over
			l.drivers.giveUp(order{why: "lease in danger", passing: true})
		case killBodies:
			l.drivers.giveUp(order{why: "lease in danger", passing: true, now: true})
		case forget:
			l.stop(queue.ErrLeaseLost)
			if n := l.drivers.bodies.Load(); n > 0 && l.config.Overdue != nil {
				l.config.Overdue(int(n))
			}
		}
	}
}

// listen is the loop that passes notifications on to the drivers and to the loops that poll and renew. It returns when the session
// or the life has ended.
func (l *life) listen() {
	for l.ctx.Err() == nil {
		heard, err := l.session.Hear(l.ctx)
		if err != nil {
			return // the session or the life has ended; looks and renewals need no notifications
		}
		l.claimer.ration.told.Add(int64(heard.Rows))
		if heard.Lanes || heard.All {
			l.claimer.told.send()
		}
		l.drivers.tell(heard.Runs, heard.All)
		if heard.Drain || heard.All {
			l.renewSoon()
		}
		if heard.Permits || heard.All {
			l.permits.hear()
		}
	}
}

// clock returns the time of the database: the time in its last answer, plus the time since then on this host. If the database's
// clock is set back, clock goes back too, at the next renewal.
type clock struct {
	boot func() time.Duration

	mu   sync.Mutex
	base dagrun.Time
	at   time.Duration // time since boot that belongs to base
}

// set adjusts the clock to the database's time now. at is when the question was sent that this time answers, in time since boot.
func (c *clock) set(now dagrun.Time, at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.at = now, at
}

// compare adjusts the clock to the database's time now, from the answer to a poll or look, but only if the two differ by more than
// clockSlack. So the worker notices with the next poll or look that the database's clock was set. The question was sent at asked,
// and may have waited before the database read its clock.
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

// read returns the time of the database, and the time since boot that belongs to it.
func (c *clock) read() (dagrun.Time, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	boot := c.boot()
	return c.base + passed(boot-c.at), boot
}

// passed converts a duration to the unit of the core.
func passed(d time.Duration) dagrun.Time { return dagrun.Time(d.Milliseconds()) }

// clockSlack is how far the database may seem to be behind before its clock counts as set back, in milliseconds. A renewal that took
// long makes it seem a little behind.
const clockSlack = dagrun.Time(1000)

// runClock is the clock of one run. It never goes back, so no record of the run is older than the one before it. It shows the
// database's time, unless the run has records with a later time because the database's clock was set back. Then it goes on from the
// latest record at normal speed until the database's clock has caught up. So a wait of the run takes as long as it should even then.
type runClock struct {
	of *clock

	mu     sync.Mutex
	last   dagrun.Time   // the time that read returned last
	anchor dagrun.Time   // the run's time when it last followed the database
	at     time.Duration // time since boot that belongs to anchor
}

// newRunClock returns the clock of a run with records up to the time latest.
func newRunClock(of *clock, latest dagrun.Time) *runClock {
	_, boot := of.read()
	return &runClock{of: of, last: latest, anchor: latest, at: boot}
}

func (c *runClock) now() dagrun.Time {
	now, _ := c.read()
	return now
}

// read returns the run's time, and how far that is ahead of the database's: 0 unless the database's clock was set back.
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

// until returns how long it is to a moment of the run's time; 0: it has passed.
func (c *runClock) until(t dagrun.Time) time.Duration {
	return max(0, time.Duration(t-c.now())*time.Millisecond)
}

// database converts a moment from the run's time to the database's. 0, which means no moment, stays 0.
func (c *runClock) database(t dagrun.Time) dagrun.Time {
	if _, ahead := c.read(); t != 0 {
		return max(t-ahead, 1)
	}
	return 0
}

// own converts a moment from the database's time to the run's. 0, which means no moment, stays 0.
func (c *runClock) own(t dagrun.Time) dagrun.Time {
	if _, ahead := c.read(); t != 0 {
		return t + ahead
	}
	return 0
}

// at converts a time of the core to a time.Time.
func at(t dagrun.Time) time.Time { return time.UnixMilli(int64(t)).UTC() }

// Future moments are stored in the database's time, because the database wakes parked runs by it, and because the next drive starts
// from it. Past moments are stored in the run's time, so that their order stays.

// stored converts the future moments in records and leave to the database's time. It changes rec, and returns the leave to store.
func (c *runClock) stored(rec *dagrun.Records, leave *dagrun.Leave) *dagrun.Leave {
	if _, ahead := c.read(); ahead == 0 {
		return leave
	}
	rec.Tasks = slices.Clone(rec.Tasks) // the core's own records stay unchanged
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

// restored converts the future moments of a loaded run, in place, from the database's time to the run's. It is the reverse of
// stored.
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

// latest returns the latest time in the run's records. The core's time must not be before it.
func latest(s *dagrun.Saved) dagrun.Time {
	last := max(s.Run.StartedAt, s.Run.FinishedAt)
	for i := range s.Tasks {
		last = max(last, s.Tasks[i].StartedAt, s.Tasks[i].AttemptAt, s.Tasks[i].FinishedAt)
	}
	return last
}

const (
	sayAgain   = 30 * time.Second // between two log lines about an outage that goes on, or that comes and goes
	longRepeat = 5 * time.Second  // an outage that comes back within sayAgain is logged once it has lasted this long
)

// Outage logs a call that fails again and again: its first failure at once, then one line in a while, and the end of the outage. It
// belongs to one goroutine. The zero value is ready for use.
type Outage struct {
	since, said time.Time // the begin of this outage, and the last log line about a failure; zero: none
	mentioned   bool      // this outage was logged, not only an earlier one
}

// Tell takes in the result of a call. If err is nil, it calls Over with the message over; otherwise it calls Failed with the
// message failed.
func (o *Outage) Tell(log *slog.Logger, err error, failed, over string) {
	if err != nil {
		o.Failed(log, failed, err)
		return
	}
	o.Over(log, over)
}

// Failed logs a failure with the message msg, unless the last such line is less than sayAgain ago. A new outage within that time is
// logged once it has lasted for longRepeat.
func (o *Outage) Failed(log *slog.Logger, msg string, err error) {
	o.FailedSince(log, time.Now(), msg, err)
}

// FailedSince is Failed for an outage that began at since. Only the first failure of an outage sets its beginning.
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

// Over ends the outage, and logs the end if the outage was logged.
func (o *Outage) Over(log *slog.Logger, msg string) {
	if o.mentioned {
		log.Info(msg, "after", time.Since(o.since).Round(time.Millisecond))
	}
	*o = Outage{said: o.said}
}

// Outages describes what outages of the database do to running tasks, depending on the TTL of the worker's lease.
type Outages struct {
	TTL      time.Duration
	Harmless time.Duration // an outage of at most this length ends no task
	Fatal    time.Duration // a longer outage ends every task
	TakeOver time.Duration // time from the loss of a host until a worker that reaches the database has taken over its runs
}

// OutagesOf computes the limits from the rules of the lease, for the worst case: the outage begins just before a sign of life was
// due, and at its end a sign of life without an answer has to time out before the worker sends the next one.
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

// takeOverSlack is the time that the statements of a takeover take.
const takeOverSlack = 500 * time.Millisecond

// Over returns a word for the running tasks in an outage of length d: they "go on", "may end" or "end".
func (o Outages) Over(d time.Duration) string {
	switch {
	case d <= o.Harmless:
		return "go on"
	case d <= o.Fatal:
		return "may end"
	}
	return "end"
}

// String returns the line that a worker logs when it starts.
func (o Outages) String() string {
	return fmt.Sprintf("an outage of the database longer than %v ends running tasks (lease_ttl %v); an outage of up to %v ends no task",
		spell(o.Fatal), spell(o.TTL), spell(o.Harmless))
}

func spell(d time.Duration) string {
	return dagspec.Duration(d.Milliseconds()).String()
}
