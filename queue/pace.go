package queue

import "time"

// PollEvery is how often a worker polls that has nothing else to go by.
const PollEvery = time.Second

// soon is after how long a hungry worker polls again: a transaction that entered a run before the poll may commit after it.
var soon = [...]time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 80 * time.Millisecond, 320 * time.Millisecond}

// openEvery is how often a hungry worker polls while a transaction is open that began before it was hungry: nobody tells it of
// what that commits.
const openEvery = 40 * time.Millisecond

// Pace says when to poll next. The zero value is ready to use.
type Pace struct {
	polls int // hungry ones running that brought nothing
}

// After takes in what a poll brought, and says how long the next one may wait. A worker that was not hungry polls as soon
// as it has room again, whatever this says.
func (p *Pace) After(polled Polled) time.Duration {
	pause := p.after(polled)
	switch {
	case polled.Back && polled.Hungry:
		return min(pause, soon[0])
	case polled.Soon:
		return min(pause, openEvery)
	case polled.Again:
		return min(pause, hurryEvery)
	}
	return pause
}

func (p *Pace) after(polled Polled) time.Duration {
	switch {
	case !polled.Hungry:
		p.polls = 0
		return PollEvery
	case len(polled.Claims) > 0:
		p.polls = 0
	}
	if p.polls >= len(soon) {
		return PollEvery
	}
	p.polls++
	return soon[p.polls-1]
}

// Hear takes in a notification: poll at once, and closely for a while after.
func (p *Pace) Hear() { p.polls = 0 }
