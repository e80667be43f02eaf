package queue

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// share lets the links of a session take connections from each other once the server gives no more: a session goes on with few, and
// slowly with one. The links that a worker can do without for the longest lend first.
func (l *links) share() {
	ranks := []*link{l.sweeps, l.looks, l.chunks, l.claims, l.reads, l.journal, l.lease}
	for _, one := range ranks {
		for _, other := range ranks {
			if other != one {
				one.lenders = append(one.lenders, other)
			}
		}
	}
}

// takeOver takes a connection that another link has and does not use, and reports whether there was one. It waits for no other link:
// two that wait for each other would wait for ever.
func (l *link) takeOver(ctx context.Context) bool {
	for _, other := range l.lenders {
		select {
		case <-other.turn:
		default:
			continue
		}
		conn := other.part()
		pooler := other.pooler
		other.turn <- struct{}{}
		if conn == nil {
			continue
		}
		if err := pglink.Refit(ctx, conn, other.config, l.config); err != nil {
			pglink.HangUp(ctx, conn)
			continue
		}
		l.conn, l.taken, l.pooler = conn, false, pooler
		return true
	}
	return false
}

// part gives up a connection that works; nil: there is none. No statement is under way on it, so nothing has to end before the link
// goes on with another: it must not end a connection which serves another link by then.
func (l *link) part() *pgx.Conn {
	if !l.taken || l.conn.IsClosed() {
		return nil
	}
	conn := l.conn
	l.conn, l.taken, l.server = nil, false, backend{}
	return conn
}
