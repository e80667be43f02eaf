package runview

import (
	"fmt"

	"github.com/oarlock-dev/oarlock/queue"
)

// WorkerWord returns the state of a worker in a few words: "live", "asked to drain" for a live one that was asked to, and after a
// comma that it is silent, quiet or unfit.
func WorkerWord(w *queue.WorkerInfo) string {
	state := string(w.State)
	if w.State == queue.WorkerLive && w.Desired != queue.WorkerLive {
		state = "asked to drain"
	}
	switch {
	case w.Silent():
		return state + ", silent"
	case w.Quiet != nil:
		return state + ", quiet " + Span(w.BeatAge)
	case w.Unfit != "":
		return state + ", unfit"
	}
	return state
}

// Slots are the slots of live workers that give signs of life.
type Slots struct {
	Busy, All, Waiting int // Waiting: tasks that wait for one
	Workers            int
	Quiet              int // other live workers; their slots are not counted, because they may be gone
}

// SlotsOf returns the sums of the slots of the live workers that give signs of life, and the number of live workers that are quiet.
func SlotsOf(workers []queue.WorkerInfo) (n Slots) {
	for i := range workers {
		switch w := &workers[i]; {
		case w.State != queue.WorkerLive || !w.EndedAt.IsZero():
		case w.Quiet != nil:
			n.Quiet++
		default:
			n.Busy, n.All, n.Waiting, n.Workers = n.Busy+w.Busy, n.All+w.Slots, n.Waiting+w.Waiting, n.Workers+1
		}
	}
	return n
}

// GivesSigns reports whether a worker has not ended, and gives signs of life.
func GivesSigns(w *queue.WorkerInfo) bool { return w.EndedAt.IsZero() && w.Quiet == nil }

// QuietNote returns for how long a worker has given no sign of life, and what happens to its runs. It returns "" for a worker that
// is not quiet.
func QuietNote(w *queue.WorkerInfo) string {
	if w.Quiet == nil {
		return ""
	}
	note := fmt.Sprintf("no sign of life for %s, lease %s: ", Span(w.BeatAge), Span(w.TTL))
	switch {
	case w.Runs == 0 && !w.Quiet.HasWatcher:
		return note + "the worker drives no run, and no other worker is there: start a worker"
	case w.Runs == 0:
		return note + "the worker drives no run"
	case !w.Quiet.HasWatcher:
		return note + fmt.Sprintf("no other worker is there: start the worker again on its host, and it takes over its runs at once; or start another worker, which takes over the runs after %s", Span(w.TTL))
	case w.Quiet.TakeoverIn <= 0:
		return note + "other workers take over the worker's runs soon: time in which the other workers had no database does not count"
	}
	return note + fmt.Sprintf("other workers take over the worker's runs in about %s", Span(w.Quiet.TakeoverIn))
}
