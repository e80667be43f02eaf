package pglink

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Prepare may change a connection's settings right before the connection is made, like a pool's BeforeConnect. It may set a
// password that expires, for example.
type Prepare = func(context.Context, *pgx.ConnConfig) error

// Dial opens one connection with settings from Parse. prepare may be nil; it gets a copy of config. The caller closes the
// connection.
//
// Dial sends this package's own parameters when the connection starts. A pooler may refuse or ignore them at that point. Behind a
// pooler in session mode, Dial sets them after it has connected. Behind a pooler in transaction mode, Dial leaves them out, because
// they would stay in a server connection that other clients use: such a connection has the search_path of its role.
func Dial(ctx context.Context, config *pgx.ConnConfig, prepare Prepare) (*pgx.Conn, error) {
	conn, _, err := dial(ctx, config, prepare, false)
	return conn, err
}

// DialSession is Dial for a connection that must keep its session, and also returns the mode of the pooler. It returns ErrPooled if
// the pooler is in transaction mode, and a *WaitingError if the pooler has no free server connection in time.
func DialSession(ctx context.Context, config *pgx.ConnConfig, prepare Prepare) (*pgx.Conn, Pooler, error) {
	conn, found, err := dial(ctx, config, prepare, true)
	if err == nil && found == TransactionPooler {
		HangUp(ctx, conn)
		return nil, found, ErrPooled
	}
	return conn, found, err
}

func dial(ctx context.Context, config *pgx.ConnConfig, prepare Prepare, session bool) (*pgx.Conn, Pooler, error) {
	config = config.Copy()
	if prepare != nil {
		if err := prepare(ctx, config); err != nil {
			return nil, NoPooler, fmt.Errorf("prepare to connect: %w", err)
		}
	}
	params, w := asked(config), wayOf(config)
	conn, err := w.connect(ctx, config)
	if err != nil {
		return nil, NoPooler, err
	}
	found, err := w.settle(ctx, conn, config, params, session)
	if err != nil {
		HangUp(ctx, conn)
		return nil, NoPooler, err
	}
	return conn, found, nil
}

// connect opens a connection. If the pooler refuses this package's parameters, or has refused them before, connect removes them
// from config and connects without them.
func (w *way) connect(ctx context.Context, config *pgx.ConnConfig) (*pgx.Conn, error) {
	if w.refuses.Load() {
		withoutOurs(config)
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if w.learns(err) {
		withoutOurs(config)
		conn, err = pgx.ConnectConfig(ctx, config)
	}
	return conn, err
}
