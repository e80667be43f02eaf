package web

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
)

const (
	lookInterval = 2 * time.Second // between two looks at the cluster, whatever the number of viewers
	lookTimeout  = 2 * time.Second
	maxBadge     = 99 // approvals that the navigation counts
)

// glance is the cluster at a moment, as all pages show it.
type glance struct {
	queue.Glimpse

	Seen      bool // the login may see workers and queues
	Approvals int  // that wait for the login, at most maxBadge
	Many      bool // there are more
	Rights    queue.Rights
}

// lookAround asks the database. A login that may not see the cluster still has approvals.
func (s *server) lookAround(ctx context.Context) (g glance, err error) {
	waiting, err := s.store.Approvals(ctx, false, maxBadge+1)
	if err != nil {
		return g, err
	}
	g.Approvals, g.Many = min(len(waiting), maxBadge), len(waiting) > maxBadge
	if g.Rights, err = s.store.Rights(ctx); err != nil {
		return g, err
	}
	g.Glimpse, err = s.store.Glimpse(ctx)
	if refused, ok := errors.AsType[*queue.Error](err); ok && denied[refused.Code] {
		return g, nil
	}
	g.Seen = err == nil
	return g, err
}

// cached holds the newest answer of a read, so that many viewers cost the database one.
type cached[T any] struct {
	read     func(context.Context) (T, error)
	interval time.Duration // between two reads
	timeout  time.Duration // of one

	mu  sync.Mutex
	now *look[T]
}

// look is one answer. Its fields are set once done is closed.
type look[T any] struct {
	done  chan struct{}
	value T
	err   error
	at    time.Time // when it was asked for
}

// get returns an answer that is younger than the interval. The first caller after that reads, and the others wait for it.
func (c *cached[T]) get(ctx context.Context) (T, error) {
	l, mine := c.current(time.Now())
	if mine {
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout) // others wait for it when this caller has gone
		defer cancel()
		defer close(l.done)
		l.err = errors.New("the read did not end") // stays if read panics
		l.value, l.err = c.read(within)
		return l.value, l.err
	}
	select {
	case <-l.done:
		return l.value, l.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// current returns the newest look, and reports whether the caller has to make it.
func (c *cached[T]) current(now time.Time) (l *look[T], mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil && now.Sub(c.now.at) < c.interval {
		return c.now, false
	}
	c.now = &look[T]{done: make(chan struct{}), at: now}
	return c.now, true
}

// forget has the next caller read, because what was read has been changed.
func (c *cached[T]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = nil
}
