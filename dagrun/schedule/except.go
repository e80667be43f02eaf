package schedule

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// excepts is what a schedule leaves out, by wall time.
type excepts struct {
	dates []day
	skips []*cron
}

var dateText = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)

func (x *excepts) add(entry string) *Error {
	entry = strings.Trim(entry, blanks)
	if date, err := time.Parse(time.DateOnly, entry); err == nil && date.Year() > 0 && dateText.MatchString(entry) {
		x.dates = append(x.dates, dayOf(date.Unix()))
		return nil
	}
	if !strings.ContainsAny(entry, blanks) && !strings.HasPrefix(entry, "@") {
		return &Error{"except", entry, fmt.Sprintf(`except: "%s" is neither a date nor a cron expression`, left(entry)), "write 2026-12-25, or five fields such as * * 25 12 *"}
	}
	c, err := readCron(entry, "except")
	if err != nil {
		return err
	}
	x.skips = append(x.skips, c)
	return nil
}

func (x *excepts) none() bool { return len(x.dates) == 0 && len(x.skips) == 0 }

// has reports whether a wall time, in seconds, is left out.
func (x *excepts) has(wall int64) bool {
	if x.none() {
		return false
	}
	d := dayOf(wall)
	out := x.on(d)
	return out != nil && out[floorDiv(wall-d.seconds(), 60)]
}

// on returns which minutes of a day are left out, nil for none.
func (x *excepts) on(d day) *[minutesOfDay]bool {
	if slices.Contains(x.dates, d) {
		return &wholeDay
	}
	var out *[minutesOfDay]bool
	for _, c := range x.skips {
		if !c.matches(d) {
			continue
		}
		if out == nil {
			out = new([minutesOfDay]bool)
		}
		for _, m := range c.minutes {
			out[m] = true
		}
	}
	return out
}

var wholeDay = func() (all [minutesOfDay]bool) {
	for m := range all {
		all[m] = true
	}
	return all
}()
