package exec

import (
	"errors"
	"io/fs"

	"github.com/oarlock-dev/oarlock/internal/procfs"
)

// look is one reading of /proc. It does not change after it was made.
type look struct {
	tracker *procTracker
	listed  map[int]uint64
	known   map[int]identity
	fresh   map[int]*newProc

	moving  bool // a process that may belong to a body was between fork and exec, or about to exit
	passing bool // a process ended before it could be examined
}

// newProc is a process that no earlier look has examined.
type newProc struct {
	procfs.Stat
	owner   string
	decided bool
	certain bool // the owner is known for sure, and cannot change
}

// listProcesses returns all pids, each with the inode of its folder.
func listProcesses() (map[int]uint64, error) {
	listed := make(map[int]uint64, 128)
	err := procfs.Walk(func(pid int, inode uint64) { listed[pid] = inode })
	return listed, err
}

// look lists the processes in /proc, and finds the owner of each that t does not know yet. It reaps orphans that have ended. It
// sets l.passing if a new process ended before it could be examined. The caller must hold t.looking, and hand the result to
// remember.
func (t *procTracker) look() (*look, error) {
	listed, err := listProcesses()
	if err != nil {
		return nil, err
	}
	l := &look{tracker: t, listed: listed, known: t.recall(listed), fresh: map[int]*newProc{}}
	for pid := range listed {
		if _, ok := l.known[pid]; ok {
			continue
		}
		stat, err := procfs.ReadStat(pid)
		if err != nil {
			l.passing = true
			continue
		}
		if l.passing = l.passing || !stat.Live; !stat.Live && stat.Parent == self {
			t.reap(pid)
		}
		l.fresh[pid] = &newProc{Stat: stat}
	}
	for pid := range l.fresh {
		l.owner(pid)
	}
	return l, nil
}

// alive examines the listed processes of the owners in the set. It returns the processes that are alive now, and the pids of those
// that have ended but are not recorded as dead yet.
func (l *look) alive(owners map[string]bool) (alive []process, gone []int) {
	for pid := range l.listed {
		id := l.known[pid]
		if !owners[l.owner(pid)] || id.dead {
			continue
		}
		if stat, err := procfs.ReadStat(pid); err == nil && stat.Live {
			alive = append(alive, process{pid, stat.Group, l.listed[pid]})
			continue
		}
		gone = append(gone, pid)
	}
	return alive, gone
}

// owner returns the owner of a process; "" if it belongs to no body, or is not listed. It decides the owner of a new process at the
// first call.
func (l *look) owner(pid int) string {
	if id, ok := l.known[pid]; ok {
		return id.owner
	}
	n := l.fresh[pid]
	if n == nil {
		return ""
	}
	if !n.decided {
		n.decided = true // first, so that the recursion ends if reused pids form a circle
		l.decide(n)
	}
	return n.owner
}

// decide sets the owner of a new process: the owner of its group's first process, else the owner of its parent, else the owner that
// its environment names. A stray gets an owner of its own; "" means that the process belongs to no body. decide sets n.certain if
// the owner cannot change any more.
//
// The environment is read only if the process may be an orphan of ours, so not if its parent is a stranger: the parent of such an
// orphan is one of reapers. If the process is between two programs and shows no environment, decide sets l.moving, and the caller
// must look again.
func (l *look) decide(n *newProc) {
	if n.owner = l.owner(n.Group); n.owner == "" {
		n.owner = l.owner(n.Parent)
	}
	if n.certain = n.owner != "" || n.Kernel || !n.Live || l.stranger(n.Parent); n.certain {
		return
	}
	environ, err := procfs.Environ(n.PID)
	n.owner = l.tracker.ownerIn(environ)
	if len(environ) == 0 && !errors.Is(err, fs.ErrPermission) && l.betweenPrograms(n.PID) {
		l.moving = true
		return
	}
	if n.owner == "" && n.Parent == self && !l.tracker.namesWorker(environ) { // a secrets_command may leave a process that names it
		n.owner = l.tracker.stray(n.PID, l.listed[n.PID])
	}
	// A child of ours between fork and exec still has our own environment.
	_, seen := l.listed[n.Parent]
	n.certain = n.Parent != self && (seen || n.Parent == 0)
}

// stranger reports whether a process certainly belongs to no body, and cannot have adopted an orphan of one. It returns false for a
// process that is not listed.
func (l *look) stranger(pid int) bool {
	if l.tracker.reapers[pid] {
		return false
	}
	id, ok := l.known[pid]
	if n := l.fresh[pid]; n != nil {
		return n.certain && n.owner == ""
	}
	return ok && id.owner == ""
}

// betweenPrograms reports whether a process has no arguments yet, or has lost them because it is about to exit. It returns false
// for a process that has had none for unnamedTimeout, because that one has removed them itself, and for one that cannot be read.
// The time counts from the first call for the process.
func (l *look) betweenPrograms(pid int) bool {
	has, err := procfs.HasArguments(pid)
	return err == nil && !has && l.tracker.unnamedFor(pid, l.listed[pid]) < unnamedTimeout
}
