package integration

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

var demoFolder = regexp.MustCompile(`/tmp/oarlock-demo-\w+`)

// TestDemo_ShowsARunAndATakeover runs `make demo` without the build, as root and as a user that owns nothing.
func TestDemo_ShowsARunAndATakeover(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts servers")
	}
	dir := demoProgram(t)
	tool, err := filepath.Abs("../tools/demo")
	if err != nil {
		t.Fatal(err)
	}
	for name, attr := range map[string]*syscall.SysProcAttr{
		"as we are": nil, "as nobody": {Credential: &syscall.Credential{Uid: 65534, Gid: 65534}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := func(words ...string) *exec.Cmd {
				cmd := exec.Command(words[0], words[1:]...)
				cmd.SysProcAttr, cmd.Dir = attr, "/"
				return cmd
			}
			if attr != nil && (os.Getuid() != 0 || command("test", "-x", tool, "-a", "-x", filepath.Join(dir, "oarlock")).Run() != nil) {
				t.Skip("needs root, and a project that everybody may read")
			}
			theirs, untouched := foreignDatabase(t)
			cmd := command(tool, filepath.Join(dir, "oarlock"))
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "DATABASE_URL=" + theirs, "OARLOCK_DATABASE_URL=" + theirs, "PGHOST=" + theirs}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			checkDemo(t, string(out))
			untouched()
		})
	}
}

// demoProgram returns a folder with the program, which any user may execute.
func demoProgram(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "oarlock-programs-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if out, err := exec.Command("cp", program, dir).CombinedOutput(); err != nil {
		t.Fatalf("copy: %v\n%s", err, out)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// foreignDatabase returns the address of a database that the demo must not even connect to.
func foreignDatabase(t *testing.T) (url string, untouched func()) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	knocks := make(chan int)
	go func() {
		n := 0
		for {
			conn, err := listener.Accept()
			if err != nil {
				knocks <- n
				return
			}
			n++
			conn.Close()
		}
	}()
	return "postgres://somebody@" + listener.Addr().String() + "/theirs", func() {
		listener.Close()
		if n := <-knocks; n > 0 {
			t.Errorf("DATABASE_URL was tried %d times", n)
		}
	}
}

// checkDemo checks what the demo showed.
func checkDemo(t *testing.T, out string) {
	t.Helper()
	at := 0
	for _, want := range []string{
		"✓ greet  succeeded", "✓ count  succeeded", "✓ wave   succeeded", // the tree of three tasks
		"greet | hello you", // and their logs
		"applied takeover version 1",
		"attempt 1: waiting for a file",
		"$ kill -9 ",
		"attempt 2: there it is", "finish  | finished",
		"takeover version 1  succeeded", ", worker dev-",
		"✓ prepare  succeeded", "attempt 2", "✓ finish   succeeded",
		"was lost: queued again", "succeeded in attempt 2",
		"ended: signal: killed; its runs go on",
	} {
		i := strings.Index(out[at:], want)
		if i < 0 {
			t.Fatalf("it does not show %q, or not in its place:\n%s", want, out)
		}
		at += i
	}
	for _, want := range []string{ // in any order, since the lines of two tasks are stored as they come
		"count | a name of 3 letters", "wave  | o/", "prepare | prepared, which happens once", "\ndev-1 ", "\ndev-2 ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not show %q:\n%s", want, out)
		}
	}
	if n := strings.Count(out, "prepare  started"); n != 1 {
		t.Errorf("prepare started %d times", n)
	}
	dir := demoFolder.FindString(out)
	if _, err := os.Stat(dir); dir == "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder %q is left: %v", dir, err)
	}
	if left, _ := exec.Command("pgrep", "-f", dir).Output(); len(left) > 0 {
		t.Errorf("its processes are left: %s", left)
	}
}
