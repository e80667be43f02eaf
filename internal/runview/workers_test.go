package runview

import (
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

func TestWorkers_QuietOnesAreToldApart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		info       queue.WorkerInfo
		word, note string
	}{
		"it gives signs of life": {queue.WorkerInfo{State: queue.WorkerLive, Desired: queue.WorkerLive, BeatAge: 4 * time.Second}, "live", ""},
		"it is unfit":            {queue.WorkerInfo{State: queue.WorkerLive, Desired: queue.WorkerLive, Unfit: "no room"}, "live, unfit", ""},
		"another watches it": {
			queue.WorkerInfo{State: queue.WorkerLive, Desired: queue.WorkerLive, BeatAge: 40 * time.Second, Runs: 2, Unfit: "no room", Quiet: &queue.Quiet{HasWatcher: true, TakeoverIn: 263 * time.Second}},
			"live, quiet 40s", "no sign of life for 40s, lease 5m00s: other workers take over the worker's runs in about 4m23s",
		},
		"none watches it": {
			queue.WorkerInfo{State: queue.WorkerLive, Desired: queue.WorkerDraining, BeatAge: 40 * time.Second, Runs: 1, Quiet: &queue.Quiet{}},
			"asked to drain, quiet 40s", "no sign of life for 40s, lease 5m00s: no other worker is there: start the worker again on its host, and it takes over its runs at once; or start another worker, which takes over the runs after 5m00s",
		},
		"nothing is to be taken over": {
			queue.WorkerInfo{State: queue.WorkerLive, Desired: queue.WorkerLive, BeatAge: 40 * time.Second, Quiet: &queue.Quiet{HasWatcher: true, TakeoverIn: 263 * time.Second}},
			"live, quiet 40s", "no sign of life for 40s, lease 5m00s: the worker drives no run",
		},
		"nothing is to be taken over, and nobody is there": {
			queue.WorkerInfo{State: queue.WorkerLive, Desired: queue.WorkerLive, BeatAge: 40 * time.Second, Quiet: &queue.Quiet{}},
			"live, quiet 40s", "no sign of life for 40s, lease 5m00s: the worker drives no run, and no other worker is there: start a worker",
		},
		"its lease is over": {
			queue.WorkerInfo{State: queue.WorkerDraining, BeatAge: 6 * time.Minute, Runs: 1, Quiet: &queue.Quiet{HasWatcher: true, TakeoverIn: -57 * time.Second}},
			"draining, silent", "no sign of life for 6m00s, lease 5m00s: other workers take over the worker's runs soon: time in which the other workers had no database does not count",
		},
	} {
		c.info.TTL = 5 * time.Minute
		if word, note := WorkerWord(&c.info), QuietNote(&c.info); word != c.word || note != c.note {
			t.Errorf("%s: %q, want %q; %q, want %q", name, word, c.word, note, c.note)
		}
	}
}

// The slots of a worker without signs of life are not available: the worker may be gone.
func TestSlots_AreThoseOfWorkersThatAreThere(t *testing.T) {
	t.Parallel()
	worker := func(state queue.WorkerState, quiet *queue.Quiet) queue.WorkerInfo {
		return queue.WorkerInfo{Worker: queue.Worker{Slots: 8}, State: state, Busy: 3, Waiting: 2, Quiet: quiet}
	}
	ended := worker(queue.WorkerLive, nil)
	ended.EndedAt = time.Date(2026, 11, 22, 3, 0, 0, 0, time.UTC)
	got := SlotsOf([]queue.WorkerInfo{worker(queue.WorkerLive, nil), worker(queue.WorkerLive, &queue.Quiet{}), worker(queue.WorkerDraining, nil), ended})
	if want := (Slots{Busy: 3, All: 8, Waiting: 2, Workers: 1, Quiet: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
