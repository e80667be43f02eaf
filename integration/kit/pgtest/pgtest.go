package pgtest

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// DB is a database that belongs to one test.
type DB struct {
	URL  string
	Name string

	server *server   // nil: the test started the server, which takes its logins with it
	roles  sync.Once // grants to Oarlock's roles
	mu     sync.Mutex
	logins []string // quoted
}

// New returns a migrated database, dropped when the test ends.
func New(tb testing.TB) *DB {
	tb.Helper()
	return create(tb, (*server).migrated)
}

// NewWithRoles returns a migrated database that is granted to Oarlock's roles, dropped when the test ends.
func NewWithRoles(tb testing.TB) *DB {
	tb.Helper()
	d := create(tb, (*server).withRoles)
	d.roles.Do(func() {})
	return d
}

// Empty returns a database with nothing in it, dropped when the test ends.
func Empty(tb testing.TB) *DB {
	tb.Helper()
	return create(tb, (*server).empty)
}

// ServerURL returns the URL of the test server's own database, for a role that may create databases and roles.
func ServerURL(tb testing.TB) string {
	tb.Helper()
	return get(tb).base.String()
}

// RunFolder returns the folder of the test server, "" with OARLOCK_TEST_DATABASE_URL. All packages of a `go test` share
// the folder, and it is removed with the server.
func RunFolder(tb testing.TB) string {
	tb.Helper()
	if s := get(tb); s.local != nil {
		return s.local.Dir()
	}
	return ""
}

// Conn opens a connection, closed when the test ends.
func (d *DB) Conn(tb testing.TB) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), d.URL)
	if err != nil {
		tb.Fatalf("connect to the test database: %v", err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) })
	return conn
}

// Pool opens a connection pool, closed when the test ends.
func (d *DB) Pool(tb testing.TB) *pgxpool.Pool {
	tb.Helper()
	pool, err := pgxpool.New(tb.Context(), d.URL)
	if err != nil {
		tb.Fatalf("connect to the test database: %v", err)
	}
	tb.Cleanup(pool.Close)
	return pool
}

func create(tb testing.TB, construct func(*server, context.Context) (string, error)) *DB {
	tb.Helper()
	s := get(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	name, err := construct(s, ctx)
	if err != nil {
		tb.Fatalf("make a test database: %v", err)
	}
	d := &DB{URL: s.url(name), Name: name, server: s}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), patience)
		defer cancel()
		if err := s.drop(ctx, name); err != nil {
			tb.Errorf("clean up: %v", err)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.logins) > 0 { // the database took their objects and grants with it
			if err := s.exec(ctx, "DROP ROLE "+strings.Join(d.logins, ", ")); err != nil {
				tb.Errorf("drop logins: %v", err)
			}
		}
	})
	return d
}

func get(tb testing.TB) *server {
	tb.Helper()
	s, err := shared()
	if err != nil {
		tb.Fatalf("no server for tests: %v", err)
	}
	return s
}
