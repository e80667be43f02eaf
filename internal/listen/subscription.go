package listen

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Bounds of what a subscriber can have before it: past them it only knows that it missed something.
const (
	maxPayloads     = 1000
	maxPayloadBytes = 64 << 10
)

// Signal is what was heard since the last one.
type Signal struct {
	Payloads []string // each once, in alphabetical order
	Missed   bool     // there may have been others: look at everything
}

// Subscription hears what is sent to one channel.
type Subscription struct {
	listener *Listener
	channel  string
	ready    chan struct{} // holds a token while there is something to take
	closed   chan struct{}
	once     sync.Once

	mu       sync.Mutex
	payloads map[string]bool
	bytes    int
	missed   bool
	since    *connection // that it hears by
}

// Wait returns once there is something: a notification, or the news that some may have been missed.
func (s *Subscription) Wait(ctx context.Context) (Signal, error) {
	for {
		select {
		case <-s.ready:
			if signal := s.take(); signal.Missed || len(signal.Payloads) > 0 {
				return signal, nil
			}
		case <-ctx.Done():
			return Signal{}, ctx.Err()
		case <-s.closed:
			return Signal{}, ErrClosed
		case <-s.listener.done:
			return Signal{}, ErrClosed
		}
	}
}

// Close ends the subscription. It may be called more than once.
func (s *Subscription) Close() {
	s.once.Do(func() {
		close(s.closed)
		s.listener.unsubscribe(s)
	})
}

// take may find nothing: what the token was for went with the take before.
func (s *Subscription) take() Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	signal := Signal{Payloads: slices.Sorted(maps.Keys(s.payloads)), Missed: s.missed}
	s.forget()
	s.missed = false
	return signal
}

// forget takes a new map: one that was large stays large.
func (s *Subscription) forget() {
	s.payloads, s.bytes = map[string]bool{}, 0
}

func (s *Subscription) gather(payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missed || s.payloads[payload] {
		return // it will look at everything, or has it
	}
	if len(s.payloads) == maxPayloads || s.bytes+len(payload) > maxPayloadBytes {
		s.forget()
		s.missed = true
	} else {
		s.payloads[payload] = true
		s.bytes += len(payload)
	}
	s.signal()
}

func (s *Subscription) miss() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.missed = true
	s.forget()
	s.signal()
}

// begin says once per connection that the server listens.
func (s *Subscription) begin(by *connection) {
	s.mu.Lock()
	begun := s.since == by
	s.since = by
	s.mu.Unlock()
	if !begun {
		s.miss()
	}
}

func (s *Subscription) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}
