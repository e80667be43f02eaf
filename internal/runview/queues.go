package runview

import (
	"fmt"
	"slices"

	"github.com/oarlock-dev/oarlock/queue"
)

// IdleQueuesMax bounds how many idle queues a list shows one by one.
const IdleQueuesMax = 10

// SplitQueues takes the queues apart where something waits or runs, or that are paused, and keeps the order of each part. It reports
// whether a line should stand for the idle ones.
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

// QueueNote says of a queue that is not paused why what waits there does not start; "" where something may, or nothing waits.
func QueueNote(q *queue.Queue, workers []queue.WorkerInfo) string {
	serves := func(w queue.WorkerInfo) bool {
		return GivesSigns(&w) && w.State == queue.WorkerLive && (len(w.Queues) == 0 || slices.Contains(w.Queues, q.Name))
	}
	switch {
	case q.Queued == 0:
		return ""
	case !slices.ContainsFunc(workers, serves):
		return "no worker serves it"
	case q.MaxRunning > 0 && q.Running >= int64(q.MaxRunning):
		return fmt.Sprintf("%d of %d run", q.Running, q.MaxRunning)
	}
	return ""
}
