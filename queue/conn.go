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

// Bounds of a dedicatedConn.
const (
	closeTimeout = time.Second
	callTimeout  = 10 * time.Second // of one statement if the caller sets no shorter timeout
)

var (
	whoServes     = sql.Named("queue/backend")
	endBackend    = sql.Named("queue/end_backend")
	isBackendGone = sql.Named("queue/backend_gone")
)

// backend identifies the server process of a connection, so that another connection can find it.
type backend struct {
	pid     int32
	started time.Time
}

// dedicatedConn is a connection for one purpose. It is made at its first use, and made again after it broke. Uses of a
// dedicatedConn wait for each other, so each purpose has one statement in flight.
type dedicatedConn struct {
	config  *pgx.ConnConfig
	prepare pglink.Prepare                         // BeforeConnect of the pool from which config was taken; nil: config comes from no pool
	turn    chan struct{}                          // holds one token
	conn    *pgx.Conn                              // nil: not connected
	taken   bool                                   // conn is ready for use: known and again have run on it
	dropped *pgx.Conn                              // the last connection that was dropped; nil: none was
	pooler  pglink.Pooler                          // pooler that lends conn
	server  backend                                // server process of conn, or of the last one; while again runs, that of the connection before
	made    int                                    // number of connections made so far
	limit   time.Duration                          // of one use if the caller sets no shorter timeout
	known   func(context.Context, *pgx.Conn) error // runs first on every connection made after it was set; may be nil
	again   func(context.Context, *pgx.Conn) error // runs next on every connection but the first; may be nil
	lending *lending                               // shared with the others of the session; nil: it shares nothing
	first   bool                                   // it gets a lent connection before the others
	life    context.Context                        //nolint:containedctx // of the dedicatedConn: close ends it, and the use under way
	end     context.CancelFunc
	closed  sync.Once
}

func newDedicatedConn(config *pgx.ConnConfig) *dedicatedConn {
	l := &dedicatedConn{config: config, turn: make(chan struct{}, 1), limit: callTimeout}
	l.life, l.end = context.WithCancel(context.Background())
	l.turn <- struct{}{}
	return l
}

// use runs do with the connection, and makes a connection first if there is none. It waits until nothing else uses l. do must
// return when its context ends: with ctx, after l.limit, or when l is closed. If do returns an error that makes the connection
// useless, use closes it. It returns the error of do, the error of connecting, ErrClosed if l is closed, or the error of ctx if
// that ended during the wait.
func (l *dedicatedConn) use(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	return l.hold(ctx, l.connected(do))
}

// useOr is use, but if l is in use, it runs do on the first of spare that is not in use. If all of them are in use, it waits for
// l.
func (l *dedicatedConn) useOr(ctx context.Context, spare []*dedicatedConn, do func(context.Context, *pgx.Conn) error) error {
	for _, one := range append([]*dedicatedConn{l}, spare...) {
		select {
		case <-one.turn:
			return one.holding(ctx, one.connected(do))
		default:
		}
	}
	return l.use(ctx, do)
}

// connected returns a function for hold. The function connects l if necessary, runs do with the connection, and closes the
// connection if it is of no use afterwards.
func (l *dedicatedConn) connected(do func(context.Context, *pgx.Conn) error) func(context.Context) error {
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

// hold waits until nothing else uses l, and then runs do. It returns ErrClosed if l is closed first, and the error of ctx if that
// ends first. The context of do ends after l.limit at the latest, and when l is closed.
func (l *dedicatedConn) hold(ctx context.Context, do func(context.Context) error) error {
	select {
	case <-l.turn:
	case <-l.life.Done():
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	return l.holding(ctx, do)
}

// holding runs do and then puts the token back into l.turn. The caller must have taken the token. Afterwards l lends its
// connection if another dedicatedConn waits for one.
func (l *dedicatedConn) holding(ctx context.Context, do func(context.Context) error) error {
	defer l.lend() // runs last: a dedicatedConn that has begun to wait by then gets the connection here; a later one finds it unused by itself
	defer func() { l.turn <- struct{}{} }()
	ctx, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	defer context.AfterFunc(l.life, cancel)()
	return do(ctx)
}

// breaks reports whether a connection cannot be used any more after err.
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

// connect makes l ready for use: it does nothing if l.conn is open and was taken up. A connection that was dialed earlier and
// never taken up may have ended since. connect then makes one new connection.
func (l *dedicatedConn) connect(ctx context.Context) error {
	if l.taken && !l.conn.IsClosed() {
		return nil
	}
	before := l.conn != nil && !l.taken
	err := l.takeUp(ctx)
	if before && pglink.Classify(err) == pglink.SessionLost && ctx.Err() == nil { // the connection had ended before this use
		err = l.takeUp(ctx)
	}
	return err
}

// takeUp makes a connection, if there is none yet, and makes it ready for use. It reads which server process serves the
// connection, and calls l.known, and l.again if this is not the first connection. After an error l has no usable connection.
func (l *dedicatedConn) takeUp(ctx context.Context) error {
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

// dial sets l.conn to an open connection that is not taken up yet: takeUp does that. It keeps l.conn if that is such a
// connection. If the server refuses more connections, or has done so within crowdedPause, dial borrows a connection of the same
// session instead.
func (l *dedicatedConn) dial(ctx context.Context) error {
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

// endFormer ends the server process of the connection before conn, and returns nil once that process is gone. If the process does
// not end in time, or if this role is not allowed to end it, endFormer returns an error, and the caller must not use conn. It
// serves as again where a statement on the new connection must not be overtaken by one that is still under way on the old
// connection.
func (l *dedicatedConn) endFormer(ctx context.Context, conn *pgx.Conn) error {
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
	// A server process that ended just before gets the same answer as one that did not end in time.
	if err := conn.QueryRow(ctx, isBackendGone, l.server.pid, l.server.started).Scan(&gone); err != nil {
		return fmt.Errorf("look for the former connection: %w", err)
	}
	switch {
	case gone:
		return nil
	case denied: // a role without the right to end its own connections tries again until the server process has ended by itself
		return fmt.Errorf("the former connection, server process %d, is still there, and this role may not end it (%w): "+
			"GRANT EXECUTE ON FUNCTION pg_terminate_backend(integer, bigint) TO %q, or end that process", // sql-shown: what to do
			l.server.pid, err, l.config.User)
	default:
		return fmt.Errorf("the former connection, server process %d, is still there", l.server.pid)
	}
}

// drop closes the connection, if there is one, within closeTimeout, and keeps it in l.dropped.
func (l *dedicatedConn) drop() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = l.conn.Close(ctx)
	l.conn, l.taken, l.dropped = nil, false, l.conn
}

// finish drops the connection, and waits until the driver has closed the last connection that was dropped. It waits only a short
// time, and even less once ctx has ended.
func (l *dedicatedConn) finish(ctx context.Context) {
	l.drop()
	if l.dropped != nil {
		pglink.HangUp(ctx, l.dropped)
	}
}

// closeConns closes dedicatedConns at the same time, so that with a silent server all of them take as long as one. It returns
// their errors, joined.
func closeConns(ctx context.Context, links ...*dedicatedConn) error {
	errs := make([]error, len(links))
	var closing sync.WaitGroup
	for i, l := range links {
		closing.Go(func() { errs[i] = l.close(ctx) })
	}
	closing.Wait()
	return errors.Join(errs...)
}

// close closes l for good: it waits for the use under way, and closes the connection. Later uses return ErrClosed. If ctx ends
// first, close cuts off the use under way, and returns an error. A later call waits for the first one and returns nil.
func (l *dedicatedConn) close(ctx context.Context) (err error) {
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

// pulse measures how long a goroutine has been busy with one thing. It leaves out the time while the machine sleeps, so that a
// goroutine does not look stuck after that.
type pulse struct{ since atomic.Int64 } // nanoseconds of awake; 0: the goroutine is idle

var awakeFrom = time.Now().Add(-time.Nanosecond) // so that no moment is 0

func awake() int64 { return int64(time.Since(awakeFrom)) }

// beat records that the goroutine begins its next piece of work now, and is busy from now on.
func (p *pulse) beat() { p.since.Store(awake()) }

// rest records that the goroutine is idle, until the next beat.
func (p *pulse) rest() { p.since.Store(0) }

// at returns for how long the goroutine has been busy since the last beat. 0 means that it is idle.
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

	// SessionConns is the number of connections that carry the name of a worker: for claims, looks, sweeps, lease, reads, logs
	// and journal.
	SessionConns = 7

	// CallConns is the number of pool connections that a worker keeps: for definitions, child runs and the depth of the queue.
	CallConns = 2
)

// Connections returns how many connections to its database a worker keeps. With pollOnly the worker does not listen. Each running
// postgres.query takes one more. If many child runs begin at once, they take more of the pool for a moment, unless a pooler lends
// per session.
func Connections(pollOnly bool) int {
	if pollOnly {
		return SessionConns + CallConns
	}
	return SessionConns + CallConns + listenConns
}

// sessionConns are the connections of one session.
type sessionConns struct{ claims, looks, sweeps, lease, reads, chunks, journal *dedicatedConn }

// newSessionConns makes the connections of a session. They connect at their first use.
func (s *Store) newSessionConns(worker uuid.UUID) *sessionConns {
	config := s.connConfig(appName(worker))
	flushes := config.Copy()
	pglink.AsFlush(flushes)
	polls := steady(config)
	return &sessionConns{
		claims: s.newLink(polls), looks: s.newLink(polls), sweeps: s.newLink(polls), lease: s.newLink(polls), reads: s.newLink(polls),
		chunks: s.newLink(config), journal: s.newLink(flushes),
	}
}

func (l *sessionConns) all() [SessionConns]*dedicatedConn {
	return [...]*dedicatedConn{l.claims, l.looks, l.sweeps, l.lease, l.reads, l.chunks, l.journal}
}

func (l *sessionConns) close(ctx context.Context) error {
	all := l.all()
	return closeConns(ctx, all[:]...)
}

// calls returns how many pool connections a worker takes before it registers, at most CallConns. p is the pooler between the
// session and its database. With Config.Direct it returns 0, because the pool does not share the pooler's connections with the
// dedicatedConns. It also returns 0 for a pool of the calling program without a pooler, because that pool may be busy with work
// that waits for this worker.
func (s *Store) calls(p pglink.Pooler) int {
	if s.beside || !s.ownsPool && p == pglink.NoPooler {
		return 0
	}
	return min(CallConns, int(s.pool.Config().MaxConns))
}

// needs returns how many connections a worker must get from pooler p, or from the server, before it registers.
func (s *Store) needs(p pglink.Pooler) int { return Connections(s.pollOnly) - CallConns + s.calls(p) }

// gains are the connections that a worker got at the same time.
type gains struct {
	n       int
	refused error // why the worker did not get the next connection; nil: unknown
}

// occupy makes the connections that a worker needs at the same time, except l.claims, which exists. If they were made later,
// other clients might have taken them by then. It returns how many connections the worker has now, l.claims included, and why it
// did not get the next one. It does not judge the number: suffices does. In tests with ConnectLate it makes none, and returns the
// number that the worker needs.
func (s *Store) occupy(ctx context.Context, l *sessionConns, p pglink.Pooler) gains {
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

// suffices returns nil, and ends the shortage, if g is as many connections as the worker needs. If not, it returns a *ShortError,
// or the server's refusal if that was not about the number of connections. With a pooler it asks the server over conn how many
// connections of the same pool other clients have.
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
	others := max(0, size-g.n) // a lent connection may have ended meanwhile
	return s.short(g.n, others, g.refused)
}

// gets returns one function for each connection that a worker needs besides l.claims. Without a pooler the function for a
// dedicatedConn only connects, because a server that accepts a connection has it to give. A pooler accepts every connection, and
// lends a server connection only for the first statement. So with a pooler the function also sends statements.
func (s *Store) gets(l *sessionConns, p pglink.Pooler) (gets []pglink.Get) {
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

// get is a pglink.Get that makes the connection of l ready for use. It returns no function, because l keeps the connection.
func (l *dedicatedConn) get(ctx context.Context) (func(), error) {
	return nil, l.use(ctx, func(context.Context, *pgx.Conn) error { return nil })
}

// reach is a pglink.Get that connects l and sends no statement. It is cheaper than get, because the first statements on a new
// connection cost as much again. It returns no function, because l keeps the connection.
func (l *dedicatedConn) reach(ctx context.Context) (func(), error) {
	return nil, l.hold(ctx, l.dial)
}

// getCall is a pglink.Get that takes a connection of the store's pool. The function that it returns gives the connection back to
// the pool, and is nil if there was none.
func (s *Store) getCall(ctx context.Context) (func(), error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	_, err = pglink.Backend(ctx, conn)
	return conn.Release, err
}

// ShortError means that a pooler or a database gives fewer connections than a worker needs. It is ErrWaiting; for a pooler only
// as long as the missing connections may still come.
type ShortError struct {
	Lent, Needs int
	Direct      bool  // there is no pooler
	Size        int   // size of a pooler's pool that would suffice
	Refused     error // why the next connection was refused; nil: the pooler's pool is too small, or no answer came in time

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

// Is reports whether target is ErrWaiting and the missing connections may still come.
func (e *ShortError) Is(target error) bool { return target == ErrWaiting && !e.lasts }

// short returns the *ShortError of a worker that got only lent connections from a pooler, while other clients have others of the
// same pool. refused is why the next one was refused, if known. Each call counts towards the store's shortage: once that has
// lasted for its patience, the error is no longer ErrWaiting. If a pooler lends none at all, its server may be away, so such an
// error stays ErrWaiting.
func (s *Store) short(lent, others int, refused error) error {
	needs := s.needs(pglink.SessionPooler)
	return &ShortError{Lent: lent, Needs: needs, Size: needs + others, Refused: refused, lasts: s.shortage.lasts() && lent > 0}
}

// crowded returns the *ShortError of a worker that got too few connections from a server. It is always ErrWaiting, because
// connections become free again. If the server refused for another reason than the number of connections, crowded returns that
// refusal instead.
func (s *Store) crowded(g gains) error {
	if _, ok := errors.AsType[*pgconn.PgError](g.refused); ok && !Crowded(g.refused) {
		return g.refused
	}
	return &ShortError{Lent: g.n, Needs: s.needs(pglink.NoPooler), Direct: true, Refused: g.refused}
}

// unreached returns the error of a worker that did not get its first connection, because of err. It returns a *ShortError if a
// pooler had no free connection, or if the server has reached its limit of connections. It returns any other err as it is.
func (s *Store) unreached(err error) error {
	if waiting, ok := errors.AsType[*pglink.WaitingError](err); ok {
		return s.short(waiting.Lent, 0, nil)
	}
	if Crowded(err) {
		return s.crowded(gains{int(s.pool.Stat().TotalConns()), err})
	}
	return err
}

// Crowded reports whether a server refused a connection because the server, the database or the role has reached its limit.
func Crowded(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == "53300"
}

// shortage measures for how long a pooler has lent too few connections.
type shortage struct {
	patience    time.Duration
	tryPatience time.Duration // of one try
	trusting    bool          // for tests: connections are made at their first use, and none is assumed to be missing

	mu    sync.Mutex
	since time.Time // zero: there is no shortage
}

// lasts is called when the pooler has lent too few connections. The first call begins the shortage and returns false. Later
// calls report whether the shortage has lasted for patience, longer than other clients may take to leave.
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

// crowdedPause is how long a session asks for no more connections after the server refused one because of their number: each
// refusal costs the server a process. It is also how long a dedicatedConn waits to borrow a connection.
const crowdedPause = time.Second

// lending lets the dedicatedConns of a session share connections while the server gives no more. A session then goes on with few
// connections, and slowly with one. A dedicatedConn that has no connection waits until another dedicatedConn lends a connection
// that is not in use. A dedicatedConn with a connection waits for no other, so two dedicatedConns never wait for each other.
type lending struct {
	conns []*dedicatedConn // in the order in which they lend: first the dedicatedConns that the session can do without for the longest time

	mu      sync.Mutex
	waiting []*borrower // the first one gets the next connection
	refused time.Time   // when the server last refused a connection
}

// borrower is a dedicatedConn that waits for a connection.
type borrower struct {
	conn *dedicatedConn
	got  chan loan // buffered, for one loan
}

// loan is a working connection, with what the lending dedicatedConn knows about it.
type loan struct {
	conn   *pgx.Conn
	config *pgx.ConnConfig // settings that the connection has now
	pooler pglink.Pooler
}

// share lets the dedicatedConns of a session borrow each other's connections when the server refuses a new one. They lend in the
// order of the list below. The lease is the first to get a connection.
func (l *sessionConns) share() {
	n := &lending{conns: []*dedicatedConn{l.sweeps, l.looks, l.chunks, l.claims, l.reads, l.journal, l.lease}}
	for _, one := range n.conns {
		one.lending = n
	}
	l.lease.first = true
}

// isShort reports whether the server refused a connection within crowdedPause.
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

// lineUp adds a borrower at the end of the line, or at its front if its dedicatedConn goes first.
func (n *lending) lineUp(b *borrower) {
	n.mu.Lock()
	defer n.mu.Unlock()
	at := len(n.waiting)
	if b.conn.first {
		at = 0
	}
	n.waiting = slices.Insert(n.waiting, at, b)
}

// leave removes a borrower from the line, and reports whether it was still there. If it was not, it has been given a connection.
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

// borrow waits at most crowdedPause for a connection of another dedicatedConn of the session, and sets l.conn to it, not taken up
// yet. It returns false if none came in time, or if the connection could not be given the settings of l; it closes that
// connection then.
func (l *dedicatedConn) borrow(ctx context.Context) bool {
	n := l.lending
	ctx, cancel := context.WithTimeout(ctx, crowdedPause)
	defer cancel()
	b := &borrower{conn: l, got: make(chan loan, 1)}
	n.lineUp(b)
	for _, other := range n.conns {
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

// lend gives the connection of l to the first dedicatedConn in line, and reports whether it did. It does not wait. It returns
// false if l is in use, has no working connection or shares none, or if no dedicatedConn waits. No statement is under way on the
// connection, so nothing has to be ended before l makes a new one. l forgets the server process, because that process serves the
// borrower from now on.
func (l *dedicatedConn) lend() bool {
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

// caller is the part of a pool and a connection that this package uses.
type caller interface {
	Querier
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// call runs do over a connection of the store's pool. If the server refuses the pool a connection because it has too many, call
// runs do a second time, over the session's connection for reads.
func (s *Session) call(ctx context.Context, do func(context.Context, caller) error) error {
	err := do(ctx, s.store.pool)
	if !Crowded(err) {
		return err
	}
	return s.reads.use(ctx, func(ctx context.Context, conn *pgx.Conn) error { return do(ctx, conn) })
}
