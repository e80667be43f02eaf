package migrations_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/migrations"
)

// childURL is the variable that makes the test binary migrate this database instead of testing, as a process that can be killed.
const childURL = "OARLOCK_TEST_MIGRATE_URL"

func TestMain(m *testing.M) {
	url := os.Getenv(childURL)
	if url == "" {
		os.Exit(verdict(m.Run()))
	}
	if _, err := migrations.Up(context.Background(), url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type bundle struct {
	db   *pgtest.DB
	url  string
	conn *pgx.Conn // connection of an administrator, not under test
}

// setup makes an empty database.
func setup(t *testing.T) bundle {
	t.Helper()
	return bundleOf(t, pgtest.Empty(t))
}

// migrated makes a database with everything applied.
func migrated(t *testing.T) bundle {
	t.Helper()
	b := bundleOf(t, pgtest.New(t))
	b.mustBeComplete(t)
	return b
}

func bundleOf(tb testing.TB, db *pgtest.DB) bundle {
	tb.Helper()
	return bundle{db: db, url: db.URL, conn: db.Conn(tb)}
}

func (b bundle) mustUp(t *testing.T) {
	t.Helper()
	if _, err := migrations.Up(t.Context(), b.url); err != nil {
		t.Fatal(err)
	}
	b.mustBeComplete(t)
}

func (b bundle) mustBeComplete(t *testing.T) {
	t.Helper()
	if err := migrations.Check(t.Context(), b.conn); err != nil {
		t.Fatal(err)
	}
	want := []string{"1", "2", "3", "4", "5", "6", "7", "8"}
	if got := b.list(t, "SELECT version::text FROM oarlock_river.river_migration ORDER BY version"); !equal(got, want) {
		t.Errorf("River's versions are %v, want %v", got, want)
	}
	const history = "SELECT count(*)::text || ' to ' || max(version) FROM oarlock.schema_history"
	if got, want := b.list(t, history)[0], fmt.Sprintf("%d to %d", migrations.MaxVersion, migrations.MaxVersion); got != want {
		t.Errorf("the history has %s versions, want %s", got, want)
	}
}

func (b bundle) exec(t *testing.T, statement string) {
	t.Helper()
	if _, err := b.conn.Exec(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// list reads one text column.
func (b bundle) list(t *testing.T, query string, args ...any) []string {
	t.Helper()
	rows, err := b.conn.Query(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return list
}

// leftovers returns the objects of a database that an empty one does not have.
func (b bundle) leftovers(t *testing.T) []string {
	t.Helper()
	return b.list(t, `
		SELECT 'schema ' || nspname FROM pg_namespace WHERE nspname LIKE 'oarlock%'
		UNION ALL SELECT 'relation ' || oid::regclass FROM pg_class WHERE oid >= 16384 AND relnamespace <> 'pg_toast'::regnamespace
		UNION ALL SELECT 'type ' || oid::regtype FROM pg_type WHERE oid >= 16384
		UNION ALL SELECT 'routine ' || oid::regprocedure FROM pg_proc WHERE oid >= 16384
		UNION ALL SELECT 'default privileges ' || oid FROM pg_default_acl`)
}

func (b bundle) mustBeClean(t *testing.T) {
	t.Helper()
	if left := b.leftovers(t); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func equal(a, b []string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
