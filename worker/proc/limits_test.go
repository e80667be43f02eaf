package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// The kernel's limit of processes is not for root, so root runs this test as somebody else.
func TestLimits_BoundABomb(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		runAsNobody(t)
		return
	}
	x := setup(t, func(c *Config) { c.Resources = Resources{PIDs: 40} })
	task := killedBy(shell("i=0; while [ $i -lt 1000 ]; do setsid sleep 600 & i=$((i+1)); echo $i; done"), "SIGKILL", 10*time.Millisecond)
	got := x.run(t, task)
	started := strings.Count(stdout(task), "\n")
	if got.Kind != dagrun.KindExit || started == 1000 || !strings.Contains(strings.ToLower(stderr(task)), "fork") {
		t.Errorf("got %+v after %d processes: %s", got, started, stderr(task))
	}
	if _, err := x.census.of(x.prefix + "1"); err != nil {
		t.Error(err)
	}
}

func runAsNobody(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "oarlock-nobody-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	self := copyOfSelf(t, dir)
	cmd := exec.Command(self, "-test.run=^TestLimits_BoundABomb$")
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// copyOfSelf is made by another process: a file that is open for writing here could be inherited, for a moment, by what
// another test starts, and cannot be executed as long.
func copyOfSelf(t *testing.T, dir string) string {
	t.Helper()
	from, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "proc.test")
	if out, err := exec.Command("cp", from, path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}
