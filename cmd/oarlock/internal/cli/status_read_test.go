package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// The run's requests hold the texts given with approvals. They are read, again and again while the run is followed, only if the
// DAG has an approval.
func TestStatus_ReadsRequestsOnlyForApprovals(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	db := pgtest.New(t)
	folder := t.TempDir()
	for name, source := range map[string]string{
		"plain": "steps: [{id: a, action: noop}]",
		"asks":  "steps: [{id: a, action: noop, on_error: [{do: replace, with: [{action: approval}]}]}]",
	} {
		file := filepath.Join(folder, name+".yaml")
		writeFile(t, file, "name: "+name+"\n"+source+"\n")
		for _, args := range [][]string{{"dag", "apply", file}, {"enqueue", name}} {
			if got := invoke(t, testEnv(), append(args, "--database-url", db.URL)...); got.exit != exitOK {
				t.Fatal(got.stderr)
			}
		}
	}
	execFile(t, db, "no_control_list.sql")
	for name, want := range map[string]exit{"plain": exitOK, "asks": exitUnreachable} {
		id := invoke(t, testEnv(), "list", "--dag", name, "-o", "id", "--database-url", db.URL).stdout
		if got := invoke(t, testEnv(), "status", id[:1], "--database-url", db.URL); got.exit != want {
			t.Errorf("%s: exit %d, want %d\n%s%s", name, got.exit, want, got.stdout, got.stderr)
		}
	}
}

// A user with the right to decide in a run sees the run after its end, but may neither retry it nor read its logs.
func TestStatus_OffersAnApproverNothingThatIsRefused(t *testing.T) {
	t.Parallel()
	db := withRoleLogins(t)
	file := filepath.Join(t.TempDir(), "pay.yaml")
	writeFile(t, file, "name: pay\nsteps: [{id: confirm, action: approval}, {id: load, run: load}]\n")
	for _, args := range [][]string{{"dag", "apply", file}, {"enqueue", "pay"}} {
		if got := invoke(t, testEnv(), append(args, "--database-url", loginAs(t, db, toAdmin))...); got.exit != exitOK {
			t.Fatal(got.stderr)
		}
	}
	execFile(t, db, "decided.sql")
	for login, offered := range map[string]bool{toApprove: false, toAdmin: true, toRead: true} {
		got := invoke(t, testEnv(), "status", "1", "--database-url", loginAs(t, db, login))
		if got.exit != exitOK || !strings.Contains(got.stdout, "run 1") || strings.Contains(got.stdout, "oarlock ") != offered {
			t.Errorf("%s: exit %d, want commands: %v\n%s%s", login, got.exit, offered, got.stdout, got.stderr)
		}
	}
}
