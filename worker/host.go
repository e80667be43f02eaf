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

// Pauses between two tries of a host that starts nothing. Each is twice the one before it, until a body has started in between.
const (
	shortestHostPause = time.Second
	longestHostPause  = time.Minute
)

// hostTrialTimeout bounds how long one trial may take.
const hostTrialTimeout = 30 * time.Second

// host is whether this host starts tasks, for all lives of a worker.
type host struct {
	failed chan struct{} // a body could not start
	proved atomic.Bool   // a body started after the last failure, and ended, since the host was last found to be mended

	mu       sync.Mutex
	failures int // so far

	pause  time.Duration // before the next trial; watchHost's alone
	outage Outage        // watchHost's alone
}

// cannotStart takes in that this host could not start a body. From now on the worker claims nothing and begins nothing. What waits
// goes to another worker.
func (l *life) cannotStart(why string) {
	l.host.mu.Lock()
	l.host.failures++
	l.saysUnfit(why)
	l.host.mu.Unlock()
	select {
	case l.host.failed <- struct{}{}:
	default:
	}
	_, stalled := l.fleet.look()
	for _, s := range stalled {
		s.driver.post.put(happening{yield: true})
	}
}

// failuresSoFar counts bodies that this host could not start.
func (h *host) failuresSoFar() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures
}

// proves takes in that a body started and ended, after so many failures. One from before the last failure proves nothing.
func (h *host) proves(failures int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if failures == h.failures {
		h.proved.Store(true)
	}
}

// saysUnfit needs host.mu.
func (w *Worker) saysUnfit(why string) {
	w.gate.Refuse(why)
	w.fitness.set(unfitHost, time.Now(), "this host cannot start tasks: "+why)
}

// UnfitCauses are the words for why a worker claims nothing.
var UnfitCauses = []string{unfitRecords, unfitReads, unfitPolls, unfitHost}

// unfitFor are the causes that hold now.
func (w *Worker) unfitFor() (causes []string) {
	for _, cause := range UnfitCauses {
		if _, unfit := w.fitness.of(cause); unfit {
			causes = append(causes, cause)
		}
	}
	return causes
}

// startsNothing says whether tasks that wait for a slot wait in vain until the host is mended.
func (w *Worker) startsNothing() bool {
	_, unfit := w.fitness.of(unfitHost)
	return unfit
}

// watchHost tries a host that starts nothing until it does.
func (l *life) watchHost() {
	for {
		if l.startsNothing() { // since the life before this one, perhaps
			l.mendHost()
		}
		select {
		case <-l.ctx.Done():
			return
		case <-l.host.failed:
		}
	}
}

// mendHost returns once the host starts tasks again, or the life of the worker is over.
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

// awaitTrial tells of the host until the next trial is due; false: the life of the worker ended before.
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

// tryHost says whether a trial passed, and no body failed to start since it began.
func (l *life) tryHost() bool {
	failures := l.host.failuresSoFar()
	ctx, cancel := context.WithTimeout(l.ctx, hostTrialTimeout)
	defer cancel()
	err := l.config.Trial(ctx)
	l.host.mu.Lock()
	defer l.host.mu.Unlock()
	switch {
	case l.ctx.Err() != nil: // cut off, it proves nothing
		return false
	case err != nil:
		l.saysUnfit(err.Error())
		return false
	case l.host.failures != failures:
		return false
	}
	l.gate.Refuse("")
	l.fitness.clear(unfitHost)
	l.host.proved.Store(false)
	return true
}

// someDescriptors are as many as the body of an action may need.
const someDescriptors = 8

// OpenSome opens some descriptors and closes them again: the trial of a worker that starts no processes.
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

// fitness keeps the reasons why a worker claims nothing now. Without one the worker is fit. It is safe for concurrent use.
type fitness struct {
	mu      sync.Mutex
	reasons []reason // in the order in which they began
	mended  func()   // called outside of the lock when the last reason is gone; nil: nobody is told
	changed func()   // called outside of the lock when the oldest reason is another one, or has another text; nil: nobody is told
}

// reason is why a worker claims nothing.
type reason struct {
	cause string
	since time.Time
	why   string // for people, in one line and without secrets
}

// String is for people: what is wrong, and since when.
func (r reason) String() string { return r.why + ", since " + r.since.UTC().Format(time.RFC3339) }

// set adds a reason that holds since a moment. One that is there already keeps that moment, and takes the new text.
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

// clear takes a reason back, if it is there.
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

// find needs f.mu. It answers -1 where there is no such reason.
func (f *fitness) find(cause string) int {
	return slices.IndexFunc(f.reasons, func(r reason) bool { return r.cause == cause })
}

// ok says whether the worker may claim runs now.
func (f *fitness) ok() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.reasons) == 0
}

// of is the reason of a cause; false: there is none.
func (f *fitness) of(cause string) (reason, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.find(cause); i >= 0 {
		return f.reasons[i], true
	}
	return reason{}, false
}

// first is the oldest of the reasons, or an empty one.
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

// texts are the reasons for people, the oldest first.
func (f *fitness) texts() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, r := range f.reasons {
		all = append(all, r.String())
	}
	return all
}
