package doctor

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/queue"
)

var quiet = slog.New(slog.DiscardHandler)

func needDatabase(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a database")
	}
}

// newStore makes a database, and opens it until the test ends.
func newStore(t *testing.T) (*pgtest.DB, *queue.Store) {
	t.Helper()
	needDatabase(t)
	db := pgtest.New(t)
	store, err := queue.Open(t.Context(), queue.Config{URL: db.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	return db, store
}

func find(t *testing.T, r Report, name string) Check {
	t.Helper()
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("no check %q in %v", name, r.Checks)
	}
	return r.Checks[i]
}

// wantCheck compares a check's status, and looks for words in its detail.
func wantCheck(t *testing.T, got Check, status Status, words string) {
	t.Helper()
	if got.Status != status || !strings.Contains(got.Detail, words) {
		t.Errorf("got %+v, want %s with %q", got, status, words)
	}
	if (got.Status == Fail || got.Status == Warn) && got.Hint == "" {
		t.Errorf("%+v does not say what to do", got)
	}
}

func execFile(t *testing.T, conn *pgx.Conn, name string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(context.WithoutCancel(t.Context()), string(text)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func TestRun_MakesEveryCheckInItsOrder(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	report, err := Run(t.Context(), pgtest.New(t).URL, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Checks) != len(checks)+1 || report.Checks[0].Name != connectionCheck {
		t.Fatalf("got %v", report.Checks)
	}
	for i, c := range checks {
		if report.Checks[i+1].Name != c.name || report.Checks[i+1].Detail == "" {
			t.Errorf("check %d is %+v, want %s", i+1, report.Checks[i+1], c.name)
		}
	}
	for _, name := range []string{"connection", "server_version", "writable", "migrations", "listen", "clock", "housekeeping"} {
		wantCheck(t, find(t, report, name), OK, "")
	}
	if n := report.Count(OK) + report.Count(Warn) + report.Count(Fail) + report.Count(Skip); n != len(report.Checks) {
		t.Errorf("%d checks counted, want %d", n, len(report.Checks))
	}
}

func TestRun_SkipsTheRestWithoutAConnection(t *testing.T) {
	t.Parallel()
	for address, why := range map[string]string{
		"postgres://ana:hunter2@127.0.0.1:1/app":   "cannot connect to ana@127.0.0.1:1/app: connection refused",
		"postgres://ana:hunter2@127.0.0.1:app/app": "database URL: ",
	} {
		report, err := Run(t.Context(), address, quiet)
		if err == nil || len(report.Checks) != len(checks)+1 || report.Count(Skip) != len(checks) {
			t.Errorf("%s: got %v, %+v", address, err, report)
			continue
		}
		if got := report.Checks[0]; got.Status != Fail || !strings.HasPrefix(got.Detail, why) || strings.Contains(got.Detail, "hunter2") {
			t.Errorf("got %+v, want %s", got, why)
		}
	}
}

func TestRun_FindsWhatIsMissing(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	report, err := Run(t.Context(), pgtest.Empty(t).URL, quiet)
	if err != nil {
		t.Fatal(err)
	}
	wantCheck(t, find(t, report, "migrations"), Fail, "no Oarlock schema")
	wantCheck(t, find(t, report, "privileges"), Skip, "no schema")
}

func TestPrivileges_TellWhatAUserLacks(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	db := pgtest.New(t)
	owner := db.Conn(t)
	execFile(t, owner, "bare_role.sql")
	t.Cleanup(func() { execFile(t, owner, "bare_role_drop.sql") })
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("bare_"+db.Name, "bare")

	report, err := Run(t.Context(), u.String(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	wantCheck(t, find(t, report, "privileges"), Fail, "has no right to use the schema oarlock")
	wantCheck(t, find(t, report, "migrations"), Fail, "this user has no right to read the schema version")
	for _, name := range []string{"retention", "invariants"} {
		wantCheck(t, find(t, report, name), Skip, "this user has no right to see runs of other users")
	}
	if got := find(t, report, "horizon"); got.Status != Skip {
		t.Errorf("got %+v, want it skipped: this user sees its own sessions only", got)
	}

	execFile(t, owner, "bare_role_usage.sql")
	report, err = Run(t.Context(), u.String(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if got := find(t, report, "privileges"); got.Status != Warn {
		t.Errorf("got %+v, want a warning", got)
	}
}

func TestHorizon_NamesWhoHoldsIt(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	db := pgtest.New(t)
	tx, err := db.Conn(t).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	execFile(t, tx.Conn(), "old_snapshot.sql")
	x := begin(t, db.URL)
	holders, err := all[holder](t.Context(), x.conn, horizonSQL)
	if err != nil {
		t.Fatal(err)
	}
	pid := tx.Conn().PgConn().PID()
	if !slices.ContainsFunc(holders, func(h holder) bool {
		return h.Kind == "transaction" && strings.HasPrefix(h.Name, "process "+decimal(pid)+" of user ") && h.Seconds > 0
	}) {
		t.Errorf("process %d is not among %v", pid, holders)
	}
	wantCheck(t, x.horizon(t.Context()), OK, "oldest ")
}

// begin connects, for tests of single checks.
func begin(t *testing.T, address string) *examination {
	t.Helper()
	x, err := open(t.Context(), address, quiet)
	if err != nil {
		t.Fatal(err)
	}
	x.needs = 9
	t.Cleanup(func() { x.close(t.Context()) })
	return x
}

func TestCheck_ConnectsAgainAfterATimeout(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	x := begin(t, pgtest.New(t).URL)
	if err := x.conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := x.check(t.Context(), namedCheck{name: "clock", run: (*examination).clock})
	wantCheck(t, got, OK, "plus or minus")
}

// Other users' sessions count too, although a user without pg_monitor does not see what kind they are.
func TestConnections_CountThoseOfOthers(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	db := pgtest.New(t)
	x := begin(t, db.Login(t, "oarlock_worker"))
	used := func() int64 {
		limits, err := all[connections](t.Context(), x.conn, connectionsSQL, nil)
		if err != nil {
			t.Fatal(err)
		}
		if limits[0].Scope != "server" || limits[0].Reserved == 0 {
			t.Fatalf("got %+v", limits)
		}
		return limits[0].Used
	}
	const more = 5
	for range more {
		db.Conn(t)
	}
	if n := used(); n < more {
		t.Errorf("%d connections, and there are %d at least", n, more)
	}
}

// A user that is not a worker sees the limit that the workers have reached, and how many of them hold how many connections.
func TestConnections_ShowTheLimitOfWorkers(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	db := pgtest.New(t)
	workers := db.User(t, "app", "oarlock_worker")
	for _, name := range []string{"oarlock/a", "oarlock/a", "oarlock/b", "oarlock listen"} {
		conn, err := pglink.Connect(t.Context(), workers, pglink.Options{AppName: name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	}
	app := db.RoleName("app")
	execFile(t, db.Conn(t), "limits.sql")
	x := begin(t, db.Login(t, "oarlock_read"))
	x.needs, x.own = 10, 7
	limits, err := all[connections](t.Context(), x.conn, connectionsSQL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(limits) != 3 || limits[2] != (connections{"login " + app, 4, 4, 0, 2, 3, true}) {
		t.Errorf("got %+v", limits)
	}
	if l := limits[1]; l.Scope != "database "+db.Name || l.Allowed != 50 || l.Workers != 2 || l.Held != 3 || l.Used < 5 {
		t.Errorf("got %+v", l)
	}
	wantCheck(t, x.connections(t.Context()), Fail, "4 of 4 connections are in use (limit of the login "+app+"); ")
}

// Workers that are at work and hold no connection reveal the limit that shuts out all or some of them.
func TestConnections_ShowTheLimitThatShutsWorkersOut(t *testing.T) {
	t.Parallel()
	needDatabase(t)
	db := pgtest.New(t)
	workers := db.User(t, "app", "oarlock_worker")
	db.User(t, "more", "oarlock_worker")
	scenes, err := os.ReadFile("testdata/shut_out.sql")
	if err != nil {
		t.Fatal(err)
	}
	owner, x := db.Conn(t), begin(t, db.URL)
	x.needs, x.own = 10, 7
	limit := "(limit of the login " + db.RoleName("app") + ")"
	for i, scene := range strings.Split(string(scenes), "\n\n") {
		if _, err := owner.Exec(t.Context(), scene); err != nil {
			t.Fatalf("%s: %v", scene, err)
		}
		status, words, hint := Fail, "0 of 0 connections are in use "+limit, "the workers at work under this limit (2) need 20 connections: raise the limit of the login app_"
		switch i {
		case 1: // no connection shows which login the workers use
			status, hint = Warn, "a worker keeps 10"
		case 2:
			words = "1 of 1 connections are in use " + limit
			conn, err := pglink.Connect(t.Context(), workers, pglink.Options{AppName: "oarlock/a95dcb8a-ebb2-02ef-eedb-10d5538edeb9"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
		}
		got := x.connections(t.Context())
		wantCheck(t, got, status, words)
		if !strings.Contains(got.Hint, hint) {
			t.Errorf("hint %q, want %q in it", got.Hint, hint)
		}
	}
}
