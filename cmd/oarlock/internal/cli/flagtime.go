package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

// localLayouts are times of a zone that the text does not name.
var localLayouts = []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02T15:04", time.DateTime, "2006-01-02T15:04:05"}

const timeAbout = `A TIME is now, 2026-11-20 for its midnight, or '2026-11-20 06:00', both in the schedule's zone; or RFC 3339, like
2026-11-20T06:00:00Z.
`

// absolute reads a time, and reports whether the text is one. Without an offset it is of zone, nil where this machine does not know it.
func absolute(flag, text string, now time.Time, zone *time.Location) (at time.Time, ok bool, err error) {
	if text == "now" {
		return now, true, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, true, nil
	}
	for _, layout := range localLayouts {
		local, err := time.Parse(layout, text)
		switch {
		case err != nil:
		case zone == nil:
			return at, false, &usageError{msg: flag + ": this machine does not know the zone that " + text + " is of", hint: "like 2026-11-20T03:00:00+01:00"}
		default:
			at := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(), 0, zone)
			if at.Day() != local.Day() { // that clock has no such midnight, and Go takes an hour before
				at = at.Add(time.Hour)
			}
			return at, true, nil
		}
	}
	return at, false, nil
}

// upcoming reads the value of a flag like --at: a time, or how long from now: +10m. The zero time is none.
func upcoming(flag, text string, now time.Time, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, ok, err := absolute(flag, text, now, zone); ok || err != nil {
		return at, err
	}
	if from, ok := strings.CutPrefix(text, "+"); ok {
		if d, err := dagspec.ParseDuration(from); err == nil {
			return now.Add(d.Std()), nil
		}
	}
	return time.Time{}, &usageError{
		msg:  fmt.Sprintf("%s: %q is neither a time nor a duration from now on", flag, text),
		hint: "like now, 2026-11-20, '2026-11-20 06:00', 2026-11-20T06:00:00Z, +10m or +1d",
	}
}

// knownZone is nil where this machine does not know the zone.
func knownZone(name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil
	}
	return zone
}

// duration reads the value of a flag like --timeout, in the units of DAG files; 0 is none.
func duration(flag, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := dagspec.ParseDuration(text)
	if err != nil {
		return 0, &usageError{msg: fmt.Sprintf("%s: %q is no duration", flag, text), hint: "like 90s, 10m or 1d12h"}
	}
	return d.Std(), nil
}
