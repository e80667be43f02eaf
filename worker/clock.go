package worker

import (
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// clock tells database time: that of the last renewal, and what has passed here since. It never goes back.
type clock struct {
	boot func() time.Duration

	mu   sync.Mutex
	base dagrun.Time
	at   time.Duration // boottime of base
	last dagrun.Time
}

// set takes over what the database said in an answer to a question asked at.
func (c *clock) set(now dagrun.Time, at time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.base, c.at = now, at
}

func (c *clock) now() dagrun.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, c.base+dagrun.Time((c.boot()-c.at).Milliseconds()))
	return c.last
}

// until is how long it is to a moment, at least nothing.
func (c *clock) until(t dagrun.Time) time.Duration {
	return max(0, time.Duration(t-c.now())*time.Millisecond)
}

// atLeast moves the clock on to what is stored already.
func (c *clock) atLeast(t dagrun.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, t)
}

// at is a moment in the words of the standard library.
func at(t dagrun.Time) time.Time { return time.UnixMilli(int64(t)).UTC() }
