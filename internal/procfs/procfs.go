package procfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is the folder where /proc is mounted.
const Root = "/proc"

// An environment of usual size is read into a buffer on the stack. The kernel starts no program with more than 6 MiB of
// environment, but a process may afterwards show as much as it likes.
const (
	usualEnvironBytes = 16 << 10
	maxEnvironBytes   = 8 << 20
)

// ErrGone means that a process has ended and was reaped, or never was.
var ErrGone = errors.New("the process is gone")

// Path returns the path of a process's file or folder.
func Path(pid int, file string) string { return Root + "/" + strconv.Itoa(pid) + "/" + file }

// Self returns the path of a file or folder of this process.
func Self(file string) string { return Root + "/self/" + file }

// Inode returns the inode of a process's folder, which no other process has. It returns 0 if the process is gone.
func Inode(pid int) uint64 {
	var st unix.Stat_t
	if unix.Stat(Path(pid, ""), &st) != nil {
		return 0
	}
	return st.Ino
}

// Environ returns the environment of a process, with a NUL after each entry, and at most maxEnvironBytes of it. It returns nothing
// for a zombie, ErrGone for a process that is gone, and an error that is fs.ErrPermission if this user may not read it. If the
// first thread has ended, only the other threads show the environment, so Environ reads it through one of them.
func Environ(pid int) ([]byte, error) {
	environ, err := readEnviron(Path(pid, "environ"))
	if len(environ) > 0 || err != nil && !errors.Is(err, unix.ESRCH) {
		return environ, gone(err)
	}
	threads, listErr := os.ReadDir(Path(pid, "task"))
	if listErr != nil {
		return nil, gone(listErr)
	}
	for _, thread := range threads {
		if environ, err := readEnviron(Path(pid, "task/"+thread.Name()+"/environ")); err == nil && len(environ) > 0 {
			return environ, nil
		}
	}
	return nil, nil
}

func readEnviron(path string) ([]byte, error) {
	var usual [usualEnvironBytes]byte
	n, err := ReadInto(path, usual[:])
	if err != nil {
		return nil, err
	}
	if n < len(usual) {
		return bytes.Clone(usual[:n]), nil
	}
	for size := 4 * usualEnvironBytes; ; size = min(4*size, maxEnvironBytes) {
		buf := make([]byte, size)
		n, err := ReadInto(path, buf)
		if err != nil {
			return nil, err
		}
		if n < size || size == maxEnvironBytes {
			return buf[:n], nil
		}
	}
}

// Cmdline returns the arguments of a process, with a NUL after each. It returns nothing for a zombie and for a thread of the
// kernel, and ErrGone for a process that is gone.
func Cmdline(pid int) ([]byte, error) {
	text, err := os.ReadFile(Path(pid, "cmdline"))
	return text, gone(err)
}

// HasArguments reports whether a process shows arguments. One argument counts even if it is empty. A zombie and a thread of the
// kernel show none. It returns ErrGone for a process that is gone.
func HasArguments(pid int) (bool, error) {
	var buf [1]byte
	n, err := ReadInto(Path(pid, "cmdline"), buf[:])
	return n > 0, gone(err)
}

// Name returns the name of a process, as ps and top show it, or ErrGone. Stat.Name is the same name with line ends and backslashes
// escaped.
func Name(pid int) (string, error) {
	text, err := os.ReadFile(Path(pid, "comm"))
	return strings.TrimSuffix(string(text), "\n"), gone(err)
}

// StatusValue returns the value of the line key of /proc/PID/status, such as "1234 kB" for VmRSS. It returns "" if there is no such
// line, and ErrGone if the process is gone.
func StatusValue(pid int, key string) (string, error) {
	text, err := os.ReadFile(Path(pid, "status"))
	if err != nil {
		return "", gone(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, key+":"); ok {
			return strings.TrimSpace(value), nil
		}
	}
	return "", nil
}

// Children returns the processes that a process started or adopted in any of its threads, zombies included, by pid. The kernel's
// own list of children is per thread, so Children looks for the parent of every process.
func Children(parent int) (children []int, err error) {
	err = Walk(func(pid int, _ uint64) {
		if stat, err := ReadStat(pid); err == nil && stat.Parent == parent {
			children = append(children, pid)
		}
	})
	slices.Sort(children)
	return children, err
}

// Files returns the open files of a process by descriptor: a path, or a text such as "pipe:[123]". It returns ErrGone for a process
// that is gone.
func Files(pid int) (map[int]string, error) {
	folder := Path(pid, "fd")
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, gone(err)
	}
	files := make(map[int]string, len(entries))
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if to, err := os.Readlink(folder + "/" + entry.Name()); err == nil { // else it was closed meanwhile
			files[fd] = to
		}
	}
	return files, nil
}

// ReadInto reads a file until its end or until buf is full, and returns how many bytes it read. It allocates nothing but the path
// that it gives the kernel.
func ReadInto(path string, buf []byte) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	total := 0
	for total < len(buf) {
		n, err := unix.Read(fd, buf[total:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return total, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			break
		}
		total += n
	}
	return total, nil
}

// gone returns ErrGone for the errors by which the kernel says that a process is gone, and other errors as they are.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	return err
}
