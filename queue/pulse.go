package queue

import (
	"sync/atomic"
	"time"
)

// pulse says how long a goroutine has been at one thing. It does not count while the machine sleeps: who wakes up with it
// is not stuck.
type pulse struct{ since atomic.Int64 } // nanoseconds of awake; 0: at nothing

var awakeFrom = time.Now().Add(-time.Nanosecond) // so that no moment is 0

func awake() int64 { return int64(time.Since(awakeFrom)) }

// beat begins the next thing.
func (p *pulse) beat() { p.since.Store(awake()) }

// rest waits for something to do.
func (p *pulse) rest() { p.since.Store(0) }

// at is how long the thing has taken so far.
func (p *pulse) at() time.Duration {
	since := p.since.Load()
	if since == 0 {
		return 0
	}
	return max(time.Duration(awake()-since), 1)
}
