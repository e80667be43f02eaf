package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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
