package procfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const nobodysPID = 1 << 23 // above every pid_max

// start starts cat under another file name, and returns it once it runs.
func start(t *testing.T, name string, env ...string) *exec.Cmd {
	t.Helper()
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Skip(err)
	}
	text, err := os.ReadFile(cat)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `exec "$0"`, path) // the kernel starts no file that another thread of ours has open for writing
	cmd.Env = env
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		_ = cmd.Wait()
	})
	if _, err := in.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil {
		t.Skipf("a copy of %s does not work here: %v", cat, err)
	}
	return cmd
}

func TestReadStat_OfNamesWithSpacesAndParentheses(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a b", "(x) Z 1", ") R 1 ((", "x)"} {
		pid := start(t, name).Process.Pid
		stat, err := ReadStat(pid)
		if err != nil || stat.PID != pid || stat.Parent != os.Getpid() || stat.Name != name || !stat.Live || stat.Kernel || stat.Start == 0 {
			t.Errorf("%q: %+v, %v", name, stat, err)
		}
		if got, err := Name(pid); got != name || err != nil {
			t.Errorf("name %q, %v, want %q", got, err, name)
		}
	}
}

func TestProcess_ShowsEnvironmentAndArguments(t *testing.T) {
	t.Parallel()
	large := "LARGE=" + strings.Repeat("x", 3*usualEnvironBytes)
	for _, env := range [][]string{{"A=1", "B=a b"}, {"A=1", large}} {
		cmd := start(t, "name", env...)
		pid := cmd.Process.Pid
		environ, err := Environ(pid)
		for _, entry := range env {
			if err != nil || !slices.Contains(strings.Split(string(environ), "\x00"), entry) {
				t.Errorf("environment of %d bytes, %v, lacks %.20s", len(environ), err, entry)
			}
		}
		if args, err := Cmdline(pid); !bytes.HasSuffix(args, []byte("/name\x00")) || err != nil {
			t.Errorf("arguments %q, %v", args, err)
		}
		if has, err := HasArguments(pid); !has || err != nil {
			t.Errorf("has arguments: %v, %v", has, err)
		}
		if value, err := StatusValue(pid, "PPid"); value != strconv.Itoa(os.Getpid()) || err != nil {
			t.Errorf("PPid %q, %v", value, err)
		}
		if value, err := StatusValue(pid, "Pid:\t"); value != "" || err != nil {
			t.Errorf("a line that is not there: %q, %v", value, err)
		}
		if children, err := Children(os.Getpid()); !slices.Contains(children, pid) || slices.Contains(children, os.Getpid()) || err != nil {
			t.Errorf("children %v, %v, want %d among them", children, err, pid)
		}
		files, err := Files(pid)
		if !strings.HasPrefix(files[0], "pipe:") || !strings.HasPrefix(files[1], "pipe:") || err != nil {
			t.Errorf("files %v, %v", files, err)
		}
	}
}

func TestWalk_ListsProcessesWithTheirInodes(t *testing.T) {
	t.Parallel()
	inodes, last := map[int]uint64{}, 0
	err := Walk(func(pid int, inode uint64) {
		if pid <= last {
			t.Errorf("%d after %d", pid, last)
		}
		inodes[pid], last = inode, pid
	})
	if own := inodes[os.Getpid()]; own == 0 || own != Inode(os.Getpid()) || err != nil {
		t.Errorf("inode %d, want %d; %v", own, Inode(os.Getpid()), err)
	}
}

func TestProcess_ThatHasEnded(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "echo")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	pid := cmd.Process.Pid
	for stat := (Stat{Live: true}); stat.Live; {
		if stat, err = ReadStat(pid); err != nil {
			t.Fatal(err)
		}
	}
	if environ, err := Environ(pid); len(environ) > 0 || err != nil {
		t.Errorf("environment of a zombie: %q, %v", environ, err)
	}
	if has, err := HasArguments(pid); has || err != nil {
		t.Errorf("a zombie has arguments: %v, %v", has, err)
	}
	_ = cmd.Wait()
	if _, err := ReadStat(nobodysPID); !errors.Is(err, ErrGone) {
		t.Errorf("stat: %v", err)
	}
	if _, err := Environ(nobodysPID); !errors.Is(err, ErrGone) {
		t.Errorf("environment: %v", err)
	}
	if _, err := Files(nobodysPID); !errors.Is(err, ErrGone) {
		t.Errorf("files: %v", err)
	}
	if inode := Inode(nobodysPID); inode != 0 {
		t.Errorf("inode %d", inode)
	}
}

func TestEnviron_OfAnotherUser(t *testing.T) {
	t.Parallel()
	read := make(chan error)
	go func() {
		runtime.LockOSThread() // for ever: the thread has fewer rights from here on, and ends with this goroutine
		if os.Geteuid() == 0 { // root may read every environment
			var none [2]unix.CapUserData
			err := errors.Join(unix.Setfsuid(65534), unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]))
			if err != nil {
				read <- err
				return
			}
		}
		_, err := Environ(1)
		read <- err
	}()
	if err := <-read; !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
}

// This test does not run in parallel with others, because it counts allocations.
func TestWalk_AllocatesNothing(t *testing.T) {
	last := 0
	visit := func(pid int, _ uint64) { last = pid }
	allocs := testing.AllocsPerRun(10, func() {
		if err := Walk(visit); err != nil || last == 0 {
			t.Error(last, err)
		}
	})
	if allocs > 1 { // the path
		t.Errorf("%v allocations", allocs)
	}
}

// BenchmarkWalk reads the stat lines of all processes, as a look and a guard do.
func BenchmarkWalk(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		_ = Walk(func(pid int, _ uint64) {
			if _, err := ReadStat(pid); err == nil {
				n++
			}
		})
		if n == 0 {
			b.Fatal("no process")
		}
	}
}
