package postgres

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// errClosed is the error of tasks after the Action was closed.
var errClosed = errors.New("the worker has closed its connections")

// budget hands out connections: a limited number over all databases, first come, first served.
type budget struct {
	config Config

	mu      sync.Mutex
	open    int        // number of connections that are in use, idle, or about to be opened
	idle    []*session // the most recently used is last
	waiting []*waiter  // in order; only while open is at its limit and no connection is idle
	closed  bool

	stop chan struct{}
	done chan struct{}
}

// waiter is a task that waits for a slot, or for an idle connection.
type waiter struct {
	database *database
	granted  chan *session // has room for one; nil: a slot without a connection
}

func newBudget(c Config) *budget {
	b := &budget{config: c, stop: make(chan struct{}), done: make(chan struct{})}
	go b.tidy()
	return b
}

// take waits for the task's turn, and returns a connection to d: an idle one that still answers, or a new one. The caller must give
// it back by give. It returns an error if ctx ends, the budget is closed, or the connection cannot be made.
func (b *budget) take(ctx context.Context, d *database) (*session, error) {
	s, err := b.slot(ctx, d)
	if err != nil {
		return nil, err
	}
	if s != nil && s.database == d && s.answers(ctx) {
		return s, nil
	}
	if s != nil {
		s.close()
	}
	s, err = d.connect(ctx)
	if err != nil {
		b.free()
		return nil, err
	}
	return s, nil
}

// slot waits for the right to have one connection open, until ctx ends; after close it returns errClosed. Often an idle connection
// comes with the right, perhaps to another database than d: then the caller must use it or close it. A nil session without an error
// is the right alone. The caller must end the right by give, or by free if it has no connection.
func (b *budget) slot(ctx context.Context, d *database) (*session, error) {
	b.mu.Lock()
	if s, ok, err := b.now(d); ok || err != nil {
		b.mu.Unlock()
		return s, err
	}
	w := &waiter{database: d, granted: make(chan *session, 1)}
	b.waiting = append(b.waiting, w)
	b.mu.Unlock()
	select {
	case s, ok := <-w.granted:
		if !ok {
			return nil, errClosed
		}
		return s, nil
	case <-ctx.Done():
		b.withdraw(w)
		return nil, context.Cause(ctx)
	}
}

// now takes a slot that is available without waiting: with an idle connection to d, or else a new slot, for which s is nil, or else
// with the oldest idle connection to another database. ok is false if the caller must wait for one. err is errClosed after close,
// else nil. The caller holds mu.
func (b *budget) now(d *database) (s *session, ok bool, err error) {
	if b.closed {
		return nil, false, errClosed
	}
	for i, s := range slices.Backward(b.idle) {
		if s.database == d {
			b.idle = slices.Delete(b.idle, i, i+1)
			return s, true, nil
		}
	}
	if b.open < b.config.MaxOpen {
		b.open++
		return nil, true, nil
	}
	if len(b.idle) > 0 { // to another database; this task needs its slot now
		s, b.idle = b.idle[0], slices.Delete(b.idle, 0, 1)
		return s, true, nil
	}
	return nil, false, nil
}

// withdraw removes a waiter because its task no longer waits. If the waiter was granted a slot at the same moment, the slot is
// given back, with its connection if it has one.
func (b *budget) withdraw(w *waiter) {
	b.mu.Lock()
	if i := slices.Index(b.waiting, w); i >= 0 {
		b.waiting = slices.Delete(b.waiting, i, i+1)
		b.mu.Unlock()
		return
	}
	b.mu.Unlock()
	if s, ok := <-w.granted; ok {
		b.give(s)
	}
}

// give takes a connection back, for the next waiter or as an idle one. It closes a connection that is broken, older than the
// lifetime, or not needed, and frees its slot. nil gives back a slot without a connection. give resets the session, so it waits for
// the server, for resetTimeout at most.
func (b *budget) give(s *session) {
	if s == nil || !s.reset() || time.Since(s.born) >= b.config.Lifetime {
		if s != nil {
			s.close()
		}
		b.free()
		return
	}
	s.used = time.Now()
	if !b.keep(s) {
		s.close()
		b.free()
	}
}

// keep grants a connection to the first waiter if it waits for the same database. If no task waits, it makes the connection idle.
// Otherwise, and if MaxIdle connections to the database are idle already or the budget is closed, it returns false: then the caller
// must close the connection and free its slot.
func (b *budget) keep(s *session) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	same := 0
	for _, other := range b.idle {
		if other.database == s.database {
			same++
		}
	}
	switch {
	case b.closed:
		return false
	case len(b.waiting) > 0 && b.waiting[0].database != s.database:
		return false // the connection is closed first, and then its slot is granted
	case len(b.waiting) > 0:
		b.next(s)
		return true
	case same >= b.config.MaxIdle:
		return false
	}
	b.idle = append(b.idle, s)
	return true
}

// free gives back a slot without a connection: the first waiter gets it, or one connection more may be opened. The caller must have
// closed the connection of the slot.
func (b *budget) free() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) > 0 {
		b.next(nil)
		return
	}
	b.open--
}

// next removes the first waiter, and grants it a slot with the connection s; nil: with none. The caller holds mu, and has
// checked that there is a waiter.
func (b *budget) next(s *session) {
	w := b.waiting[0]
	b.waiting = slices.Delete(b.waiting, 0, 1)
	w.granted <- s
}

// tidy closes idle connections that have been idle for IdleTime or open for Lifetime. It looks again and again, until close.
func (b *budget) tidy() {
	defer close(b.done)
	tick := time.NewTicker(max(time.Millisecond, min(b.config.IdleTime, b.config.Lifetime)/4))
	defer tick.Stop()
	for {
		select {
		case <-b.stop:
			return
		case now := <-tick.C:
			b.drop(func(s *session) bool {
				return now.Sub(s.used) >= b.config.IdleTime || now.Sub(s.born) >= b.config.Lifetime
			})
		}
	}
}

// drop closes the idle connections for which old returns true, and frees their slots.
func (b *budget) drop(old func(*session) bool) {
	b.mu.Lock()
	var dropped, kept []*session
	for _, s := range b.idle {
		if old(s) {
			dropped = append(dropped, s)
		} else {
			kept = append(kept, s)
		}
	}
	b.idle = kept
	b.mu.Unlock()
	for _, s := range dropped {
		s.close()
		b.free()
	}
}

// close closes idle connections, and ends all waits with errClosed. It waits for tidy, but not for tasks: a connection in use is
// closed when it is given back. A second call does nothing.
func (b *budget) close() {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return
	}
	b.closed = true
	for _, w := range b.waiting {
		close(w.granted)
	}
	b.waiting = nil
	b.mu.Unlock()
	close(b.stop)
	<-b.done
	b.drop(func(*session) bool { return true })
}
