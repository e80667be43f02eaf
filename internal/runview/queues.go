package runview

import "github.com/oarlock-dev/oarlock/queue"

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
