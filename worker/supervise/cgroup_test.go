//go:build linux

package supervise

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

func TestFindCgroup_PutsMountAndPathTogether(t *testing.T) {
	t.Parallel()
	const (
		v2     = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
		hybrid = "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n40 23 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
		part   = "30 23 0:26 /a /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
	)
	for _, test := range []struct{ mounts, groups, want string }{
		{v2, "0::/\n", "/sys/fs/cgroup"},
		{v2, "0::/a/b.service\n", "/sys/fs/cgroup/a/b.service"},
		{hybrid, "4:memory:/x\n0::/y\n", "/sys/fs/cgroup/unified/y"},
		{part, "0::/a/b\n", "/sys/fs/cgroup/b"},
		{part, "0::/b\n", ""},
		{v2, "0::/../x\n", ""},
		{v2, "4:memory:/x\n", ""},
		{"", "0::/\n", ""},
		{"- cgroup2 \n", "0::/\n", ""},
	} {
		got, err := findCgroup(test.mounts, test.groups)
		if got != test.want || (err != nil) != (test.want == "") {
			t.Errorf("%q in %q: %q, %v; want %q", test.groups, test.mounts, got, err, test.want)
		}
	}
}

func TestCgroup_ListsAndKillsWhatIsAnywhereInIt(t *testing.T) {
	t.Parallel()
	c, err := makeCgroup()
	if err != nil {
		t.Skipf("no writable cgroup v2: %v", err)
	}
	t.Cleanup(func() { c.remove() })
	attempt := cgroup(c.file("attempt"))
	must(t, os.MkdirAll(attempt.leaf(), 0o755))
	var want []int
	for _, in := range []cgroup{c, attempt} {
		cmd := exec.Command("/bin/sleep", "600")
		must(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		must(t, in.join(cmd.Process.Pid))
		want = append(want, cmd.Process.Pid)
	}
	slices.Sort(want)
	members, err := c.members()
	must(t, err)
	if got := pids(members); !slices.Equal(got, want) {
		t.Errorf("members %v, want %v", got, want)
	}
	if c.remove() {
		t.Error("removed with processes in it")
	}
	must(t, os.MkdirAll(attempt.leaf(), 0o755)) // remove has removed the folders that were empty
	signalAll(members, syscall.SIGKILL)         // before Linux 5.14
	s := &stage{t: t}
	s.eventually("the cgroup is empty", func() bool {
		left, err := c.members()
		return err == nil && len(left) == 0
	})
	if !c.remove() {
		t.Error("not removed")
	}
}

// A process of a cgroup that was killed cannot start others in new ones: they would be killed at birth.
func TestRun_SuccessorsCanStartProcessesInCgroups(t *testing.T) {
	c, err := makeCgroup()
	if err != nil {
		t.Skipf("no writable cgroup v2: %v", err)
	}
	c.remove()
	s := setup(t, "group")
	s.play.Ungrouped = false
	s.guard()
	for n := range 3 {
		kill(t, s.heard("driver", "ready", n+1).PID, syscall.SIGKILL)
		s.eventually("a successor started a process", func() bool {
			return len(s.said("driver", "ready")) == n+2 || len(s.said("driver", "failed")) > 0
		})
		if failed := s.said("driver", "failed"); len(failed) > 0 {
			t.Fatalf("it failed: %v", failed[0].Err)
		}
	}
}

func TestCgroup_OfAListIsOneThatAGuardMade(t *testing.T) {
	t.Parallel()
	plain := filepath.Join(t.TempDir(), "oarlock-x")
	must(t, os.Mkdir(plain, 0o755))
	for _, path := range []string{"", "/", "/sys/fs/cgroup", "oarlock-x", plain, "/sys/fs/cgroup/unified", "/sys/fs/cgroup/oarlock-gone"} {
		if cgroup(path).ours() {
			t.Errorf("%q", path)
		}
	}
}
