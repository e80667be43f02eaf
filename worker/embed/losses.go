package embed

import (
	"sync/atomic"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/metrics"
	"github.com/oarlock-dev/oarlock/worker/supervise"
)

// Names of the counts that are left with the guard.
const (
	keptLeases = "leases_lost"
	keptFences = "fences_lost"
	keptLives  = "lives_given_up"
)

// losses continues the counts of former driver processes. An outage that is longer than the lease ends the process that would
// have counted it, because its guard kills it just before the end of the lease.
type losses struct {
	link   *supervise.Link
	before map[string]int64 // counts that former processes left
	fences atomic.Int64
}

func newLosses(link *supervise.Link) *losses { return &losses{link: link, before: link.Kept()} }

// carried returns the numbers with which the metrics of this process begin: the counts of former driver processes. It counts a
// lease as lost for each process that the guard killed at the end of its lease.
func (l *losses) carried() metrics.Carried {
	c := metrics.Carried{Leases: l.before[keptLeases], Fences: l.before[keptFences], GivenUp: l.before[keptLives], Replacements: map[string]int64{}}
	for why, n := range l.link.Replaced() {
		c.Replacements[string(why)] = n
		if why == supervise.WhyOverdue {
			c.Leases += n // the killed process could not count these
		}
	}
	return c
}

// meter returns m with a FenceLost that also leaves the total of lost fences with the guard, for the next driver process.
func (l *losses) meter(m queue.Meter) queue.Meter {
	count := m.FenceLost
	m.FenceLost = func() {
		count()
		_ = l.link.Keep(map[string]int64{keptFences: l.before[keptFences] + l.fences.Add(1)}) // fails if the guard is gone: see watchGuard
	}
	return m
}

// lives leaves the totals of lost leases and of lives given up with the guard, for the next driver process. now is the status of
// this process. If this process has lost none and given none up, lives does nothing.
func (l *losses) lives(now worker.Status) {
	if now.Losses+now.GivenUp > 0 {
		_ = l.link.Keep(map[string]int64{keptLeases: l.before[keptLeases] + int64(now.Losses), keptLives: l.before[keptLives] + int64(now.GivenUp)})
	}
}
