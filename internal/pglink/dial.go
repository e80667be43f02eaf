package pglink

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Prepare may change a connection's settings just before it is made, as a pool's BeforeConnect does: a password that
// expires, for one.
type Prepare = func(context.Context, *pgx.ConnConfig) error

// Dial opens one connection of settings that Parse made. prepare may be nil.
//
// Parameters of ours go with the start of the connection. A pooler may refuse or ignore them there: behind one that lends
// by the session, Dial sets them once it is connected. Behind one that lends by the transaction it leaves them out, since
// they would stay behind in a server connection that others use: there search_path is the role's own.
func Dial(ctx context.Context, config *pgx.ConnConfig, prepare Prepare) (*pgx.Conn, error) {
	conn, _, err := dial(ctx, config, prepare, false)
	return conn, err
}

// DialSession is Dial for a connection that must keep its session: ErrPooled where a pooler lends it by the transaction,
// and a *WaitingError where that could not be found out.
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

// connect leaves out of config what the way is known to refuse, or turns out to.
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
