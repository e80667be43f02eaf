package schedule

import (
	"sort"
	"time"
)

const (
	minutesOfDay    = 24 * 60
	secondsOfDay    = 24 * 60 * 60
	maxDays         = 3660   // days that a search for a cron expression covers
	maxDaysLeftOut  = 400    // excepted days in a row that a search passes: more than a year of daily fires
	maxLeftOut      = 10_000 // excepted points of an interval that a search passes
	microsPerSecond = 1_000_000
)

// day is a number of days since 1970-01-01.
type day int64

func dayOf(wall int64) day { return day(floorDiv(wall, secondsOfDay)) }

func minuteOf(wall int64) int { return int(floorDiv(wall-dayOf(wall).seconds(), 60)) }

func (d day) seconds() int64 { return int64(d) * secondsOfDay }

func (d day) date() (year int, month time.Month, of int, weekday time.Weekday) {
	t := time.Unix(d.seconds(), 0).UTC()
	year, month, of = t.Date()
	return year, month, of, t.Weekday()
}

// beyondMonth returns the first day of the next month, or with forward false the last day of the month before.
func (d day) beyondMonth(forward bool) day {
	year, month, _, _ := d.date()
	if forward {
		return dayOf(time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC).Unix())
	}
	return dayOf(time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Unix()) - 1
}

// floorDiv returns a/b rounded down. b must be positive.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// ceilDiv returns a/b rounded up. b must be positive.
func ceilDiv(a, b int64) int64 { return -floorDiv(-a, b) }

// Next returns the first fire after a moment, in UTC; a fire at that moment does not count. It returns false if there is none. It
// also gives up if a cron expression has none within ten years, or if the excepts leave out too many fires in a row: 400 days of
// them, or 10,000 points of an interval.
func (c *Clock) Next(after time.Time) (time.Time, bool) {
	bound := after
	if bound.Before(earliest) {
		bound = earliest
	}
	if from := c.start.Add(-time.Microsecond); !c.start.IsZero() && bound.Before(from) {
		bound = from
	}
	if !bound.Before(latest) || !c.end.IsZero() && !bound.Before(c.end) {
		return time.Time{}, false
	}
	hit, ok := c.find(bound, true)
	if !ok || !c.end.IsZero() && !hit.Before(c.end) {
		return time.Time{}, false
	}
	return hit, true
}

// Last returns the newest fire before a moment, in UTC; a fire at that moment does not count. It returns false if there is none,
// and gives up as Next does.
func (c *Clock) Last(before time.Time) (time.Time, bool) {
	bound := before
	if bound.After(latest) {
		bound = latest
	}
	if !c.end.IsZero() && bound.After(c.end) {
		bound = c.end
	}
	if !bound.After(earliest) || !c.start.IsZero() && !bound.After(c.start) {
		return time.Time{}, false
	}
	hit, ok := c.find(bound, false)
	if !ok || !c.start.IsZero() && hit.Before(c.start) {
		return time.Time{}, false
	}
	return hit, true
}

// find returns the nearest fire after bound, or before it if forward is false. It may be outside start and end: the caller checks
// that.
func (c *Clock) find(bound time.Time, forward bool) (time.Time, bool) {
	switch {
	case c.cron != nil:
		seconds := bound.Unix()
		if !forward && bound.Nanosecond() > 0 {
			seconds++
		}
		hit, ok := c.findCron(seconds, forward)
		return time.Unix(hit, 0).UTC(), ok
	case c.every > 0:
		micros := bound.UnixMicro()
		if !forward && bound.Nanosecond()%1000 > 0 {
			micros++
		}
		hit, ok := c.findEvery(micros, forward)
		return time.UnixMicro(hit).UTC(), ok
	case c.at.Equal(bound) || c.at.After(bound) != forward || c.excepts.has(c.wall(c.at.Unix())):
		return time.Time{}, false
	}
	return c.at, true
}

// offset returns how many seconds the zone is ahead of UTC at a moment, which is in seconds since 1970.
func (c *Clock) offset(moment int64) int64 {
	_, seconds := time.Unix(moment, 0).In(c.location).Zone()
	return int64(seconds)
}

// wall returns the wall time of a moment: the seconds since 1970 that a clock in the zone seems to show.
func (c *Clock) wall(moment int64) int64 { return moment + c.offset(moment) }

// offsets returns the offsets of the zone before and after a local day. They are equal if the clock is not changed on that day.
func (c *Clock) offsets(d day) (before, after int64) {
	before, after = c.offset(d.seconds()-secondsOfDay), c.offset(d.seconds()+2*secondsOfDay)
	if before != after {
		first, last := c.offset(d.seconds()-max(before, after)), c.offset(d.seconds()+secondsOfDay-min(before, after))
		if first == last {
			return first, last
		}
	}
	return before, after
}

// findCron returns the nearest fire of the cron expression after bound, or before it if forward is false. It walks the local days
// from the day before bound on (backward: from the day after it), because a wall time in a gap fires later than it reads. For the
// same reason it also looks at the calendar day after the first hit. It gives up after maxDaysLeftOut matching days without a fire.
// So a daily expression with excepts for all but one day in two years finds nothing: such a schedule needs a narrower cron
// expression.
func (c *Clock) findCron(bound int64, forward bool) (best int64, found bool) {
	step := day(1)
	if !forward {
		step = -1
	}
	today := dayOf(c.wall(bound))
	last, vain := today+maxDays*step, 0 // vain counts matching days without a fire
	for d := today - step; (last-d)*step >= 0; {
		if _, month, _, _ := d.date(); !c.cron.months[month] {
			d = d.beyondMonth(forward)
			continue
		}
		if c.cron.matches(d) {
			hit, ok := c.findOn(d, bound, forward)
			if !ok {
				if vain++; vain > maxDaysLeftOut {
					break
				}
			}
			if ok && !found {
				last = d + step
			}
			if ok && (!found || (hit < best) == forward) {
				best, found = hit, true
			}
		}
		d += step
	}
	return best, found
}

// findOn returns the fire of day d that is the first after bound, or the last before it if forward is false. The day must match the
// cron expression. findOn returns false if all its fires are excepted or lie on the wrong side of bound.
func (c *Clock) findOn(d day, bound int64, forward bool) (int64, bool) {
	before, after := c.offsets(d)
	if before != after {
		return c.findChanged(d, before, after, bound, forward)
	}
	minutes := c.cron.minutes
	out := c.excepts.on(d)
	for i := from(minutes, bound+before-d.seconds(), forward); i >= 0 && i < len(minutes); i += sign(forward) {
		if !out.has(minutes[i]) {
			return d.seconds() + int64(minutes[i])*60 - before, true
		}
	}
	return 0, false
}

func sign(forward bool) int {
	if forward {
		return 1
	}
	return -1
}

// from returns the index of the first of the sorted minutes after a number of seconds of the day, or of the last before it if
// forward is false. The index is outside minutes if there is none.
func from(minutes []int, seconds int64, forward bool) int {
	if forward {
		return sort.SearchInts(minutes, int(floorDiv(seconds, 60))+1)
	}
	return sort.SearchInts(minutes, int(ceilDiv(seconds, 60))) - 1
}

// findChanged does the work of findOn for a day around which the offset changes from before to after. It tries each wall time with
// both offsets. A moment may be off its wall time by the difference of the offsets, so without excepts it is enough to try the
// minutes within twice that distance of bound.
func (c *Clock) findChanged(d day, before, after, bound int64, forward bool) (best int64, found bool) {
	minutes, tries := c.cron.minutes, minutesOfDay
	if c.excepts.none() {
		tries = 2*int(ceilDiv(max(before-after, after-before), 60)) + 1
	}
	lead := min(before, after)
	if !forward {
		lead = max(before, after)
	}
	for i := from(minutes, bound+lead-d.seconds(), forward); tries > 0 && i >= 0 && i < len(minutes); i += sign(forward) {
		tries--
		for _, moment := range c.moments(d.seconds()+int64(minutes[i])*60, before, after) {
			beyond, better := moment > bound, !found || moment < best
			if !forward {
				beyond, better = moment < bound, !found || moment > best
			}
			if beyond && better && !c.excepts.has(c.wall(moment)) {
				best, found = moment, true
			}
		}
	}
	return best, found
}

// moments returns the moments at which a wall time fires, given the offsets before and after a change of the clock. A wall time
// that comes twice fires once, at the first, or twice if the hour field of the expression begins with a star. One that does not
// come at all fires by the offset before the change.
func (c *Clock) moments(wall, before, after int64) []int64 {
	a, b := wall-before, wall-after
	isA, isB := c.wall(a) == wall, c.wall(b) == wall
	switch {
	case isA && isB && c.cron.twice:
		return []int64{min(a, b), max(a, b)}
	case isA && isB:
		return []int64{min(a, b)}
	case isB:
		return []int64{b}
	}
	return []int64{a} // also in a gap: by the offset before the gap
}

// gridPoint returns the first point of the interval's grid after bound, or the last before it if forward is false. The grid has a
// point at start, or at the beginning of 1970 if there is no start. All times are in microseconds.
func (c *Clock) gridPoint(bound int64, forward bool) int64 {
	origin := int64(0)
	if !c.start.IsZero() {
		origin = c.start.UnixMicro()
	}
	if forward {
		return origin + (floorDiv(bound-origin, c.every)+1)*c.every
	}
	return origin + (ceilDiv(bound-origin, c.every)-1)*c.every
}

// findEvery returns the nearest point of the interval's grid after bound that is not excepted, or before it if forward is false. It
// skips the excepted part of a day at once; on a day of a clock change it goes minute by minute. It gives up after maxDaysLeftOut
// days or maxLeftOut points. So a grid with excepts for all but one fire in two years finds nothing: such a schedule needs a cron
// expression.
func (c *Clock) findEvery(bound int64, forward bool) (int64, bool) {
	point := c.gridPoint(bound, forward)
	if c.excepts.none() {
		return point, true
	}
	var d day
	var out minuteSet
	days := 0
	for range maxLeftOut {
		at := time.UnixMicro(point)
		if at.Before(earliest) || !at.Before(latest) || !c.start.IsZero() && at.Before(c.start) || !c.end.IsZero() && !at.Before(c.end) {
			return 0, false
		}
		wall := c.wall(at.Unix())
		if days == 0 || d != dayOf(wall) {
			if days > maxDaysLeftOut {
				break
			}
			days++
			d = dayOf(wall)
			out = c.excepts.on(d)
		}
		if !out.has(minuteOf(wall)) {
			return point, true
		}
		if edge := c.edge(out, wall, at.Unix(), forward) * microsPerSecond; forward {
			point = c.gridPoint(edge-1, true)
		} else {
			point = c.gridPoint(edge, false)
		}
	}
	return 0, false
}

// edge returns the moment at which the excepted minutes around a moment end, or with forward false begin, at most until the end of
// the day. wall is the wall time of the moment, and out holds the excepted minutes of its day. On a day of a clock change it is
// only the edge of the minute.
func (c *Clock) edge(out minuteSet, wall, moment int64, forward bool) int64 {
	d, m := dayOf(wall), minuteOf(wall)
	before, after := c.offsets(d)
	if before != after {
		minute := moment - (wall - floorDiv(wall, 60)*60)
		if forward {
			minute += 60
		}
		return minute
	}
	if forward {
		for m < minutesOfDay && out.has(m) {
			m++
		}
	} else {
		for m > 0 && out.has(m-1) {
			m--
		}
	}
	return d.seconds() + int64(m)*60 - before
}
