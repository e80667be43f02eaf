package exec

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
)

// The kernel does not apply its limit of processes to root, so root runs this test as another user.
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
	if _, err := x.tracker.of(x.prefix + "1"); err != nil {
		t.Error(err)
	}
}

func TestLimits_SaysWhereNoneBindsRoot(t *testing.T) {
	t.Parallel()
	bomb := setup(t, func(c *Config) { c.Resources = Resources{PIDs: 20} })
	task := shell("i=0; while [ $i -lt 60 ]; do sleep 600 & i=$((i+1)); done; exit 0")
	bounded := bomb.run(t, killedBy(task, "SIGKILL", 0)).Kind != dagrun.KindNone
	if said := bomb.Unbound() == ""; said != bounded {
		t.Errorf("the body was bounded: %t, and the executor says %q", bounded, bomb.Unbound())
	}
	if x := setup(t, func(c *Config) { c.Resources = Resources{Nice: 1, Memory: 1 << 30} }); x.Unbound() != "" {
		t.Errorf("nothing was to be bounded, and it says %q", x.Unbound())
	}
}

func TestLimits_SaysWhatIsBoundedLate(t *testing.T) {
	t.Parallel()
	for limits, late := range map[Resources]bool{{}: false, {Nice: 5}: false, {Memory: 1 << 30}: true, {PIDs: 20}: !isRoot()} {
		x := setup(t, func(c *Config) { c.Cgroup, c.Resources = "", limits })
		if why := x.Late(); (why != "") != late {
			t.Errorf("%+v without a cgroup: it says %q", limits, why)
		}
	}
}

func TestLimits_AShortBodyIsNiceFromTheFirst(t *testing.T) {
	t.Parallel()
	x := setup(t, func(c *Config) { c.Resources = Resources{Nice: 5} })
	plain := setup(t)
	own, err := exec.Command("nice").Output() // the niceness of the tests themselves
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		task := task(dagspec.Step{Command: "/usr/bin/nice"})
		if got := x.run(t, task); got.Kind != dagrun.KindNone || stdout(task) != "5\n" {
			t.Errorf("body %d: got %+v, %q, %s", i, got, stdout(task), stderr(task))
		}
		task = shell("nice")
		if plain.run(t, task); stdout(task) != string(own) {
			t.Errorf("body %d, not to be nice, is: %q", i, stdout(task))
		}
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

// copyOfSelf lets another process make the copy. A file that is open for writing here could be inherited for a moment by a
// process that another test starts, and could not be executed meanwhile.
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
