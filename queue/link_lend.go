package queue

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// crowdedPause is how long a session asks for no further connection after the server refused one for their number: each
// refusal costs the server a process. It is also how long a link waits for a connection of another one.
const crowdedPause = time.Second

// lending is how the links of a session share connections while the server gives no more: a session goes on with few, and
// slowly with one. A link without a connection waits for one that another link does not use. While it has one it waits for
// no other, so no two wait for each other.
type lending struct {
	links []*link // those that a session can do without for the longest lend first

	mu      sync.Mutex
	waiting []*borrower // the first gets the next connection
	refused time.Time   // when the server last gave none
}

// borrower is a link that waits for a connection.
type borrower struct {
	link *link
	got  chan loan // has room for one
}

// loan is a connection that works, with what its former link knew of it.
type loan struct {
	conn   *pgx.Conn
	config *pgx.ConnConfig // whose parameters it has
	pooler pglink.Pooler
}

// share has the links of a session lend to each other from now on.
func (l *links) share() {
	n := &lending{links: []*link{l.sweeps, l.looks, l.chunks, l.claims, l.reads, l.journal, l.lease}}
	for _, one := range n.links {
		one.lending = n
	}
	l.lease.first = true
}

// isShort says whether the server gave no connection a moment ago.
func (n *lending) isShort() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.refused.IsZero() && time.Since(n.refused) < crowdedPause
}

func (n *lending) refuse() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refused = time.Now()
}

// lineUp puts a borrower behind the others, or before them.
func (n *lending) lineUp(b *borrower) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := len(n.waiting)
	if b.link.first {
		at = 0
	}
	n.waiting = slices.Insert(n.waiting, at, b)
}

// leave takes a borrower out of the line, and reports whether it stood there: else it has got a connection.
func (n *lending) leave(b *borrower) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := slices.Index(n.waiting, b)
	if at < 0 {
		return false
	}
	n.waiting = slices.Delete(n.waiting, at, at+1)
	return true
}

// borrow waits for a connection of another link of its session, and reports whether there was one.
func (l *link) borrow(ctx context.Context) bool {
	n := l.lending
	ctx, cancel := context.WithTimeout(ctx, crowdedPause)
	defer cancel()
	b := &borrower{link: l, got: make(chan loan, 1)}
	n.lineUp(b)
	for _, other := range n.links {
		if other.lend() {
			break
		}
	}
	var lent loan
	select {
	case lent = <-b.got:
	case <-ctx.Done():
		if n.leave(b) {
			return false
		}
		lent = <-b.got
	}
	if err := pglink.Refit(ctx, lent.conn, lent.config, l.config); err != nil {
		pglink.HangUp(ctx, lent.conn)
		return false
	}
	l.conn, l.taken, l.pooler = lent.conn, false, lent.pooler
	return true
}

// lend gives the connection of a link that nobody uses to whoever waits for one, and reports whether it did. No statement is under
// way on it, so nothing has to end before the link goes on with another one: it forgets the server process, which serves another link
// from now on.
func (l *link) lend() bool {
	n := l.lending
	if n == nil {
		return false
	}
	select {
	case <-l.turn:
	default:
		return false
	}
	defer func() { l.turn <- struct{}{} }()
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) == 0 || !l.taken || l.conn.IsClosed() {
		return false
	}
	n.waiting[0].got <- loan{conn: l.conn, config: l.config, pooler: l.pooler}
	n.waiting = n.waiting[1:]
	l.conn, l.taken, l.server = nil, false, backend{}
	return true
}

// caller is what a pool and a connection have in common here.
type caller interface {
	Querier
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// call asks over a connection of the pool; where the server has none for it, over one of the session's own.
func (s *Session) call(ctx context.Context, do func(context.Context, caller) error) error {
	err := do(ctx, s.store.pool)
	if !Crowded(err) {
		return err
	}
	return s.reads.use(ctx, func(ctx context.Context, conn *pgx.Conn) error { return do(ctx, conn) })
}
