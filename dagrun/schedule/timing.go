package schedule

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	maxEvery       = 36500 * 24 * time.Hour
	maxExcepts     = 100
	maxExceptCrons = 20
)

// All moments of schedules lie between these two. latest is excluded.
var (
	earliest = time.Date(20, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(9900, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Timing is the times at which a schedule fires. One of Cron, Every and At is set.
type Timing struct {
	Cron     string        // five fields, or @daily and the like
	Every    time.Duration // elapsed time, on a grid from Start, else from 1970-01-01T00:00Z
	At       time.Time     // a single time
	Timezone string        // a name, such as Europe/Paris; "": UTC
	Start    time.Time     // the first moment that may fire; zero: no bound
	End      time.Time     // the first moment that may not fire; zero: no bound
	Except   []string      // exceptions: dates (2026-12-25) and cron expressions, by wall time
}

// Error is a mistake in a Timing. The database reports the same mistakes with code OA013.
type Error struct {
	Field string // cron, every, at, timezone, start, end or except; "" for the whole
	Value string
	Msg   string
	Hint  string // what to type instead
}

// Error returns the message, without the hint.
func (e *Error) Error() string { return e.Msg }

// Clock computes the fires of a Timing.
type Clock struct {
	cron       *cron
	every      int64 // microseconds; 0: none
	at         time.Time
	location   *time.Location
	start, end time.Time
	excepts    excepts
}

// New checks a timing and makes its Clock. If there are mistakes, the error is the first *Error that Check returns.
func New(t Timing) (*Clock, error) {
	c, problems := read(t)
	if len(problems) > 0 {
		return nil, problems[0]
	}
	return c, nil
}

// Check returns all mistakes in a timing, and nil if there are none.
func Check(t Timing) []*Error {
	_, problems := read(t)
	return problems
}

// read makes the clock of a timing, and returns all mistakes in it; with mistakes the clock must not be used. It truncates times to
// microseconds, the precision of the database.
func read(t Timing) (*Clock, []*Error) {
	c := &Clock{location: time.UTC, at: cut(t.At), start: cut(t.Start), end: cut(t.End)}
	var problems []*Error
	add := func(e *Error) {
		if e != nil {
			problems = append(problems, e)
		}
	}
	add(t.checkShape())
	if t.Cron != "" {
		var err *Error
		c.cron, err = readCron(t.Cron, "cron")
		if err == nil && !c.cron.exists() {
			err = &Error{"cron", t.Cron, fmt.Sprintf(`cron: "%s" never fires, because its months have no such day`, left(t.Cron)), "name a day that exists, such as 0 0 28 2 *"}
		}
		add(err)
	}
	add(t.checkEvery())
	c.every = t.Every.Microseconds()
	if t.Timezone != "" {
		var err *Error
		c.location, err = readZone(t.Timezone)
		add(err)
	}
	add(checkMoment("at", t.At))
	add(checkMoment("start", t.Start))
	add(checkMoment("end", t.End))
	if !t.Start.IsZero() && !t.End.IsZero() && !c.start.Before(c.end) {
		add(&Error{"end", t.End.Format(time.RFC3339Nano), "end is not after start", "a schedule fires from start on, and before end"})
	}
	if n := len(t.Except); n > maxExcepts {
		add(&Error{"except", "", fmt.Sprintf("except has %d entries, at most %d", n, maxExcepts), "leave out entries that are past, or use a cron expression such as * * 25 12 *"})
	} else {
		for _, entry := range t.Except {
			add(c.excepts.add(entry))
		}
		if n := len(c.excepts.skips); n > maxExceptCrons {
			add(&Error{"except", "", fmt.Sprintf("except has %d cron expressions, at most %d", n, maxExceptCrons), "join some expressions, as in * * 24-26 12 *, or write dates"})
		}
	}
	return c, problems
}

// cut returns a time in UTC, truncated to microseconds. The zero time stays zero.
func cut(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

func (t Timing) checkShape() *Error {
	given := 0
	for _, is := range []bool{t.Cron != "", t.Every != 0, !t.At.IsZero()} {
		if is {
			given++
		}
	}
	if given == 1 {
		return nil
	}
	return &Error{"", "", fmt.Sprintf("a schedule needs exactly one of cron, every and at, this schedule has %d", given), "write cron:, every: or at:"}
}

func (t Timing) checkEvery() *Error {
	fail := func(msg, hint string) *Error { return &Error{"every", t.Every.String(), msg, hint} }
	switch {
	case t.Every == 0:
		return nil
	case t.Every < time.Second:
		return fail("every is too short", "at least 1s")
	case t.Every > maxEvery:
		return fail("every is too long", "at most 36500d")
	case t.Every%time.Millisecond != 0:
		return fail("every counts in milliseconds", "such as 1500ms")
	}
	return nil
}

func checkMoment(field string, moment time.Time) *Error {
	if moment.IsZero() || !moment.Before(earliest) && moment.Before(latest) {
		return nil
	}
	return &Error{field, moment.Format(time.RFC3339Nano), field + " is no time of the years 20 to 9899", "write a time such as 2026-11-20T03:00:00Z, or with an offset such as +01:00"}
}

// readZone loads a time zone by name. It returns an error for an unknown name, and for names that the database may read as
// abbreviations, because those have no summer time.
func readZone(name string) (*time.Location, *Error) {
	if slices.Contains(strings.Fields("CET EET MET WET EST MST HST"), name) {
		return nil, &Error{"timezone", name, fmt.Sprintf(`time zone "%s" means several things`, name), "name a place, such as Europe/Paris"}
	}
	known := !slices.Contains(strings.Fields("Local localtime posixrules Factory"), name) && !strings.HasPrefix(name, "posix/") && !strings.HasPrefix(name, "right/")
	location, err := time.LoadLocation(name)
	if err != nil || !known {
		return nil, &Error{"timezone", name, fmt.Sprintf(`unknown time zone "%s"`, left(name)), "use a name such as Europe/Paris, or UTC"}
	}
	return location, nil
}

// ShortestGap returns a lower bound of the time between two fires, as long as the clock of the zone is not changed: a change to or
// from summer time may bring two fires closer together. For a single time the result is math.MaxInt64.
func (c *Clock) ShortestGap() time.Duration {
	switch {
	case c.every > 0:
		return time.Duration(c.every) * time.Microsecond
	case c.cron == nil:
		return math.MaxInt64
	}
	minutes := c.cron.minutes
	least := minutes[0] + minutesOfDay - minutes[len(minutes)-1]
	for i, m := range minutes[1:] {
		least = min(least, m-minutes[i])
	}
	return time.Duration(least) * time.Minute
}
