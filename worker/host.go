package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Pauses before trials of a host that could not start a body. They double until a body has started and ended in between.
const (
	shortestHostPause = time.Second
	longestHostPause  = time.Minute
)

// hostTrialTimeout bounds how long one trial may take.
const hostTrialTimeout = 30 * time.Second

// host records whether this host can start tasks, over all lives of a worker.
type host struct {
	failed chan struct{} // a body could not start
	proved atomic.Bool   // since the last trial that passed, a body has started and ended, with no failure in between

	mu       sync.Mutex
	failures int // bodies that could not start so far

	pause  time.Duration // before the next trial; owned by watchHost
	outage Outage        // owned by watchHost
}

// cannotStart records that this host could not start a body, for the reason why. Until a trial passes, the worker claims no runs
// and starts no tasks. Drivers that can only wait for a slot are asked to give their runs back to the queue.
func (l *life) cannotStart(why string) {
	l.host.mu.Lock()
	l.host.failures++
	l.saysUnfit(why)
	l.host.mu.Unlock()
	select {
	case l.host.failed <- struct{}{}:
	default:
	}
	_, blocked := l.drivers.look()
	for _, s := range blocked {
		s.driver.events.put(driverEvent{yield: true})
	}
}

// failuresSoFar returns how many bodies this host could not start.
func (h *host) failuresSoFar() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures
}

// proves records that a body has started and ended. failures is the result of failuresSoFar at its start: a body that started
// before the last failure proves nothing. After a proof, the pauses between trials begin anew with the shortest.
func (h *host) proves(failures int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if failures == h.failures {
		h.proved.Store(true)
	}
}

// saysUnfit stops claims and grants of slots because this host cannot start tasks, for the reason why. The caller holds host.mu.
func (w *Worker) saysUnfit(why string) {
	w.slotQueue.Refuse(why)
	w.fitness.set(unfitHost, time.Now(), "this host cannot start tasks: "+why)
}

// UnfitCauses lists the words for the causes for which a worker claims nothing.
var UnfitCauses = []string{unfitRecords, unfitReads, unfitPolls, unfitHost}

// unfitFor returns the causes for which the worker claims nothing now, in the order of UnfitCauses; nil: it is fit.
func (w *Worker) unfitFor() (causes []string) {
	for _, cause := range UnfitCauses {
		if _, unfit := w.fitness.of(cause); unfit {
			causes = append(causes, cause)
		}
	}
	return causes
}

// startsNothing reports whether this host cannot start tasks now, so that tasks wait for a slot in vain.
func (w *Worker) startsNothing() bool {
	_, unfit := w.fitness.of(unfitHost)
	return unfit
}

// watchHost is the loop that waits until a body could not start, and then tries the host until it can start bodies. It returns when
// the life has ended.
func (l *life) watchHost() {
	for {
		if l.startsNothing() { // possibly since an earlier life
			l.mendHost()
		}
		select {
		case <-l.ctx.Done():
			return
		case <-l.host.failed:
		}
	}
}

// mendHost tries the host with growing pauses, and waits before the first trial too. It returns once a trial passes, or the life is
// over.
func (l *life) mendHost() {
	if l.host.proved.Swap(false) || l.host.pause == 0 {
		l.host.pause = shortestHostPause
	}
	for {
		if !l.awaitTrial(time.Now().Add(l.host.pause)) {
			return
		}
		l.host.pause = min(2*l.host.pause, longestHostPause)
		if l.tryHost() {
			l.host.outage.Over(l.log, "this host starts tasks again")
			return
		}
	}
}

// awaitTrial waits until the next trial is due, and meanwhile logs now and then that the host cannot start tasks. It returns false if
// the life ended before.
func (l *life) awaitTrial(due time.Time) bool {
	for {
		if r, unfit := l.fitness.of(unfitHost); unfit {
			l.host.outage.Failed(l.log, "the worker claims nothing until its host can start tasks", errors.New(r.why))
		}
		left := time.Until(due)
		if left <= 0 {
			return true
		}
		timer := time.NewTimer(min(left, sayAgain))
		select {
		case <-timer.C:
		case <-l.ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// tryHost runs Config.Trial once. If the trial passes and no body failed to start meanwhile, it lets the worker claim and start
// tasks again and returns true. If the trial fails, its error becomes the reason for which the worker claims nothing. The end of
// the life also makes it return false.
func (l *life) tryHost() bool {
	failures := l.host.failuresSoFar()
	ctx, cancel := context.WithTimeout(l.ctx, hostTrialTimeout)
	defer cancel()
	err := l.config.Trial(ctx)
	l.host.mu.Lock()
	defer l.host.mu.Unlock()
	switch {
	case l.ctx.Err() != nil: // the end of the life cut the trial off: it proves nothing
		return false
	case err != nil:
		l.saysUnfit(err.Error())
		return false
	case l.host.failures != failures:
		return false
	}
	l.slotQueue.Refuse("")
	l.fitness.clear(unfitHost)
	l.host.proved.Store(false)
	return true
}

// someDescriptors is how many file descriptors the body of an action may need.
const someDescriptors = 8

// OpenSome opens some file descriptors and closes them again; it returns an error if the host gives too few. It is the trial of a
// worker that starts no processes.
func OpenSome(context.Context) error {
	for range someDescriptors {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return fmt.Errorf("open %s: %w", os.DevNull, err)
		}
		defer f.Close()
	}
	return nil
}

// Causes for which a worker claims nothing.
const (
	unfitRecords = "records" // the database takes no records
	unfitReads   = "reads"   // the database lets no runs be read
	unfitPolls   = "polls"   // the database answers no polls
	unfitHost    = "host"    // this host cannot start tasks
)

// fitness holds the reasons why a worker claims nothing now. Without a reason the worker is fit. It is safe for concurrent use.
type fitness struct {
	mu      sync.Mutex
	reasons []reason // in the order in which they were set
	mended  func()   // called without the lock when the last reason is gone; nil: no call
	changed func()   // called without the lock when the first reason is another one or has another text; nil: no call
}

// reason is one reason why a worker claims nothing.
type reason struct {
	cause string
	since time.Time
	why   string // for people, in one line and without secrets
}

// String returns for people what is wrong, and since when.
func (r reason) String() string { return r.why + ", since " + r.since.UTC().Format(time.RFC3339) }

// set records since when the worker is unfit for a cause, and why. If it is unfit for this cause already, the older moment stays
// and only the text changes. set calls f.changed if the first reason changes.
func (f *fitness) set(cause string, since time.Time, why string) {
	f.mu.Lock()
	before := f.firstLocked()
	if i := f.find(cause); i >= 0 {
		f.reasons[i].why = why
	} else {
		f.reasons = append(f.reasons, reason{cause, since, why})
	}
	changed := f.firstLocked() != before
	f.mu.Unlock()
	if changed && f.changed != nil {
		f.changed()
	}
}

// clear removes the reason for a cause, if there is one. It calls f.mended if this was the last reason, and f.changed if it was the
// first.
func (f *fitness) clear(cause string) {
	f.mu.Lock()
	i := f.find(cause)
	if i >= 0 {
		f.reasons = slices.Delete(f.reasons, i, i+1)
	}
	mended := i >= 0 && len(f.reasons) == 0
	f.mu.Unlock()
	if mended && f.mended != nil {
		f.mended()
	}
	if i == 0 && f.changed != nil {
		f.changed()
	}
}

// find returns the index of the reason for a cause, -1: there is none. It needs f.mu.
func (f *fitness) find(cause string) int {
	return slices.IndexFunc(f.reasons, func(r reason) bool { return r.cause == cause })
}

// ok reports whether the worker is fit to claim runs now.
func (f *fitness) ok() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.reasons) == 0
}

// of returns the reason for a cause; false: there is none.
func (f *fitness) of(cause string) (reason, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.find(cause); i >= 0 {
		return f.reasons[i], true
	}
	return reason{}, false
}

// first returns the reason that was set before all others, or an empty one if the worker is fit.
func (f *fitness) first() reason {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.firstLocked()
}

func (f *fitness) firstLocked() reason {
	if len(f.reasons) == 0 {
		return reason{}
	}
	return f.reasons[0]
}

// texts returns the reasons for people, the oldest first.
func (f *fitness) texts() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, r := range f.reasons {
		all = append(all, r.String())
	}
	return all
}
