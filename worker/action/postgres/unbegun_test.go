package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/worker"
)

func TestWentAway_NotByALimit(t *testing.T) {
	t.Parallel()
	ended := func(code string) error {
		return &pgconn.PgError{Code: code, Severity: "FATAL", SeverityUnlocalized: "FATAL"}
	}
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"shut down", ended("57P01"), true},
		{"crash of another backend", ended("57P02"), true},
		{"starting up", ended("57P03"), true},
		{"refused", &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, true},
		{"a pooler lost its server", ended("08P01"), true},
		{"no answer", fmt.Errorf("commit: %w", io.ErrUnexpectedEOF), true},
		{"idle in transaction", ended("25P03"), false},
		{"too long a transaction", ended("25P04"), false},
		{"too many connections", ended("53300"), false},
		{"a wrong statement", &pgconn.PgError{Code: "42P01", Severity: "ERROR"}, false},
		{"a context of the function", context.DeadlineExceeded, false},
		{"none", nil, false},
	} {
		if got := wentAway(tt.err); got != tt.want {
			t.Errorf("%s: got %v", tt.name, got)
		}
	}
}

// Only a task that got no connection may begin on another worker: after COMMIT, a missing connection does not tell what happened.
func TestResult_WithoutADescriptorIsUnstarted(t *testing.T) {
	t.Parallel()
	config, err := pgx.ParseConfig("postgres://nobody@127.0.0.1:1/nowhere?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	dials := func(errno syscall.Errno) error {
		c := config.Copy()
		c.DialFunc = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", errno)}
		}
		_, err := pgx.ConnectConfig(t.Context(), c)
		return &connectError{"oarlock", err}
	}
	for _, tt := range []struct {
		name string
		err  error
		host bool
	}{
		{"no descriptor", &unbegunError{dials(syscall.EMFILE)}, true},
		{"none on the host", &unbegunError{dials(syscall.ENFILE)}, true},
		{"refused", &unbegunError{dials(syscall.ECONNREFUSED)}, false},
		{"after COMMIT", fmt.Errorf("read back: %w", dials(syscall.EMFILE)), false},
		{"closed", &unbegunError{errors.New("closed")}, false},
	} {
		got := result(t.Context(), &worker.Task{}, tt.err)
		if got.Unstarted != tt.host || (got.Kind == dagrun.KindSQL) == tt.host {
			t.Errorf("%s: got %+v", tt.name, got)
		}
	}
}
