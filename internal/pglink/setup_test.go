package pglink_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// bundle is a ledger that accepts a key any number of times, reached directly and through a proxy.
type bundle struct {
	url, through string
	proxy        *netfault.Proxy
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{url: pgtest.Empty(t).URL}
	b.proxy, b.through = netfault.Through(t, b.url)
	_ = b.connect(t, b.through).Close(t.Context()) // detects now that there is no pooler: a fault must not hit that statement
	exec(t, b.connect(t, b.url), "CREATE TABLE ledger (id bigint GENERATED ALWAYS AS IDENTITY, key text NOT NULL)")
	return b
}

func (b *bundle) connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pglink.Connect(t.Context(), url, pglink.Options{AnyPath: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, statement string) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func (b *bundle) rows(t *testing.T) (n int) {
	t.Helper()
	if err := b.connect(t, b.url).QueryRow(t.Context(), "SELECT count(*) FROM ledger").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// do runs op by Do and counts the tries.
func (b *bundle) do(t *testing.T, op func(context.Context) error) *int {
	t.Helper()
	calls := new(int)
	counted := func(ctx context.Context) error { *calls++; return op(ctx) }
	if err := pglink.Do(t.Context(), counted, b.isThere); err != nil {
		t.Fatalf("Do: %v", err)
	}
	return calls
}

func (b *bundle) insertTx() func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := pglink.Connect(ctx, b.through, pglink.Options{AnyPath: true})
		if err != nil {
			return err
		}
		defer conn.Close(context.WithoutCancel(ctx))
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO ledger (key) VALUES ($1)", "a")
			return err
		})
	}
}

func (b *bundle) insertSQL() func(context.Context) error {
	return func(ctx context.Context) error {
		db, err := sql.Open("pgx", b.through)
		if err != nil {
			return err
		}
		defer db.Close()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if _, err := tx.ExecContext(ctx, "INSERT INTO ledger (key) VALUES ($1)", "a"); err != nil {
			return err
		}
		return tx.Commit()
	}
}

func (b *bundle) isThere(ctx context.Context) (done bool, err error) {
	conn, err := pglink.Connect(ctx, b.through, pglink.Options{AnyPath: true})
	if err != nil {
		return false, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	err = conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM ledger WHERE key = $1)", "a").Scan(&done)
	return done, err
}
