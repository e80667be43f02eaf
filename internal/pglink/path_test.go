package pglink_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/oarlock-dev/oarlock/internal/pglink"
)

func TestParse_OursFindTheSystemsOwnNames(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]pglink.Options{"pg_catalog, pg_temp": {}, "app": {AnyPath: true}} {
		config, err := pglink.Parse("postgres://ana@db/app?search_path=app", o)
		if err != nil {
			t.Fatal(err)
		}
		if got := config.RuntimeParams["search_path"]; got != want {
			t.Errorf("search_path %q, want %q", got, want)
		}
	}
}

// picky starts a pooler that refuses our parameters at the start, and reports another error to a client without them. It
// counts the clients that it refused.
func picky(t *testing.T) (url string, refused *atomic.Int32) {
	t.Helper()
	refused = new(atomic.Int32)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			refuse(conn, refused)
		}
	}()
	t.Cleanup(func() { _ = listener.Close(); <-done })
	return "postgres://ana@" + listener.Addr().String() + "/app?sslmode=disable", refused
}

func refuse(conn net.Conn, refused *atomic.Int32) {
	defer conn.Close()
	server := pgproto3.NewBackend(conn, conn)
	start, err := server.ReceiveStartupMessage()
	if err != nil {
		return
	}
	answer := &pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "who are you"}
	if m, ok := start.(*pgproto3.StartupMessage); ok {
		for _, name := range []string{"search_path", "jit"} { // the error names the last one
			if m.Parameters[name] != "" {
				answer = &pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: " + name}
			}
		}
	}
	if answer.Code == "08P01" {
		refused.Add(1)
	}
	server.Send(answer)
	_ = server.Flush()
}

func TestConnect_DoesWithoutThePathWhereAPoolerRefusesIt(t *testing.T) {
	t.Parallel()
	url, refused := picky(t)
	for name, connect := range map[string]func(context.Context) error{
		"one":  func(ctx context.Context) error { _, err := pglink.Connect(ctx, url, pglink.Options{}); return err },
		"pool": func(ctx context.Context) error { _, err := pglink.NewPool(ctx, url, pglink.Options{}); return err },
		"dialled": func(ctx context.Context) error {
			config, err := pglink.Parse(url, pglink.Options{})
			if err == nil {
				_, err = pglink.Dial(ctx, config, func(context.Context, *pgx.ConnConfig) error { return nil })
			}
			return err
		},
	} {
		err := connect(t.Context())
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "28P01" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := refused.Load(); n != 1 {
		t.Errorf("%d connections were refused: what is known is tried again", n)
	}
}
