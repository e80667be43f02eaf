package runview

import "github.com/oarlock-dev/oarlock/queue"

// WorkerWord says what a worker does: its state, or that it was asked to drain, and what is wrong with it.
func WorkerWord(w *queue.WorkerInfo) string {
	state := string(w.State)
	if w.State == queue.WorkerLive && w.Desired != queue.WorkerLive {
		state = "asked to drain"
	}
	switch {
	case w.Silent():
		return state + ", silent"
	case w.Unfit != "":
		return state + ", unfit"
	}
	return state
}
