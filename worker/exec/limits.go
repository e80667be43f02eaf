package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/procfs"
)

// limitRounds bounds the search for processes that were forked before the first process got its limits: 1<<limitRounds processes.
const limitRounds = 8

// limit sets rlimits on a tree that has just been started. r has the limits that its cgroup could not hold, and 0 for no limit.
// Processes that are forked later inherit the rlimits. Since the kernel counts all threads of the user, the rlimit of processes is
// r.PIDs more than the user has now. limit returns only errors about the first process: unix.ESRCH if it is gone.
func (t *tree) limit(r Resources) error {
	if r.Memory == 0 && r.PIDs == 0 {
		return nil
	}
	if r.PIDs > 0 {
		r.PIDs += tasksOfUser(os.Getuid())
	}
	limited := map[int]bool{}
	for pids := []int{t.leader}; len(pids) > 0 && len(limited) < 1<<limitRounds; pids = t.without(limited) {
		for _, pid := range pids {
			limited[pid] = true
			if err := limitProcess(pid, r); err != nil && pid == t.leader {
				return err
			}
		}
	}
	return nil
}

func (t *tree) without(limited map[int]bool) []int {
	alive, _ := t.tracker.of(t.owner)
	var pids []int
	for _, p := range alive {
		if !limited[p.pid] {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// limitProcess sets the rlimits of one process: r.Memory bytes of data, and r.PIDs threads of its user; 0: that one stays as it is.
// The memory limit is RLIMIT_DATA, so that reserved address space does not count, of which some runtimes take a lot.
func limitProcess(pid int, r Resources) error {
	for resource, most := range map[int]int64{unix.RLIMIT_DATA: r.Memory, unix.RLIMIT_NPROC: int64(r.PIDs)} {
		if most <= 0 {
			continue
		}
		limit := unix.Rlimit{Cur: uint64(most), Max: uint64(most)}
		if err := unix.Prlimit(pid, resource, &limit, nil); err != nil {
			return fmt.Errorf("limit the body: %w", err)
		}
	}
	return nil
}

// nicely calls start once, on a thread with the given niceness, and returns its error. A process that start starts inherits the
// niceness. To set the niceness afterwards is too late for a short command. If the niceness cannot be set, nicely returns an error
// and does not call start.
//
// A thread cannot lower its niceness again, so the thread is thrown away: the Go runtime ends a thread when its goroutine ends
// while locked to it, and never starts threads from a locked one. A new thread takes 50 µs. With nice 0, nicely calls start without
// any of this.
func nicely(nice int, start func() error) error {
	if nice == 0 {
		return start()
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == self { // the first thread stays: ps shows its niceness as that of the process
			defer runtime.UnlockOSThread()
			started <- nicely(nice, start)
			return
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
			started <- fmt.Errorf("set the priority (nice) of the body: %w", err)
			return
		}
		started <- start()
	}()
	return <-started
}

// Unbound returns the reason why bodies can start more processes than Resources.PIDs; "" if they cannot, or if there is no such
// limit. The reason is always that no cgroup holds the limit, so it is an rlimit, and that this process is root, to which the
// kernel does not apply that one.
func (x *Executor) Unbound() string {
	left, why := x.unheld()
	if left.PIDs == 0 || !isRoot() {
		return ""
	}
	return why + ", and the kernel's limit for users is not for root"
}

// Late returns the reason why a limit of memory or processes holds for a body only from just after its start: it is an rlimit. It
// returns "" if all limits hold from the start, or there are none. A limit that Unbound reports does not count.
func (x *Executor) Late() string {
	left, why := x.unheld()
	if left.Memory == 0 && (left.PIDs == 0 || isRoot()) {
		return ""
	}
	return why
}

// unheld returns the limits of memory and processes that no cgroup can hold here, and the reason. left has 0 for a limit that is
// not wanted, or that a cgroup holds. If left is all 0, why means nothing. unheld makes a cgroup to find out, and removes it; if it
// cannot make one, it returns no limits, because then bodies do not start at all.
func (x *Executor) unheld() (left Resources, why string) {
	wanted := Resources{Memory: x.config.Resources.Memory, PIDs: x.config.Resources.PIDs}
	if wanted == (Resources{}) {
		return wanted, ""
	}
	if x.config.Cgroup == "" {
		return wanted, "this process cannot write to a cgroup v2"
	}
	trial, err := makeCgroup(filepath.Join(x.config.Cgroup, cgroupName(x.prefix, "limits")))
	if err != nil {
		return Resources{}, ""
	}
	defer func() { _ = trial.remove() }()
	return trial.limit(wanted), "the cgroup of this worker lacks a controller"
}

// isRoot reports whether this process is the root that rlimits do not bind: its user is 0, and is also 0 outside of its user
// namespace. If the mapping of users cannot be read, isRoot looks at the user alone.
func isRoot() bool {
	mapped, err := os.ReadFile(procfs.Self("uid_map"))
	if err != nil || os.Getuid() != 0 {
		return os.Getuid() == 0
	}
	fields := strings.Fields(string(mapped))
	return len(fields) == 3 && fields[0] == "0" && fields[1] == "0"
}

// tasksOfUser counts the threads of all processes of a user, because the rlimit counts all of them. A process that /proc does not
// show is not counted.
func tasksOfUser(uid int) int {
	listed, _ := listProcesses()
	count := 0
	for pid := range listed {
		var st unix.Stat_t
		if unix.Stat(procfs.Path(pid, "task"), &st) == nil && int(st.Uid) == uid {
			count += max(int(st.Nlink)-2, 1) // a folder has two links, and one more for each folder in it
		}
	}
	return count
}
