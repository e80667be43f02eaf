//go:build unix

package supervise

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/oarlock-dev/oarlock/internal/procfs"
)

// cgroup is the folder of a cgroup that holds a driver process and all its descendants. The driver process is in a leaf, since
// with limits only leaves may have processes; attempts may get leaves beside it.
type cgroup string // its folder

const (
	cgroupPrefix = "oarlock-"
	cgroupLeaf   = "driver"
	cgroupDepth  = 16 // levels of folders; deeper ones are not ours
)

// makeCgroup makes a cgroup with a leaf, below the cgroup of this process. The name is random, so that no foreign cgroup is
// mistaken for it. It returns an error where no cgroup v2 is mounted, or this process has no right to make groups.
func makeCgroup() (cgroup, error) {
	parent, err := ownCgroup()
	if err != nil {
		return "", err
	}
	c := cgroup(filepath.Join(parent, cgroupPrefix+strings.ToLower(rand.Text())))
	if err := os.Mkdir(string(c), 0o755); err != nil {
		return "", fmt.Errorf("make a cgroup: %w", err)
	}
	if err := os.Mkdir(c.leaf(), 0o755); err != nil {
		c.remove()
		return "", fmt.Errorf("make a cgroup: %w", err)
	}
	c.enable()
	return c, nil
}

func ownCgroup() (string, error) {
	mounts, err := os.ReadFile(procfs.Self("mountinfo"))
	if err != nil {
		return "", fmt.Errorf("look for cgroup v2: %w", err)
	}
	groups, err := os.ReadFile(procfs.Self("cgroup"))
	if err != nil {
		return "", fmt.Errorf("look for cgroup v2: %w", err)
	}
	return findCgroup(string(mounts), string(groups))
}

// findCgroup returns the folder of a process's cgroup v2. mounts is the text of /proc/PID/mountinfo, groups of /proc/PID/cgroup. It
// returns an error if the process has no cgroup v2, or no mount shows it.
func findCgroup(mounts, groups string) (string, error) {
	own := ""
	for line := range strings.Lines(groups) {
		path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if ok && !slices.Contains(strings.Split(path, "/"), "..") { // a path with .. is outside of this cgroup namespace
			own = path
		}
	}
	for line := range strings.Lines(mounts) {
		mount, kind, _ := strings.Cut(line, " - ")
		fields := strings.Fields(mount)
		if !strings.HasPrefix(kind, "cgroup2 ") || len(fields) < 5 || own == "" {
			continue
		}
		inside, err := filepath.Rel(fields[3], own)
		if err == nil && inside != ".." && !strings.HasPrefix(inside, "../") {
			return filepath.Join(fields[4], inside), nil
		}
	}
	return "", errors.New("no cgroup v2 is mounted that has this process")
}

// enable passes all controllers of the group on to the groups in it, so that attempts can have limits. Errors are ignored, because
// no promise depends on limits.
func (c cgroup) enable() {
	offered, err := os.ReadFile(c.file("cgroup.controllers"))
	if err != nil {
		return
	}
	for _, name := range strings.Fields(string(offered)) {
		_ = os.WriteFile(c.file("cgroup.subtree_control"), []byte("+"+name), 0) //nolint:gosec // the names come from the kernel
	}
}

func (c cgroup) file(name string) string { return filepath.Join(string(c), name) }

func (c cgroup) leaf() string { return c.file(cgroupLeaf) }

// ours reports whether a path from a lock file is the folder of a cgroup with a name as makeCgroup gives it. It returns false for
// "" and if the cgroup is gone.
func (c cgroup) ours() bool {
	_, err := os.Stat(c.file("cgroup.procs"))
	return err == nil && filepath.IsAbs(string(c)) && strings.HasPrefix(filepath.Base(string(c)), cgroupPrefix)
}

// join moves a process, with all its threads, to the leaf of the cgroup.
func (c cgroup) join(pid int) error {
	err := os.WriteFile(filepath.Join(c.leaf(), "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
	if err != nil {
		return fmt.Errorf("move the driver process to its cgroup: %w", err)
	}
	return nil
}

// kill kills all processes of the cgroup at once, and does not wait. It does nothing on a kernel before 5.14. The caller must look
// for survivors afterwards, as after any signal.
func (c cgroup) kill() { _ = os.WriteFile(c.file("cgroup.kill"), []byte("1"), 0) }

// members lists the processes of the cgroup and of those below it. It reads the pids twice, and leaves out a PID that only the
// first reading has: a foreign process may have taken that PID meanwhile. A process that cannot be read is listed as spare, so that
// the caller looks again.
func (c cgroup) members() ([]process, error) {
	before, err := c.pids()
	if err != nil || len(before) == 0 {
		return nil, err
	}
	var found []process
	for _, pid := range before {
		p, err := readProcess(pid)
		if err != nil {
			p = process{identity: identity{PID: pid}, spare: true, state: '?'} // it has just gone: look again
		}
		found = append(found, p)
	}
	after, err := c.pids()
	return slices.DeleteFunc(found, func(p process) bool { return !slices.Contains(after, p.PID) }), err
}

func (c cgroup) pids() ([]int, error) {
	var found []int
	for _, dir := range c.folders() {
		text, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) {
			continue // the folder was removed, so no process was in it
		}
		if err != nil {
			return nil, fmt.Errorf("list a cgroup: %w", err)
		}
		for _, word := range bytes.Fields(text) {
			if pid, err := strconv.Atoi(string(word)); err == nil {
				found = append(found, pid)
			}
		}
	}
	return found, nil
}

// folders lists the folder of the cgroup and the folders below it, the deepest last. It looks cgroupDepth levels deep, and leaves
// out folders that cannot be read.
func (c cgroup) folders() []string {
	found := []string{string(c)}
	level := found
	for range cgroupDepth {
		var deeper []string
		for _, dir := range level {
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if e.IsDir() {
					deeper = append(deeper, filepath.Join(dir, e.Name()))
				}
			}
		}
		found = append(found, deeper...)
		level = deeper
	}
	return found
}

// remove removes the cgroup and those below it, as far as they are empty. It reports whether the cgroup is gone.
func (c cgroup) remove() bool {
	for _, dir := range slices.Backward(c.folders()) {
		_ = os.Remove(dir)
	}
	_, err := os.Lstat(string(c))
	return errors.Is(err, fs.ErrNotExist)
}
