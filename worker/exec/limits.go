package exec

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// limitRounds bounds how often a tree is looked at for processes that were forked before its first one got its limits.
const limitRounds = 8

// limit bounds a tree that has just been started, where its cgroup could not. A limit goes over to what is forked later.
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
	alive, _ := t.census.of(t.owner)
	var pids []int
	for _, p := range alive {
		if !limited[p.pid] {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// limitProcess sets rlimits. For memory it is that of data: reserved address space, of which some runtimes take a lot,
// does not count.
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

// nicely starts a process by a thread that is nice, for what is started has the niceness of the thread that starts it. To
// set it afterwards is too late for a short command. The thread cannot go back, so it is thrown away: the Go runtime ends
// a thread whose goroutine ends locked to it, and makes no thread by one that is locked. A new thread takes 50 µs.
func nicely(nice int, start func() error) error {
	if nice == 0 {
		return start()
	}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == self { // the first thread is kept: ps shows its niceness as that of the process
			defer runtime.UnlockOSThread()
			started <- nicely(nice, start)
			return
		}
		if err := unix.Setpriority(unix.PRIO_PROCESS, 0, nice); err != nil {
			started <- fmt.Errorf("make the body nice: %w", err)
			return
		}
		started <- start()
	}()
	return <-started
}

// Unbound says why bodies may start more processes than Resources say, "" where they may not. Without a cgroup it is an
// rlimit that bounds them, and the kernel asks root for none.
func (x *Executor) Unbound() string {
	left, why := x.unheld()
	if left.PIDs == 0 || !isRoot() {
		return ""
	}
	return why + ", and the kernel's limit for users is not for root"
}

// Late says why memory or processes of a body are bounded only from the moment after its start, "" where they are bounded before.
func (x *Executor) Late() string {
	left, why := x.unheld()
	if left.Memory == 0 && (left.PIDs == 0 || isRoot()) {
		return ""
	}
	return why
}

// unheld are the limits that no cgroup holds here, and why.
func (x *Executor) unheld() (left Resources, why string) {
	wanted := Resources{Memory: x.config.Resources.Memory, PIDs: x.config.Resources.PIDs}
	if wanted == (Resources{}) {
		return wanted, ""
	}
	if x.config.Cgroup == "" {
		return wanted, "no cgroup v2 is writable here"
	}
	trial, err := makeCgroup(filepath.Join(x.config.Cgroup, cgroupName(x.prefix, "limits")))
	if err != nil {
		return Resources{}, ""
	}
	defer func() { _ = trial.remove() }()
	return trial.limit(wanted), "the cgroup of this worker lacks a controller"
}

// isRoot says whether this is the root that the kernel bounds by no limit: not one of a user namespace.
func isRoot() bool {
	mapped, err := os.ReadFile(procRoot + "/self/uid_map")
	if err != nil || os.Getuid() != 0 {
		return os.Getuid() == 0
	}
	fields := strings.Fields(string(mapped))
	return len(fields) == 3 && fields[0] == "0" && fields[1] == "0"
}

// tasksOfUser counts the threads a user has: the rlimit counts all of them.
func tasksOfUser(uid int) int {
	listed, _ := listProcesses()
	count := 0
	for pid := range listed {
		var st unix.Stat_t
		if unix.Stat(procPath(pid, "task"), &st) == nil && int(st.Uid) == uid {
			count += max(int(st.Nlink)-2, 1) // a folder has two links and one of each folder in it
		}
	}
	return count
}
