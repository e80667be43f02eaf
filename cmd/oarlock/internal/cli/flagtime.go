package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
)

const timeAbout = `A TIME is now, 2026-11-20 for its midnight, or '2026-11-20 06:00', both in the schedule's zone; or RFC 3339, like
2026-11-20T06:00:00Z.
`

// absolute reads a time, and reports whether the text is one. Without an offset it is of zone, nil where this machine does not know it.
func absolute(flag, text string, now time.Time, zone *time.Location) (at time.Time, ok bool, err error) {
	at, ok, err = runview.ReadTime(text, now, zone)
	return at, ok, orNoZone(flag, text, err)
}

func orNoZone(flag, text string, err error) error {
	if !errors.Is(err, runview.ErrUnknownZone) {
		return err
	}
	return &usageError{msg: flag + ": this machine does not know the zone that " + text + " is of", hint: "like 2026-11-20T03:00:00+01:00"}
}

// upcoming reads the value of a flag like --at: a time, or how long from now: +10m. The zero time is none.
func upcoming(flag, text string, now time.Time, zone *time.Location) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, ok, err := runview.ReadUpcoming(text, now, zone); ok || err != nil {
		return at, orNoZone(flag, text, err)
	}
	return time.Time{}, &usageError{
		msg:  fmt.Sprintf("%s: %q is neither a time nor a duration from now on", flag, text),
		hint: "like now, 2026-11-20, '2026-11-20 06:00', 2026-11-20T06:00:00Z, +10m or +1d",
	}
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
