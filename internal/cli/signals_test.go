package cli

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/pgtest"
	"github.com/oarlock-dev/oarlock/queue"
)

func TestSignal_EndsACommandWithItsStatus(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		signal syscall.Signal
		exit   int
		stderr string
	}{
		"SIGINT":  {syscall.SIGINT, 130, "oarlock: interrupted\n"},
		"SIGTERM": {syscall.SIGTERM, 143, "oarlock: terminated\n"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silent := listen(t)
			var stderr strings.Builder
			cmd := exec.Command("oarlock", "doctor", "--database-url", "postgres://ana@"+silent.Addr().String()+"/app?connect_timeout=60")
			cmd.Stderr = &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			conn, err := silent.Accept() // from now on it waits for an answer
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			failed, ok := errors.AsType[*exec.ExitError](cmd.Wait())
			if !ok || failed.ExitCode() != c.exit || stderr.String() != c.stderr {
				t.Errorf("got %v, stderr %q; want %d, %q", failed, stderr.String(), c.exit, c.stderr)
			}
		})
	}
}

// Whoever waits for a run is let go by the first Ctrl-C, and the run goes on.
func TestInterrupt_EndsWhoeverWaits(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	for _, c := range []struct {
		line           string
		canceled, held bool // what run 1 is before
	}{
		{line: "enqueue slow --wait"},
		{line: "enqueue slow --wait --timeout 1h -o json"},
		{line: "status 1 -w"},
		{line: "status @latest -w -o jsonl"},
		{line: "logs 1 -f"},
		{line: "logs 1 a -f --raw"},
		{line: "cancel 1 --wait", held: true},
		{line: "retry 1 --all --wait", canceled: true},
	} {
		t.Run(c.line, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			run := waitingRun(t, db, c.held, c.canceled)
			var stderr strings.Builder
			cmd := exec.Command("oarlock", strings.Fields(c.line)...)
			cmd.Env, cmd.Stderr = append(os.Environ(), "DATABASE_URL="+db.URL, "OARLOCK_CONFIG=/dev/null"), &stderr
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer time.AfterFunc(scriptPatience, func() { _ = cmd.Process.Kill() }).Stop()
			awaitWatched(t, db)
			if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
			failed, ok := errors.AsType[*exec.ExitError](cmd.Wait())
			if !ok || failed.ExitCode() != int(exitInterrupt) || !strings.Contains(stderr.String(), "interrupted") {
				t.Errorf("it ended with %v, and said %q", failed, stderr.String())
			}
			if got, err := run(); err != nil || got.Over() {
				t.Errorf("the run is %v, %v", got, err)
			}
		})
	}
}

// waitingRun makes run 1, which nobody drives, and a way to read it.
func waitingRun(t *testing.T, db *pgtest.DB, held, canceled bool) (read func() (*queue.Run, error)) {
	t.Helper()
	store, err := queue.Open(t.Context(), queue.Config{URL: db.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	const source = "name: slow\nsteps: [{id: a, run: sleep 1000}]\n"
	spec, err := dagspec.Parse("slow.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutDAG(t.Context(), spec, source, "slow.yaml"); err != nil {
		t.Fatal(err)
	}
	run, err := store.Enqueue(t.Context(), queue.Request{DAG: "slow"})
	if err != nil {
		t.Fatal(err)
	}
	if held {
		s, err := store.Register(t.Context(), queue.Worker{Name: "w1", Host: "h", BootID: "b", PID: 1, Version: "v", Slots: 8, Containment: "none", Offers: []string{"process"}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(context.WithoutCancel(t.Context())) })
		if polled, err := s.Poll(t.Context(), 1); err != nil || len(polled.Claims) != 1 {
			t.Fatalf("%+v, %v", polled, err)
		}
	}
	if canceled {
		if _, err := store.Control(t.Context(), queue.Ask{Run: run, Verb: dagrun.VerbCancel}); err != nil {
			t.Fatal(err)
		}
	}
	return func() (*queue.Run, error) { return store.Get(t.Context(), run) }
}

// awaitWatched returns once somebody follows a run.
func awaitWatched(t *testing.T, db *pgtest.DB) {
	t.Helper()
	watched, err := os.ReadFile(filepath.Join("testdata", "sql", "watched.sql"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), scriptPatience)
	defer cancel()
	conn := db.Conn(t)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for is := false; !is; <-tick.C {
		if err := conn.QueryRow(ctx, string(watched)).Scan(&is); err != nil {
			t.Fatal(err)
		}
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
