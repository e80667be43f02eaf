package cli

import (
	"strings"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// If --timeout passes while the database is away, the command ends with a timeout, and the run goes on.
func TestStatus_TimesOutWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	db := pgtest.New(t)
	register(t, db.URL)
	proxy, address := netfault.Through(t, db.URL)
	e := testEnv()
	if got := invoke(t, e, "enqueue", "etl", "--database-url", address); got.exit != exitOK {
		t.Fatalf("exit %d\n%s", got.exit, got.stderr)
	}
	var stdout strings.Builder
	stderr := &toldWriter{told: func() { proxy.Refuse(true); proxy.CutAll() }}
	e.Stdout, e.Stderr = &stdout, stderr
	code := run(t.Context(), e, strings.Fields("status 1 -w --progress plain --timeout 1s --database-url "+address))
	said := stderr.text.String()
	if exit(code) != exitTimeout || !strings.Contains(said, "cannot connect to ") || !strings.Contains(said, "it goes on: `oarlock status 1 -w`") {
		t.Errorf("exit %d, want %d\n%s%s", code, exitTimeout, stdout.String(), said)
	}
}
