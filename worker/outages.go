package worker

import (
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

// Outages says what an outage of the database does to the tasks that run on a worker with this lease.
type Outages struct {
	TTL      time.Duration
	Harmless time.Duration // no task notices one that is no longer
	Fatal    time.Duration // every task ends in one that is longer
	TakeOver time.Duration // after so long a worker on a lost host is taken for lost by another that has the database meanwhile
}

// OutagesOf derives it from the rules of the lease. The outage may begin just before a sign of life was due. When it is over,
// one that waits in vain may have to time out before the next one is tried.
func OutagesOf(ttl time.Duration) Outages {
	soft, _ := queue.LeaseEnds(ttl)
	heartbeat := heartbeatOf(ttl)
	timeout, pause := renewalLimits(heartbeat)
	return Outages{
		TTL:      ttl,
		Harmless: soft - graceOf(ttl) - heartbeat - timeout - pause,
		Fatal:    soft,
		TakeOver: ttl + 2*queue.LookInterval + takeOverSlack,
	}
}

// takeOverSlack is for the statements of a takeover.
const takeOverSlack = 500 * time.Millisecond

// Over says what becomes of running tasks in an outage that lasts for d.
func (o Outages) Over(d time.Duration) string {
	switch {
	case d <= o.Harmless:
		return "go on"
	case d <= o.Fatal:
		return "may end"
	}
	return "end"
}

// String is for the log of a worker that starts.
func (o Outages) String() string {
	return fmt.Sprintf("an outage of the database longer than %v ends running tasks (lease_ttl %v); one of up to %v ends none",
		spell(o.Fatal), spell(o.TTL), spell(o.Harmless))
}

func spell(d time.Duration) string {
	return dagspec.Duration(d.Milliseconds()).String()
}
