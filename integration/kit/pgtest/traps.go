package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// SetTraps puts functions into schema public that raise an error in whoever calls them for the system's own.
func SetTraps(tb testing.TB, conn *pgx.Conn) {
	tb.Helper()
	if _, err := conn.Exec(tb.Context(), statement("traps")); err != nil {
		tb.Fatal(err)
	}
}
