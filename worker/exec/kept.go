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

// add takes a tree over, and reports whether there was room. It first drops trees that have ended.
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

// drain takes a pipe over and discards what comes, because a process that lives on must not be killed by SIGPIPE when the log
// has ended. It returns false if it cannot; then the caller closes the pipe.
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

// kill kills the kept trees, removes their cgroups, and waits until no pipe is read any more. kept is empty afterwards.
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
