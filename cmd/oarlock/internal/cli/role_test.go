package cli

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/queue"
)

// asSubmitter returns an Env with a database login that has oarlock_submit and no other role.
func asSubmitter(t *testing.T) Env {
	t.Helper()
	e, _ := submitterOf(t)
	return e
}

func submitterOf(t *testing.T) (Env, *pgtest.DB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a database")
	}
	db := pgtest.New(t)
	if err := migrations.Roles(t.Context(), db.URL); err != nil {
		t.Fatal(err)
	}
	execFile(t, db, "submitter.sql")
	register(t, db.URL)
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("s_"+db.Name, "s")
	e := testEnv()
	e.Lookup = func(name string) (string, bool) {
		if name == "DATABASE_URL" {
			return u.String(), true
		}
		return "", false
	}
	return e, db
}

func register(t *testing.T, address string) {
	t.Helper()
	spec, err := dagspec.Parse("f.yaml", []byte(`
name: etl
params:
  - {name: day, type: string}
  - {name: limit, type: integer}
  - {name: extra, type: json}
steps: [{id: load, run: load}]
`))
	if err != nil {
		t.Fatal(err)
	}
	store, err := queue.Open(t.Context(), queue.Config{URL: address})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.PutDAG(t.Context(), spec, "", ""); err != nil {
		t.Fatal(err)
	}
}

func TestSubmitters_AskForRunsAndSeeTheirOwn(t *testing.T) {
	t.Parallel()
	e := asSubmitter(t)
	steps := []struct {
		line string
		exit exit
		want string // in the output
	}{
		{"enqueue etl -p day=2026-11-20 -p limit=3 -p extra={\"a\":[1]} -o id", exitOK, "1\n"},
		{"status 1 -o json", exitOK, `"extra": {`},
		{"status @latest", exitOK, "  · load  pending"},
		{"list -o id", exitOK, "1\n"},
		{"enqueue etl -p limit=many", exitInvalid, `param "limit": must be a whole number`},
		{"enqueue elt", exitNotFound, "hint: check the name; `oarlock dag list` is for logins with oarlock_read"},
		{"list --dag elt", exitOK, "no run matches (DAG elt)"},
		{"events 1", exitOK, "asked for by s_"},
		{"workers", exitError, "grant oarlock_read to this user"},
		{"queues", exitError, "grant oarlock_read to this user"},
		{"dag list", exitError, "grant oarlock_read to this user"},
		{"dag pause etl", exitError, "grant oarlock_admin to this user"},
		{"queues set x", exitError, "grant oarlock_admin to this user"},
		{"workers drain w1", exitError, "grant oarlock_admin to this user"},
		{"status 2", exitNotFound, "there is no run 2, or it is not yours"},
		{"events 2", exitNotFound, "there is no run 2, or it is not yours"},
	}
	for _, s := range steps {
		got := invoke(t, e, strings.Fields(s.line)...)
		if got.exit != s.exit || !strings.Contains(got.stdout+got.stderr, s.want) {
			t.Errorf("%s: exit %d, want %d with %q\n%s%s", s.line, got.exit, s.exit, s.want, got.stdout, got.stderr)
		}
	}
}

// A login that lacks both roles learns of both at once, instead of learning of the second after the first was granted.
func TestSubmitters_HearOfBothRolesForRun(t *testing.T) {
	t.Parallel()
	e := asSubmitter(t)
	file := filepath.Join(t.TempDir(), "here.yaml")
	writeFile(t, file, "name: here\nsteps: [{id: a, action: noop}]\n")
	const want = "hint: have an administrator grant oarlock_admin and oarlock_worker to this user\n"
	if got := invoke(t, e, "run", file); got.exit != exitError || !strings.Contains(got.stderr, want) {
		t.Errorf("exit %d: %s", got.exit, got.stderr)
	}
}
