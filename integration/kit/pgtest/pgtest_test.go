package pgtest

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/migrations"
)

func TestNew_IsMigratedAndBelongsToOneTest(t *testing.T) {
	t.Parallel()
	one, two := New(t), New(t)
	if one.Name == two.Name {
		t.Fatal("two tests share a database")
	}
	if err := migrations.Check(t.Context(), one.Conn(t)); err != nil {
		t.Errorf("not migrated: %v", err)
	}
	mustExec(t, one.Conn(t), "CREATE TABLE mine ()")
	if exists(t, two.Conn(t), "SELECT FROM pg_class WHERE relname = 'mine'") {
		t.Error("a table of one database is in the other")
	}
}

func TestEmpty_HasNothingInIt(t *testing.T) {
	t.Parallel()
	if exists(t, Empty(t).Conn(t), "SELECT FROM pg_class WHERE relnamespace NOT IN ('pg_catalog'::regnamespace, 'pg_toast'::regnamespace, 'information_schema'::regnamespace)") {
		t.Error("there are tables in it")
	}
}

func TestDB_GivesAPool(t *testing.T) {
	t.Parallel()
	db := Empty(t)
	var name string
	if err := db.Pool(t).QueryRow(t.Context(), "SELECT current_database()::text").Scan(&name); err != nil || name != db.Name {
		t.Error(name, err)
	}
}

func TestDB_IsDroppedWithItsTest_EvenWhileConnected(t *testing.T) {
	t.Parallel()
	var names []string
	var forgotten *pgx.Conn
	t.Run("uses two", func(t *testing.T) {
		one, two := New(t), Empty(t)
		names = append(names, one.Name, two.Name)
		var err error
		if forgotten, err = pgx.Connect(context.Background(), two.URL); err != nil {
			t.Fatal(err)
		}
	})
	defer forgotten.Close(context.Background())
	conn := connect(t, ServerURL(t))
	for _, name := range names {
		if exists(t, conn, "SELECT FROM pg_database WHERE datname = $1", name) {
			t.Errorf("%s is still there", name)
		}
	}
}

// freshServer is a second client of the test server, like another test process.
func freshServer(t *testing.T) *server {
	t.Helper()
	s, err := open(t.Context(), ServerURL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = (<-s.conn).Close(context.Background()) })
	return s
}

func TestOpen_DropsWhatDeadTestProcessesLeft(t *testing.T) {
	t.Parallel()
	dead, alive := freshServer(t), freshServer(t)
	left, err := dead.empty(t.Context())
	must(t, err)
	used, err := alive.empty(t.Context())
	must(t, err)
	conn := <-dead.conn // ends the connection, as the end of the process would
	must(t, conn.Close(t.Context()))
	dead.conn <- conn

	admin := connect(t, ServerURL(t))
	gone := func(name string) bool { return !exists(t, admin, "SELECT FROM pg_database WHERE datname = $1", name) }
	for !gone(left) { // the server needs a moment to see that the connection is closed
		must(t, t.Context().Err())
		freshServer(t)
	}
	if gone(used) {
		t.Error("a database of a living process was dropped")
	}
	must(t, alive.drop(t.Context(), used))
}

func TestTemplate_IsBuiltOnce_AndNeverUsedHalfBuilt(t *testing.T) {
	t.Parallel()
	s := freshServer(t)
	name := templatePrefix + strings.ToLower(strings.NewReplacer("/", "_").Replace(t.Name()))[:30]
	t.Cleanup(func() { _ = s.drop(context.Background(), name) })
	build := func(migrate func(context.Context, string) error) error {
		return s.with(t.Context(), func(conn *pgx.Conn) error { return s.buildTemplate(t.Context(), conn, name, migrate) })
	}
	mark := func(ctx context.Context, url string) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		_, err = conn.Exec(ctx, "CREATE TABLE half ()")
		return errors.Join(err, conn.Close(ctx))
	}

	broken := errors.New("broken migration")
	if err := build(func(ctx context.Context, url string) error { return errors.Join(mark(ctx, url), broken) }); !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	if len(s.known) > 0 {
		t.Fatalf("half a template is used: %v", s.known)
	}
	must(t, build(mark)) // build starts again, since the table does not exist yet
	must(t, build(func(context.Context, string) error { return errors.New("built twice") }))

	clone, err := s.clone(t.Context(), name, mark)
	must(t, err)
	if !exists(t, connect(t, s.url(clone)), "SELECT FROM pg_class WHERE relname = 'half'") {
		t.Error("the clone is no copy of the template")
	}
	must(t, s.drop(t.Context(), clone))
}

func TestOpen_SaysWhatIsWrong(t *testing.T) {
	for url, want := range map[string]string{
		"host=/tmp":                          "must look like postgres://",
		"postgres://nobody@127.0.0.1:1/none": "connect to the test server",
	} {
		if _, err := open(t.Context(), url); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", url, err)
		}
	}
	t.Setenv("OARLOCK_PG_BIN", "/nowhere")
	if _, err := open(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "OARLOCK_PG_BIN=/nowhere") {
		t.Errorf("no binaries: got %v", err)
	}
}

func TestProcess_HasAStartTime(t *testing.T) {
	t.Parallel()
	if _, since, err := process(os.Getpid()); err != nil || since == "" {
		t.Error(since, err)
	}
}

func BenchmarkNew(b *testing.B) {
	New(b) // builds the template
	for b.Loop() {
		s := get(b)
		name, err := s.migrated(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := s.drop(b.Context(), name); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	return (&DB{URL: url}).Conn(t)
}

func mustExec(t *testing.T, conn *pgx.Conn, sql string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql)
	must(t, err)
}

func exists(t *testing.T, conn *pgx.Conn, sql string, args ...any) (found bool) {
	t.Helper()
	must(t, conn.QueryRow(t.Context(), "SELECT EXISTS ("+sql+")", args...).Scan(&found))
	return found
}
