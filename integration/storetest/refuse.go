package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

// TakeNoRecords makes the store refuse records, as on a full disk, until TakeNoRecords(nil). Commits, releases and
// FailRun waits, as with a queue.Session. Appends and trials fail with err. Claims, renewals and all other calls go
// on.
func (m *Memory) TakeNoRecords(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuses != nil {
		close(m.takesAgain)
	}
	m.refuses, m.takesAgain = err, make(chan struct{})
}

// TryRecords returns why the store takes no records, nil if it does.
func (m *Memory) TryRecords(ctx context.Context) error {
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	return m.refuses
}

// pen is the write state of a session: one write is under way, the others wait for their turn.
type pen struct {
	writing bool
	fails   queue.Failure
	taken   int64
	ended   chan struct{} // closed with the session
}

// untilTaken waits until the store takes records. The write that is under way ignores the end of ctx.
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

// waitFor waits without the lock until the store takes records again, or until the session, the claim or ctx ends.
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

// Stats returns counters of the session.
func (s *MemorySession) Stats() queue.SessionStats {
	m := s.store
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refuses == nil { // no write waits, so the session notices the recovery here
		s.fails = queue.Failure{}
	}
	return queue.SessionStats{Held: len(s.held), Taken: s.taken, Failing: s.fails}
}
