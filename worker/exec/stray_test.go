package exec

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/internal/offspring"
	"github.com/oarlock-dev/oarlock/worker"
)

// adopterVariable is set in a process that runs one test, and adopts orphans.
const adopterVariable = "TEST_ADOPTS"

// adopting returns an executor in a process that adopts orphans. In any other process it runs the test in such a process, and
// returns nil.
func adopting(t *testing.T) *testBundle {
	t.Helper()
	if os.Getenv(adopterVariable) == "" {
		t.Parallel()
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), adopterVariable+"=yes")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%v\n%s", err, out)
		}
		return nil
	}
	release, err := offspring.Adopt()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return setup(t, func(c *Config) { c.Adopts = true })
}

// leavesAStray returns a body that ends once it has left a process behind: with a session and no environment of its own, and
// without a parent of the body. The process writes its pid to the folder.
func leavesAStray(t *testing.T) (task *worker.Task, pid func() int) {
	t.Helper()
	task = shell(`env -i setsid /bin/sh -c '(/bin/sh -c "echo \$\$ >pid; exec /bin/sleep 600" >/dev/null 2>&1 &); exit 0' & wait; until [ -s pid ]; do :; done`)
	dir := t.TempDir()
	task.Body.WorkingDir = dir
	return task, func() int {
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if alive(pid) {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		})
		return pid
	}
}

// waits returns a body that runs until end is called.
func waits(t *testing.T) (task *worker.Task, end func()) {
	t.Helper()
	task = shell("echo runs; until [ -e end ]; do :; done")
	dir := t.TempDir()
	task.Body.WorkingDir = dir
	return task, func() {
		if err := os.WriteFile(filepath.Join(dir, "end"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStray_EndsWithItsBody(t *testing.T) {
	x := adopting(t)
	if x == nil {
		return
	}
	task, pid := leavesAStray(t)
	task, notes := noted(killedBy(task, "SIGTERM", time.Hour))
	if got := x.run(t, task); got.Kind != dagrun.KindNone {
		t.Fatalf("got %+v: %s", got, stderr(task))
	}
	if alive(pid()) {
		t.Error("it lives")
	}
	if !strings.Contains(notes.String(), "ended 1 process that was left behind: sleep (pid "+strconv.Itoa(pid())+")") {
		t.Errorf("noted %q", notes)
	}
}

func TestStray_EndsWithItsLastPossibleBody(t *testing.T) {
	x := adopting(t)
	if x == nil {
		return
	}
	other, end := waits(t)
	running := x.begin(t, t.Context(), other)
	await.True(t, "the other runs", func() bool { return stdout(other) != "" })
	task, pid := leavesAStray(t)
	if got := x.run(t, task); got.Kind != dagrun.KindNone {
		t.Fatalf("got %+v: %s", got, stderr(task))
	}
	if !alive(pid()) {
		t.Error("it was killed while another body ran that may have started it")
	}
	late, endLate := waits(t) // it cannot have started the stray
	stillRunning := x.begin(t, t.Context(), late)
	await.True(t, "the late one runs", func() bool { return stdout(late) != "" })
	end()
	if got := <-running; got.Kind != dagrun.KindNone || alive(pid()) {
		t.Errorf("got %+v, alive: %t", got, alive(pid()))
	}
	endLate()
	<-stillRunning
}

// Bodies that end at the same moment must not leave a stray to each other.
func TestStray_OfOneOfManyBodiesIsEnded(t *testing.T) {
	x := adopting(t)
	if x == nil {
		return
	}
	const bodies = 8
	var pids []func() int
	var results []<-chan dagrun.Result
	for range bodies {
		task, pid := leavesAStray(t)
		pids, results = append(pids, pid), append(results, x.begin(t, t.Context(), task))
	}
	for _, result := range results {
		if got := <-result; got.Kind != dagrun.KindNone {
			t.Errorf("got %+v", got)
		}
	}
	for _, pid := range pids {
		if alive(pid()) {
			t.Errorf("%d lives", pid())
		}
	}
}

func TestStray_LivesUntilCloseWhereTheStepKeepsIt(t *testing.T) {
	x := adopting(t)
	if x == nil {
		return
	}
	other, end := waits(t)
	running := x.begin(t, t.Context(), other)
	await.True(t, "the other runs", func() bool { return stdout(other) != "" })
	task, pid := leavesAStray(t)
	killedBy(task, "SIGTERM", time.Hour).Body.Kill.Leftovers = "keep"
	x.run(t, task)
	end()
	<-running
	if !alive(pid()) {
		t.Error("it was killed")
	}
	if err := x.Close(); err != nil || alive(pid()) {
		t.Errorf("after Close: %v, alive: %t", err, alive(pid()))
	}
}

func TestStray_IsNoProcessOfThisOne(t *testing.T) {
	x := adopting(t)
	if x == nil {
		return
	}
	task, pid := leavesAStray(t)
	own := exec.Command("/bin/sleep", "600")
	own.Env = []string{} // as a stray has it
	own.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_, err := offspring.Start(func() (int, error) {
		if err := own.Start(); err != nil {
			return 0, err
		}
		return own.Process.Pid, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	x.run(t, task)
	if alive(pid()) {
		t.Error("the stray lives, so nothing is shown")
	}
	if !alive(own.Process.Pid) {
		t.Error("a child of this process was killed")
	}
	_ = own.Process.Kill()
	if err := own.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Errorf("its end went to another: %v", err)
	}
	offspring.Reaped(own.Process.Pid)
}
