package worker

import (
	"cmp"
	"sync/atomic"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

const (
	crowdedInterval = 200 * time.Millisecond // of looks while runs wait for slots: another worker may have come that has some
	askedInterval   = 100 * time.Millisecond // of sweeps, where each asks for the next
)

// lookout is what the loops that look, sweep and attend go by, and what the first last saw.
type lookout struct {
	crowded signal                // runs wait for slots: look soon
	sweep   signal                // there is something to mend
	attend  signal                // something is due on the agenda
	shared  atomic.Pointer[[]int] // lanes that another worker may serve, of runs that wait for slots here, sorted; as of the last look, nil: it saw nothing

	seen atomic.Int64 // when the last look was that succeeded, by the time since boot

	begun atomic.Int64 // runs that have begun and are due in the queue, as of the last look

	unseen     Outage // of looks; their loop's alone
	unswept    Outage // of sweeps; their loop's alone
	unattended Outage // of the agenda; its loop's alone
}

func newLookout() lookout {
	return lookout{crowded: newSignal(), sweep: newSignal(), attend: newSignal()}
}

// sharedLanesMax bounds the lanes that one look asks about.
const sharedLanesMax = 100

// freshFor is for how much longer the last look counts: queue.PollInterval since it was sent.
func (l *lookout) freshFor(now time.Duration) time.Duration {
	return time.Duration(l.seen.Load()) + queue.PollInterval - now
}

// lookAround looks each queue.LookInterval, or soon where runs wait for slots.
func (w *life) lookAround() {
	for {
		w.look()
		if !w.pause(crowdedInterval, nil) || !w.pause(queue.LookInterval-crowdedInterval, w.lookout.crowded) {
			return
		}
	}
}

func (w *life) look() {
	gate, asked := w.gate.Stats(), w.config.Boot()
	_, stalled := w.fleet.look()
	looked, err := w.session.Look(w.ctx, queue.Load{Busy: gate.Slots - gate.Free, Waiting: gate.Waiting, Lanes: stalled.lanes(sharedLanesMax)})
	if w.ctx.Err() != nil {
		return
	}
	w.lookout.unseen.Tell(w.log, err, "could not look at other workers and at what is due, or do what was", "looks succeed again")
	if looked.Now == 0 { // it saw nothing
		w.lookout.shared.Store(nil)
		return
	}
	w.lookout.seen.Store(int64(asked))
	w.compareClock(looked.Now, asked)
	w.lookout.shared.Store(&looked.Shared)
	w.lookout.begun.Store(int64(looked.Begun))
	w.gate.Due(looked.Highest)
	if looked.Due {
		w.claimer.due.send()
	}
	if looked.Sweep {
		w.lookout.sweep.send()
	}
	if looked.Attend {
		w.lookout.attend.send()
	}
}

// sweep mends what others left each queue.SweepInterval, or when a look or a poll asks for it.
func (w *life) sweep() {
	for {
		swept, err := w.session.Sweep(w.ctx)
		if w.ctx.Err() != nil {
			return
		}
		if swept.Done || err != nil {
			w.lookout.unswept.Tell(w.log, err, "could not sweep up what was left behind", "sweeps succeed again")
		}
		for _, l := range swept.Lost {
			w.log.Info("took over from a lost worker", "lost", cmp.Or(l.Name, l.ID.String()), "runs", l.Runs)
		}
		if swept.Late {
			w.claimer.told.send()
		}
		if swept.Sweep {
			w.lookout.sweep.send()
		}
		if !w.pause(askedInterval, nil) || !w.pause(queue.SweepInterval-askedInterval, w.lookout.sweep) {
			return
		}
	}
}

// pause waits for so long, or until the signal. It reports whether the worker lives on.
func (w *life) pause(d time.Duration, until signal) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-w.ctx.Done():
		return false
	case <-until:
	case <-timer.C:
	}
	return true
}
