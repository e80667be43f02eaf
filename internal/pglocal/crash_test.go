package pglocal

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestServer_EndsWithAKilledParent(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	user, pid := startUser(t, dir)
	must(t, user.Process.Kill())
	eventually(t, "the server ends", gone(pid))
	eventually(t, "supervisor and helpers end", func() bool { return len(processesWith(t, dir)) == 0 })
	s := startServer(t, Config{Dir: dir}) // and it ended well
	log, err := os.ReadFile(filepath.Join(dir, "server.log"))
	must(t, err)
	if strings.Contains(string(log), "not properly shut down") {
		t.Errorf("the server was not shut down cleanly:\n%s", log)
	}
	stopServer(t, s)
}

func TestServer_StaysForTheOthersWhenOneUserIsKilled(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	user, pid := startUser(t, dir)
	s := startServer(t, Config{Dir: dir})
	must(t, user.Process.Kill())
	_ = user.Wait()
	if got := query(t, s.URL(""), "SELECT 'up'"); got != "up" || s.PID() != pid {
		t.Error("the server left with its first user")
	}
	stopServer(t, s)
	if !gone(pid)() {
		t.Error("the last user's Stop left the server running")
	}
}

func TestThrowaway_LeavesNothingWhenItsParentIsKilled(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	user, pid := startUser(t, dir, helperEnv+"_THROWAWAY=1")
	must(t, user.Process.Kill())
	eventually(t, "the server ends", gone(pid))
	eventually(t, "the folder goes", func() bool {
		_, err := os.Stat(dir)
		return err != nil && len(processesWith(t, dir)) == 0
	})
}

func TestServer_IsOutOfReachOfTheTerminal(t *testing.T) {
	t.Parallel()
	s := startServer(t, Config{Dir: madeDir(t)})
	pgid, err := syscall.Getpgid(s.PID())
	must(t, err)
	if pgid == syscall.Getpgrp() {
		t.Error("Ctrl-C would reach the server")
	}
}

func TestServer_KeepForHoldsItUntilThatProcessEnds(t *testing.T) {
	t.Parallel()
	host := exec.Command("sleep", "1000")
	must(t, host.Start())
	defer func() { _ = host.Process.Kill(); _ = host.Wait() }()
	c := Config{Dir: madeDir(t), Throwaway: true, KeepFor: host.Process.Pid}
	s := startServer(t, c)
	stopServer(t, s)
	again := startServer(t, c)
	if again.PID() != s.PID() {
		t.Error("the server did not wait for its host")
	}
	stopServer(t, again)
	must(t, host.Process.Kill())
	_ = host.Wait()
	eventually(t, "the server ends", gone(s.PID()))
	eventually(t, "the folder goes", func() bool { _, err := os.Stat(s.Dir()); return err != nil })
}

func TestStart_RecoversAfterTheServerWasKilled(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	s := startServer(t, Config{Dir: dir})
	execute(t, s.URL(""), "CREATE TABLE kept AS SELECT 'yes' AS answer")
	must(t, syscall.Kill(s.PID(), syscall.SIGKILL))
	again := startServer(t, Config{Dir: dir})
	if got := query(t, again.URL(""), "SELECT answer FROM kept"); got != "yes" {
		t.Error(got)
	}
	stopServer(t, s)
	if got := query(t, again.URL(""), "SELECT 'up'"); got != "up" {
		t.Error("the first user's Stop took the server from the second")
	}
}

func TestStart_KeepsItsPortWhileABackendOfAKilledServerLeaves(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	s := startServer(t, Config{Dir: dir})
	conn, err := pgx.Connect(t.Context(), s.URL(""))
	must(t, err)
	defer conn.Close(t.Context())
	backend := int(conn.PgConn().PID())
	must(t, syscall.Kill(backend, syscall.SIGSTOP)) // so that the backend does not notice
	defer func() { _ = syscall.Kill(backend, syscall.SIGKILL) }()
	must(t, syscall.Kill(s.PID(), syscall.SIGKILL))
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	refused := make(chan error, 1)
	go func() {
		refused <- poll(ctx, func() (bool, error) {
			log, _ := os.ReadFile(filepath.Join(dir, "server.log"))
			return strings.Contains(string(log), "pre-existing shared memory block"), nil
		})
		_ = syscall.Kill(backend, syscall.SIGKILL)
	}()
	again := startServer(t, Config{Dir: dir})
	must(t, <-refused)
	if again.Port() != s.Port() {
		t.Errorf("the port changed from %d to %d", s.Port(), again.Port())
	}
}

func TestStart_TakesOverAServerThatLostItsSupervisor(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	s := startServer(t, Config{Dir: dir})
	execute(t, s.URL(""), "CREATE TABLE kept AS SELECT 'yes' AS answer")
	for pid := range processesWith(t, filepath.Join(dir, "supervise.sh")) {
		must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	if gone(s.PID())() {
		t.Fatal("this test wants a server without supervisor")
	}
	again := startServer(t, Config{Dir: dir})
	if got := query(t, again.URL(""), "SELECT answer FROM kept"); got != "yes" {
		t.Error(got)
	}
	stopServer(t, again)
	stopServer(t, s)
	eventually(t, "both servers end", func() bool { return len(processesWith(t, dir)) == 0 })
}

// A pid file with the number of another process: PostgreSQL alone would refuse to start.
func TestStart_LeavesAForeignProcessAlone(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	foreign := exec.Command("sleep", "1000")
	o, err := serverOwner()
	must(t, err)
	foreign.SysProcAttr = o.attr() // PostgreSQL ignores processes of other users
	must(t, foreign.Start())
	defer func() { _ = foreign.Process.Kill(); _ = foreign.Wait() }()
	stale := fmt.Sprintf("%d\n%s/data\n1700000000\n5432\n/tmp\n127.0.0.1\n  1234 5\nready   \n", foreign.Process.Pid, dir)
	pidFile := filepath.Join(dir, "data", "postmaster.pid")
	must(t, os.WriteFile(pidFile, []byte(stale), 0o600))
	must(t, o.give(pidFile))

	s := startServer(t, Config{Dir: dir})
	if got := query(t, s.URL(""), "SELECT 'up'"); got != "up" || s.PID() == foreign.Process.Pid {
		t.Error("not our server")
	}
	stopServer(t, s)
	if gone(foreign.Process.Pid)() {
		t.Error("a foreign process was killed")
	}
}

func TestStart_ContinuesAfterAKilledInitdb(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	must(t, os.Rename(filepath.Join(dir, "data"), filepath.Join(dir, "data.new")))
	must(t, os.Remove(filepath.Join(dir, "data.new", "PG_VERSION")))
	s := startServer(t, Config{Dir: dir})
	if got := query(t, s.URL(""), "SELECT 'up'"); got != "up" {
		t.Error(got)
	}
}

func TestThrowaway_LeavesNothingWhenItsParentIsKilledInInitdb(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(newDir(t), "pg")
	user := userCommand(t, dir, helperEnv+"_THROWAWAY=1")
	must(t, user.Start())
	eventually(t, "initdb runs", func() bool {
		_, err := os.Stat(filepath.Join(dir, "data.new", "base"))
		return err == nil
	})
	must(t, user.Process.Kill())
	_ = user.Wait()
	eventually(t, "the folder goes", func() bool {
		_, err := os.Stat(dir)
		return err != nil && len(processesWith(t, dir)) == 0
	})
}
