package runview

import (
	"fmt"
	"slices"

	"github.com/oarlock-dev/oarlock/queue"
)

// IdleQueuesMax is the largest number of idle queues that a list shows one by one.
const IdleQueuesMax = 10

// SplitQueues separates busy queues from idle ones. A busy queue has waiting or running runs, or is paused. Each part keeps its
// order. folds is true if there are more than IdleQueuesMax idle queues, so that one line should stand for all of them.
func SplitQueues(queues []queue.Queue) (busy, idle []queue.Queue, folds bool) {
	for i := range queues {
		if q := &queues[i]; q.Queued > 0 || q.Running > 0 || q.PausedBy != "" {
			busy = append(busy, *q)
		} else {
			idle = append(idle, *q)
		}
	}
	return busy, idle, len(idle) > IdleQueuesMax
}

// QueueNote returns the reason why the waiting runs of a queue do not start: no worker serves the queue, or as many runs as allowed
// are running. It returns "" if neither is so, and if no run waits. The queue must not be paused.
func QueueNote(q *queue.Queue, workers []queue.WorkerInfo) string {
	serves := func(w queue.WorkerInfo) bool {
		return GivesSigns(&w) && w.State == queue.WorkerLive && (len(w.Queues) == 0 || slices.Contains(w.Queues, q.Name))
	}
	switch {
	case q.Queued == 0:
		return ""
	case !slices.ContainsFunc(workers, serves):
		return "no worker serves the queue"
	case q.MaxRunning > 0 && q.Running >= int64(q.MaxRunning):
		return fmt.Sprintf("%d of %d run", q.Running, q.MaxRunning)
	}
	return ""
}
