package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
)

// pairs reads the values of a flag like -p day=2026-11-20, which may be given several times: nil for none.
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

// moment reads the value of --since: how long ago, or when. The zero time is none.
func moment(word string, now time.Time) (time.Time, error) {
	return momentIn("--since", word, now, time.Local)
}

// momentIn is moment for any flag. Dates are of a zone, which is nil where this machine does not know it.
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
