package dagspec

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Duration is a span in milliseconds, written as in Go, and with d for 24 hours: 90s, 10m, 1d12h.
type Duration int64

// Units in milliseconds.
const (
	second = Duration(1000)
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour

	maxDuration = 36500 * day
)

var (
	durationText = regexp.MustCompile(`^(?:[0-9]+(?:\.[0-9]+)?(?:ns|us|µs|ms|s|m|h|d))+$`)
	durationPart = regexp.MustCompile(`([0-9.]+)(ns|us|µs|ms|s|m|h|d)`)
	spelledSpan  = regexp.MustCompile(`^(?:([0-9]{1,9}) ?)?(s|sec|second|m|min|minute|h|hr|hour|d|day|w|week)s?$`)
	milliseconds = map[string]float64{
		"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1,
		"s": float64(second), "m": float64(minute), "h": float64(hour), "d": float64(day),
	}
)

// ParseDuration reads a duration. It refuses numbers without a unit, 0 included.
func ParseDuration(s string) (Duration, error) {
	if !durationText.MatchString(s) {
		return 0, fmt.Errorf("%q is not a duration: write a number and a unit, such as 90s, 10m or 1d12h", s)
	}
	total := 0.0
	for _, part := range durationPart.FindAllStringSubmatch(s, -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration: %w", s, err)
		}
		total += n * milliseconds[part[2]]
	}
	if total > float64(maxDuration) {
		return 0, fmt.Errorf("%q is too long: at most 36500d", s)
	}
	if total > 0 && total < 1 {
		return 0, errors.New("durations count in milliseconds: at least 1ms, or 0s for none")
	}
	return Duration(math.Round(total)), nil
}

// spelledOut reads a span in a form that people write, such as 5 minutes, minute or 1w. It returns the span in the form of
// this package.
func spelledOut(text string) (duration string, ok bool) {
	parts := spelledSpan.FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if parts == nil {
		return "", false
	}
	n, unit := cmp.Or(parts[1], "1"), parts[2][:1]
	if unit == "w" {
		weeks, _ := strconv.Atoi(n)
		n, unit = strconv.Itoa(7*weeks), "d"
	}
	return n + unit, true
}

// String returns the shortest exact form, such as 1d12h or 1m30s.
func (d Duration) String() string {
	if d == 0 {
		return "0s"
	}
	var b strings.Builder
	for _, u := range []struct {
		name string
		size Duration
	}{{"d", day}, {"h", hour}, {"m", minute}, {"s", second}, {"ms", 1}} {
		if n := d / u.size; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.size
		}
	}
	return b.String()
}

// MarshalText implements encoding.TextMarshaler with String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseDuration.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := ParseDuration(string(text))
	*d = parsed
	return err
}

// Std converts the duration for package time.
func (d Duration) Std() time.Duration { return time.Duration(d) * time.Millisecond }

func (d Duration) core() dagrun.Duration { return dagrun.Duration(d) }
