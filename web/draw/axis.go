package draw

import (
	"slices"
	"time"
)

const (
	idleWidth  = 4.0  // percent that a stretch takes in which nothing happened
	idleShare  = 0.15 // of the time in which something did: shorter stretches are drawn as they are
	idleMax    = 10   // stretches that are drawn short: the longest
	tickWidth  = 14.0 // percent between ticks, at least
	tickEdge   = 96.0 // no tick stands right of it: its label would not fit
	leastShown = time.Millisecond
)

// Interval is a stretch of time.
type Interval struct{ From, To time.Time }

// Axis places moments between 0 and 100 percent of a width.
type Axis struct {
	Interval

	parts []axisPart // in order of time; together they are the interval
}

// axisPart is a stretch of time on a stretch of the width.
type axisPart struct {
	Interval

	left, right float64
	idle        bool // drawn short
}

// NewAxis makes an axis. Where it is told when something happened, long stretches without are drawn short.
func NewAxis(all Interval, busy []Interval) Axis {
	if all.To.Sub(all.From) < leastShown {
		all.To = all.From.Add(leastShown)
	}
	a := Axis{Interval: all}
	idle := idleStretches(all, busy)
	shown := all.To.Sub(all.From)
	for _, i := range idle {
		shown -= i.To.Sub(i.From)
	}
	perNano := (100 - idleWidth*float64(len(idle))) / float64(max(shown, leastShown))
	at, left := all.From, 0.0
	add := func(to time.Time, width float64, idle bool) {
		if to.After(at) {
			a.parts = append(a.parts, axisPart{Interval{at, to}, left, left + width, idle})
			at, left = to, left+width
		}
	}
	for _, i := range idle {
		add(i.From, float64(i.From.Sub(at))*perNano, false)
		add(i.To, idleWidth, true)
	}
	add(all.To, 100-left, false)
	return a
}

// idleStretches are the longest stretches in which nothing happened, in order of time.
func idleStretches(all Interval, busy []Interval) []Interval {
	busy = slices.Clone(busy)
	slices.SortFunc(busy, func(a, b Interval) int { return a.From.Compare(b.From) })
	var idle []Interval
	total := all.To.Sub(all.From)
	at := all.From
	for i, b := range append(busy, Interval{all.To, all.To}) {
		if b.From.After(at) && (i > 0 || len(busy) > 0) {
			idle = append(idle, Interval{at, minTime(b.From, all.To)})
			total -= b.From.Sub(at)
		}
		at = maxTime(at, b.To)
	}
	idle = slices.DeleteFunc(idle, func(i Interval) bool {
		return float64(i.To.Sub(i.From)) < idleShare*float64(max(total, 0)) || i.To.Sub(i.From) < time.Second
	})
	slices.SortFunc(idle, func(a, b Interval) int { return int(b.To.Sub(b.From) - a.To.Sub(a.From)) })
	idle = idle[:min(len(idle), idleMax)]
	slices.SortFunc(idle, func(a, b Interval) int { return a.From.Compare(b.From) })
	return idle
}

func minTime(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func maxTime(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Percent is where a moment stands; what is before or after the axis stands at its end.
func (a *Axis) Percent(t time.Time) float64 {
	for _, p := range a.parts {
		if t.Before(p.To) {
			since := max(t.Sub(p.From), 0)
			return p.left + (p.right-p.left)*float64(since)/float64(p.To.Sub(p.From))
		}
	}
	return 100
}

// IsShortened reports whether some stretch is drawn short.
func (a *Axis) IsShortened() bool {
	return slices.ContainsFunc(a.parts, func(p axisPart) bool { return p.idle })
}

// Tick is a line of the grid: so long after the begin of the axis.
type Tick struct {
	Percent float64
	After   time.Duration
}

var tickSteps = []time.Duration{
	time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
	15 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute,
	time.Hour, 2 * time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour, 2 * 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour,
}

// Ticks are lines at round durations, far enough apart for their labels, none in what is drawn short.
func (a *Axis) Ticks() []Tick {
	var shown time.Duration
	for _, p := range a.parts {
		if !p.idle {
			shown += p.To.Sub(p.From)
		}
	}
	step := tickSteps[len(tickSteps)-1]
	for _, s := range tickSteps {
		if float64(s) >= float64(shown)*tickWidth/100 {
			step = s
			break
		}
	}
	ticks := []Tick{{}}
	for _, p := range a.parts {
		if p.idle {
			continue
		}
		first := p.From.Sub(a.From).Truncate(step)
		for after := first; after <= p.To.Sub(a.From); after += step {
			at := a.Percent(a.From.Add(after))
			if after >= p.From.Sub(a.From) && at >= ticks[len(ticks)-1].Percent+tickWidth*0.9 && at <= tickEdge {
				ticks = append(ticks, Tick{at, after})
			}
		}
	}
	return ticks
}
