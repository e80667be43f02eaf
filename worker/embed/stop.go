package embed

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/supervise"
)

// errStopped is the cause with which waiting for a database ends when the worker is to stop.
var errStopped = errors.New("the worker is to stop")

// stopping stores a request to stop until there is a worker to pass it to.
type stopping struct {
	mu     sync.Mutex
	now    bool
	asked  chan struct{} // closed by Stop or StopNow
	atOnce chan struct{} // closed by StopNow
	worker *worker.Worker
}

func newStopping() *stopping {
	return &stopping{asked: make(chan struct{}), atOnce: make(chan struct{})}
}

// Stop makes the worker claim nothing more, finish what it can within the drain timeout, and hand on the rest. It returns at once;
// Run returns when that is done. Before Run, Stop has the worker stop as soon as Run has begun.
func (r *Rig) Stop() { r.stopping.ask(false) }

// StopNow is like Stop, but kills running tasks at once instead of letting them finish.
func (r *Rig) StopNow() { r.stopping.ask(true) }

// ask records a request to stop, at once if now is set, and passes it on to the worker if there is one yet. A later request can
// only hasten the stop.
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

// tell sets the worker that requests to stop are passed on to. If one was made before, it passes it on now.
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

// untilStopped returns a context that ends with errStopped: the given time after Stop, or at once after StopNow. It ends with ctx,
// too. The caller must call the function, which ends the context and waits for its goroutine.
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

// hangUpTime is how long a guard may take to kill this process after it closed its link. If the process still lives then, the
// guard has died.
const hangUpTime = time.Second

// watchGuard waits until the guard's link closes, and then stops the worker at once: without a guard, no process would end the
// tasks if this process died. It logs the loss after hangUpTime, or when ctx ends. A guard that is alive closes its link only
// to kill this process; then the process is dead before the log line. If ctx ends while the link is open, watchGuard does
// nothing.
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
	case <-ctx.Done(): // everything has ended already
	}
	r.config.Log.Error("the guard of this worker is gone: its tasks are ended and its runs handed on")
}

// guardGone returns supervise.ErrGone if the guard has died, and nil if it is alive or the worker has none.
func (r *Rig) guardGone() error {
	select {
	case <-r.config.Link.Gone():
		return supervise.ErrGone
	default:
		return nil
	}
}

// sink passes the deadline of the lease to the guard.
type sink struct{ *supervise.Link }

// Extend ignores the error: the guard is gone then, and watchGuard notices that.
func (s sink) Extend(deadline time.Duration) { _ = s.Link.Extend(deadline) }
