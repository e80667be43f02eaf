package supervise

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/boottime"
)

const (
	containment = "subreaper" // without a cgroup

	// verifies means that a walk over the processes shows whether anything is left.
	verifies = true

	// waitAll makes wait4 return also children that send no SIGCHLD.
	waitAll = unix.WALL

	thisProgram = "/proc/self/exe" // works also after the file was replaced by a newer version

	maxComm = 15 // bytes of a process's name
)

// adoptOrphans makes this process the parent of every descendant that is orphaned.
func adoptOrphans() error {
	self, err := os.Readlink("/proc/self")
	if err != nil || self != strconv.Itoa(os.Getpid()) {
		return fmt.Errorf("/proc does not show this process as %d: mount the /proc of its own PID namespace", os.Getpid())
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a child subreaper: %w", err)
	}
	return nil
}

// nameProcess sets the name of this process in ps and top. Since it was started by the path thisProgram, they would show "exe".
func nameProcess(name string) {
	_ = os.WriteFile("/proc/self/comm", []byte(name[:min(len(name), maxComm)]), 0) // an error is ignored: it costs only the name
}

// thisHost returns what must be equal for the processes of a list to be visible here. The number of a PID namespace is reused
// only when no process is left in the namespace.
func thisHost() host {
	boot := boottime.ID()
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil || boot == "" {
		return host{}
	}
	return host{Boot: boot, Namespace: namespace}
}

func listProcesses() ([]process, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var all []process
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		p, err := readProcess(pid)
		if errors.Is(err, errGone) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		all = append(all, p)
	}
	return all, nil
}

var errGone = errors.New("the process is gone")

func readProcess(pid int) (process, error) {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return process{}, errGone
	}
	if err != nil {
		return process{}, err
	}
	p, ok := parseStat(line)
	if !ok {
		return process{}, fmt.Errorf("/proc/%d/stat is not understood: %q", pid, line)
	}
	return p, nil
}

// readEnviron reads the environment of a process. If the first thread has ended, it reads the environment through another thread.
func readEnviron(pid int) ([]byte, error) {
	dir := "/proc/" + strconv.Itoa(pid)
	env, err := os.ReadFile(dir + "/environ")
	if len(env) > 0 || err != nil && !errors.Is(err, unix.ESRCH) {
		return env, err
	}
	threads, _ := os.ReadDir(dir + "/task")
	for _, t := range threads {
		if env, err := os.ReadFile(dir + "/task/" + t.Name() + "/environ"); err == nil && len(env) > 0 {
			return env, nil
		}
	}
	return nil, nil
}

// signal signals exactly this process or none: it opens the pidfd before it compares the start time.
func (p identity) signal(sig syscall.Signal) error {
	if p.PID <= 1 {
		return errGone
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) {
		return err
	}
	if err == nil {
		defer unix.Close(fd)
	}
	if now, err := readProcess(p.PID); err != nil || now.Start != p.Start {
		return errGone
	}
	if err == nil {
		return unix.PidfdSendSignal(fd, sig, nil, 0)
	}
	return unix.Kill(p.PID, sig) // in a sandbox without pidfds
}

func (p identity) alive() bool {
	now, err := readProcess(p.PID)
	return err == nil && now.Start == p.Start && now.live
}

func identify(pid int) identity {
	p, err := readProcess(pid)
	if err != nil {
		return identity{PID: pid}
	}
	return p.identity
}

func pipe2(ends []int) error { return unix.Pipe2(ends, unix.O_CLOEXEC|unix.O_NONBLOCK) }
