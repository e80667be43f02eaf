package exec

// look is one reading of /proc. Once it was made it does not change.
type look struct {
	census *census
	listed map[int]uint64
	known  map[int]identity
	fresh  map[int]*newcomer

	moving  bool // one that may be somebody's was between two programs
	passing bool // somebody went before it could be looked at
}

// newcomer is a process nobody looked at before.
type newcomer struct {
	status
	owner   string
	decided bool
	certain bool // that it is whose it seems to be, and will be
}

// look reads /proc, and decides about the processes that are new.
func (c *census) look() (*look, error) {
	listed, err := listProcesses()
	if err != nil {
		return nil, err
	}
	l := &look{census: c, listed: listed, known: c.recall(listed), fresh: map[int]*newcomer{}}
	for pid := range listed {
		if _, ok := l.known[pid]; ok {
			continue
		}
		s, ok := readStatus(pid)
		if !ok {
			l.passing = true
			continue
		}
		l.passing = l.passing || s.dead
		l.fresh[pid] = &newcomer{status: s}
	}
	for pid := range l.fresh {
		l.owner(pid)
	}
	return l, nil
}

// alive lists those of an owner that run, and those that no longer do.
func (l *look) alive(owner string) (alive []process, gone []int) {
	for pid := range l.listed {
		id := l.known[pid]
		if l.owner(pid) != owner || id.dead {
			continue
		}
		s, ok := readStatus(pid)
		if ok && !s.dead {
			s.inode = l.listed[pid]
			alive = append(alive, s.process)
			continue
		}
		gone = append(gone, pid)
	}
	return alive, gone
}

// owner is who a process belongs to.
func (l *look) owner(pid int) string {
	if id, ok := l.known[pid]; ok {
		return id.owner
	}
	n := l.fresh[pid]
	if n == nil {
		return ""
	}
	if !n.decided {
		n.decided = true // first, so that a circle made by reused pids ends
		l.decide(n)
	}
	return n.owner
}

// decide asks the group's first process and the parent, and then the environment: not of those whose parent is known to be
// a stranger, since an orphan of ours has a parent above us.
func (l *look) decide(n *newcomer) {
	if n.owner = l.owner(n.group); n.owner == "" {
		n.owner = l.owner(n.parent)
	}
	if n.certain = n.owner != "" || n.kernel || n.dead || l.stranger(n.parent); n.certain {
		return
	}
	environ, hidden := readEnviron(n.pid)
	n.owner = l.census.ownerIn(environ)
	if len(environ) == 0 && !hidden && l.betweenPrograms(n.pid) {
		l.moving = true
		return
	}
	// A child of ours between fork and exec still has our own environment.
	_, seen := l.listed[n.parent]
	n.certain = n.parent != self && (seen || n.parent == 0)
}

// stranger says whether a process is certainly nobody's, and can have become the parent of no orphan.
func (l *look) stranger(pid int) bool {
	if l.census.reapers[pid] {
		return false
	}
	id, ok := l.known[pid]
	if n := l.fresh[pid]; n != nil {
		return n.certain && n.owner == ""
	}
	return ok && id.owner == ""
}

// betweenPrograms says whether a process has not got its arguments yet (or not any more, for it is about to exit). One
// that stays so has thrown them away.
func (l *look) betweenPrograms(pid int) bool {
	var buf [1]byte
	n, err := readInto(procPath(pid, "cmdline"), buf[:])
	return err == nil && n == 0 && l.census.blankFor(pid, l.listed[pid]) < blankPatience
}
