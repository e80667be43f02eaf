package queue

import "time"

// How often a worker calls when nothing asks for it sooner.
const (
	LookInterval  = time.Second
	PollInterval  = 2 * time.Second // so long a run may wait beside a free slot while no look gets through
	SweepInterval = 5 * time.Second
)

// soon is after how long a hungry worker polls again: a transaction that entered a run before the poll may commit after it.
var soon = [...]time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond, 320 * time.Millisecond}

// openInterval is how often a hungry worker polls while a transaction is open that began before it was hungry: nobody tells it of
// what that commits.
const openInterval = 40 * time.Millisecond

// Pace says when to poll next. The zero value is ready to use.
type Pace struct {
	polls int // hungry ones running that brought nothing
}

// After takes in what a poll brought, and says how long the next one may wait. A worker that was not hungry polls as soon
// as it has room again, whatever this says.
func (p *Pace) After(polled Polled) time.Duration {
	pause := p.after(polled)
	if polled.Within > 0 {
		return min(pause, polled.Within)
	}
	return pause
}

func (p *Pace) after(polled Polled) time.Duration {
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

// hungerLasts is for how long a worker that became hungry looks closely for what older transactions commit.
const hungerLasts = 2 * time.Second

// hunger is since when a worker has been hungry. Who enters a run after that tells it; who did before, and commits later, does
// not.
type hunger struct {
	is    bool
	xid   uint64
	since time.Duration
}

// waits takes in whether the worker is hungry after a poll, and says whether an older transaction may still commit runs.
func (h *hunger) waits(hungry bool, seen *horizon, now time.Duration) bool {
	if !hungry || len(seen.marks) == 0 {
		h.is = false
		return false
	}
	if !h.is {
		*h = hunger{is: true, xid: seen.marks[len(seen.marks)-1].xid, since: now}
	}
	return now-h.since < hungerLasts && seen.older(h.xid)
}
