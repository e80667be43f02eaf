package pgtest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/sql"
)

// invariants is the folder of the statements that return no rows while all is well.
const invariants = "invariants/"

// CheckInvariants fails the test for each row that one of sql/invariants returns.
func CheckInvariants(tb testing.TB, conn *pgx.Conn) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), patience)
	defer cancel()
	names := Invariants()
	broken, err := brokenBy(ctx, conn, names...)
	for i, rows := range broken {
		for _, row := range rows {
			tb.Errorf("%s: %s", names[i], row)
		}
	}
	if err != nil {
		tb.Error(err)
	}
}

// Invariants returns the names of the statements that CheckInvariants sends.
func Invariants() []string {
	return slices.DeleteFunc(sql.Names(), func(name string) bool { return !strings.HasPrefix(name, invariants) })
}

// brokenBy returns the rows of each statement, as text. It sends all statements at once: waiting for the answers one by
// one takes longer than the server needs to find them.
func brokenBy(ctx context.Context, conn *pgx.Conn, names ...string) (broken [][]string, err error) {
	var all strings.Builder
	for _, name := range names {
		all.WriteString(sql.Named(name))
		all.WriteString("\n;\n")
	}
	results := conn.PgConn().Exec(ctx, all.String())
	for results.NextResult() {
		var rows []string
		for reader := results.ResultReader(); reader.NextRow(); {
			rows = append(rows, rowText(reader))
		}
		broken = append(broken, rows)
	}
	if err := results.Close(); err != nil {
		return broken, fmt.Errorf("after %d of %q: %w", len(broken), names, err)
	}
	if len(broken) != len(names) {
		return nil, fmt.Errorf("%d answers of the %d statements %q: each file has one", len(broken), len(names), names)
	}
	return broken, nil
}

func rowText(reader *pgconn.ResultReader) string {
	var fields []string
	for i, value := range reader.Values() {
		fields = append(fields, fmt.Sprintf("%s:%s", reader.FieldDescriptions()[i].Name, value))
	}
	return strings.Join(fields, " ")
}
