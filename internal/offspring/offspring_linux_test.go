package offspring

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/oarlock-dev/oarlock/integration/kit/await"
	"github.com/oarlock-dev/oarlock/internal/procfs"
)

// adopter is set in the process that plays the parent. A test process must not become one: it would adopt orphans of other tests.
const adopter = "TEST_ADOPTER"

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// adopting reports whether this process adopts. Any other process runs the test in a process that does.
func adopting(t *testing.T) bool {
	t.Helper()
	if os.Getenv(adopter) == "" {
		t.Parallel()
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), adopter+"=yes")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
			t.Errorf("%v\n%s", err, out)
		}
		return false
	}
	release, err := Adopt()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	return true
}

// child starts a shell, and returns how to wait for its end.
func child(t *testing.T, script string) (pid int, wait func() error) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	pid, err := Start(func() (int, error) {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pid, func() error {
		defer Reaped(pid)
		return cmd.Wait()
	}
}

func children(t *testing.T) []int {
	t.Helper()
	pids, err := procfs.Children(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return pids
}

func TestAdopt_ReapsOrphansAndNoChildren(t *testing.T) {
	if !adopting(t) {
		return
	}
	for range 20 {
		_, wait := child(t, "for n in 1 2 3 4 5; do (/bin/sleep 0 &) done; exit 7")
		var ended *exec.ExitError
		if err := wait(); !errors.As(err, &ended) || ended.ExitCode() != 7 {
			t.Fatalf("the end of a child: %v", err)
		}
	}
	await.True(t, "no orphan is left", func() bool { return len(children(t)) == 0 })
}

func TestAdopt_ReapsOrphansBehindAChild(t *testing.T) {
	if !adopting(t) {
		return
	}
	pid, wait := child(t, "exit 0")
	await.True(t, "it has ended", func() bool {
		stat, err := procfs.ReadStat(pid)
		return err == nil && !stat.Live
	})
	_, waitNext := child(t, "(/bin/sleep 0 &)")
	if err := waitNext(); err != nil {
		t.Fatal(err)
	}
	await.True(t, "the orphan is reaped by its pid", func() bool {
		for _, orphan := range children(t) {
			Reap(orphan)
		}
		return len(children(t)) == 1
	})
	if err := wait(); err != nil {
		t.Errorf("the child that ended first was reaped: %v", err)
	}
}

func TestAdopted_TellsOrphansFromChildren(t *testing.T) {
	if !adopting(t) {
		return
	}
	pid, wait := child(t, "(/bin/sleep 600 &) ; read line <&-; exit 0")
	orphan := 0
	await.True(t, "there is an orphan", func() bool {
		for _, one := range children(t) {
			if one != pid && Adopted(one) {
				orphan = one
			}
		}
		return orphan > 0
	})
	if Adopted(pid) {
		t.Error("a child counts as adopted")
	}
	if err := wait(); err != nil {
		t.Error(err)
	}
	process, err := os.FindProcess(orphan)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		t.Error(err)
	}
	await.True(t, "the orphan is reaped", func() bool { return len(children(t)) == 0 })
}
