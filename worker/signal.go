package worker

// signal wakes a loop. It holds at most one token, so sending never waits.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) send() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// take takes the token, and reports whether there was one.
func (s signal) take() bool {
	select {
	case <-s:
		return true
	default:
		return false
	}
}
