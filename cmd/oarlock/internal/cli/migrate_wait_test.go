package cli

import (
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
)

// toldWriter calls told once something was written.
type toldWriter struct {
	mu   sync.Mutex
	text strings.Builder
	told func()
}

func (w *toldWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told != nil {
		w.told()
		w.told = nil
	}
	return w.text.Write(p)
}

func TestMigrateUp_WaitsForAServerThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	proxy, address := netfault.Through(t, pgtest.Empty(t).URL)
	proxy.Refuse(true)
	e := testEnv()
	if got := invoke(t, e, "migrate", "up", "--database-url", address); got.exit != exitUnreachable {
		t.Fatalf("without --wait: exit %d, want %d\n%s", got.exit, exitUnreachable, got.stderr)
	}
	if got := invoke(t, e, "migrate", "up", "--wait", "1ms", "--database-url", address); got.exit != exitUnreachable {
		t.Errorf("a wait that is over: exit %d, want %d\n%s", got.exit, exitUnreachable, got.stderr)
	}
	var stdout strings.Builder
	stderr := &toldWriter{told: func() { proxy.Refuse(false) }}
	e.Stdout, e.Stderr = &stdout, stderr
	code := run(t.Context(), e, []string{"migrate", "up", "--wait", "1m", "--database-url", address})
	if exit(code) != exitOK || !strings.Contains(stdout.String(), "applied") || !strings.HasPrefix(stderr.text.String(), "waiting up to 1m0s for the database: cannot connect to ") {
		t.Errorf("exit %d\n%s%s", code, stdout.String(), stderr.text.String())
	}
}

// migrate up does not wait for what waiting cannot change: a wrong name, a wrong password, an untrusted certificate.
func TestMigrateUp_WaitsForNothingThatStaysSo(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	u, err := url.Parse(pgtest.Empty(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/no_such_database"
	got := invoke(t, testEnv(), "migrate", "up", "--wait", "1h", "--database-url", u.String())
	if got.exit == exitOK || strings.Contains(got.stderr, "waiting") {
		t.Errorf("exit %d\n%s", got.exit, got.stderr)
	}
}
