package embed

import (
	"sync/atomic"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/metrics"
	"github.com/oarlock-dev/oarlock/worker/supervise"
)

// Names under which losses are left with the guard.
const (
	keptLeases = "leases_lost"
	keptFences = "fences_lost"
	keptLives  = "lives_given_up"
)

// losses go on counting where a former driver process left off. An outage that is longer than the lease ends the process that
// would have counted it: its guard kills it just before.
type losses struct {
	link   *supervise.Link
	before map[string]int64 // left by former processes
	fences atomic.Int64
}

func newLosses(link *supervise.Link) *losses { return &losses{link: link, before: link.Kept()} }

// carried is what the metrics of this process begin with.
func (l *losses) carried() metrics.Carried {
	c := metrics.Carried{Leases: l.before[keptLeases], Fences: l.before[keptFences], GivenUp: l.before[keptLives], Replacements: map[string]int64{}}
	for why, n := range l.link.Replaced() {
		c.Replacements[string(why)] = n
		if why == supervise.WhyOverdue {
			c.Leases += n // nobody else saw these lost
		}
	}
	return c
}

// meter also counts fences for the processes to come.
func (l *losses) meter(m queue.Meter) queue.Meter {
	count := m.FenceLost
	m.FenceLost = func() {
		count()
		_ = l.link.Keep(map[string]int64{keptFences: l.before[keptFences] + l.fences.Add(1)}) // to a guard that is gone: see watchGuard
	}
	return m
}

// lives leaves how many lives were lost so far.
func (l *losses) lives(now worker.Status) {
	if now.Losses+now.GivenUp > 0 {
		_ = l.link.Keep(map[string]int64{keptLeases: l.before[keptLeases] + int64(now.Losses), keptLives: l.before[keptLives] + int64(now.GivenUp)})
	}
}
