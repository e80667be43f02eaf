package runview

import (
	"testing"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestQueueNote_SaysWhatHoldsRuns(t *testing.T) {
	t.Parallel()
	serving := func(queues ...string) queue.WorkerInfo {
		return queue.WorkerInfo{Worker: queue.Worker{Queues: queues}, State: queue.WorkerLive}
	}
	all, quiet, draining, gone := serving(), serving(), serving(), serving()
	quiet.Quiet, draining.State, gone.EndedAt = &queue.Quiet{}, queue.WorkerDraining, noon(0)
	const unserved = "no worker serves the queue"
	for name, c := range map[string]struct {
		queued, running int64
		limit           int
		workers         []queue.WorkerInfo
		want            string
	}{
		"Idle":         {0, 0, 0, nil, ""},
		"NoWorker":     {1, 0, 0, nil, unserved},
		"Others":       {1, 0, 0, []queue.WorkerInfo{serving("a", "b"), quiet, draining, gone}, unserved},
		"Served":       {1, 1, 0, []queue.WorkerInfo{serving("a", "etl")}, ""},
		"ServedByAll":  {1, 1, 2, []queue.WorkerInfo{quiet, all}, ""},
		"Full":         {1, 2, 2, []queue.WorkerInfo{all}, "2 of 2 run"},
		"NoneWaits":    {0, 2, 2, []queue.WorkerInfo{all}, ""},
		"FullUnserved": {1, 3, 2, []queue.WorkerInfo{quiet}, unserved},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := &queue.Queue{Name: "etl", Queued: c.queued, Running: c.running, MaxRunning: c.limit}
			if got := QueueNote(q, c.workers); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
