package cli

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/migrations"
)

// roleless are the commands that need no role of applications and operators.
var roleless = map[string]bool{
	"run": true, "exec": true, "dev": true, "dag validate": true, "dag schema": true, "migrate up": true, "migrate status": true, "migrate down": true,
	"migrate roles": true, "migrate adopt": true, "worker": true, "doctor": true, "config show": true, "version": true, "completion": true,
}

// withRoleLogins makes a database with a login for each role.
func withRoleLogins(t *testing.T) *pgtest.DB {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a database")
	}
	db := pgtest.New(t)
	if err := migrations.Roles(t.Context(), db.URL); err != nil {
		t.Fatal(err)
	}
	execFile(t, db, "rolelogins.sql")
	return db
}

// loginAs returns the database's URL with the login of a role.
func loginAs(t *testing.T, db *pgtest.DB, role string) string {
	t.Helper()
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(role+"_"+db.Name, "s")
	return u.String()
}

// Each command names the role that it needs at once, and with that role it is not refused again. Pruning deletes, so every
// other role is refused.
func TestRoles_EachCommandNamesTheRoleThatItNeeds(t *testing.T) {
	t.Parallel()
	db := withRoleLogins(t)
	register(t, db.URL)
	for login, want := range map[string]exit{"nobody": exitError, toSubmit: exitError, toRead: exitError, toApprove: exitError, "oarlock_worker": exitError, toAdmin: exitOK} {
		got := invoke(t, testEnv(), "prune", "--batch", "1", "--database-url", loginAs(t, db, login))
		if got.exit != want || want != exitOK && !strings.Contains(got.stderr, "grant "+toAdmin+" to this user") {
			t.Errorf("prune as %s: exit %d, want %d\n%s", login, got.exit, want, got.stderr)
		}
	}
	file := filepath.Join(t.TempDir(), "x.yaml")
	writeFile(t, file, "name: x\nparams: [{name: day}]\nsteps: [{id: a, action: noop}]\n")
	lines := map[string]string{dryPrune: everyLine["prune"].words, "prune": "prune --batch 1"}
	eachCommand(newApp(&env{Env: testEnv()}), func(path []*cli.Command) {
		name := pathName(path)
		if _, known := commandRoles[name]; known == roleless[name] && path[len(path)-1].Action != nil {
			t.Errorf("%s: it needs a role (commandRoles), or none (roleless)", name)
		}
	})
	for name, role := range commandRoles {
		line := lines[name]
		if line == "" {
			line = everyLine[name].words
		}
		logins := []string{"nobody", toSubmit, toRead, toApprove, toAdmin}
		if name == "web" { // a login with the role would be served until the command is stopped
			line, logins = "web --listen 127.0.0.1:0", logins[:1]
		}
		for _, login := range logins {
			words := append(strings.Fields(strings.ReplaceAll(line, "FILE", file)), "--database-url", loginAs(t, db, login))
			got := invoke(t, testEnv(), words...)
			refused := strings.Contains(got.stderr, "permission denied for")
			want := "hint: have an administrator grant " + role + " to this user"
			if steers[name] { // a submitter's role does not reach other users' runs
				want += " for its own runs, or oarlock_admin for all runs"
			}
			if refused && !strings.Contains(got.stderr, want) || refused && login == role || !refused && login == "nobody" {
				t.Errorf("%s as %s: exit %d, want %q, but not as %s\n%s", line, login, got.exit, want, role, got.stderr)
			}
		}
	}
}

// An approver sees no other user's runs. The hint leads it to the approvals that wait for it, and names the role that it
// would need.
func TestRoles_LeadAnApproverToItsApprovals(t *testing.T) {
	t.Parallel()
	db := withRoleLogins(t)
	register(t, db.URL)
	invoke(t, testEnv(), "enqueue", "etl", "-p", "day=x", "--database-url", db.URL)
	const none, hint = "there is no run that you may see", "`oarlock approvals` lists the approvals that wait for you"
	for line, want := range map[string]string{
		"list":                    none + ": " + hint,
		"status @latest":          none + "\nhint: " + hint,
		"approve @latest release": none + "\nhint: " + hint,
		"logs 1":                  "hint: have an administrator grant oarlock_read to this user",
	} {
		got := invoke(t, testEnv(), append(strings.Fields(line), "--database-url", loginAs(t, db, toApprove))...)
		if !strings.Contains(got.stderr, want) || strings.Contains(got.stderr, "enqueue") {
			t.Errorf("%s: exit %d, want %q\n%s", line, got.exit, want, got.stderr)
		}
	}
	if got := invoke(t, testEnv(), "events", "1", "--database-url", loginAs(t, db, "nobody")); !strings.Contains(got.stderr, "grant oarlock_read to this user") {
		t.Errorf("events: %s", got.stderr)
	}
}

// Roles belong to the server, their grants to a database. If the database lacks the grants, another role would not help.
func TestRoles_WithoutGrantsAreNamed(t *testing.T) {
	t.Parallel()
	db := withRoleLogins(t)
	execFile(t, db, "ungranted.sql")
	const cure = "have an administrator run `oarlock migrate roles` for this database"
	for _, c := range []struct{ line, login, want string }{
		{"list", toSubmit, "hint: " + cure},
		{"list", "nobody", "hint: have an administrator grant oarlock_submit to this user"},
	} {
		got := invoke(t, testEnv(), append(strings.Fields(c.line), "--database-url", loginAs(t, db, c.login))...)
		if got.exit == exitOK || !strings.Contains(got.stderr, c.want) || strings.Count(got.stderr, "hint: ") != 1 {
			t.Errorf("%s as %s: exit %d, want %q\n%s", c.line, c.login, got.exit, c.want, got.stderr)
		}
	}
	if got := invoke(t, testEnv(), "doctor", "--database-url", loginAs(t, db, toSubmit)); !strings.Contains(got.stdout, cure) {
		t.Errorf("doctor: %s", got.stdout)
	}
	if err := migrations.Roles(t.Context(), db.URL); err != nil {
		t.Fatal(err)
	}
	if got := invoke(t, testEnv(), "list", "--database-url", loginAs(t, db, toSubmit)); got.exit != exitOK {
		t.Errorf("after the cure: %s", got.stderr)
	}
}
