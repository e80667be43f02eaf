package main

import (
	"context"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/worker"
)

// tally counts bodies, and says when there were as many as are expected.
type tally struct {
	mu      sync.Mutex
	left    int
	reached chan struct{}
}

// expect returns what is closed after n more bodies.
func (t *tally) expect(n int) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left, t.reached = n, make(chan struct{})
	return t.reached
}

func (t *tally) add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left--; t.left == 0 {
		close(t.reached)
	}
}

// body is one that does nothing but being counted.
func (t *tally) body(context.Context, *worker.Task) (worker.Outputs, error) {
	t.add()
	return nil, nil
}

// await waits for what a tally, or anything else, closes.
func await(ctx context.Context, reached <-chan struct{}) error {
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stamps are the moments at which bodies of chains began, one chain after the other.
type stamps struct {
	mu    sync.Mutex
	steps int
	at    []time.Time
}

func (s *stamps) add() {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, now)
}

// gaps returns the time between the starts of each two steps that follow each other in a chain, and forgets them.
func (s *stamps) gaps() (gaps []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 1; i < len(s.at); i++ {
		if i%s.steps != 0 {
			gaps = append(gaps, s.at[i].Sub(s.at[i-1]))
		}
	}
	s.at = nil
	return gaps
}
