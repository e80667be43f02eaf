package embed

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/supervise"
)

// errStopped is why waiting for a database ends in order.
var errStopped = errors.New("the worker is to stop")

// stopping remembers what was asked while there is nobody yet to be told.
type stopping struct {
	mu     sync.Mutex
	now    bool
	asked  chan struct{} // closed: by Stop or StopNow
	atOnce chan struct{} // closed: by StopNow
	worker *worker.Worker
}

func newStopping() *stopping {
	return &stopping{asked: make(chan struct{}), atOnce: make(chan struct{})}
}

// Stop has the worker claim nothing more, let run what runs for a while, and hand on the rest. Run returns when that is
// done.
func (r *Rig) Stop() { r.stopping.ask(false) }

// StopNow is Stop without the while.
func (r *Rig) StopNow() { r.stopping.ask(true) }

func (s *stopping) ask(now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now && !s.now {
		s.now = true
		close(s.atOnce)
	}
	select {
	case <-s.asked:
	default:
		close(s.asked)
	}
	s.pass()
}

// tell names the worker that is to be told.
func (s *stopping) tell(w *worker.Worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.worker = w
	select {
	case <-s.asked:
		s.pass()
	default:
	}
}

func (s *stopping) pass() {
	switch {
	case s.worker == nil:
	case s.now:
		s.worker.StopNow()
	default:
		s.worker.Stop()
	}
}

// untilStopped ends a context a while after the worker was told to stop, or once it is to stop at once.
func (r *Rig) untilStopped(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-r.stopping.asked:
		case <-ctx.Done():
			return
		}
		grace := time.NewTimer(after)
		defer grace.Stop()
		select {
		case <-grace.C:
			cancel(errStopped)
		case <-r.stopping.atOnce:
			cancel(errStopped)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		<-watched
	}
}

// hangUpTime is within which a guard that closes its link kills this process. After that the guard is known to be gone.
const hangUpTime = time.Second

// watchGuard stops the worker at once when its guard died: nobody would end its tasks if it died as well. A guard also closes the link
// just before it kills this process. That is no death of the guard, and the guard tells of it itself.
func (r *Rig) watchGuard(ctx context.Context, gone <-chan struct{}) {
	select {
	case <-gone:
	case <-ctx.Done():
		return
	}
	r.StopNow()
	kill := time.NewTimer(hangUpTime)
	defer kill.Stop()
	select {
	case <-kill.C:
	case <-ctx.Done(): // all has ended already
	}
	r.config.Log.Error("the guard of this worker is gone: its tasks are ended and its runs handed on")
}

// guardGone is what Run returns where the guard died.
func (r *Rig) guardGone() error {
	select {
	case <-r.config.Link.Gone():
		return supervise.ErrGone
	default:
		return nil
	}
}

// sink tells the guard about the lease.
type sink struct{ *supervise.Link }

// Extend needs no error: a guard that does not hear it is gone, and watchGuard knows.
func (s sink) Extend(deadline time.Duration) { _ = s.Link.Extend(deadline) }
