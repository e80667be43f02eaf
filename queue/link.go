package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of a link.
const (
	closeTimeout = time.Second
	callTimeout  = 10 * time.Second // of one statement, where the caller names no shorter one
)

var (
	whoServes     = sql.Named("queue/backend")
	endBackend    = sql.Named("queue/end_backend")
	isBackendGone = sql.Named("queue/backend_gone")
)

// backend is the server process behind a connection, as another connection can find it.
type backend struct {
	pid     int32
	started time.Time
}

// link is a connection for one purpose, made when it is first used and made again after it broke. Uses wait for each
// other, so each purpose has one statement in flight.
type link struct {
	config  *pgx.ConnConfig
	prepare pglink.Prepare                         // of the pool that config was taken from, if it was
	turn    chan struct{}                          // holds one token
	conn    *pgx.Conn                              // nil: to be made
	taken   bool                                   // conn is ready: known and again have run on it
	dropped *pgx.Conn                              // the last that was; nil: none yet
	pooler  pglink.Pooler                          // that lends conn
	server  backend                                // of conn, or of the last one; while again runs, of the one before
	made    int                                    // connections so far
	limit   time.Duration                          // of one use, where the caller names no shorter one
	known   func(context.Context, *pgx.Conn) error // runs first on every connection, but those from before it was set; may be nil
	again   func(context.Context, *pgx.Conn) error // runs next on every connection but the first; may be nil
	lending *lending                               // with the other links of its session; nil: it has no others
	first   bool                                   // it gets a connection before others do
	life    context.Context                        //nolint:containedctx // of the link: what uses it ends with it
	end     context.CancelFunc
	closed  sync.Once
}

func newLink(config *pgx.ConnConfig) *link {
	l := &link{config: config, turn: make(chan struct{}, 1), limit: callTimeout}
	l.life, l.end = context.WithCancel(context.Background())
	l.turn <- struct{}{}
	return l
}

// use calls do with the connection, making one if there is none. What breaks the session closes it. do has to return when
// its context ends.
func (l *link) use(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	return l.hold(ctx, l.connected(do))
}

// useOr is use, over the first of the spare links that is free where this one is in use. It waits for this one where none is.
func (l *link) useOr(ctx context.Context, spare []*link, do func(context.Context, *pgx.Conn) error) error {
	for _, one := range append([]*link{l}, spare...) {
		select {
		case <-one.turn:
			return one.holding(ctx, one.connected(do))
		default:
		}
	}
	return l.use(ctx, do)
}

// connected is do with a connection that works, for hold.
func (l *link) connected(do func(context.Context, *pgx.Conn) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := l.connect(ctx); err != nil {
			return err
		}
		err := do(ctx, l.conn)
		if breaks(err) || l.conn.IsClosed() {
			l.drop()
		}
		return err
	}
}

// hold calls do while nothing else uses the link, for as long as one use may take.
func (l *link) hold(ctx context.Context, do func(context.Context) error) error {
	select {
	case <-l.turn:
	case <-l.life.Done():
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	return l.holding(ctx, do)
}

// holding calls do with the token, and puts it back.
func (l *link) holding(ctx context.Context, do func(context.Context) error) error {
	defer l.lend() // last: whoever has come to wait by then is seen, and whoever comes later sees what is not in use
	defer func() { l.turn <- struct{}{} }()
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	return do(ctx)
}

// breaks says whether the session behind a connection is of no more use.
func breaks(err error) bool {
	if stale(err) {
		return true
	}
	switch pglink.Classify(err) {
	case pglink.SessionLost, pglink.WrongNode, pglink.NotExecuted:
		return true
	default:
		return false
	}
}

func (l *link) connect(ctx context.Context) error {
	if l.taken && !l.conn.IsClosed() {
		return nil
	}
	before := l.conn != nil && !l.taken
	err := l.takeUp(ctx)
	if before && pglink.Classify(err) == pglink.SessionLost && ctx.Err() == nil { // it ended before it was ever used
		err = l.takeUp(ctx)
	}
	return err
}

// takeUp makes a connection ready to be used.
func (l *link) takeUp(ctx context.Context) error {
	if err := l.dial(ctx); err != nil {
		return err
	}
	conn := l.conn
	var server backend
	err := conn.QueryRow(ctx, whoServes, pgx.QueryExecModeExec).Scan(&server.pid, &server.started)
	if err == nil && l.known != nil {
		err = l.known(ctx, conn)
	}
	if err == nil && l.made > 0 && l.again != nil {
		err = l.again(ctx, conn)
	}
	if err != nil {
		l.drop()
		return fmt.Errorf("take up a connection: %w", err)
	}
	l.server, l.taken = server, true
	l.made++
	return nil
}

// dial makes a connection, unless there is one that is not ready yet.
func (l *link) dial(ctx context.Context) error {
	if l.conn != nil && !l.taken && !l.conn.IsClosed() {
		return nil
	}
	if l.lending != nil && l.lending.isShort() && l.borrow(ctx) {
		return nil
	}
	conn, found, err := pglink.DialSession(ctx, l.config, l.prepare)
	if Crowded(err) && l.lending != nil {
		if l.lending.refuse(); l.borrow(ctx) {
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	l.conn, l.taken, l.pooler = conn, false, found
	return nil
}

// endFormer ends the server process that was used before, and waits until it is gone: for again, where what is sent to
// a new connection must not be overtaken by what is still under way on the old one.
func (l *link) endFormer(ctx context.Context, conn *pgx.Conn) error {
	var gone bool
	err := conn.QueryRow(ctx, endBackend, l.server.pid, l.server.started).Scan(&gone)
	pg, ok := errors.AsType[*pgconn.PgError](err)
	denied := ok && pg.Code == "42501"
	if err != nil && !denied {
		return fmt.Errorf("end the former connection: %w", err)
	}
	if gone {
		return nil
	}
	// A server process that ended by itself just before is answered like one that did not end in time.
	if err := conn.QueryRow(ctx, isBackendGone, l.server.pid, l.server.started).Scan(&gone); err != nil {
		return fmt.Errorf("look for the former connection: %w", err)
	}
	switch {
	case gone:
		return nil
	case denied: // a role that may not end even its own connections tries again until the server found out by itself
		return fmt.Errorf("the former connection, server process %d, is still there, and this role may not end it (%w): "+
			"GRANT EXECUTE ON FUNCTION pg_terminate_backend(integer, bigint) TO %q, or end that process", // sql-shown: what to do
			l.server.pid, err, l.config.User)
	default:
		return fmt.Errorf("the former connection, server process %d, is still there", l.server.pid)
	}
}

func (l *link) drop() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = l.conn.Close(ctx)
	l.conn, l.taken, l.dropped = nil, false, l.conn
}

// finish drops the connection for good. It waits for what the driver has still to do, in a hurry after the end of ctx.
func (l *link) finish(ctx context.Context) {
	l.drop()
	if l.dropped != nil {
		pglink.HangUp(ctx, l.dropped)
	}
}

// closeLinks closes links at the same time: where nobody answers each takes as long as all.
func closeLinks(ctx context.Context, links ...*link) error {
	errs := make([]error, len(links))
	var closing sync.WaitGroup
	for i, l := range links {
		closing.Go(func() { errs[i] = l.close(ctx) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// close ends the connection, once nobody uses it. When ctx ends before, it ends that use.
func (l *link) close(ctx context.Context) (err error) {
	l.closed.Do(func() {
		select {
		case <-l.turn:
			l.end()
		case <-ctx.Done():
			l.end()
			<-l.turn
			err = fmt.Errorf("close a connection: what used it was cut off: %w", ctx.Err())
		}
		l.finish(ctx)
	})
	return err
}

// pulse says how long a goroutine has been at one thing. It does not count while the machine sleeps: who wakes up with it
// is not stuck.
type pulse struct{ since atomic.Int64 } // nanoseconds of awake; 0: at nothing

var awakeFrom = time.Now().Add(-time.Nanosecond) // so that no moment is 0

func awake() int64 { return int64(time.Since(awakeFrom)) }

// beat begins the next thing.
func (p *pulse) beat() { p.since.Store(awake()) }

// rest waits for something to do.
func (p *pulse) rest() { p.since.Store(0) }

// at is how long the thing has taken so far.
func (p *pulse) at() time.Duration {
	since := p.since.Load()
	if since == 0 {
		return 0
	}
	return max(time.Duration(awake()-since), 1)
}

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
