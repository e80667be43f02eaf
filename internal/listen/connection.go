package listen

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

var (
	listenSQL   = sql.Named("listen/listen")
	unlistenSQL = sql.Named("listen/unlisten")
	checkSQL    = sql.Named("listen/check")
)

// connection is one connection of a Listener. It belongs to the Listener's goroutine.
type connection struct {
	listener  *Listener
	conn      *pgx.Conn
	listening map[string]bool // channels that the connection listens to
}

func (l *Listener) connect(ctx context.Context) (*connection, error) {
	config := l.options.Config.Copy()
	// the driver's own queue of notifications is not limited, so the Listener takes each one at once
	config.OnNotification = func(_ *pgconn.PgConn, n *pgconn.Notification) { l.deliver(n.Channel, n.Payload) }
	conn, _, err := pglink.DialSession(ctx, config, l.options.Prepare)
	if err != nil {
		return nil, err
	}
	return &connection{listener: l, conn: conn, listening: map[string]bool{}}, nil
}

// turn does one step of the loop of the connection. If the subscribers have changed since the last turn, it calls follow. Otherwise
// it waits until a notification comes, until the subscribers change, or until CheckEvery has passed. In the last case it checks the
// connection by a query. The driver passes notifications to the subscribers during the wait. An error means that the connection is
// lost or that ctx has ended.
func (c *connection) turn(ctx context.Context) error {
	waiting, stop := context.WithTimeout(ctx, c.listener.options.CheckEvery)
	defer stop()
	if c.listener.hasChanged(stop) {
		return c.follow(ctx)
	}
	err := c.conn.PgConn().WaitForNotification(waiting)
	switch {
	case err == nil:
		return nil
	case c.conn.IsClosed() || ctx.Err() != nil:
		return err
	case errors.Is(waiting.Err(), context.DeadlineExceeded):
		return c.exec(ctx, checkSQL)
	}
	return nil // interrupted by a change of subscribers
}

// follow makes the server listen to each channel that has a subscriber, and to no other channel. It signals Missed to each
// subscriber that is new on this connection: the subscriber may have read the database before the connection began to listen. An
// error means that the connection is lost or that ctx has ended.
func (c *connection) follow(ctx context.Context) error {
	wanted := map[string]bool{}
	c.listener.each(func(s *Subscription) { wanted[s.channel] = true })
	if len(c.listening) == 0 {
		if err := c.exec(ctx, checkSQL); err != nil {
			return err
		}
	}
	for channel := range wanted {
		if !c.listening[channel] {
			if err := c.exec(ctx, named(listenSQL, channel)); err != nil {
				return err
			}
			c.listening[channel] = true
		}
	}
	for channel := range maps.Clone(c.listening) {
		if !wanted[channel] {
			if err := c.exec(ctx, named(unlistenSQL, channel)); err != nil {
				return err
			}
			delete(c.listening, channel)
		}
	}
	c.listener.each(func(s *Subscription) {
		if c.listening[s.channel] {
			s.begin(c)
		}
	})
	return nil
}

// exec runs a statement and drops its result. It fails if the server does not answer within CheckTimeout.
func (c *connection) exec(ctx context.Context, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, c.listener.options.CheckTimeout)
	defer cancel()
	_, err := c.conn.Exec(ctx, statement)
	return err
}

// named replaces "{channel}" in a statement by the quoted name of a channel, because LISTEN takes no arguments.
func named(statement, channel string) string {
	return strings.Replace(statement, `"{channel}"`, pgx.Identifier{channel}.Sanitize(), 1)
}

func (c *connection) close(ctx context.Context) { pglink.HangUp(ctx, c.conn) }
