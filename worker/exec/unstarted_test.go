package exec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/dagrun"
)

func TestUnstarted_TellsTheHostFromTheDAG(t *testing.T) {
	t.Parallel()
	x := setup(t)
	started := func(err error) error { return x.startError(command{path: "/usr/bin/tool"}, err) }
	own := func(err error) error { return hostFault(err, "state_dir /d") }
	named := func(err error) error { return dagFault(err, fmt.Errorf("stdin file: %w", err)) }
	for _, tt := range []struct {
		what  string
		judge func(error) error
		errno syscall.Errno
		host  bool
	}{
		{"start", started, unix.EAGAIN, true},
		{"start", started, unix.EMFILE, true},
		{"start", started, unix.ENFILE, true},
		{"start", started, unix.ENOMEM, true},
		{"start", started, unix.EIO, true},
		{"start", started, unix.ENOSPC, true},
		{"start", started, unix.ENOENT, false},
		{"start", started, unix.EACCES, false},
		{"start", started, unix.EPERM, false},
		{"start", started, unix.ENOEXEC, false},
		{"start", started, unix.E2BIG, false},
		{"start", started, unix.ETXTBSY, false},
		{"own", own, unix.ENOSPC, true},
		{"own", own, unix.EDQUOT, true},
		{"own", own, unix.EMFILE, true},
		{"own", own, unix.EROFS, true},
		{"own", own, unix.EIO, true},
		{"own", own, unix.EACCES, true},
		{"own", own, unix.ENAMETOOLONG, false},
		{"named", named, unix.EMFILE, true},
		{"named", named, unix.ENFILE, true},
		{"named", named, unix.ENOMEM, true},
		{"named", named, unix.ENOENT, false},
		{"named", named, unix.EACCES, false},
		{"named", named, unix.EIO, false},
		{"named", named, unix.ELOOP, false},
	} {
		got := refused(fmt.Errorf("wrapped: %w", tt.judge(&fs.PathError{Op: "open", Path: "/d/x", Err: tt.errno})))
		if got.Unstarted != tt.host || (got.Kind == dagrun.KindSpawn) == tt.host || !strings.Contains(got.Reason, tt.errno.Error()) {
			t.Errorf("%s: %v: got %+v", tt.what, tt.errno, got)
		}
	}
}

// A DAG with a broken program does not keep a worker from its work for ever.
func TestSuspects_BlameAProgramThatFailsWhereOthersStart(t *testing.T) {
	t.Parallel()
	var s suspects
	starts, starves := func() error { return nil }, func() error { return unix.ENOMEM }
	for i := range 2 * suspectAfter {
		if got, want := s.blames("/opt/broken", starts), i >= suspectAfter; got != want {
			t.Errorf("start %d: blamed %t, want %t", i+1, got, want)
		}
	}
	if s.blames("/opt/broken", starves) {
		t.Error("it is blamed though no other program starts")
	}
	s.clear("/opt/broken")
	if s.blames("/opt/broken", starts) {
		t.Error("it is blamed though it has started")
	}
	for range 2 * suspectAfter {
		if s.blames(trivialPath, starts) {
			t.Error("the shell is blamed")
		}
	}
}

// aloneVariable tells a test that it is alone in its process, so that it may change the limits of the process.
const aloneVariable = "OARLOCK_TEST_ALONE"

// alone runs the test in a process of its own, as another user if user names one. It reports whether this is that process.
func alone(t *testing.T, uid int) bool {
	t.Helper()
	if os.Getenv(aloneVariable) != "" {
		return true
	}
	dir, err := os.MkdirTemp("", "oarlock-alone-*")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cmd := exec.Command(copyOfSelf(t, dir), "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env, cmd.Dir = append(os.Environ(), aloneVariable+"=1", "TMPDIR="+dir), dir
	if uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "--- SKIP") {
		t.Skipf("alone: %s", out)
	}
	return false
}

// bound sets a limit of this process, until the test calls the returned function.
func bound(t *testing.T, resource int, most uint64) (lift func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(resource, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(resource, &unix.Rlimit{Cur: most, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Setrlimit(resource, &was); err != nil {
			t.Error(err)
		}
	}
}

// starves tests a host on which no process starts until the shortage is over.
func starves(t *testing.T, x *testBundle, mend func(), reason string) {
	t.Helper()
	if got := x.run(t, shell("exit 3")); !got.Unstarted || got.Kind != dagrun.KindLost || !strings.Contains(got.Reason, reason) {
		t.Errorf("a body ended as %+v, want: not started, %s", got, reason)
	}
	if err := x.Try(t.Context()); err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("a trial says %v, want %s", err, reason)
	}
	mend()
	if err := x.Try(t.Context()); err != nil {
		t.Errorf("once the host is mended a trial says %v", err)
	}
	if got := x.run(t, shell("exit 3")); got.ExitCode != 3 {
		t.Errorf("once the host is mended a body ends as %+v", got)
	}
}

func TestUnstarted_WithoutDescriptors(t *testing.T) {
	if !alone(t, os.Getuid()) {
		return
	}
	x := setup(t)
	x.run(t, shell("true")) // the runtime has now opened what it opens once
	starves(t, x, bound(t, unix.RLIMIT_NOFILE, uint64(len(openFiles()))+2), "too many open files")
}

func TestUnstarted_WithoutProcesses(t *testing.T) {
	const nobody = 65534
	if !alone(t, nobody) {
		return
	}
	if os.Getuid() == 0 {
		t.Skip("the kernel bounds the processes of every user but root")
	}
	x := setup(t)
	x.run(t, shell("true"))
	manyThreads()
	starves(t, x, bound(t, unix.RLIMIT_NPROC, 1), "resource temporarily unavailable (the worker's user or its cgroup has too many processes")
}

// manyThreads makes the runtime start threads while it can: a Go program crashes when it needs a thread and gets none.
func manyThreads() {
	const n = 16
	started, over := make(chan struct{}), make(chan struct{})
	for range n {
		go func() {
			started <- struct{}{}
			_ = unix.Nanosleep(&unix.Timespec{Nsec: 200e6}, nil) // each of these calls blocks a thread
			over <- struct{}{}
		}()
	}
	for range n {
		<-started
	}
	for range n {
		<-over
	}
}

// mount makes a small file system.
func mount(t *testing.T, options string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("oarlock", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("a small disk takes root: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// fill writes until the disk is full, and returns a function that makes room again. The function empties the file instead of
// removing it: a process that another test is forking may have the file open, and would keep a removed file's room taken.
func fill(t *testing.T, dir string) (empty func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	return func() {
		if err := os.Truncate(path, 0); err != nil {
			t.Error(err)
		}
	}
}

func TestUnstarted_OnAFullDisk(t *testing.T) {
	t.Parallel()
	t.Run("of small files", func(t *testing.T) {
		t.Parallel()
		dir := mount(t, "size=256k")
		x := setup(t, func(c *Config) { c.RunDir = filepath.Join(dir, "run") })
		starves(t, x, fill(t, dir), "no space left on device (temporary files in "+dir)
	})
	t.Run("of work folders", func(t *testing.T) {
		t.Parallel()
		dir := mount(t, "nr_inodes=8")
		x := setup(t, func(c *Config) { c.Dir, c.RunDir = filepath.Join(dir, "work"), t.TempDir() })
		var made []string
		for i := range 8 {
			path := filepath.Join(dir, fmt.Sprint(i))
			if os.Mkdir(path, 0o700) == nil {
				made = append(made, path)
			}
		}
		starves(t, x, func() {
			for _, path := range made {
				os.Remove(path)
			}
		}, "no space left on device (state_dir "+dir)
	})
	t.Run("that is read-only", func(t *testing.T) {
		t.Parallel()
		dir := mount(t, "size=256k")
		x := setup(t, func(c *Config) { c.Dir = filepath.Join(dir, "work") })
		remount := func(flags uintptr) {
			if err := unix.Mount("oarlock", dir, "tmpfs", unix.MS_REMOUNT|flags, "size=256k"); err != nil {
				t.Error(err)
			}
		}
		remount(unix.MS_RDONLY)
		starves(t, x, func() { remount(0) }, "read-only file system (state_dir "+dir)
	})
}

// A trial must not depend on what DAGs may start, and leaves nothing behind.
func TestTry_PassesWhateverDAGsMayStart(t *testing.T) {
	t.Parallel()
	x := setup(t, func(c *Config) { c.Allow = []string{"/usr/bin/tool"} })
	for range 3 {
		if err := x.Try(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(x.work.path); err != nil || len(left) > 0 {
		t.Errorf("a trial left %v, %v", left, err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := x.Try(stopped); err != nil {
		t.Errorf("a trial that is stopped says %v of the host", err)
	}
}

// The worker raises its own limit of descriptors; programs that use select count on the one they were given.
func TestExecute_BodiesGetTheLimitOfDescriptorsThatTheWorkerGot(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/usr/bin/prlimit"); err != nil {
		t.Skip("there is no prlimit")
	}
	if os.Getenv(aloneVariable) == "" {
		cmd := exec.Command("/usr/bin/prlimit", "--nofile=200:600", os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), aloneVariable+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil || own.Cur < 599 {
		t.Errorf("the worker's own limit is %d, %v; want all it may have", own.Cur, err)
	}
	task := shell("ulimit -S -n; ulimit -H -n")
	if got := setup(t).run(t, task); got.Kind != dagrun.KindNone || stdout(task) != "200\n600\n" {
		t.Errorf("a body got %q (%+v)", stdout(task), got)
	}
}
