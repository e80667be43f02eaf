package world

import (
	"context"
	"errors"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/storetest"
	"github.com/oarlock-dev/oarlock/queue"
)

// The calls of the store. Each passes what happens to the audit.

func (s *store) register(ctx context.Context, p *process, w queue.Worker) (*storetest.MemorySession, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	inner, err := s.memory.Register(ctx, w)
	if err == nil {
		s.audit.registered(p, w.ID, w.Replaces)
	}
	return inner, err
}

func (s *store) poll(ctx context.Context, l *link, want queue.Want) (queue.Polled, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.count(func(c *Counts) { c.Calls++ })
	polled, err := l.inner.Poll(context.WithoutCancel(ctx), want)
	if err == nil {
		s.audit.polled(l.process, &polled)
	}
	return polled, err
}

func (s *store) look(ctx context.Context, l *link, load queue.Load) (queue.Looked, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.count(func(c *Counts) { c.Calls++ })
	return l.inner.Look(context.WithoutCancel(ctx), load)
}

func (s *store) doChores(ctx context.Context, l *link) (queued int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.count(func(c *Counts) { c.Calls++ })
	return l.inner.DoChores(context.WithoutCancel(ctx))
}

func (s *store) sweep(ctx context.Context, l *link) (queue.Swept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.count(func(c *Counts) { c.Calls++ })
	swept, err := l.inner.Sweep(context.WithoutCancel(ctx))
	for _, lost := range swept.Lost {
		s.audit.lost(lost.ID)
	}
	return swept, err
}

func (s *store) attend(ctx context.Context, l *link) (queue.Attended, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.count(func(c *Counts) { c.Calls++ })
	done, err := l.inner.Attend(context.WithoutCancel(ctx))
	s.audit.attended()
	return done, err
}

func (s *store) renew(ctx context.Context, l *link, v queue.Vitals) (queue.Renewal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.count(func(c *Counts) { c.Calls++ })
	renewal, err := l.inner.Renew(context.WithoutCancel(ctx), v)
	if err == nil {
		s.audit.sharing.renewed[l.process] = time.Now()
	}
	return renewal, err
}

func (s *store) load(ctx context.Context, l *link, claims []*queue.Claim) ([]*queue.Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.count(func(c *Counts) { c.Calls++ })
	return l.inner.Load(context.WithoutCancel(ctx), claims)
}

func (s *store) readMail(ctx context.Context, l *link, claims []*queue.Claim) ([]*queue.Mailbox, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.count(func(c *Counts) { c.Calls++ })
	return l.inner.ReadMail(context.WithoutCancel(ctx), claims)
}

func (s *store) commit(ctx context.Context, l *link, b *queue.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.count(func(c *Counts) { c.Calls++ })
	err := l.inner.Commit(context.WithoutCancel(ctx), b)
	switch {
	case err == nil:
		s.audit.committed(l.process, b)
	case errors.Is(err, queue.ErrLeaseLost):
		s.audit.count(func(c *Counts) { c.Fenced++ })
	case errors.Is(err, queue.ErrInboxMoved):
		s.audit.count(func(c *Counts) { c.Moved++ })
	default:
		s.audit.breaks("run %d: the store refuses what the worker writes: %v", b.Claim.Run, err)
	}
	return err
}

func (s *store) release(ctx context.Context, l *link, c *queue.Claim, waits bool, wake dagrun.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.count(func(c *Counts) { c.Calls++ })
	err := l.inner.Release(context.WithoutCancel(ctx), c, waits, wake)
	if err == nil {
		if waits {
			s.audit.moved(l.process, c.Run)
		}
		s.audit.gaveBack(c)
	}
	return err
}

func (s *store) failRun(ctx context.Context, l *link, c *queue.Claim, why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.count(func(c *Counts) { c.Calls++ })
	err := l.inner.FailRun(context.WithoutCancel(ctx), c, why)
	if err == nil {
		s.audit.breaks("run %d: a driver gives it up: %v", c.Run, why)
	}
	return err
}

func (s *store) child(ctx context.Context, l *link, c queue.Child) (queue.RunID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.count(func(c *Counts) { c.Calls++ })
	id, err := l.inner.EnqueueChild(context.WithoutCancel(ctx), c)
	if err == nil {
		s.audit.bore(c, id)
	}
	return id, err
}

func (s *store) logs(ctx context.Context, l *link, chunks []queue.Chunk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.count(func(c *Counts) { c.Calls++ })
	return l.inner.AppendLogs(context.WithoutCancel(ctx), chunks)
}

func (s *store) drain(ctx context.Context, l *link) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.inner.Drain(context.WithoutCancel(ctx))
}

func (s *store) close(ctx context.Context, l *link) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.inner.Close(context.WithoutCancel(ctx))
}

func (s *store) control(ctx context.Context, a queue.Ask) (queue.Control, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, err := s.memory.Control(ctx, a)
	if err == nil {
		s.audit.asked(&c)
	}
	return c, err
}
