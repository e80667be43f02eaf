package supervise

import (
	"errors"
	"fmt"
	"maps"
)

// Why says why a driver process was followed by another one.
type Why string

// Reasons. The first is an outage that was longer than a lease, or a driver process that was frozen for so long.
const (
	WhyOverdue    Why = "overdue"    // its lease ended without a sign of life from the database
	WhyUnattached Why = "unattached" // it did not attach in time
	WhyUnstarted  Why = "unstarted"  // it could not be started
	WhyDied       Why = "died"       // it ended by itself, or was killed by somebody else
)

// Whys are all of them.
var Whys = []Why{WhyOverdue, WhyUnattached, WhyUnstarted, WhyDied}

// maxKept bounds how many counts a guard keeps, maxCountName how long their names are.
const (
	maxKept      = 16
	maxCountName = 64
)

var errCount = errors.New("a count has a short name and is not negative")

// counts are what a guard knows of the driver processes before: its own counts of them, and those that they left with it. They
// live as long as the guard does.
type counts struct {
	replaced map[Why]int64
	kept     map[string]int64
}

func newCounts() counts { return counts{map[Why]int64{}, map[string]int64{}} }

// keep remembers counts of a driver process for its successors.
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

// why is the reason by which the present driver process is followed.
func (g *guard) whyReplaced(over error) Why {
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

// Replaced says how many driver processes this one's guard has had before it, by why they were followed by another.
func (l *Link) Replaced() map[Why]int64 {
	if l == nil {
		return nil
	}
	return maps.Clone(l.hello.Replaced)
}

// Kept are the counts that former driver processes left with the guard.
func (l *Link) Kept() map[string]int64 {
	if l == nil {
		return nil
	}
	return maps.Clone(l.hello.Kept)
}

// Keep leaves counts with the guard, for the driver process that may follow this one. They are numbers under names, and nothing else.
func (l *Link) Keep(counts map[string]int64) error {
	if l == nil || len(counts) == 0 {
		return nil
	}
	return l.send(request{Keep: counts})
}
