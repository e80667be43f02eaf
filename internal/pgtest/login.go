package pgtest

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/migrations"
)

// Login makes a role that may log in and is a member of role, one of Oarlock's, alone; it is dropped when the test ends.
// What it has made must be gone by then.
func (d *DB) Login(tb testing.TB, role string) string {
	tb.Helper()
	if err := migrations.Roles(tb.Context(), d.URL); err != nil {
		tb.Fatalf("make the roles: %v", err)
	}
	conn := d.Conn(tb)
	name := d.Name + "_" + role
	login, password := pgx.Identifier{name}.Sanitize(), "secret"
	if _, err := conn.Exec(tb.Context(), "CREATE ROLE "+login+" LOGIN PASSWORD '"+password+"' IN ROLE "+pgx.Identifier{role}.Sanitize()); err != nil {
		tb.Fatalf("make a login: %v", err)
	}
	tb.Cleanup(func() {
		ctx := context.WithoutCancel(tb.Context())
		if err := run(ctx, conn, "DROP OWNED BY "+login, "DROP ROLE "+login); err != nil {
			tb.Errorf("drop login %s: %v", name, err)
		}
	})
	u, err := url.Parse(d.URL)
	if err != nil {
		tb.Fatal(err)
	}
	u.User = url.UserPassword(name, password)
	return u.String()
}

func run(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
