package pglocal

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/procfs"
)

// postmaster is the content of postmaster.pid. It may be stale.
type postmaster struct {
	pid, port int
	socketDir string
	ready     bool
}

// readPostmaster reads postmaster.pid in the folder data. It returns false if the file is missing or has no pid. While the server
// has not written all lines yet, only pid is set.
func readPostmaster(data string) (postmaster, bool) {
	b, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	if err != nil {
		return postmaster{}, false
	}
	// pid, data folder, start time, port, socket folder, listen address, shared memory key, status
	lines := strings.Split(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 1 {
		return postmaster{}, false
	}
	p := postmaster{pid: pid}
	if len(lines) > 7 {
		p.port, _ = strconv.Atoi(strings.TrimSpace(lines[3]))
		p.socketDir = strings.TrimSpace(lines[4])
		p.ready = strings.TrimSpace(lines[7]) == "ready"
	}
	return p, true
}

// runs reports whether the process p.pid is alive and is the server of the data folder data. A pid file may survive its server, and
// another process may have the number by now.
func (p postmaster) runs(data string) bool {
	if p.pid <= 1 || !alive(p.pid) {
		return false
	}
	if _, err := os.Stat(procfs.Self("")); err == nil {
		cwd, err := os.Readlink(procfs.Path(p.pid, "cwd")) // postgres works in its data folder
		return err == nil && cwd == data
	}
	out, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(p.pid)).Output()
	return err == nil && strings.Contains(string(out), "postgres") && strings.Contains(string(out), data)
}

func alive(pid int) bool {
	return !errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}
