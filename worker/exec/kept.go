package exec

import (
	"io"
	"sync"
	"time"
)

// keptLimit bounds how many trees may live on at once; past it they end like any other.
const keptLimit = 1000

// kept is what bodies left behind and may live on until the executor is closed.
type kept struct {
	mu      sync.Mutex
	trees   []*tree
	streams map[*stream]bool
	reading sync.WaitGroup
}

// add takes a tree over. Those that have ended meanwhile make room.
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

// drain takes a pipe over and throws away what comes: a process that lives on must not die of a log that has ended.
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

// kill ends all that lives on.
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
