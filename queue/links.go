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
	occupyPatience   = 4 * time.Second  // of one try to get all connections that a worker needs
	shortagePatience = 15 * time.Second // of all tries
)

const (
	sessionConns = 7 // claims, looks, sweeps, lease, reads, logs, journal: see links
	listenConns  = 1

	// CallConns are the connections of its pool that a worker keeps: for definitions, child runs, the depth of the queue.
	CallConns = 2
)

// Connections are how many connections to its database a worker keeps; with pollOnly it does not listen. Each
// postgres.query that runs takes one more. Many child runs that begin at once take more of the pool for a moment, unless
// a pooler lends by the session.
func Connections(pollOnly bool) int {
	if pollOnly {
		return sessionConns + CallConns
	}
	return sessionConns + CallConns + listenConns
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

func (l *links) all() [sessionConns]*link {
	return [...]*link{l.claims, l.looks, l.sweeps, l.lease, l.reads, l.chunks, l.journal}
}

func (l *links) close(ctx context.Context) error {
	all := l.all()
	return closeLinks(ctx, all[:]...)
}

// calls are the connections of the pool that a worker takes from a pooler. With Config.Direct they go another way.
func (s *Store) calls() int {
	if s.beside {
		return 0
	}
	return min(CallConns, int(s.pool.Config().MaxConns))
}

// needs is how many connections a pooler must lend by the session.
func (s *Store) needs() int { return Connections(s.pollOnly) - CallConns + s.calls() }

// occupy makes the connections of a session at once, where a pooler has a fixed number of them. Those that it lends later
// may be in the hands of others by then.
func (s *Store) occupy(ctx context.Context, l *links, conn *pgx.Conn) error {
	var gets []pglink.Get
	for _, other := range l.all() {
		if other != l.claims { // it has conn
			gets = append(gets, other.get)
		}
	}
	if !s.pollOnly {
		gets = append(gets, pglink.GetNew(s.connConfig(listenName), s.prepare))
	}
	for range s.calls() {
		gets = append(gets, s.getCall)
	}
	more, refused := pglink.Lends(ctx, s.shortage.tryPatience, gets...)
	lent := 1 + more
	if lent == s.needs() {
		s.shortage.over()
		return nil
	}
	var size int
	if err := conn.QueryRow(ctx, poolSize).Scan(&size); err != nil {
		return fmt.Errorf("look how large the pool is: %w", err)
	}
	others := max(0, size-lent) // one that was lent may have ended since
	return s.short(lent, others, refused)
}

// get makes the connection of a link, as pglink.Get.
func (l *link) get(ctx context.Context) (func(), error) {
	return nil, l.use(ctx, func(context.Context, *pgx.Conn) error { return nil })
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

// ShortError tells of a pooler that lends fewer connections than a worker needs. While it may be late, it is ErrWaiting.
type ShortError struct {
	Lent, Needs int
	Size        int   // of a pool that would be enough
	Refused     error // why the pooler refused the next connection; nil: its pool is too small

	lasts bool
}

func (e *ShortError) Error() string {
	text := fmt.Sprintf("the pooler lends %d connections to this worker, which needs %d", e.Lent, e.Needs)
	if pg, ok := errors.AsType[*pgconn.PgError](e.Refused); ok {
		text += ": " + pg.Message
	}
	return text
}

// Is makes errors.Is work.
func (e *ShortError) Is(target error) bool { return target == ErrWaiting && !e.lasts }

// short is the error of a worker that got too few connections, while others have some of the same pool. A pooler that
// lends none may stand before a server that is away.
func (s *Store) short(lent, others int, refused error) error {
	needs := s.needs()
	return &ShortError{Lent: lent, Needs: needs, Size: needs + others, Refused: refused, lasts: s.shortage.lasts() && lent > 0}
}

// shortage is the time since a pooler lends too few connections.
type shortage struct {
	patience    time.Duration
	tryPatience time.Duration // of one try

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
