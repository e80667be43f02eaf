package worker

import (
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

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
