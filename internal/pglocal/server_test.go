package pglocal

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

func TestStart_MakesAServerThatAnswersOnTCPAndSocket(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(newDir(t), "deep", "pg")
	s := startServer(t, Config{Dir: dir, Settings: map[string]string{"work_mem": "7MB", "listen_addresses": "*"}})

	for _, url := range []string{s.URL(""), s.SocketURL("")} {
		if got := query(t, url, "SELECT current_database()::text || current_setting('work_mem')"); got != "postgres7MB" {
			t.Errorf("%s: got %s", url, got)
		}
	}
	if got := query(t, s.URL("template1"), "SELECT current_database()::text"); got != "template1" {
		t.Errorf("connected to %s", got)
	}
	if got := query(t, s.URL(""), "SELECT current_setting('listen_addresses') || ' ' || current_setting('server_encoding')"); got != "127.0.0.1 UTF8" {
		t.Errorf("listens on %s", got)
	}
	if got := query(t, s.URL(""), "SELECT rolsuper::text FROM pg_authid WHERE rolname = session_user AND rolpassword LIKE 'SCRAM%'"); got != "true" {
		t.Errorf("superuser with a scram password: %s", got)
	}
}

func TestStart_RefusesAWrongPassword(t *testing.T) {
	t.Parallel()
	s := startServer(t, Config{Dir: madeDir(t)})
	for _, url := range []string{s.URL(""), s.SocketURL("")} {
		wrong := strings.Replace(url, s.folder.state.Password, "wrong", 1)
		if err := tryConnect(t, wrong); err == nil {
			t.Errorf("logged in with %s", wrong)
		}
	}
}

func TestStart_ShowsThePasswordToNobody(t *testing.T) {
	t.Parallel()
	s := startServer(t, Config{Dir: filepath.Join(newDir(t), "pg")})
	if found := processesWith(t, s.folder.state.Password); len(found) > 0 {
		t.Errorf("password in a command line: %v", found)
	}
	info, err := os.Stat(filepath.Join(s.Dir(), "state.json"))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("state.json has mode %v", info.Mode())
	}
	if _, err := os.Stat(filepath.Join(s.Dir(), "pwfile")); err == nil {
		t.Error("the password file is still there")
	}
}

func TestServer_KeepsDataAndAddressOverARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(newDir(t), "pg") // a new folder: its address is chosen now
	s := startServer(t, Config{Dir: dir})
	execute(t, s.URL(""), "CREATE TABLE kept AS SELECT 'yes' AS answer")
	stopServer(t, s)
	if !gone(s.PID())() {
		t.Fatal("the server still runs after Stop")
	}
	again := startServer(t, Config{Dir: dir})
	if got := query(t, again.URL(""), "SELECT answer FROM kept"); got != "yes" {
		t.Errorf("got %s", got)
	}
	if again.URL("") != s.URL("") {
		t.Errorf("the address changed from %s to %s", s.URL(""), again.URL(""))
	}
}

func TestStart_AttachesToARunningServer_AndTheLastUserStopsIt(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	first := startServer(t, Config{Dir: dir})
	_, pid := startUser(t, dir)
	third := startServer(t, Config{Dir: dir})
	if first.PID() != pid || third.PID() != pid {
		t.Fatalf("three servers: %d %d %d", first.PID(), pid, third.PID())
	}
	stopServer(t, first)
	stopServer(t, first) // a second call changes nothing
	if got := query(t, third.URL(""), "SELECT 'up'"); got != "up" {
		t.Error(got)
	}
	stopServer(t, third)
	if gone(pid)() {
		t.Fatal("stopped though another process uses it")
	}
}

func TestStart_ManyAtOnceShareOneServer(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	for range 3 { // so that users also come while the last one leaves
		var wg sync.WaitGroup
		for range 6 {
			wg.Go(func() {
				s, err := Start(t.Context(), Config{Dir: dir})
				if err != nil {
					t.Error(err)
					return
				}
				if err := tryConnect(t, s.URL("")); err != nil {
					t.Errorf("server given, but: %v", err)
				}
				if err := s.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	eventually(t, "all ends", func() bool { return len(processesWith(t, dir)) == 0 })
}

func TestStart_TakesAnotherPortWhenItsOwnIsTaken(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	s := startServer(t, Config{Dir: dir})
	stopServer(t, s)
	l, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(s.Port()))
	if err != nil {
		t.Skip("somebody else has the port already: ", err)
	}
	defer l.Close()
	if again := startServer(t, Config{Dir: dir}); again.Port() == s.Port() {
		t.Error("same port")
	}
}

func TestStart_PutsTheSocketElsewhereWhenThePathIsTooLong(t *testing.T) {
	t.Parallel()
	long := filepath.Join(newDir(t), strings.Repeat("long/", 30))
	must(t, os.MkdirAll(long, 0o755))
	s := startServer(t, Config{Dir: madeIn(t, long)})
	if got := query(t, s.SocketURL(""), "SELECT 'up'"); got != "up" {
		t.Error(got)
	}
	stopServer(t, s)
	if _, err := os.Stat(s.pm.socketDir); err == nil {
		t.Errorf("%s is left behind", s.pm.socketDir)
	}
}

func TestThrowaway_LeavesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]Config{
		"own folder":   {Throwaway: true},
		"named folder": {Throwaway: true, Dir: madeDir(t)},
	} {
		s := startServer(t, c)
		stopServer(t, s)
		if _, err := os.Stat(s.Dir()); err == nil {
			t.Errorf("%s: %s is still there", name, s.Dir())
		}
		eventually(t, "the supervisor ends", func() bool { return len(processesWith(t, s.Dir())) == 0 })
	}
}

func TestThrowaway_LeavesNothingWhenItCannotStart(t *testing.T) {
	t.Parallel()
	dir := madeDir(t)
	_, err := Start(t.Context(), Config{Throwaway: true, Dir: dir, Settings: map[string]string{"work_mem": "much"}})
	if !errors.Is(err, ErrFailed) || !strings.Contains(err.Error(), "work_mem") {
		t.Errorf("want ErrFailed about work_mem, got %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the folder is still there")
	}
}
