package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
)

// pairs parses the values of a repeatable flag like -p day=2026-11-20. It returns nil if there are none.
func pairs(flag string, words []string) (map[string]string, error) {
	var all map[string]string
	for _, word := range words {
		name, value, ok := strings.Cut(word, "=")
		if !ok || name == "" {
			return nil, &usageError{msg: fmt.Sprintf("%s wants NAME=VALUE, not %q", flag, word)}
		}
		if _, twice := all[name]; twice {
			return nil, &usageError{msg: fmt.Sprintf("%s gives %s twice", flag, name)}
		}
		if all == nil {
			all = map[string]string{}
		}
		all[name] = value
	}
	return all, nil
}

// moment parses the value of --since: a time, or how long ago. It returns the zero time for "".
func moment(word string, now time.Time) (time.Time, error) {
	return momentIn("--since", word, now, time.Local)
}

// momentIn is moment for any flag and time zone. Dates are in zone, which is nil if this machine does not know it.
func momentIn(flag, word string, now time.Time, zone *time.Location) (time.Time, error) {
	if word == "" {
		return time.Time{}, nil
	}
	at, ok, err := runview.ReadPast(word, now, zone)
	if err == nil && !ok {
		err = &usageError{
			msg:  fmt.Sprintf("%s: %q is neither a duration nor a time", flag, word),
			hint: "like now, 2h, 7d, 2026-11-20, '2026-11-20 03:00' or 2026-11-20T03:00:00Z",
		}
	}
	return at, orNoZone(flag, word, err)
}
