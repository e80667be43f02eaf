package pglink_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

func TestClassify_ByStateAndCause(t *testing.T) {
	t.Parallel()
	state := func(code, severity string) error {
		return fmt.Errorf("claim runs: %w", &pgconn.PgError{Code: code, Severity: severity, SeverityUnlocalized: severity})
	}
	cases := []struct {
		err  error
		want pglink.Class
	}{
		{nil, pglink.OK},
		{state("57P03", "FATAL"), pglink.NotExecuted},
		{state("53300", "FATAL"), pglink.NotExecuted},
		{state("08001", "ERROR"), pglink.NotExecuted},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, pglink.NotExecuted},
		{state("40001", "ERROR"), pglink.Aborted},
		{state("40P01", "ERROR"), pglink.Aborted},
		{state("55P03", "ERROR"), pglink.Aborted},
		{state("57014", "ERROR"), pglink.Aborted},
		{state("0A000", "ERROR"), pglink.Aborted},
		{state("57P01", "FATAL"), pglink.SessionLost},
		{state("57P02", "FATAL"), pglink.SessionLost},
		{state("57P05", "FATAL"), pglink.SessionLost},
		{state("25P03", "FATAL"), pglink.SessionLost},
		{state("08006", "ERROR"), pglink.SessionLost},
		{state("XX000", "PANIC"), pglink.SessionLost},
		{&pgconn.PgError{Code: "XX000", Severity: "ERROR", Message: "cache lookup failed for type 27414"}, pglink.SessionLost},
		{&pgconn.PgError{Code: "42704", Severity: "ERROR", Routine: "lookup_type_cache"}, pglink.SessionLost},
		{state("XX000", "ERROR"), pglink.Permanent},
		{state("40003", "ERROR"), pglink.SessionLost},
		{io.EOF, pglink.SessionLost},
		{fmt.Errorf("flush: %w", io.ErrUnexpectedEOF), pglink.SessionLost},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, pglink.SessionLost},
		{driver.ErrBadConn, pglink.SessionLost},
		{sql.ErrConnDone, pglink.SessionLost},
		{pgconn.ErrConnClosed, pglink.SessionLost},
		{context.Canceled, pglink.SessionLost},
		{context.DeadlineExceeded, pglink.SessionLost},
		{state("25006", "ERROR"), pglink.WrongNode},
		{state("53100", "ERROR"), pglink.Degraded},
		{state("53200", "ERROR"), pglink.Degraded},
		{state("54000", "ERROR"), pglink.Degraded},
		{state("23505", "ERROR"), pglink.Permanent},
		{state("22P02", "ERROR"), pglink.Permanent},
		{state("42501", "ERROR"), pglink.Permanent},
		{state("P0001", "ERROR"), pglink.Permanent},
		{state("OA001", "ERROR"), pglink.Permanent},
		{state("", "ERROR"), pglink.Permanent},
		{pgx.ErrNoRows, pglink.Permanent},
		{errors.New("our own"), pglink.Permanent},
		{&fs.PathError{Op: "write", Path: "spool", Err: syscall.ENOSPC}, pglink.Permanent}, // a file is not a connection
		{&net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}, pglink.SessionLost},
	}
	for _, c := range cases {
		if got := pglink.Classify(c.err); got != c.want {
			t.Errorf("Classify(%v) = %v, want %v", c.err, got, c.want)
		}
	}
}

func TestClassify_OfErrorsThatAServerReallyMakes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	admin := b.connect(t, b.url)
	for name, c := range map[string]struct {
		provoke func(*pgx.Conn) error
		want    pglink.Class
	}{
		"terminated backend": {func(conn *pgx.Conn) error {
			exec(t, admin, fmt.Sprintf("SELECT pg_terminate_backend(%d, 5000)", conn.PgConn().PID()))
			return run(t, conn, "SELECT 1")
		}, pglink.SessionLost},
		"statement timeout": {func(conn *pgx.Conn) error {
			exec(t, conn, "SET statement_timeout = 1")
			return run(t, conn, "SELECT pg_sleep(10)")
		}, pglink.Aborted},
		"read-only transaction": {func(conn *pgx.Conn) error {
			exec(t, conn, "SET default_transaction_read_only = on")
			return run(t, conn, "DELETE FROM ledger")
		}, pglink.WrongNode},
		"broken data": {func(conn *pgx.Conn) error { return run(t, conn, "SELECT 'x'::int") }, pglink.Permanent},
		"canceled in the middle": {func(conn *pgx.Conn) error {
			ctx, cancel := context.WithTimeout(t.Context(), 1)
			defer cancel()
			_, err := conn.Exec(ctx, "SELECT pg_sleep(10)")
			return err
		}, pglink.SessionLost},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.provoke(b.connect(t, b.url))
			if got := pglink.Classify(err); got != c.want {
				t.Errorf("%v is %v, want %v", err, got, c.want)
			}
		})
	}
}

func TestClassify_OfConnectionsThatCannotBeMade(t *testing.T) {
	t.Parallel()
	b := setup(t)
	exec(t, b.connect(t, b.url), "SELECT 1")
	for name, c := range map[string]struct {
		change func(*pgx.ConnConfig)
		want   pglink.Class
	}{
		"nobody listens": {func(c *pgx.ConnConfig) { c.Host, c.Port = "127.0.0.1", 1 }, pglink.NotExecuted},
		"no database":    {func(c *pgx.ConnConfig) { c.Database = "does_not_exist" }, pglink.Permanent},
		"no user":        {func(c *pgx.ConnConfig) { c.User = "nobody_here" }, pglink.Permanent},
		"bad setting":    {func(c *pgx.ConnConfig) { c.RuntimeParams["no_such_setting"] = "1" }, pglink.Permanent},
		"no primary": {func(c *pgx.ConnConfig) {
			c.RuntimeParams["default_transaction_read_only"] = "on"
			c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
		}, pglink.WrongNode},
	} {
		t.Run(name, func(t *testing.T) {
			config, err := pglink.Parse(b.url, pglink.Options{AnyPath: true})
			if err != nil {
				t.Fatal(err)
			}
			c.change(config)
			_, err = pgx.ConnectConfig(t.Context(), config)
			if got := pglink.Classify(err); got != c.want {
				t.Errorf("%v is %v, want %v", err, got, c.want)
			}
		})
	}
}

func TestClass_SpeaksInWords(t *testing.T) {
	t.Parallel()
	if got := pglink.Permanent.String() + ", " + pglink.SessionLost.String(); got != "permanent, session lost" {
		t.Error(got)
	}
}

func run(t *testing.T, conn *pgx.Conn, statement string) error {
	t.Helper()
	_, err := conn.Exec(t.Context(), statement)
	return err
}
