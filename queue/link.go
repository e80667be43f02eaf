package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of a link.
const (
	closeTimeout = time.Second
	callTimeout  = 10 * time.Second // of one statement, where the caller names no shorter one
)

var (
	whoServes  = sql.Named("queue/backend")
	endBackend = sql.Named("queue/end_backend")
)

// backend is the server process behind a connection, as another connection can find it.
type backend struct {
	pid     int32
	started time.Time
}

// link is a connection for one purpose, made when it is first used and made again after it broke. Uses wait for each
// other, so each purpose has one statement in flight.
type link struct {
	config *pgx.ConnConfig
	turn   chan struct{}                          // holds one token
	conn   *pgx.Conn                              // nil: to be made
	server backend                                // of conn, or of the last one; while again runs, of the one before
	made   int                                    // connections so far
	again  func(context.Context, *pgx.Conn) error // runs first on every connection but the first; may be nil
}

func newLink(config *pgx.ConnConfig, again func(context.Context, *pgx.Conn) error) *link {
	l := &link{config: config, turn: make(chan struct{}, 1), again: again}
	l.turn <- struct{}{}
	return l
}

// use calls do with the connection, making one if there is none. What breaks the session closes it.
func (l *link) use(ctx context.Context, do func(context.Context, *pgx.Conn) error) error {
	select {
	case <-l.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { l.turn <- struct{}{} }()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := l.connect(ctx); err != nil {
		return err
	}
	err := do(ctx, l.conn)
	if breaks(err) || l.conn.IsClosed() {
		l.drop()
	}
	return err
}

// breaks says whether the session behind a connection is of no more use.
func breaks(err error) bool {
	switch pglink.Classify(err) {
	case pglink.SessionLost, pglink.WrongNode, pglink.NotExecuted:
		return true
	default:
		return false
	}
}

func (l *link) connect(ctx context.Context) error {
	if l.conn != nil && !l.conn.IsClosed() {
		return nil
	}
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	l.conn = conn
	var server backend
	err = conn.QueryRow(ctx, whoServes).Scan(&server.pid, &server.started)
	if err == nil && l.made > 0 && l.again != nil {
		err = l.again(ctx, conn)
	}
	if err != nil {
		l.drop()
		return fmt.Errorf("take up a connection: %w", err)
	}
	l.server = server
	l.made++
	return nil
}

// endFormer ends the server process that was used before, and waits until it is gone: for again, where what is sent to
// a new connection must not be overtaken by what is still under way on the old one.
func (l *link) endFormer(ctx context.Context, conn *pgx.Conn) error {
	var gone bool
	if err := conn.QueryRow(ctx, endBackend, l.server.pid, l.server.started).Scan(&gone); err != nil {
		return fmt.Errorf("end the former connection: %w", err)
	}
	if !gone {
		return errors.New("the former connection is still there")
	}
	return nil
}

func (l *link) drop() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = l.conn.Close(ctx)
	l.conn = nil
}

// close ends the connection, once nobody uses it.
func (l *link) close(ctx context.Context) error {
	select {
	case <-l.turn: // never given back: later uses wait for their context
	case <-ctx.Done():
		return errors.New("close a connection: it is in use")
	}
	l.drop()
	return nil
}
