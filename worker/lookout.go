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

// lookout is what the loops that look, do chores, sweep and attend go by, and what the first last saw.
type lookout struct {
	crowded signal                // runs wait for slots: look soon
	looked  signal                // a look has seen what is due: do chores
	sweep   signal                // there is something to mend
	attend  signal                // something is due on the agenda
	shared  atomic.Pointer[[]int] // lanes that another worker may serve, of runs that wait for slots here, sorted; as of the last look, nil: it saw nothing

	seen atomic.Int64 // when the last look was that succeeded, by the time since boot

	begun atomic.Int64 // runs that have begun and are due in the queue, as of the last look

	unseen     Outage // of looks; their loop's alone
	undone     Outage // of chores; their loop's alone
	unswept    Outage // of sweeps; their loop's alone
	unattended Outage // of the agenda; its loop's alone
}

func newLookout() lookout {
	return lookout{crowded: newSignal(), looked: newSignal(), sweep: newSignal(), attend: newSignal()}
}

// sharedLanesMax bounds the lanes that one look asks about.
const sharedLanesMax = 100

// freshFor is for how much longer the last look counts: queue.PollInterval since it was sent.
func (l *lookout) freshFor(now time.Duration) time.Duration {
	return time.Duration(l.seen.Load()) + queue.PollInterval - now
}

// lookAround looks each queue.LookInterval, or soon where runs wait for slots.
func (l *life) lookAround() {
	for {
		l.look()
		if !l.pause(crowdedInterval, nil) || !l.pause(queue.LookInterval-crowdedInterval, l.lookout.crowded) {
			return
		}
	}
}

func (l *life) look() {
	gate, asked := l.gate.Stats(), l.config.Boot()
	_, stalled := l.fleet.look()
	looked, err := l.session.Look(l.ctx, queue.Load{Busy: gate.Slots - gate.Free, Waiting: gate.Waiting, Lanes: stalled.lanes(sharedLanesMax)})
	if l.ctx.Err() != nil {
		return
	}
	l.lookout.unseen.Tell(l.log, err, "could not look at other workers and at what is due", "looks succeed again")
	if looked.Now == 0 { // it saw nothing
		l.lookout.shared.Store(nil)
		return
	}
	l.lookout.seen.Store(int64(asked))
	l.lookout.looked.send()
	l.compareClock(looked.Now, asked)
	l.lookout.shared.Store(&looked.Shared)
	l.lookout.begun.Store(int64(looked.Begun))
	l.gate.Due(looked.Highest)
	if looked.Due {
		l.claimer.due.send()
	}
	if looked.Sweep {
		l.lookout.sweep.send()
	}
	if looked.Attend {
		l.lookout.attend.send()
	}
}

// doChores does after each look what is due for all workers. It has a loop of its own: a chore may wait for a lock.
func (l *life) doChores() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.lookout.looked:
		}
		_, err := l.session.DoChores(l.ctx)
		if l.ctx.Err() != nil {
			return
		}
		l.lookout.undone.Tell(l.log, err, "could not do what was due for all workers", "what is due for all workers is done again")
	}
}

// sweep mends what others left each queue.SweepInterval, or when a look or a poll asks for it.
func (l *life) sweep() {
	for {
		swept, err := l.session.Sweep(l.ctx)
		if l.ctx.Err() != nil {
			return
		}
		if swept.Done || err != nil {
			l.lookout.unswept.Tell(l.log, err, "could not sweep up what was left behind", "sweeps succeed again")
		}
		for _, lost := range swept.Lost {
			l.log.Info("took over from a lost worker", "lost", cmp.Or(lost.Name, lost.ID.String()), "runs", lost.Runs)
		}
		if swept.Late {
			l.claimer.told.send()
		}
		if swept.Sweep {
			l.lookout.sweep.send()
		}
		if !l.pause(askedInterval, nil) || !l.pause(queue.SweepInterval-askedInterval, l.lookout.sweep) {
			return
		}
	}
}

// pause waits for so long, or until the signal. It reports whether the worker lives on.
func (l *life) pause(d time.Duration, until signal) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.ctx.Done():
		return false
	case <-until:
	case <-timer.C:
	}
	return true
}
