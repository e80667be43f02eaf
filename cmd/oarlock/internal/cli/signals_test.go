package cli

import (
	"context"
	"errors"
	"io"
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
	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/integration/kit/pgtest"
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

// A command that waits for a run ends at the first Ctrl-C, and the run goes on.
func TestInterrupt_EndsWhoeverWaits(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	for _, c := range []struct {
		line           string
		canceled, held bool // state of run 1 before the command
	}{
		{line: "enqueue slow --wait"},
		{line: "enqueue slow --wait --timeout 1h -o json"},
		{line: "status 1 -w"},
		{line: "status @latest -w -o jsonl"},
		{line: "logs 1 -f"},
		{line: "logs 1 a -f --raw"},
		{line: "cancel 1 --wait", held: true},
		{line: "retry 1 --all --wait --within 1ms", canceled: true},
	} {
		t.Run(c.line, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			run := waitingRun(t, db, c.held, c.canceled)
			var stderr strings.Builder
			cmd := startCommand(t, db.URL, &stderr, c.line)
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

// At the second Ctrl-C a command ends without waiting for what the first one still waits for, such as a connection that
// hangs for many seconds.
func TestInterrupt_ASecondOneEndsWhoeverWaits(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	for _, c := range []struct {
		line           string
		canceled, held bool // state of run 1 before the command
	}{
		{line: "enqueue slow --wait"},
		{line: "status 1 -w"},
		{line: "logs 1 -f"},
		{line: "cancel 1 --wait", held: true},
		{line: "retry 1 --all --wait --within 1ms", canceled: true},
	} {
		t.Run(c.line, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			waitingRun(t, db, c.held, c.canceled)
			proxy, url := netfault.Through(t, db.URL)
			cmd := startCommand(t, url, io.Discard, c.line)
			awaitWatched(t, db)
			proxy.Freeze()
			if ended := interruptUntilItEnds(cmd); !ended.Signaled() || ended.Signal() != syscall.SIGINT {
				t.Errorf("it ended by itself, with %d", ended.ExitStatus())
			}
		})
	}
}

// interruptUntilItEnds presses Ctrl-C again and again, because the kernel merges signals that follow each other too fast.
func interruptUntilItEnds(cmd *exec.Cmd) syscall.WaitStatus {
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = cmd.Wait()
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_ = cmd.Process.Signal(syscall.SIGINT) // the process may have ended
		select {
		case <-over:
			status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
			return status
		case <-tick.C:
		}
	}
}

// A second Ctrl-C does not wait for the end of a run that the command drives itself either. A shell reports 130 for a
// process that SIGINT ended.
func TestInterrupt_ASecondOneEndsARunAtOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs a database")
	}
	const body = `trap "echo > told" TERM; echo $$ > busy; while :; do sleep 0.05; done`
	const file = "name: stubborn\nsteps: [{id: a, run: 'cd $OARLOCK_SOURCE_DIR; " + body + "', kill: {grace: 1h}}]\n"
	for _, args := range [][]string{
		{"run", "stubborn.yaml"}, {"run", "stubborn.yaml", "-o", "json"}, {"exec", "--", "sh", "-c", body},
	} {
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "stubborn.yaml"), []byte(file), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := command(pgtest.New(t).URL, io.Discard, args...)
			cmd.Dir = dir
			start(t, cmd)
			for _, said := range []string{"busy", "told"} {
				awaitFile(t, filepath.Join(dir, said))
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait()
			if ended, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !ended.Signaled() || ended.Signal() != syscall.SIGINT {
				t.Errorf("it ended with %v", cmd.ProcessState)
			}
		})
	}
}

func command(url string, stderr io.Writer, args ...string) *exec.Cmd {
	cmd := exec.Command("oarlock", args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "DATABASE_URL="+url, "OARLOCK_CONFIG=/dev/null"), stderr
	return cmd
}

func startCommand(t *testing.T, url string, stderr io.Writer, line string) *exec.Cmd {
	t.Helper()
	cmd := command(url, stderr, strings.Fields(line)...)
	start(t, cmd)
	return cmd
}

// start starts a command, and ends it if a test waits for it in vain.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	patience := time.AfterFunc(scriptPatience, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { patience.Stop() })
}

func awaitFile(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), scriptPatience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(name); err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s never came", name)
		}
	}
}

// waitingRun makes run 1, which no worker drives, and returns a function that reads it.
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
		if polled, err := s.Poll(t.Context(), queue.Want{Slots: 1, Free: 1}); err != nil || len(polled.Claims) != 1 {
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

// awaitWatched returns once a command follows a run.
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
