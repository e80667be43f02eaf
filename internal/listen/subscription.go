package listen

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Limits of the notifications that wait for one subscriber. Past them the subscriber gets only Missed.
const (
	maxPayloads     = 1000
	maxPayloadBytes = 64 << 10
)

// Signal is the news since the last Signal of a subscription.
type Signal struct {
	Payloads []string // each once, in alphabetical order
	Missed   bool     // there may have been other payloads: look at everything
}

// Subscription receives the notifications of one channel.
type Subscription struct {
	listener *Listener
	channel  string
	ready    chan struct{} // holds a token while there is news to take
	closed   chan struct{}
	once     sync.Once

	mu       sync.Mutex
	payloads map[string]bool
	bytes    int
	missed   bool
	since    *connection // connection on which the server listens for it
}

// Wait waits until a notification has come, or may have been missed. It returns all news since the last Wait, and forgets them.
// After Close of the Subscription or of its Listener it returns ErrClosed, and after the end of ctx the error of ctx.
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

// Close ends the subscription, and does not wait. A Wait that another goroutine has begun returns ErrClosed. Close may be called
// more than once.
func (s *Subscription) Close() {
	s.once.Do(func() {
		close(s.closed)
		s.listener.unsubscribe(s)
	})
}

// take returns the news since the last take, and forgets them. There may be none although ready held a token: an earlier take may
// have returned the news that the token was for.
func (s *Subscription) take() Signal {
	s.mu.Lock()
	defer s.mu.Unlock()
	signal := Signal{Payloads: slices.Sorted(maps.Keys(s.payloads)), Missed: s.missed}
	s.forget()
	s.missed = false
	return signal
}

// forget drops the payloads, but not missed. It makes a new map, because a map that was large never shrinks. The caller holds s.mu.
func (s *Subscription) forget() {
	s.payloads, s.bytes = map[string]bool{}, 0
}

func (s *Subscription) gather(payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.missed || s.payloads[payload] {
		return // the subscriber gets Missed, and looks at everything anyway
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

// begin notes that the server listens for the subscriber on the connection by. The first call for a connection signals Missed;
// further calls for it do nothing.
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
