package supervise

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/internal/procfs"
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

// adoptOrphans makes this process the parent of every descendant that is orphaned from now on. It returns an error if /proc belongs
// to another PID namespace, because a guard would then not find its descendants.
func adoptOrphans() error {
	self, err := os.Readlink(procfs.Root + "/self")
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
	_ = os.WriteFile(procfs.Self("comm"), []byte(name[:min(len(name), maxComm)]), 0) // an error is ignored: it costs only the name
}

// thisHost returns the boot and the PID namespace of this process: a process of a list is visible here only if the list has the
// same host. It returns the zero host if they cannot be read. The number of a PID namespace is reused only when no process is left
// in the namespace.
func thisHost() host {
	boot := boottime.ID()
	namespace, err := os.Readlink(procfs.Self("ns/pid"))
	if err != nil || boot == "" {
		return host{}
	}
	return host{Boot: boot, Namespace: namespace}
}

func listProcesses() ([]process, error) {
	var all []process
	var unread error
	err := procfs.Walk(func(pid int, _ uint64) {
		p, err := readProcess(pid)
		if err == nil {
			all = append(all, p)
		} else if !errors.Is(err, errGone) {
			unread = fmt.Errorf("list processes: %w", err)
		}
	})
	if err = errors.Join(err, unread); err != nil {
		return nil, err
	}
	return all, nil
}

var errGone = procfs.ErrGone

func readProcess(pid int) (process, error) {
	stat, err := procfs.ReadStat(pid)
	if err != nil {
		return process{}, err
	}
	return process{
		identity: identity{stat.PID, stat.Start}, parent: stat.Parent, state: stat.State, live: stat.Live, kernel: stat.Kernel,
		bare: stat.Bare, name: stat.Name,
	}, nil
}

func readEnviron(pid int) ([]byte, error) { return procfs.Environ(pid) }

// signal signals exactly this process or none: it opens the pidfd before it compares the start time. It returns an error unless it
// sent the signal, mostly errGone: another process has the PID, or the PID is 0 or 1. In a sandbox without pidfds, a process that
// takes the PID between comparison and signal would get the signal.
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
