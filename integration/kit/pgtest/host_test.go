package pgtest

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// goTest runs packages of testdata/share in a `go test` of their own. Each package writes "pid folder" of its server into
// a file of the returned folder.
func goTest(t *testing.T, packages ...string) (*exec.Cmd, *bytes.Buffer, string) {
	t.Helper()
	if out, err := exec.Command("go", "vet", "./testdata/share/one").CombinedOutput(); err != nil {
		t.Skipf("this user cannot run the go command here: %s", out)
	}
	tell := t.TempDir()
	args := []string{"test", "-count=1"}
	for _, p := range packages {
		args = append(args, "./testdata/share/"+p)
	}
	cmd, out := exec.Command("go", args...), new(bytes.Buffer)
	cmd.Env = append(os.Environ(), "OARLOCK_TEST_TELL="+tell, urlEnv+"=")
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // to kill the go command with its test processes
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return cmd, out, tell
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for tick := time.NewTicker(10 * time.Millisecond); !ok(); {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		case <-tick.C:
		}
	}
}

func ended(t *testing.T, pid, dir string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	must(t, err)
	eventually(t, "the server ends", func() bool { return syscall.Kill(n, 0) == syscall.ESRCH })
	eventually(t, "its folder goes", func() bool { _, err := os.Stat(filepath.Dir(dir)); return err != nil })
}

func TestServer_IsSharedByAllPackagesOfAGoTest_AndEndsWithIt(t *testing.T) {
	t.Parallel()
	cmd, out, tell := goTest(t, "one", "two")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	one, err := os.ReadFile(filepath.Join(tell, "one"))
	must(t, err)
	two, err := os.ReadFile(filepath.Join(tell, "two"))
	must(t, err)
	if string(one) != string(two) {
		t.Errorf("two servers: %s, %s", one, two)
	}
	pid, dir, _ := strings.Cut(string(one), " ")
	ended(t, pid, dir)
}

func TestServer_EndsWithAKilledGoTest(t *testing.T) {
	t.Parallel()
	cmd, _, tell := goTest(t, "stuck")
	var told []byte
	eventually(t, "the stuck test runs", func() bool {
		told, _ = os.ReadFile(filepath.Join(tell, "stuck"))
		return len(told) > 0
	})
	pid, dir, _ := strings.Cut(string(told), " ")
	must(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
	_ = cmd.Wait()
	ended(t, pid, dir)
}
