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
	maxBadge     = 99 // the navigation counts approvals up to this number
)

// glance is the state of the cluster that all pages show.
type glance struct {
	queue.Glimpse

	Seen      bool // the login may see workers and queues
	Approvals int  // that wait for a decision of the login, at most maxBadge
	Many      bool // there are more than maxBadge
	Rights    queue.Rights
}

// lookAround reads a glance from the database. If the login is not allowed to see queues and workers, that is no error: the glance
// has the login's approvals and rights, and Seen is false.
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

// cached keeps the newest result of a read, so that many viewers cost the database one read.
type cached[T any] struct {
	read     func(context.Context) (T, error)
	interval time.Duration // between two reads
	timeout  time.Duration // of one read

	mu  sync.Mutex
	now *look[T]
}

// look is one read. Its other fields are set once done is closed.
type look[T any] struct {
	done  chan struct{}
	value T
	err   error
	at    time.Time // when the read began
}

// get returns the result of a read that began less than an interval ago. If there is none, the caller reads, and callers that come
// in the meantime wait for that read. An error is kept for the interval, too.
func (c *cached[T]) get(ctx context.Context) (T, error) {
	l, mine := c.current(time.Now())
	if mine {
		// Others wait for this read even if this caller has gone.
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
		defer cancel()
		defer close(l.done)
		l.err = errors.New("the read did not end") // this error stays if read panics
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

// current returns the newest look. If that began an interval ago or more, it stores a new one and returns mine. The caller must
// then do the read, fill in the look, and close its done.
func (c *cached[T]) current(now time.Time) (l *look[T], mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now != nil && now.Sub(c.now.at) < c.interval {
		return c.now, false
	}
	c.now = &look[T]{done: make(chan struct{}), at: now}
	return c.now, true
}

// forget drops the newest look, so that the next caller reads anew. Call it when this server has just changed the data.
func (c *cached[T]) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = nil
}
