package exec

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/procfs"
)

// cgroup is a control group (v2) with one body in it.
type cgroup struct {
	path string
	dir  int // descriptor of the folder, for starting a process in the group; closed once
}

// OwnCgroup returns the folder of the cgroup v2 that this process is in, if this process may make groups in it and move processes
// there. It makes and removes a group to find out. It returns "" if not, and where no cgroup v2 is mounted.
func OwnCgroup() string {
	mount := cgroupMount()
	text, err := os.ReadFile(procfs.Self("cgroup"))
	if err != nil || mount == "" {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			if folder := filepath.Join(mount, path); checkCgroup(folder) == nil {
				return folder
			}
		}
	}
	return ""
}

// cgroupMount returns the folder where cgroup v2 is mounted, the first if there are several; "" for none.
func cgroupMount() string {
	text, err := os.ReadFile(procfs.Self("mounts"))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			return f[1]
		}
	}
	return ""
}

// checkCgroup returns an error if no groups can be made in a folder, or this process may not move processes into it. It makes a
// group and removes it again.
func checkCgroup(folder string) error {
	if err := unix.Access(filepath.Join(folder, "cgroup.procs"), unix.W_OK); err != nil {
		return fmt.Errorf("cgroup %s: cgroup.procs must be writable: %w", folder, err)
	}
	g, err := makeCgroup(filepath.Join(folder, fmt.Sprintf("oarlock-%d-try", self)))
	if err != nil {
		return err
	}
	return g.remove()
}

// cgroupName returns the name of the group of an attempt: number is the number of the attempt, prefix the one of its executor, with
// 8 bytes at least. The name also has the pid of this process, by which sweepCgroups finds groups of killed executors.
func cgroupName(prefix, number string) string {
	return fmt.Sprintf("oarlock-%d-%s-%s", self, prefix[:8], number)
}

// sweepCgroups removes the groups in folder that were made by executors and by checkCgroup in processes which are gone. A group with
// a process or a group in it stays. Errors are ignored.
func sweepCgroups(folder string) {
	old, _ := filepath.Glob(filepath.Join(folder, "oarlock-*-*"))
	for _, path := range old {
		pid, err := strconv.Atoi(strings.Split(filepath.Base(path), "-")[1])
		if _, gone := procfs.ReadStat(pid); err == nil && gone != nil {
			_ = unix.Rmdir(path)
		}
	}
}

func makeCgroup(path string) (*cgroup, error) {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	dir, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a cgroup: %w", err)
	}
	return &cgroup{path, dir}, nil
}

// limit sets the limits of memory and processes for which the group has controllers. It returns r with 0 in place of each limit
// that it set: the caller must set the others by other means.
func (g *cgroup) limit(r Resources) Resources {
	if r.Memory > 0 && g.write("memory.max", strconv.FormatInt(r.Memory, 10)) == nil {
		r.Memory = 0
	}
	if r.PIDs > 0 && g.write("pids.max", strconv.Itoa(r.PIDs)) == nil {
		r.PIDs = 0
	}
	return r
}

func (g *cgroup) write(file, text string) error {
	f, err := os.OpenFile(filepath.Join(g.path, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

// populated reports whether a process is alive in the group or below it. A zombie does not count. If the group cannot be read, for
// example because it is gone, populated returns false.
func (g *cgroup) populated() bool {
	var buf [256]byte
	n, err := procfs.ReadInto(filepath.Join(g.path, "cgroup.events"), buf[:])
	return err == nil && bytes.Contains(buf[:n], []byte("populated 1"))
}

// pids lists the processes of the group and of groups below it. A group that is gone or cannot be read counts as empty.
func (g *cgroup) pids() (pids []int) {
	_ = filepath.WalkDir(g.path, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // a group that is gone has no processes
		}
		text, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for _, field := range bytes.Fields(text) {
			if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 {
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

// kill kills all processes of the group at once. It does nothing on a kernel before 5.14, so the caller must also kill each
// process.
func (g *cgroup) kill() { _ = g.write("cgroup.kill", "1") }

// outOfMemory returns the reason why the kernel killed a process of the group for want of memory; "" if it killed none. limit is the
// memory that the worker allows the group, in bytes; 0: any. The kernel also kills processes of the group when the host or a group
// above has no memory left, or at a limit that the body set for itself: then the reason says that the worker's limit was not reached.
func (g *cgroup) outOfMemory(limit int64) string {
	switch {
	case !g.counted("memory.events", "oom_kill"):
		return ""
	case limit > 0 && g.counted("memory.events.local", "oom"):
		return fmt.Sprintf("out of memory, the worker allows %d bytes: use less, or raise memory in the worker's resources", limit)
	}
	return "out of memory, but not by the worker's resources: the kernel's log on its host (dmesg) names the limit"
}

// counted reports whether the kernel has counted an event of the group in one of its files of events.
func (g *cgroup) counted(file, event string) bool {
	text, err := os.ReadFile(filepath.Join(g.path, file))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if n, ok := strings.CutPrefix(line, event+" "); ok {
			return strings.TrimSpace(n) != "0"
		}
	}
	return false
}

const closedDir = -1

// remove closes g.dir and removes the group, with the groups that the body made below it. It returns an error if a process is left
// in one of them; it may be called again then. A group that is gone is no error.
func (g *cgroup) remove() error {
	if g.dir != closedDir {
		unix.Close(g.dir)
		g.dir = closedDir
	}
	if err := unix.Rmdir(g.path); err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	var folders []string
	_ = filepath.WalkDir(g.path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			folders = append(folders, path)
		}
		return nil
	})
	var err error
	for _, folder := range slices.Backward(folders) {
		err = unix.Rmdir(folder)
	}
	if err != nil {
		return fmt.Errorf("remove cgroup %s: %w", g.path, err)
	}
	return nil
}
