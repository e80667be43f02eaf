package cli

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pgtest"
	"github.com/oarlock-dev/oarlock/migrations"
)

// submitterOf is the URL of a new login that may submit to a database, and nothing else.
func submitterOf(t *testing.T, db *pgtest.DB) string {
	t.Helper()
	if err := migrations.Roles(t.Context(), db.URL); err != nil {
		t.Fatal(err)
	}
	admin, name := db.Conn(t), "cli_"+db.Name
	role := pgx.Identifier{name}.Sanitize()
	if _, err := admin.Exec(t.Context(), "CREATE ROLE "+role+" LOGIN PASSWORD 'app' IN ROLE oarlock_submit"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role+"; DROP ROLE "+role); err != nil {
			t.Error(err)
		}
	})
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(name, "app")
	return u.String()
}

// Whoever may only submit steers its own runs and reads their logs; of the rest it is told whom to ask.
func TestSubmitter_ReachesItsOwnRuns(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	db := pgtest.New(t)
	own := submitterOf(t, db)
	owner := db.Conn(t)
	for _, q := range []string{
		`SELECT oarlock.put_dag('{"name": "d", "steps": [{"id": "a", "run": "true"}], "params": [{"name": "list", "type": "json"}]}', '', 'h', '{process}')`,
		"SELECT oarlock.enqueue('d')", // run 1, the owner's
	} {
		if _, err := owner.Exec(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	e := testEnv()
	e.Lookup = func(name string) (string, bool) {
		return map[string]string{"DATABASE_URL": own}[name], name == "DATABASE_URL"
	}
	for _, c := range []struct {
		line   string
		want   exit
		stdout string
		stderr string
	}{
		{"enqueue d -o id", exitOK, "2\n", ""},
		{"cancel 1", exitNotFound, "", "there is no run 1, or it is not yours"},
		{"logs 1", exitNotFound, "", "there is no run 1, or it is not yours"},
		{"cancel --dag d", exitOK, "run 2: cancel applied (canceled)\n", ""},
		{"logs 2", exitOK, "", "nothing was written"},
		{"retry 2 -p list=[1]", exitOK, "run 3: made of run 2", ""},
		{"retry 1 --latest", exitNotFound, "", "there is no run 1, or it is not yours"},
		{"stats", exitError, "", "have an administrator grant oarlock_read to this user"},
		{"top", exitError, "", "have an administrator grant oarlock_read to this user"},
		{"prune --dry-run", exitError, "", "have an administrator grant oarlock_read to this user"},
		{"prune", exitError, "", "have an administrator grant oarlock_admin to this user"},
	} {
		got := invoke(t, e, strings.Fields(c.line)...)
		if got.exit != c.want || !strings.HasPrefix(got.stdout, c.stdout) || !strings.Contains(got.stderr, c.stderr) {
			t.Errorf("%s: exit %d, want %d\n%s%s", c.line, got.exit, c.want, got.stdout, got.stderr)
		}
	}
}
