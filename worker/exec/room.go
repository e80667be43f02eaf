package exec

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/procfs"
)

// What one body needs of its host.
const (
	leastDescriptors = 3       // while the body runs: two pipes and a pidfd
	mostDescriptors  = 5       // while the body runs: also its stdin and its cgroup
	startDescriptors = 4       // more while the body starts: the other ends of its pipes, and the pipe by which exec reports an error
	usualProcesses   = 2       // a shell, and the command that it runs
	bodyRoom         = 1 << 20 // bytes of disk: its files, and a little of the body's own
	bodyInodes       = 8       // its folder and files
)

// ownThreads is a reserve for threads that the worker may still start.
const ownThreads = 16

// Shortage is a limit of this host that is too low for the number of slots of a worker.
type Shortage struct {
	What  string // in words
	Has   int64
	Needs int64 // value with which every slot can have a body
	Least int64 // below this value the worker is of no use
	Slots int   // slots that there is room for; 0: this shortage does not bound the slots
	Hint  string
}

// Fatal reports whether the worker must refuse to start, because the host has less than s.Least.
func (s Shortage) Fatal() bool { return s.Has < s.Least }

func (s Shortage) String() string {
	return fmt.Sprintf("%s: there are %d, and the slots of this worker need %d: %s", s.What, s.Has, s.Needs, s.Hint)
}

// Shortages returns the limits of this host that are too low for as many bodies at once as slots. own is the number of descriptors
// that the worker itself needs; folders are those in which bodies get files, and "" is skipped. A limit that cannot be read does
// not count.
func Shortages(slots, own int, folders ...string) (short []Shortage) {
	for _, s := range append(append(descriptors(slots, own), processes(slots)...), rooms(slots, folders)...) {
		if s.Has < s.Needs {
			short = append(short, s)
		}
	}
	return short
}

func descriptors(slots, own int) []Shortage {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return nil
	}
	needs := own + slots*(mostDescriptors+startDescriptors)
	return []Shortage{{
		What: "file descriptors", Has: clamp(limit.Cur), Needs: int64(needs), Least: int64(own + slots*leastDescriptors + startDescriptors),
		Hint: fmt.Sprintf("lower slots of the worker, or raise the limit (ulimit -n %d, LimitNOFILE=%[1]d)", needs+1),
	}}
}

// processes returns the limits for the number of processes, too low or not: the limit of the user, unless it is root or has none,
// and the limit of the cgroup, if it has one.
func processes(slots int) (all []Shortage) {
	var limit unix.Rlimit
	if !isRoot() && unix.Getrlimit(unix.RLIMIT_NPROC, &limit) == nil && limit.Cur != unix.RLIM_INFINITY {
		used := int64(tasksOfUser(os.Getuid()))
		all = append(all, tooFewProcesses("processes that this user may still start", max(0, clamp(limit.Cur)-used), slots,
			fmt.Sprintf("lower slots of the worker, or raise the limit (ulimit -u %d, LimitNPROC=%[1]d)", used+processesFor(slots))))
	}
	if left, of, ok := pidsLeft(); ok {
		all = append(all, tooFewProcesses("processes that the cgroup "+of+" still takes", left, slots,
			"lower slots of the worker, or raise pids.max of the cgroup (TasksMax, --pids-limit, podPidsLimit)"))
	}
	return all
}

func processesFor(slots int) int64 { return int64(slots)*usualProcesses + ownThreads }

// tooFewProcesses returns a Shortage for a limit under which has more processes can start. The limit also bounds the slots, because
// the kernel would refuse a process to any program of a body, and that program would fail as if by the fault of its DAG. A worker
// without room for one slot is therefore of no use.
func tooFewProcesses(what string, has int64, slots int, hint string) Shortage {
	return Shortage{
		What: what, Has: has, Needs: processesFor(slots), Least: processesFor(1), Slots: int(max(0, has-ownThreads) / usualProcesses), Hint: hint,
	}
}

// pidsLeft returns how many more processes the cgroup of this process takes, and the path of the group that sets this limit: the
// group itself, or one above it. ok is false if none of them has a limit.
func pidsLeft() (left int64, of string, ok bool) {
	text, err := os.ReadFile(procfs.Self("cgroup"))
	if err != nil {
		return 0, "", false
	}
	left = math.MaxInt64
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		mount := ""
		switch {
		case len(fields) < 3:
			continue
		case fields[0] == "0":
			mount = cgroupMount()
		case fields[1] == "pids":
			mount = "/sys/fs/cgroup/pids"
		}
		for path := filepath.Clean("/" + fields[2]); mount != ""; path = filepath.Dir(path) {
			if n, bounded := pidsLeftIn(mount + path); bounded && n < left {
				left, of, ok = n, path, true
			}
			if path == "/" {
				break
			}
		}
	}
	return left, of, ok
}

func pidsLeftIn(folder string) (left int64, bounded bool) {
	number := func(file string) (int64, bool) {
		text, err := os.ReadFile(filepath.Join(folder, file))
		n, nan := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		return n, err == nil && nan == nil
	}
	most, bounded := number("pids.max") // "max", for no limit, is no number
	used, known := number("pids.current")
	return max(0, most-used), bounded && known
}

// rooms returns the free bytes and inodes on the disks of folders as shortages, too low or not. It skips "" and folders that it
// cannot examine. None is fatal, because a full disk may be emptied later.
func rooms(slots int, folders []string) (all []Shortage) {
	for _, folder := range folders {
		var fs unix.Statfs_t
		if folder == "" || unix.Statfs(folder, &fs) != nil {
			continue
		}
		hint := "free some space on the disk, or name another folder in state_dir"
		all = append(all, Shortage{What: "bytes free in " + folder, Has: clamp(fs.Bavail * uint64(max(fs.Bsize, 0))), Needs: int64(slots) * bodyRoom, Hint: hint})
		if fs.Files > 0 { // some file systems make inodes as needed
			all = append(all, Shortage{What: "inodes free in " + folder, Has: clamp(fs.Ffree), Needs: int64(slots * bodyInodes), Hint: hint})
		}
	}
	return all
}

func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
