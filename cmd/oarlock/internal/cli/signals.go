package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// signalError is the cause of a context that a signal has ended.
type signalError struct{ interrupt bool }

func (e *signalError) Error() string {
	if e.interrupt {
		return "interrupted"
	}
	return "terminated"
}

// withSignals ends the context at the first SIGINT or SIGTERM. The second signal ends the process, because no handler is
// installed any more.
func withSignals(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-got:
			signal.Stop(got)
			cancel(&signalError{interrupt: s == os.Interrupt})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		cancel(nil)
		<-done
	}
}
