package pglink

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// OpenDB is Dial for libraries that need database/sql: each connection that the library opens is set up as by Dial. OpenDB opens
// one connection to check that it can, and fails if it cannot. The caller closes the DB.
func OpenDB(ctx context.Context, config *pgx.ConnConfig) (*sql.DB, error) {
	params, w := asked(config), wayOf(config)
	db := stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error {
		if w.refuses.Load() {
			withoutOurs(c)
		}
		return nil
	}), stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := w.settle(ctx, conn, conn.Config(), params, false)
		if err != nil {
			HangUp(ctx, conn)
		}
		return err
	}))
	err := db.PingContext(ctx)
	if w.learns(err) {
		err = db.PingContext(ctx)
	}
	if err != nil {
		_ = db.Close()                      // closes nothing: it has no connection
		if late := ctx.Err(); late != nil { // database/sql only reports a bad connection, not the deadline
			return nil, fmt.Errorf("connect: %w: %w", late, err)
		}
		return nil, fmt.Errorf("connect: %w", err)
	}
	return db, nil
}
