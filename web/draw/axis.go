package draw

import (
	"slices"
	"time"
)

const (
	idleWidth  = 4.0  // percent of the width for an idle stretch
	idleShare  = 0.15 // of the busy time: a shorter idle stretch is drawn at full length
	idleMax    = 10   // only this many idle stretches, the longest ones, are shortened
	tickWidth  = 14.0 // least percent of the width between ticks
	tickEdge   = 96.0 // no tick stands right of this percentage, because its label would not fit
	leastShown = time.Millisecond
)

// Interval is a stretch of time.
type Interval struct{ From, To time.Time }

// Axis maps times to 0 to 100 percent of a width.
type Axis struct {
	Interval

	parts []axisPart // in order of time, without gaps
}

// axisPart is a part of the axis with one scale.
type axisPart struct {
	Interval

	left, right float64
	idle        bool // shortened
}

// NewAxis returns an axis over all, which it extends to at least leastShown. It shortens the stretches that idleStretches returns
// to idleWidth each. With an empty busy it shortens none.
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

// idleStretches returns stretches of all outside of busy, in order of time: the longest, at most idleMax. Each lasts at least a
// second, and at least idleShare of the time inside of busy. It returns none if busy is empty.
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

// Percent returns the position of a time, from 0 to 100. A time outside of the axis has the position of the nearer end.
func (a *Axis) Percent(t time.Time) float64 {
	for _, p := range a.parts {
		if t.Before(p.To) {
			since := max(t.Sub(p.From), 0)
			return p.left + (p.right-p.left)*float64(since)/float64(p.To.Sub(p.From))
		}
	}
	return 100
}

// IsShortened reports whether the axis has a shortened stretch.
func (a *Axis) IsShortened() bool {
	return slices.ContainsFunc(a.parts, func(p axisPart) bool { return p.idle })
}

// Tick is a line of the grid. After is the time since the start of the axis.
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

// Ticks returns ticks at round durations since the start of the axis, far enough apart for their labels. The first is at 0.
// Shortened stretches have none inside.
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
