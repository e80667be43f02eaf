package schedule

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"
)

// excepts are the times at which a schedule does not fire, by wall time.
type excepts struct {
	dates []day
	skips []*cron
}

var dateText = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)

// add adds a date or a cron expression to the exceptions. It returns an error for any other text.
func (x *excepts) add(entry string) *Error {
	entry = strings.Trim(entry, blanks)
	if date, err := time.Parse(time.DateOnly, entry); err == nil && date.Year() > 0 && dateText.MatchString(entry) {
		x.dates = append(x.dates, dayOf(date.Unix()))
		return nil
	}
	if !strings.ContainsAny(entry, blanks) && !strings.HasPrefix(entry, "@") {
		return &Error{"except", entry, fmt.Sprintf(`except: "%s" is neither a date nor a cron expression`, left(entry)), "write a date such as 2026-12-25, or five fields such as * * 25 12 *"}
	}
	c, err := readCron(entry, "except")
	if err != nil {
		return err
	}
	x.skips = append(x.skips, c)
	return nil
}

func (x *excepts) none() bool { return len(x.dates) == 0 && len(x.skips) == 0 }

// has reports whether a wall time, in seconds since 1970, lies in an excepted minute.
func (x *excepts) has(wall int64) bool {
	out := x.on(dayOf(wall))
	return out.has(minuteOf(wall))
}

// on returns the minutes of a day that are excepted: all of them for a date, and the union of the expressions that match the day.
func (x *excepts) on(d day) (out minuteSet) {
	if slices.Contains(x.dates, d) {
		return wholeDay
	}
	for _, c := range x.skips {
		if c.matches(d) {
			out.unite(&c.mask)
		}
	}
	return out
}

// minuteSet is a set of minutes of the day.
type minuteSet [(minutesOfDay + 63) / 64]uint64

func (s *minuteSet) has(m int) bool { return s[m/64]>>(m%64)&1 == 1 }

func (s *minuteSet) add(m int) { s[m/64] |= 1 << (m % 64) }

// unite adds all minutes of the other set.
func (s *minuteSet) unite(other *minuteSet) {
	for i, bits := range other {
		s[i] |= bits
	}
}

var wholeDay = func() (all minuteSet) {
	for i := range all {
		all[i] = math.MaxUint64
	}
	return all
}()
