package proc

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// limitRounds bounds how often a tree is looked at for processes that were forked before its first one got its limits.
const limitRounds = 8

// limit bounds a tree that has just been started, where its cgroup could not. A limit goes over to what is forked later.
func (t *tree) limit(r Resources) error {
	if r == (Resources{}) {
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
	if r.Nice > 0 {
		if err := unix.Setpriority(unix.PRIO_PROCESS, pid, r.Nice); err != nil {
			return fmt.Errorf("make the body nice: %w", err)
		}
	}
	return nil
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
