package supervise

import (
	"errors"
	"fmt"
	"maps"
)

// Why is the reason for which a driver process was replaced.
type Why string

// Reasons for a replacement. WhyOverdue means an outage that was longer than a lease, or a driver process frozen for so long.
const (
	WhyOverdue    Why = "overdue"    // its lease ended without a sign of life from the database
	WhyUnattached Why = "unattached" // it did not attach in time
	WhyUnstarted  Why = "unstarted"  // it could not be started
	WhyDied       Why = "died"       // it ended by itself, or was killed by another process
)

// Whys lists all reasons.
var Whys = []Why{WhyOverdue, WhyUnattached, WhyUnstarted, WhyDied}

// maxKept bounds how many counts a guard keeps, and maxCountName the length of their names.
const (
	maxKept      = 16
	maxCountName = 64
)

var errCount = errors.New("a count has a short name and is not negative")

// counts is what a guard knows of earlier driver processes: how often each reason applied, and the counts that they left with the
// guard. It lives as long as the guard.
type counts struct {
	replaced map[Why]int64
	kept     map[string]int64
}

func newCounts() counts { return counts{map[Why]int64{}, map[string]int64{}} }

// keep stores counts of a driver process, by name, for its successors. A count replaces the one of the same name. It returns an
// error at the first count that is negative, has an empty or too long name, or would be more than maxKept; some of the others may
// be stored then.
func (c *counts) keep(these map[string]int64) error {
	for name, n := range these {
		if _, known := c.kept[name]; !known && len(c.kept) >= maxKept {
			return fmt.Errorf("more than %d counts", maxKept)
		}
		if name == "" || len(name) > maxCountName || n < 0 {
			return errCount
		}
		c.kept[name] = n
	}
	return nil
}

// whyReplaced returns the reason for which the present driver process is replaced. over is the reason for which the guard killed
// it; nil: the guard did not.
func (g *supervisor) whyReplaced(over error) Why {
	switch {
	case g.driver.PID == 0:
		return WhyUnstarted
	case errors.Is(over, errDeadline):
		return WhyOverdue
	case errors.Is(over, errNotAttached):
		return WhyUnattached
	}
	return WhyDied
}

// Replaced returns how many driver processes the guard has replaced so far, by reason; nil for a nil Link. The present driver
// process does not count.
func (l *Link) Replaced() map[Why]int64 {
	if l == nil {
		return nil
	}
	return maps.Clone(l.hello.Replaced)
}

// Kept returns the counts, by name, that earlier driver processes left with the guard.
func (l *Link) Kept() map[string]int64 {
	if l == nil {
		return nil
	}
	return maps.Clone(l.hello.Kept)
}

// Keep leaves counts, by name, with the guard for the driver processes that may follow this one. A count replaces the one of the
// same name. Keep sends them and does not wait for an answer, so nil does not mean that the guard accepts them: it refuses negative
// counts, long names, and more than a few names.
func (l *Link) Keep(counts map[string]int64) error {
	if l == nil || len(counts) == 0 {
		return nil
	}
	return l.send(request{Keep: counts})
}
