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

// absolute parses a time, and reports whether the text is one. A time without an offset is in zone, which is nil if this
// machine does not know it.
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

// upcoming parses the value of a flag like --at: a time, or a duration from now such as +10m. It returns the zero time for
// "".
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

// duration parses the value of a flag like --timeout, in the units of DAG files. It returns 0 for "".
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
