package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/oarlock-dev/oarlock/integration/kit/pgcluster"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
	"github.com/oarlock-dev/oarlock/internal/pglocal"
	"github.com/oarlock-dev/oarlock/migrations"
)

// raceSettings is the variable with the settings of the race detector.
const raceSettings = "GORACE"

// TestMain puts this program on the PATH as oarlock, for scripts and for tests that start processes.
func TestMain(m *testing.M) {
	if os.Getenv(raceSettings) == "" {
		os.Setenv(raceSettings, "atexit_sleep_ms=0") // a process would sleep for a second at its end, and there are hundreds
	}
	testscript.Main(m, map[string]func(){
		"oarlock": func() { os.Exit(Main(SystemEnv(), os.Args[1:])) },
	})
}

// TestScripts runs testdata/script/*.txtar. Besides testscript's own words they know
//
//	call oarlock ARG…                            run oarlock in the process of the test, see inside
//	exits N COMMAND…                             run it, and demand this exit status; COMMAND may begin with call
//	database empty|migrated|newer|pooled|…      make one and set DATABASE_URL
//	libpq                                        name the database by PG* variables, and not by DATABASE_URL
//	taken VAR                                    listen at an address until the script ends, and set VAR to it
//	reachable VAR                                make a folder that a private server can use, and set VAR to it
//	awaits FILE                                  wait until it is there and holds something
//	says FILE RE                                 wait until a line of it matches
//	ends FILE                                    wait until the process with the number in it is gone
//	runs, drive, hold                            bring runs about, see playing
//	as, sql                                      speak SQL as a user, see speaking
//	[db], [root]                                 tests with a database are wanted; they are root's
func TestScripts(t *testing.T) {
	t.Parallel()
	dbs := newDatabases(t)
	commands := dbs.playing()
	maps.Copy(commands, dbs.speaking())
	commands["call"], commands["exits"] = call, exits
	commands["database"], commands["taken"] = dbs.database, taken
	commands["says"], commands["libpq"] = says, libpq
	commands["awaits"], commands["ends"], commands["reachable"] = awaits, ends, reachable
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                commands,
		Setup: func(e *testscript.Env) error {
			e.Setenv(raceSettings, os.Getenv(raceSettings))
			return nil
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "db":
				return !testing.Short(), nil
			case "root":
				return os.Getuid() == 0, nil
			}
			return false, errors.New("unknown condition " + cond)
		},
	})
}

func call(ts *testscript.TestScript, neg bool, args []string) {
	if got := inside(ts, args); neg != (got != 0) {
		ts.Fatalf("exit status %d", got)
	}
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND…")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if args[1] == "call" {
		got = inside(ts, args[2:])
	} else if err := ts.Exec(args[1], args[2:]...); err != nil {
		failed, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = failed.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// inside runs oarlock in this process and returns its exit status, because starting a process costs more than most commands
// do. A command needs exec instead if it starts processes, reads standard input, or uses libpq's variables and files.
func inside(ts *testscript.TestScript, args []string) int {
	if len(args) == 0 || args[0] != program {
		ts.Fatalf("usage: call oarlock ARG…")
	}
	return run(context.Background(), Env{
		Stdin: strings.NewReader(""), Stdout: ts.Stdout(), Stderr: ts.Stderr(), Dir: ts.MkAbs("."),
		Lookup: func(name string) (string, bool) { text := ts.Getenv(name); return text, text != "" },
	}, args[1:])
}

// reachable makes a folder that other users can enter. A script's own folder is closed to them, and root's private server
// runs as another user.
func reachable(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: reachable VAR")
	}
	dir, err := os.MkdirTemp(pglocal.FastTempDir(), "oarlock-cli-")
	ts.Check(err)
	ts.Defer(func() { _ = os.RemoveAll(dir) })
	ts.Check(os.Chmod(dir, 0o755))
	ts.Setenv(args[0], dir)
}

func awaits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: awaits FILE")
	}
	until(ts, args[0]+" is written", func() bool {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && len(text) > 0
	})
}

func says(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: says FILE RE")
	}
	wanted, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	var text []byte
	ts.Defer(func() { ts.Logf("%s:\n%s", args[0], text) })
	until(ts, fmt.Sprintf("%s matches %s", args[0], args[1]), func() bool {
		text, _ = os.ReadFile(ts.MkAbs(args[0])) // the file may not exist yet
		return wanted.Match(text)
	})
}

func ends(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: ends FILE")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	until(ts, fmt.Sprintf("process %d is gone", pid), func() bool { return syscall.Kill(pid, 0) != nil })
}

// until polls until so is true.
func until(ts *testscript.TestScript, what string, so func() bool) {
	deadline := time.NewTimer(scriptPatience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so() {
		select {
		case <-deadline.C:
			ts.Fatalf("waited in vain until %s", what)
		case <-tick.C:
		}
	}
}

func taken(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: taken VAR")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { listener.Close() })
	ts.Setenv(args[0], listener.Addr().String())
}

// databases makes databases for scripts. They live as long as the test.
type databases struct {
	tb               testing.TB
	private, standby func() string // servers of their own, started at first use
	nagged           func() string // a database on private with a setting that Oarlock warns of
	logins           func() string // private, with a login for each role
}

func newDatabases(tb testing.TB) *databases {
	tb.Helper()
	d := &databases{
		tb:      tb,
		private: sync.OnceValue(func() string { return startPrivate(tb) }),
		standby: sync.OnceValue(func() string { return startStandby(tb) }),
	}
	d.nagged = sync.OnceValue(func() string { return makeNagged(tb, d.private()) })
	d.logins = sync.OnceValue(func() string { return makeLogins(tb, d.private()) })
	return d
}

func (d *databases) database(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: database KIND")
	}
	var address string
	switch kind := args[0]; kind {
	case "empty":
		address = pgtest.Empty(d.tb).URL
	case "migrated":
		address = pgtest.New(d.tb).URL
	case "pooled": // in transaction mode
		address = pgtest.Pooled(d.tb, pgtest.New(d.tb).URL, 3, false)
	case "private":
		address = d.private()
	case "standby":
		address = d.standby()
	case "nagged":
		address = d.nagged()
	case "ascii", "migrated-ascii":
		address = d.ascii(kind)
	case "wrong-password":
		address = withPassword(d.private(), "hunter2")
	case "submitter", "reader", "operator", "stranger":
		address = d.loginAs(kind)
	default:
		db := pgtest.New(d.tb)
		execFile(d.tb, db, kind+".sql")
		address = db.URL
	}
	ts.Setenv("DATABASE_URL", address)
}

// ascii makes a database with another encoding than UTF-8. migrate up refuses such a database, so "migrated-ascii" changes
// the encoding of a migrated one behind Oarlock's back.
func (d *databases) ascii(kind string) string {
	d.tb.Helper()
	u, err := url.Parse(d.private())
	if err != nil {
		d.tb.Fatal(err)
	}
	execAt(d.tb, u.String(), kind+"_database.sql")
	u.Path = "/" + kind
	if kind == "migrated-ascii" {
		if _, err := migrations.Up(d.tb.Context(), u.String()); err != nil {
			d.tb.Fatal(err)
		}
		execAt(d.tb, u.String(), "migrated-ascii.sql")
	}
	return u.String()
}

// loginAs returns the address of the private server's database for a login with one role, or with none.
func (d *databases) loginAs(role string) string {
	u, err := url.Parse(d.logins())
	if err != nil {
		d.tb.Fatal(err)
	}
	u.User = url.UserPassword(role, "s")
	return u.String()
}

// makeLogins makes the roles, and a login for each.
func makeLogins(tb testing.TB, address string) string {
	tb.Helper()
	if err := migrations.Roles(tb.Context(), address); err != nil {
		tb.Fatal(err)
	}
	execAt(tb, address, "logins.sql")
	return address
}

// execAt runs a file of testdata/sql.
func execAt(tb testing.TB, address, name string) {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "sql", name))
	if err != nil {
		tb.Fatal(err)
	}
	conn, err := pgx.Connect(tb.Context(), address)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := conn.Exec(tb.Context(), string(text)); err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	if err := conn.Close(tb.Context()); err != nil {
		tb.Fatal(err)
	}
}

// makeNagged makes a migrated database with a setting that Oarlock warns of, on a server with durable settings.
func makeNagged(tb testing.TB, address string) string {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	execAt(tb, address, "nagged_database.sql")
	u.Path = "/nagged"
	if _, err := migrations.Up(tb.Context(), u.String()); err != nil {
		tb.Fatal(err)
	}
	execAt(tb, u.String(), "nagged.sql")
	return u.String()
}

func libpq(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 0 {
		ts.Fatalf("usage: libpq")
	}
	link, err := pgconn.ParseConfig(ts.Getenv("DATABASE_URL"))
	ts.Check(err)
	ts.Setenv("DATABASE_URL", "")
	ts.Setenv("PGHOST", link.Host)
	ts.Setenv("PGPORT", strconv.Itoa(int(link.Port)))
	ts.Setenv("PGUSER", link.User)
	ts.Setenv("PGPASSWORD", link.Password)
	ts.Setenv("PGDATABASE", link.Database)
}

// startPrivate starts a server of its own: the tests' shared server is tuned in ways that doctor complains about, and may
// want no password.
func startPrivate(tb testing.TB) string {
	tb.Helper()
	return pgcluster.Start(tb, map[string]string{"fsync": "on"}).URL()
}

// startStandby starts a primary without a schema, and a copy of it that streams from it.
func startStandby(tb testing.TB) string {
	tb.Helper()
	return pgcluster.StartEmpty(tb, nil).Standby(tb).URL()
}

func withPassword(address, password string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	u.User = url.UserPassword(u.User.Username(), password)
	u.RawQuery = "" // as users write it: with sslmode=prefer the driver tries each host twice
	return u.String()
}

func execFile(tb testing.TB, db *pgtest.DB, name string) {
	tb.Helper()
	execAt(tb, db.URL, name)
}
