package pglink_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/pglink"
)

// asWorker returns the settings of a worker's connections.
func asWorker(t *testing.T, url string) *pgx.ConnConfig {
	t.Helper()
	config, err := pglink.Parse(url, pglink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	pglink.AsWriter(config, "oarlock/w1")
	pglink.AsOurs(config)
	pglink.AsSteady(config)
	return config
}

func setting(t *testing.T, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, name string,
) (value string) {
	t.Helper()
	if err := q.QueryRow(t.Context(), "SELECT current_setting($1)", pgx.QueryExecModeExec, name).Scan(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// unusual makes a database with settings that a worker's connections must override.
func unusual(t *testing.T) string {
	t.Helper()
	db := pgtest.Empty(t)
	conn := db.Conn(t)
	exec(t, conn, "ALTER DATABASE "+db.Name+" SET synchronous_commit = off")
	exec(t, conn, "ALTER DATABASE "+db.Name+" SET search_path = public, pg_catalog")
	return db.URL
}

var workerSettings = map[string]string{
	"synchronous_commit": "on", "default_transaction_isolation": "read committed", "search_path": "pg_catalog, pg_temp", "jit": "off",
	"enable_sort": "off", "plan_cache_mode": "force_generic_plan", "client_connection_check_interval": "5s",
}

func TestDialSession_SetsWhatAPoolerRefusesOrIgnoresAtTheStart(t *testing.T) {
	t.Parallel()
	for name, pooler := range map[string]pgtest.Pooler{"refuses": {Size: 3, Sessions: true}, "ignores": {Size: 3, Sessions: true, Ignores: true}} {
		config := asWorker(t, pooler.Start(t, unusual(t)))
		for range 2 { // the second pass uses what the first has learned
			conn, found, err := pglink.DialSession(t.Context(), config, nil)
			if err != nil || found != pglink.SessionPooler {
				t.Fatalf("%s: %v, %v", name, found, err)
			}
			for param, want := range workerSettings {
				if got := setting(t, conn, param); got != want {
					t.Errorf("%s: %s is %s, want %s", name, param, got, want)
				}
			}
			pglink.HangUp(t.Context(), conn)
		}
	}
}

func TestDial_LeavesNothingInATransactionPooler(t *testing.T) {
	t.Parallel()
	for name, pooler := range map[string]pgtest.Pooler{"refuses": {Size: 1}, "ignores": {Size: 1, Ignores: true}} {
		url := pooler.Start(t, unusual(t))
		config := asWorker(t, url)
		if conn, _, err := pglink.DialSession(t.Context(), config, nil); !errors.Is(err, pglink.ErrPooled) || conn != nil {
			t.Errorf("%s: %v", name, err)
		}
		conn, err := pglink.Dial(t.Context(), config, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := setting(t, conn, "search_path"); got != "public, pg_catalog" {
			t.Errorf("%s: search_path is %s for whoever comes next", name, got)
		}
		pglink.HangUp(t.Context(), conn)
		if !pglink.IsPooled(config) {
			t.Errorf("%s: it is not known to be in transaction mode", name)
		}
	}
}

func TestNewPool_FitsThePooler(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sessions   bool
		mode       pgx.QueryExecMode
		searchPath string
		conns      int32
	}{
		"session":     {true, pgx.QueryExecModeCacheStatement, "pg_catalog, pg_temp", 2},
		"transaction": {false, pgx.QueryExecModeCacheDescribe, "public, pg_catalog", 5},
	} {
		url := pgtest.Pooler{Size: 3, Sessions: c.sessions}.Start(t, unusual(t))
		pool, err := pglink.NewPool(t.Context(), url, pglink.Options{MaxConns: 5, PooledConns: 2})
		if err != nil {
			t.Fatal(name, err)
		}
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(name, err)
		}
		if got := conn.Conn().Config().DefaultQueryExecMode; got != c.mode {
			t.Errorf("%s: statements are sent by %v", name, got)
		}
		if got := setting(t, conn, "search_path"); got != c.searchPath {
			t.Errorf("%s: search_path is %s", name, got)
		}
		if got := pool.Config().MaxConns; got != c.conns {
			t.Errorf("%s: at most %d connections", name, got)
		}
		conn.Release()
		pool.Close()
	}
}

func TestNewPool_KeepsNothingPreparedIfToldSo(t *testing.T) {
	t.Parallel()
	url := pgtest.Empty(t).URL
	for param, want := range map[string]pgx.QueryExecMode{"": pgx.QueryExecModeCacheDescribe, "&default_query_exec_mode=exec": pgx.QueryExecModeExec} {
		pool, err := pglink.NewPool(t.Context(), url+param, pglink.Options{Unprepared: true})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := pool.Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got := conn.Conn().Config().DefaultQueryExecMode; got != want {
			t.Errorf("%q: %v, want %v", param, got, want)
		}
		conn.Release()
		pool.Close()
	}
}

func TestOpenDB_SetsWhatAPoolerRefuses(t *testing.T) {
	t.Parallel()
	config, err := pglink.Parse(pgtest.Pooler{Size: 2, Sessions: true}.Start(t, unusual(t)), pglink.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := pglink.OpenDB(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var got string
	if err := db.QueryRowContext(t.Context(), "SHOW search_path").Scan(&got); err != nil || got != "pg_catalog, pg_temp" {
		t.Errorf("search_path is %s, %v", got, err)
	}
}

// Without a pooler Dial sends one statement for the whole process: all parameters go with the start of each connection.
func TestDial_AsksAServerOnce(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{Level: slog.LevelDebug}))
	config, err := pglink.Parse(unusual(t), pglink.Options{Log: log, Writer: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		conn, err := pglink.Dial(t.Context(), config, nil)
		if err != nil {
			t.Fatal(err)
		}
		pglink.HangUp(t.Context(), conn)
	}
	if n := strings.Count(said.String(), "postgres: query"); n != 1 || !strings.Contains(said.String(), "pg_backend_pid") {
		t.Errorf("%d statements were sent, want 1: %s", n, &said)
	}
}

// With a pool of one the second connection finds no server connection. No task may fail for that reason, and no parameter is
// set.
func TestDial_MakesDoWithAPoolOfOne(t *testing.T) {
	t.Parallel()
	config := asWorker(t, pgtest.Pooler{Size: 1, Sessions: true}.Start(t, unusual(t)))
	conn, err := pglink.Dial(t.Context(), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := setting(t, conn, "search_path"); got != "public, pg_catalog" {
		t.Errorf("search_path is %s", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, _, err = pglink.DialSession(ctx, config, nil)
	if !errors.Is(err, pglink.ErrWaiting) || pglink.Classify(err) != pglink.NotExecuted {
		t.Errorf("a session: %v, %v", err, pglink.Classify(err))
	}
	pglink.HangUp(t.Context(), conn)
}

func TestLends_CountsWhatAnswers(t *testing.T) {
	t.Parallel()
	config := asWorker(t, pgtest.Pooler{Size: 3, Sessions: true}.Start(t, pgtest.Empty(t).URL))
	conn, _, err := pglink.DialSession(t.Context(), config, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pglink.HangUp(t.Context(), conn)
	for wanted, want := range map[int]int{2: 2, 4: 2} {
		gets := make([]pglink.Get, wanted)
		for i := range gets {
			gets[i] = pglink.GetNew(config, nil)
		}
		patience := time.Minute
		if wanted > want {
			patience = 500 * time.Millisecond
		}
		if got, _ := pglink.Lends(t.Context(), patience, gets...); got != want {
			t.Errorf("%d of %d, want %d", got, wanted, want)
		}
	}
}

func TestClassify_KnowsWhatPgBouncerSays(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]pglink.Class{
		"unsupported startup parameter: jit": pglink.Permanent, "no such database: app": pglink.Permanent,
		"query_wait_timeout": pglink.SessionLost, "no more connections allowed (max_client_conn)": pglink.SessionLost,
	} {
		err := fmt.Errorf("x: %w", &pgconn.PgError{Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "08P01", Message: message})
		if got := pglink.Classify(err); got != want {
			t.Errorf("%s: %v, want %v", message, got, want)
		}
	}
	name, refused := pglink.RefusedParameter(&pgconn.PgError{Code: "08P01", Message: "unsupported startup parameter: client_encoding=LATIN1"})
	if !refused || name != "client_encoding" {
		t.Error(name, refused)
	}
}
