package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/internal/pglocal"
	"github.com/oarlock-dev/oarlock/migrations"
)

// refused returns pgx's error for an address at which no server listens, and the address. A listener there has just closed.
func refused(t *testing.T) (addr string, err error) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err = pgx.Connect(t.Context(), "postgres://ana:hunter2@"+addr+"/app"); err == nil {
		t.Fatalf("somebody listens at %s", addr)
	}
	return addr, err
}

func server(code, message string) error {
	return fmt.Errorf("do it: %w", &pgconn.PgError{Severity: "ERROR", Code: code, Message: message})
}

// private returns an error with a cause that looks like an unreachable database.
func private(kind error) error {
	return fmt.Errorf("start: %w", &pglocal.Error{Kind: kind, Msg: "no", Cause: context.DeadlineExceeded})
}

func TestDiagnose_GivesEveryErrorItsCodeAndExitStatus(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	addr, noServer := refused(t)
	cases := map[string]struct {
		err  error
		kind kind
		want string
	}{
		"anything":        {broken, general, "broken"},
		"usage":           {&usageError{msg: "what?"}, usage, "what?"},
		"not found":       {&failure{kind: notFound, err: broken}, notFound, "broken"},
		"conflict":        {fmt.Errorf("cancel: %w", &failure{kind: conflict, err: broken}), conflict, "cancel: broken"},
		"invalid":         {&failure{kind: invalid, err: broken}, invalid, "broken"},
		"run failed":      {&failure{kind: runFailed, err: broken}, runFailed, "broken"},
		"run canceled":    {&failure{kind: runCanceled, err: broken}, runCanceled, "broken"},
		"wait timed out":  {&failure{kind: timedOut, err: context.DeadlineExceeded}, timedOut, "context deadline exceeded"},
		"no postgres":     {fmt.Errorf("start: %w", &pglocal.MissingError{}), noPostgres, ""},
		"no binaries":     {&pglocal.Error{Kind: pglocal.ErrBinaries, Msg: "no initdb"}, noPostgres, "no initdb"},
		"private busy":    {private(pglocal.ErrBusy), conflict, "start: no"},
		"private disk":    {private(pglocal.ErrDiskFull), general, "start: no"},
		"full disk":       {&fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}, general, ""},
		"refused":         {noServer, unreachable, "cannot connect to ana@" + addr + "/app: connection refused"},
		"dial":            {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, unreachable, "dial: connection refused"},
		"cut":             {fmt.Errorf("read: %w", net.ErrClosed), unreachable, ""},
		"slow database":   {fmt.Errorf("query: %w", context.DeadlineExceeded), unreachable, ""},
		"password":        {server("28P01", "password authentication failed"), authFailed, "do it: password authentication failed"},
		"in use":          {server("55006", "worker w1 is connected"), conflict, "do it: worker w1 is connected"},
		"wrong state":     {server("55000", "no"), conflict, "do it: no"},
		"no database":     {server("3D000", "no"), unreachable, "do it: no"},
		"standby":         {server("25006", "cannot execute"), readOnly, "do it: cannot execute"},
		"permission":      {server("42501", "permission denied"), denied, "do it: permission denied"},
		"too many":        {server("53300", "sorry"), unreachable, "do it: sorry"},
		"any server":      {server("42P01", "no such table"), general, "do it: no such table"},
		"lines and urls":  {errors.New("a\n\tpostgres://ana:hunter2@db/app\r\nb"), general, "a; postgres://ana:xxxxx@db/app; b"},
		"migrate standby": {fmt.Errorf("migrate: %w", migrations.ErrReadOnly), readOnly, "this server is a read-only standby"},
		"read-only":       {fmt.Errorf("migrate: %w", migrations.ErrReadOnlySession), readOnly, "this session is read-only"},
		"locked":          {fmt.Errorf("migrate: %w", migrations.ErrLocked), conflict, ""},
		"old server":      {fmt.Errorf("migrate: %w", migrations.ErrServerTooOld), serverVersion, ""},
		"schema too old":  {&migrations.VersionError{Have: 0, Min: 2, Max: 3, Command: "oarlock migrate up"}, schemaVersion, ""},
		"schema too new":  {&migrations.VersionError{Have: 9, Min: 2, Max: 3}, schemaVersion, "the database has schema version 9, this binary works with 2 to 3"},
		"bad file":        {config.FileErrors{{Path: "c.yaml", Line: 1, Column: 2, Msg: "no"}}, invalid, "c.yaml:1:2: no"},
		"bad variable":    {badValue(config.FromEnv), invalid, ""},
		"bad flag":        {badValue(config.FromFlag), usage, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := diagnose(t.Context(), c.err)
			if p.kind != c.kind {
				t.Errorf("kind %v, want %v", p.kind, c.kind)
			}
			if c.want != "" && p.message != c.want {
				t.Errorf("message %q, want %q", p.message, c.want)
			}
			if strings.Contains(p.message, "\n") || strings.Contains(p.message, "hunter2") {
				t.Errorf("message %q is not one line without secrets", p.message)
			}
		})
	}
}

func badValue(from config.Kind) error {
	return &config.InvalidError{Value: config.Value{Origin: config.Origin{Kind: from}}, Reason: errors.New("no")}
}

// kinds are all kinds of errors, with the exit statuses that scripts rely on.
var kinds = map[kind]exit{
	general: 1, checkFailed: 1, denied: 1, noPostgres: 1, usage: 2, notFound: 3, conflict: 4, unreachable: 5,
	authFailed: 5, readOnly: 5, schemaVersion: 5, mayBeCopy: 5, serverVersion: 5, invalid: 6, runFailed: 10, runCanceled: 11,
	outcomeUnknown: 5, timedOut: 124, interrupted: 130, terminated: 143,
}

func TestDiagnose_KnowsEveryExitStatus(t *testing.T) {
	t.Parallel()
	codes := map[string]bool{}
	for k, status := range kinds {
		if k.exit != status {
			t.Errorf("%s exits %d, want %d", k.code, k.exit, status)
		}
		if codes[k.code] {
			t.Errorf("code %s stands for two kinds", k.code)
		}
		codes[k.code] = true
	}
}

func TestDiagnose_PutsTheSignalFirst(t *testing.T) {
	t.Parallel()
	for interrupt, want := range map[bool]kind{true: interrupted, false: terminated} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(&signalError{interrupt})
		_, err := refused(t)
		if p := diagnose(ctx, err); p.kind != want || p.hint != "" {
			t.Errorf("got %+v, want %v", p, want)
		}
	}
}

func TestProblem_OfACommandThatHearsSignalsIsItsOwn(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(&signalError{})
	e := &env{hearsSignals: true}
	if p := e.problemOf(ctx, errors.New("remove the work folder: not permitted")); p.kind != general || p.message != "remove the work folder: not permitted" {
		t.Errorf("got %+v, want why the worker could not end in order", p)
	}
	e.hearsSignals = false
	if p := e.problemOf(ctx, errors.New("broken")); p.kind != terminated {
		t.Errorf("got %+v, want that it was terminated", p)
	}
}

func TestReport_IsOneObjectWithJSON(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(path, []byte("x: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string][]string{
		"bad words":     {"frob", "-o", "json"},
		"glued":         {"frob", "-ojson"},
		"long":          {"--output=jsonl", "frob"},
		"bad setting":   {"version", "-o", "json", "--log-level", "x"},
		"bad file":      {"version", "-o", "json", "--config", path},
		"known setting": {"completion", "bsh", "-o", "json"},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := invoke(t, testEnv(), args...)
			var object struct {
				Error struct {
					Code    string `json:"code"`
					Message string `json:"message"`
				} `json:"error"`
			}
			if err := json.Unmarshal([]byte(got.stderr), &object); err != nil || object.Error.Code == "" || object.Error.Message == "" {
				t.Errorf("stderr is no error object: %v: %s", err, got.stderr)
			}
			if got.stdout != "" || got.exit == exitOK {
				t.Errorf("exit %d, stdout %q", got.exit, got.stdout)
			}
		})
	}
}

func TestReport_CommandsNoTerminal(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"\x1b[2J", "a\rb", "\u202ex", "\u009b31m"} {
		if got := invoke(t, testEnv(), "completion", word); strings.ContainsAny(got.stderr, "\x1b\r\u202e\u009b") || got.exit != exitUsage {
			t.Errorf("%q: exit %d, stderr %q", word, got.exit, got.stderr)
		}
	}
}

func TestReport_IsForPeopleOtherwise(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"frob"}, {"frob", "--", "-o", "json"}, {"frob", "-o", "table"}, {"frob", "-o"}} {
		if got := invoke(t, testEnv(), args...); !strings.HasPrefix(got.stderr, "oarlock: ") || strings.Count(got.stderr, "\n") != 2 {
			t.Errorf("%q: stderr %q, want a line and a hint", args, got.stderr)
		}
	}
}
