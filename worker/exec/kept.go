package exec

import (
	"io"
	"sync"
	"time"
)

// keptLimit is how many kept trees may be alive at once. Further ones are ended like leftovers that are not kept.
const keptLimit = 1000

// kept holds the processes that bodies left behind, and that may live on until the executor is closed.
type kept struct {
	mu      sync.Mutex
	trees   []*tree
	streams map[*stream]bool
	reading sync.WaitGroup
}

// add takes over the tree of a body, which lives on until kill, and reports whether there was room. It first drops trees that have
// ended. It returns false if keptLimit trees are alive: then the caller must end this one.
func (k *kept) add(b *body) bool {
	k.mu.Lock()
	all := k.trees
	k.mu.Unlock()
	ended := map[*tree]bool{}
	for _, t := range all {
		ended[t] = t.empty()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var alive []*tree
	for _, t := range k.trees {
		if !ended[t] {
			alive = append(alive, t)
		}
	}
	k.trees = alive
	if len(k.trees) >= keptLimit {
		return false
	}
	k.trees = append(k.trees, b.tree)
	return true
}

// drain takes over the pipe of a stream after its stop. A goroutine discards further output and closes the pipe once no process
// holds its other end, or at kill. Without it, SIGPIPE would kill a process that lives on when the log has ended. If the pipe
// cannot be read without a deadline, drain returns false, and the caller must close the pipe.
func (k *kept) drain(s *stream) bool {
	if s.from.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.streams == nil {
		k.streams = map[*stream]bool{}
	}
	k.streams[s] = true
	k.reading.Go(func() {
		_, _ = io.Copy(io.Discard, s.from)
		k.mu.Lock()
		defer k.mu.Unlock()
		s.from.Close()
		delete(k.streams, s)
	})
	return true
}

// kill kills the kept trees, removes their cgroups, and waits until all pipes of drain are closed. It goes on after an error, such
// as a process that survives SIGKILL, and returns the first. k is empty afterwards, and can be used again.
func (k *kept) kill() error {
	k.mu.Lock()
	trees := k.trees
	k.trees = nil
	k.mu.Unlock()
	var errs []error
	for _, t := range trees {
		errs = append(errs, t.kill())
		if t.cgroup != nil {
			errs = append(errs, t.cgroup.remove())
		}
	}
	k.stopReading()
	k.reading.Wait()
	return firstError(errs...)
}

func (k *kept) stopReading() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for s := range k.streams {
		_ = s.from.SetReadDeadline(time.Unix(1, 0))
	}
}
