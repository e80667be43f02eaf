package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// TakeNoRecords has the store take no records, as on a disk that is full, until TakeNoRecords(nil). Commits, releases and condemnations
// wait, as those of a queue.Session do; appends and trials fail by err. Claims, renewals and the rest go on.
func (m *Memory) TakeNoRecords(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuses != nil {
		close(m.takesAgain)
	}
	m.refuses, m.takesAgain = err, make(chan struct{})
}

// TryRecords says why the store takes no records.
func (m *Memory) TryRecords(ctx context.Context) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	return m.refuses
}

// pen is what a session writes with: one write is under way, others wait for their turn.
type pen struct {
	writing bool
	fails   queue.Failure
	taken   int64
	ended   chan struct{} // closed with the session
}

// untilTaken waits until the store takes records. A write under way goes on whatever becomes of ctx.
func (s *MemorySession) untilTaken(ctx context.Context, c *queue.Claim) error {
	m, mine := s.store, false
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { s.writing = s.writing && !mine }()
	for m.refuses != nil && !s.closed {
		if !s.writing {
			s.writing, mine = true, true
		}
		if !s.fails.Failing() {
			s.fails = queue.Failure{Since: time.Now(), Err: m.refuses}
		}
		if err := s.waitFor(ctx, m.takesAgain, c, mine); err != nil {
			return err
		}
	}
	if s.closed {
		return fmt.Errorf("run %d: %w", c.Run, errors.Join(queue.ErrClosed, queue.ErrUnknown))
	}
	s.fails = queue.Failure{}
	s.taken++
	return nil
}

// waitFor lets others in meanwhile.
func (s *MemorySession) waitFor(ctx context.Context, again <-chan struct{}, c *queue.Claim, underWay bool) error {
	withdrawn := ctx.Done()
	if underWay {
		withdrawn = nil
	}
	s.store.mu.Unlock()
	defer s.store.mu.Lock()
	select {
	case <-again:
	case <-s.ended:
	case <-c.Lost():
		return fmt.Errorf("run %d: %w", c.Run, queue.ErrLeaseLost)
	case <-withdrawn:
		return ctx.Err()
	}
	return nil
}

// Stats show the session at this moment.
func (s *MemorySession) Stats() queue.SessionStats {
	m := s.store
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuses == nil { // a store that waits for nothing else finds out by itself
		s.fails = queue.Failure{}
	}
	return queue.SessionStats{Held: len(s.held), Taken: s.taken, Failing: s.fails}
}
