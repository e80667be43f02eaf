package pgtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

// invariants is the folder of the statements that return no rows as long as all is well.
const invariants = "invariants/"

// CheckInvariants fails the test for each row that one of sql/invariants returns.
func CheckInvariants(tb testing.TB, conn *pgx.Conn) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), patience)
	defer cancel()
	for _, name := range Invariants() {
		broken, err := brokenBy(ctx, conn, name)
		if err != nil {
			tb.Errorf("%s: %v", name, err)
		}
		for _, row := range broken {
			tb.Errorf("%s: %s", name, row)
		}
	}
}

// Invariants are the names of the statements that CheckInvariants sends.
func Invariants() []string {
	return slices.DeleteFunc(sql.Names(), func(name string) bool { return !strings.HasPrefix(name, invariants) })
}

// brokenBy is what a statement returns, each row as text.
func brokenBy(ctx context.Context, conn *pgx.Conn, name string) ([]string, error) {
	rows, err := conn.Query(ctx, sql.Named(name))
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (string, error) {
		values, err := pgx.RowToMap(row)
		return fmt.Sprint(values), err
	})
}
