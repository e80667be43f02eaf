package exec

// look is one reading of /proc. It does not change after it was made.
type look struct {
	census *census
	listed map[int]uint64
	known  map[int]identity
	fresh  map[int]*newcomer

	moving  bool // a process that may belong to a body was between fork and exec, or about to exit
	passing bool // a process ended before it could be examined
}

// newcomer is a process that no earlier look has examined.
type newcomer struct {
	status
	owner   string
	decided bool
	certain bool // the owner is known for sure, and cannot change
}

// look reads /proc, and finds the owners of new processes.
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

// alive returns the living processes of an owner, and the pids of its processes that have ended.
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

// owner returns the owner of a process; "" for none.
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

// decide finds the owner of a new process: the owner of the group's first process, else of its parent, else the owner that its
// environment names. It skips the environment if the parent is a stranger, since the parent of an orphan of ours is one of
// reapers.
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

// stranger reports whether a process certainly belongs to no body, and cannot have adopted an orphan of one.
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

// betweenPrograms reports whether a process has no arguments yet, or has lost them because it is about to exit. A process that
// has none for longer than blankPatience has removed them itself.
func (l *look) betweenPrograms(pid int) bool {
	var buf [1]byte
	n, err := readInto(procPath(pid, "cmdline"), buf[:])
	return err == nil && n == 0 && l.census.blankFor(pid, l.listed[pid]) < blankPatience
}
