package queue

import "time"

// How often a worker calls when nothing asks for it sooner.
const (
	LookInterval  = time.Second
	PollInterval  = 2 * time.Second // so long a run may wait beside a free slot while no look gets through
	SweepInterval = 1500 * time.Millisecond
)

// soon is after how long a hungry worker polls again: a transaction that entered a run before the poll may commit after it, and told nobody
// if the worker was not hungry then. Half a second in all.
var soon = [...]time.Duration{5 * ms, 20 * ms, 40 * ms, 80 * ms, 80 * ms, 80 * ms, 80 * ms, 80 * ms}

const ms = time.Millisecond

// Pace says when to poll next. The zero value is ready to use.
type Pace struct {
	polls int // hungry ones running that brought nothing
}

// After takes in what a poll brought, and says how long the next one may wait. A worker that was not hungry polls as soon
// as it has room again, whatever this says.
func (p *Pace) After(polled Polled) time.Duration {
	switch {
	case !polled.Hungry:
		p.polls = 0
		return PollInterval
	case len(polled.Claims) > 0:
		p.polls = 0
	}
	if p.polls >= len(soon) {
		return PollInterval
	}
	p.polls++
	return soon[p.polls-1]
}

// Hear takes in that something may be due: poll at once, and closely for a while after.
func (p *Pace) Hear() { p.polls = 0 }
