package pgtest

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// SetTraps puts functions into schema public that a caller would reach instead of the system's own. They raise an error.
func SetTraps(tb testing.TB, conn *pgx.Conn) {
	tb.Helper()
	if _, err := conn.Exec(tb.Context(), statement("traps")); err != nil {
		tb.Fatal(err)
	}
}
