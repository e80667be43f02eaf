package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

// upcoming reads the value of a flag like --at: a time, or how long from now: +10m. The zero time is none.
func upcoming(flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if from, ok := strings.CutPrefix(text, "+"); ok {
		if d, err := dagspec.ParseDuration(from); err == nil {
			return now.Add(d.Std()), nil
		}
	} else if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	return time.Time{}, &usageError{
		msg:  fmt.Sprintf("%s: %q is neither a time nor a duration from now on", flag, text),
		hint: "like 2026-11-20T06:00:00Z, +10m or +1d",
	}
}

// rfc3339 reads the value of a flag that is a time and nothing else. The zero time is none.
func rfc3339(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, &usageError{msg: fmt.Sprintf("%s: %q is no time", flag, text), hint: "like 2026-11-20T02:30:00Z"}
	}
	return at, nil
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
