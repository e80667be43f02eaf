package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

var poolSize = sql.Named("queue/pool_size")

const (
	occupyPatience   = 4 * time.Second  // of one try to get all connections that a worker needs from a pooler
	shortagePatience = 15 * time.Second // of all tries
)

const (
	listenConns = 1

	// SessionConns are the connections that carry the name of a worker: for claims, looks, sweeps, lease, reads, logs, journal.
	SessionConns = 7

	// CallConns are the connections of its pool that a worker keeps: for definitions, child runs, the depth of the queue.
	CallConns = 2
)

// Connections are how many connections to its database a worker keeps; with pollOnly it does not listen. Each
// postgres.query that runs takes one more. Many child runs that begin at once take more of the pool for a moment, unless
// a pooler lends by the session.
func Connections(pollOnly bool) int {
	if pollOnly {
		return SessionConns + CallConns
	}
	return SessionConns + CallConns + listenConns
}

// links are the connections that a session has for itself.
type links struct{ claims, looks, sweeps, lease, reads, chunks, journal *link }

// newLinks makes no connection yet.
func (s *Store) newLinks(worker uuid.UUID) *links {
	config := s.connConfig(appName(worker))
	flushes := config.Copy()
	pglink.AsFlush(flushes)
	polls := steady(config)
	return &links{
		claims: s.newLink(polls), looks: s.newLink(polls), sweeps: s.newLink(polls), lease: s.newLink(polls), reads: s.newLink(polls),
		chunks: s.newLink(config), journal: s.newLink(flushes),
	}
}

func (l *links) all() [SessionConns]*link {
	return [...]*link{l.claims, l.looks, l.sweeps, l.lease, l.reads, l.chunks, l.journal}
}

func (l *links) close(ctx context.Context) error {
	all := l.all()
	return closeLinks(ctx, all[:]...)
}

// calls are the connections of the pool that a worker takes before it registers. With Config.Direct they go another way. A pool of
// the program's own may be busy with what waits for this worker: nothing is taken of it, unless its size is the pooler's.
func (s *Store) calls(p pglink.Pooler) int {
	if s.beside || !s.ownsPool && p == pglink.NoPooler {
		return 0
	}
	return min(CallConns, int(s.pool.Config().MaxConns))
}

// needs is how many connections a worker must get before it registers.
func (s *Store) needs(p pglink.Pooler) int { return Connections(s.pollOnly) - CallConns + s.calls(p) }

// gains are the connections that a worker got at once.
type gains struct {
	n       int
	refused error // why the next one was not had; nil: nobody said
}

// occupy makes the connections of a session at once, beside that for claims, which is there. Those that are made later may be in the
// hands of others by then.
func (s *Store) occupy(ctx context.Context, l *links, p pglink.Pooler) gains {
	if s.shortage.trusting {
		return gains{n: s.needs(p)}
	}
	patience := callTimeout
	if p != pglink.NoPooler {
		patience = s.shortage.tryPatience
	}
	more, refused := pglink.Lends(ctx, patience, s.gets(l, p)...)
	return gains{1 + more, refused}
}

// suffices returns a *ShortError where a worker got too few connections.
func (s *Store) suffices(ctx context.Context, conn *pgx.Conn, p pglink.Pooler, g gains) error {
	switch {
	case g.n == s.needs(p):
		s.shortage.over()
		return nil
	case p == pglink.NoPooler:
		return s.crowded(g)
	}
	var size int
	if err := conn.QueryRow(ctx, poolSize).Scan(&size); err != nil {
		return fmt.Errorf("look how large the pool is: %w", err)
	}
	others := max(0, size-g.n) // one that was lent may have ended since
	return s.short(g.n, others, g.refused)
}

// gets are the connections that a session needs beside that for claims. A server has answered once it let us in; a pooler lets
// everybody in, and lends at the first statement.
func (s *Store) gets(l *links, p pglink.Pooler) (gets []pglink.Get) {
	for _, other := range l.all() {
		switch {
		case other == l.claims:
		case p == pglink.NoPooler:
			gets = append(gets, other.reach)
		default:
			gets = append(gets, other.get)
		}
	}
	if !s.pollOnly {
		gets = append(gets, pglink.GetNew(s.connConfig(listenName), s.prepare))
	}
	for range s.calls(p) {
		gets = append(gets, s.getCall)
	}
	return gets
}

// get makes the connection of a link, as pglink.Get.
func (l *link) get(ctx context.Context) (func(), error) {
	return nil, l.use(ctx, func(context.Context, *pgx.Conn) error { return nil })
}

// reach connects a link and sends nothing, as pglink.Get: what the first use sends to a new connection costs as much again.
func (l *link) reach(ctx context.Context) (func(), error) {
	return nil, l.hold(ctx, l.dial)
}

// getCall takes a connection of the store's pool, as pglink.Get.
func (s *Store) getCall(ctx context.Context) (func(), error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	_, err = pglink.Backend(ctx, conn)
	return conn.Release, err
}

// ShortError tells of a pooler or a database that gives fewer connections than a worker needs. It is ErrWaiting, for a pooler only
// while that may be late.
type ShortError struct {
	Lent, Needs int
	Direct      bool  // no pooler stands before the database
	Size        int   // of a pooler's pool that would be enough
	Refused     error // why the next connection was refused; nil: a pooler's pool is too small, or no answer came in time

	lasts bool
}

func (e *ShortError) Error() string {
	text := fmt.Sprintf("the pooler lends %d connections to this worker, which needs %d", e.Lent, e.Needs)
	if e.Direct {
		text = fmt.Sprintf("the database gives %d of the %d connections that this worker needs", e.Lent, e.Needs)
	}
	if pg, ok := errors.AsType[*pgconn.PgError](e.Refused); ok {
		return text + ": " + pg.Message
	}
	if e.Direct && e.Refused != nil {
		return text + ": " + e.Refused.Error()
	}
	return text
}

// Is makes errors.Is work.
func (e *ShortError) Is(target error) bool { return target == ErrWaiting && !e.lasts }

// short is the error of a worker that got too few connections, while others have some of the same pool. A pooler that
// lends none may stand before a server that is away.
func (s *Store) short(lent, others int, refused error) error {
	needs := s.needs(pglink.SessionPooler)
	return &ShortError{Lent: lent, Needs: needs, Size: needs + others, Refused: refused, lasts: s.shortage.lasts() && lent > 0}
}

// crowded is the error of a worker that got too few connections of a server. They come back, so it is never final. A server that
// refuses for another reason than their number says that itself.
func (s *Store) crowded(g gains) error {
	if _, ok := errors.AsType[*pgconn.PgError](g.refused); ok && !Crowded(g.refused) {
		return g.refused
	}
	return &ShortError{Lent: g.n, Needs: s.needs(pglink.NoPooler), Direct: true, Refused: g.refused}
}

// unreached is the error of a worker that did not get its first connection, for whatever reason.
func (s *Store) unreached(err error) error {
	if waiting, ok := errors.AsType[*pglink.WaitingError](err); ok {
		return s.short(waiting.Lent, 0, nil)
	}
	if Crowded(err) {
		return s.crowded(gains{int(s.pool.Stat().TotalConns()), err})
	}
	return err
}

// Crowded reports whether a server refused a connection because it, a database or a role has as many as it may.
func Crowded(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "53300"
}

// shortage is the time since a pooler lends too few connections.
type shortage struct {
	patience    time.Duration
	tryPatience time.Duration // of one try
	trusting    bool          // in tests: connections are made at their first use, as if there could be no shortage

	mu    sync.Mutex
	since time.Time // zero: there is none
}

// lasts says whether there is a shortage for longer than it may take others to leave.
func (s *shortage) lasts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		s.since = time.Now()
		return false
	}
	return time.Since(s.since) >= s.patience
}

func (s *shortage) over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since = time.Time{}
}
