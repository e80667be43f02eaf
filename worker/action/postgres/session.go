package postgres

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

var resetSession = sql.Named("postgres/reset")

// Bounds of work for which no task waits.
const (
	pingTimeout  = 3 * time.Second
	resetTimeout = 3 * time.Second
	closeTimeout = time.Second
)

// session is a connection, used by one task at a time.
type session struct {
	database   *database
	conn       *pgx.Conn // closed after again has failed; never nil
	born, used time.Time
	notices    atomic.Pointer[io.Writer] // log for notices of the server; nil: none
}

func (d *database) connect(ctx context.Context) (*session, error) {
	s := &session{database: d, born: time.Now(), used: time.Now()}
	if err := s.dial(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// dial makes a new connection. After an error s keeps the one that it had.
func (s *session) dial(ctx context.Context) error {
	config := s.database.config.Copy()
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { s.heard(n) }
	conn, err := pglink.Dial(ctx, config, s.database.BeforeConnect)
	if err != nil {
		return &connectError{s.database.name, err}
	}
	s.conn = conn
	return nil
}

// heard writes a notice of the server to the log that listen has set, if there is one. The driver calls it while the task waits for
// its statement.
func (s *session) heard(n *pgconn.Notice) {
	if w := s.notices.Load(); w != nil {
		fmt.Fprintf(*w, "%s: %s\n", n.Severity, n.Message)
	}
}

// listen sets the log for notices of the server, in place of an earlier one; nil: notices are dropped.
func (s *session) listen(w io.Writer) {
	if w == nil {
		s.notices.Store(nil)
		return
	}
	s.notices.Store(&w)
}

// answers reports whether the server still answers on an idle connection, within pingTimeout.
func (s *session) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return s.conn.Ping(ctx) == nil
}

// status returns idle, inside or isAborted: whether the connection is in a transaction, as the server last reported it.
func (s *session) status() byte { return s.conn.PgConn().TxStatus() }

const (
	idle      = 'I'
	inside    = 'T'
	isAborted = 'E'
)

// reset ends the notices, and resets all that a task may have set on the connection. It returns false if the connection is closed,
// in a transaction, or does not answer within resetTimeout: then the caller must close it.
func (s *session) reset() bool {
	s.listen(nil)
	if s.conn.IsClosed() || s.status() != idle {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), resetTimeout)
	defer cancel()
	_, err := s.conn.Exec(ctx, resetSession)
	return err == nil
}

// again closes the connection, which is broken, and makes a new one in its place. After an error s keeps the closed connection, so
// that the end of the transaction and of the session need not know that again was called.
func (s *session) again(ctx context.Context) error {
	s.close()
	return s.dial(ctx)
}

func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = s.conn.Close(ctx)
}
