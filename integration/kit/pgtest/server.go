package pgtest

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/internal/pglocal"
	"github.com/oarlock-dev/oarlock/migrations"
)

const (
	urlEnv         = "OARLOCK_TEST_DATABASE_URL"
	lockClass      = 0x6f61726c // "oarl"; the advisory locks of this package are (lockClass, owner)
	clonePrefix    = "oarlock_test_"
	templatePrefix = "oarlock_template_"
	patience       = 3 * time.Minute // for a whole server start, or for a template that another process builds
)

//go:embed sql
var statements embed.FS

// server is the test server, shared by all tests of this process.
type server struct {
	base     *url.URL
	owner    int32           // number in the names of our databases; our connection holds its lock while this process lives
	conn     chan *pgx.Conn  // the only connection: a user takes it out and puts it back
	local    *pglocal.Server // nil with OARLOCK_TEST_DATABASE_URL; never stopped, since it ends with this process
	strategy string
	known    map[string]bool // templates that exist; guarded by conn
	clones   int             // guarded by conn
}

var shared = sync.OnceValues(func() (*server, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return open(ctx, os.Getenv(urlEnv))
})

// open connects to the server at rawURL, or to the private one, and drops the databases of dead test processes.
func open(ctx context.Context, rawURL string) (*server, error) {
	s := &server{conn: make(chan *pgx.Conn, 1), known: map[string]bool{}}
	if rawURL == "" {
		var err error
		if s.local, err = startServer(ctx); err != nil {
			return nil, err
		}
		rawURL = s.local.URL("")
	}
	var err error
	if s.base, err = url.Parse(rawURL); err != nil || !strings.HasPrefix(s.base.Scheme, "postgres") {
		return nil, fmt.Errorf("%s must look like postgres://user:password@host:port/database", urlEnv)
	}
	conn, err := pgx.Connect(ctx, rawURL)
	if err != nil {
		return nil, fmt.Errorf("connect to the test server: %w", err)
	}
	if err := s.begin(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	s.conn <- conn
	return s, nil
}

func (s *server) begin(ctx context.Context, conn *pgx.Conn) error {
	var version int
	if err := conn.QueryRow(ctx, statement("version")).Scan(&version); err != nil {
		return fmt.Errorf("ask the test server's version: %w", err)
	}
	s.strategy = strategy(version, s.local != nil)
	if s.local != nil {
		if err := s.ease(ctx, conn); err != nil {
			return err
		}
	}
	s.owner = newOwner()
	if _, err := conn.Exec(ctx, statement("hold"), lockClass, s.owner); err != nil {
		return fmt.Errorf("mark this test process as alive: %w", err)
	}
	return s.sweep(ctx, conn)
}

// ease makes logins of the superuser to our own server cheap.
func (s *server) ease(ctx context.Context, conn *pgx.Conn) (err error) {
	unlock, err := lock(ctx, conn) // two at once would fail
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	password, _ := s.base.User.Password()
	_, err = conn.Exec(ctx, statement("ease", "name", ident(s.base.User.Username()), "verifier", verifier(password)))
	return err
}

// lock lets one process at a time build the template or change what all share.
func lock(ctx context.Context, conn *pgx.Conn) (unlock func() error, err error) {
	if _, err := conn.Exec(ctx, statement("building"), lockClass); err != nil {
		return nil, fmt.Errorf("wait for the template: %w", err)
	}
	return func() error {
		_, err := conn.Exec(context.WithoutCancel(ctx), statement("built"), lockClass)
		return err
	}, nil
}

func newOwner() int32 {
	var b [4]byte
	_, _ = rand.Read(b[:])                             // never fails
	return int32(binary.BigEndian.Uint32(b[:])>>1) | 1 // positive; 0 is the template's lock
}

// with lends the connection to fn.
func (s *server) with(ctx context.Context, fn func(*pgx.Conn) error) error {
	select {
	case conn := <-s.conn:
		defer func() { s.conn <- conn }()
		return fn(conn)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// empty creates an empty database and returns its name.
func (s *server) empty(ctx context.Context) (name string, err error) {
	err = s.with(ctx, func(conn *pgx.Conn) error {
		name = s.nextName()
		return s.create(ctx, conn, name)
	})
	return name, err
}

func (s *server) create(ctx context.Context, conn *pgx.Conn, name string) error {
	_, err := conn.Exec(ctx, statement("create", "name", ident(name), "strategy", s.strategy))
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

// migrated returns the name of a copy of the template with all migrations.
func (s *server) migrated(ctx context.Context) (name string, err error) {
	return s.clone(ctx, templatePrefix+migrations.Hash(), migrate)
}

// withRoles returns the name of a copy of the template with all migrations and with grants to the roles.
func (s *server) withRoles(ctx context.Context) (name string, err error) {
	return s.clone(ctx, templatePrefix+migrations.Hash()+"_roles", func(ctx context.Context, url string) error {
		return errors.Join(migrate(ctx, url), migrations.Roles(ctx, url))
	})
}

// clone copies a template and returns the name of the copy. It builds the template if there is none yet.
func (s *server) clone(ctx context.Context, template string, build func(context.Context, string) error) (name string, err error) {
	err = s.with(ctx, func(conn *pgx.Conn) error {
		name = s.nextName()
		err := s.tryClone(ctx, conn, name, template, build)
		if pgCode(err) == "3D000" { // another checkout dropped our template as outdated
			delete(s.known, template)
			err = s.tryClone(ctx, conn, name, template, build)
		}
		return err
	})
	return name, err
}

func (s *server) tryClone(ctx context.Context, conn *pgx.Conn, name, template string, build func(context.Context, string) error) error {
	if !s.known[template] {
		if err := s.buildTemplate(ctx, conn, template, build); err != nil {
			return err
		}
	}
	_, err := conn.Exec(ctx, statement("clone", "name", ident(name), "template", ident(template), "strategy", s.strategy))
	if err != nil {
		return fmt.Errorf("clone %s: %w", template, err)
	}
	return nil
}

func migrate(ctx context.Context, url string) error {
	_, err := migrations.Up(ctx, url)
	return err
}

func (s *server) nextName() string {
	s.clones++
	return fmt.Sprintf("%s%d_%d", clonePrefix, s.owner, s.clones)
}

func (s *server) drop(ctx context.Context, name string) error {
	return s.with(ctx, func(conn *pgx.Conn) error { return drop(ctx, conn, name) })
}

func (s *server) exec(ctx context.Context, sql string) error {
	return s.with(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql)
		return err
	})
}

func drop(ctx context.Context, conn *pgx.Conn, name string) error {
	if _, err := conn.Exec(ctx, statement("drop", "name", ident(name))); err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	return nil
}

// sweep drops the databases that dead test processes left.
func (s *server) sweep(ctx context.Context, conn *pgx.Conn) error {
	names, err := column(ctx, conn, statement("clones"))
	if err != nil {
		return fmt.Errorf("list leftover databases: %w", err)
	}
	for _, name := range names {
		owner, _, _ := strings.Cut(strings.TrimPrefix(name, clonePrefix), "_")
		id, err := strconv.ParseInt(owner, 10, 32)
		if err != nil {
			continue // not one of our names
		}
		if err := dropIfDead(ctx, conn, int32(id), name); err != nil {
			return err
		}
	}
	return nil
}

func dropIfDead(ctx context.Context, conn *pgx.Conn, owner int32, name string) error {
	var dead bool
	if err := conn.QueryRow(ctx, statement("claim_dead"), lockClass, owner).Scan(&dead); err != nil || !dead {
		return err
	}
	err := drop(ctx, conn, name)
	_, unlockErr := conn.Exec(ctx, statement("release_dead"), lockClass, owner)
	return errors.Join(err, unlockErr)
}

// url returns the URL of a database of the server.
func (s *server) url(database string) string {
	u := *s.base
	u.Path = "/" + database
	return u.String()
}

// statement reads a file of sql/ and replaces its {key}s. Values are our own identifiers or keywords.
func statement(name string, pairs ...string) string {
	b, err := statements.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err) // this program names a missing file
	}
	for i := 0; i < len(pairs); i += 2 {
		pairs[i] = "{" + pairs[i] + "}"
	}
	return strings.NewReplacer(pairs...).Replace(string(b))
}

func ident(name string) string { return pgx.Identifier{name}.Sanitize() }

func column(ctx context.Context, conn *pgx.Conn, sql string, args ...any) ([]string, error) {
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func pgCode(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	return ""
}
