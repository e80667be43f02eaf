package weight

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

var (
	nightly   = flag.Bool("nightly", false, "fill a database, and measure its pages")
	runCount  = flag.Int("runs", 1_000_000, "how many runs there are")
	taskCount = flag.Int("tasks", 100_000, "how many tasks the large run has")
	logMiB    = flag.Int("log", 1024, "how many MiB the long log has")
	rounds    = flag.Int("rounds", 100, "how often each page is loaded")
	watchTime = flag.Duration("watch", 30*time.Second, "how long streams are watched")
)

// patience bounds how long a process takes to start or to end.
const patience = time.Minute

// testBundle is a server of its own, which counts statements by login, and the program under test.
type testBundle struct {
	db      *pgtest.DB
	conn    *pgx.Conn // a superuser's
	store   *queue.Store
	program string
	folder  string
}

func setup(t *testing.T) *testBundle {
	t.Helper()
	if !*nightly {
		t.Skip("fills a database for minutes: give -nightly")
	}
	node := pgcluster.StartIn(t, os.TempDir(), map[string]string{
		"shared_preload_libraries": "pg_stat_statements", "shared_buffers": "512MB", "max_wal_size": "4GB",
	})
	b := &testBundle{db: &pgtest.DB{URL: node.URL()}, folder: t.TempDir()}
	b.conn = b.db.Conn(t)
	b.exec(t, "CREATE EXTENSION pg_stat_statements")
	store, err := queue.Open(t.Context(), queue.Config{URL: b.db.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	b.store = store
	b.program = filepath.Join(b.folder, "oarlock")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", b.program, "github.com/oarlock-dev/oarlock/cmd/oarlock")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return b
}

func (b *testBundle) exec(t *testing.T, statement string, args ...any) {
	t.Helper()
	if _, err := b.conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func (b *testBundle) put(t *testing.T, source string) {
	t.Helper()
	spec, err := dagspec.Parse("weight.yaml", []byte(source))
	if err == nil {
		_, err = b.store.PutDAG(t.Context(), spec, source, "")
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (b *testBundle) enqueue(t *testing.T, dag string) queue.RunID {
	t.Helper()
	run, err := b.store.Enqueue(t.Context(), queue.Request{DAG: dag})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// start runs a command of the program as a login, and returns its process id and its output.
func (b *testBundle) start(t *testing.T, url string, args ...string) (int, *await.Buffer) {
	t.Helper()
	said := &await.Buffer{}
	p := exec.CommandContext(context.WithoutCancel(t.Context()), b.program, args...)
	p.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.folder, "OARLOCK_DATABASE_URL=" + url, "OARLOCK_STATE_DIR=" + filepath.Join(b.folder, "state")}
	p.Stdout, p.Stderr, p.Dir = said, said, b.folder
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for range 3 { // so that it ends at once, whatever it is doing
			_ = p.Process.Signal(syscall.SIGTERM)
		}
		kill := time.AfterFunc(patience, func() { _ = p.Process.Kill() })
		defer kill.Stop()
		if err := p.Wait(); t.Failed() {
			t.Logf("%v ended with %v, and said:\n%s", args, err, said)
		}
	})
	return p.Process.Pid, said
}

// calls returns how often a login has sent a statement so far; "": all statements.
func (b *testBundle) calls(t *testing.T, login, statement string) (n int) {
	t.Helper()
	const counted = `SELECT coalesce(sum(calls), 0)::int FROM pg_stat_statements
		WHERE userid = (SELECT oid FROM pg_roles WHERE rolname = $1) AND ($2 = '' OR starts_with(query, '/* oarlock ' || $2 || ' */'))`
	if err := b.conn.QueryRow(t.Context(), counted, b.db.RoleName(login), statement).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
