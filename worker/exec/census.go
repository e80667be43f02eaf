package exec

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	ownerVariable  = "OARLOCK_BODY_ID"
	rememberAtMost = 4 // times the processes there are
	blankAtMost    = 1000
	blankPatience  = 5 * time.Second // far longer than any exec takes
	looksAtMost    = 10
	looksEnough    = 2 // where only strangers come and go

	quick       = 100 * time.Millisecond
	beginAtMost = 1000  // bodies in that time
	fewPIDs     = 32768 // what a machine must have of them, lest they begin anew in that time
)

var errMoving = errors.New("processes of the body come and go faster than they can be looked at")

// census tells which processes belong to which body. It remembers whom a process belongs to, which never changes: a look
// then costs one reading of /proc's folder, besides the processes that are new.
type census struct {
	prefix  []byte       // of every owner here, as it stands in an environment
	reapers map[int]bool // who may be the parent of an orphan of ours: we, those above us, and init
	last    *os.File     // names the last pid the kernel gave away; nil: it does not tell

	mu    sync.Mutex
	begun map[int]time.Time // first processes of bodies, by when they were started, for as long as quick allows
	known map[int]identity
	blank map[int]blank
	next  *round // of those who ask while a look is under way; nil: nobody has asked

	looking sync.Mutex
}

// round is a look that several wait for.
type round struct {
	done chan struct{}
	look *look
	err  error
}

// identity is a process that was looked at. No later process with its pid has the same inode in /proc.
type identity struct {
	inode uint64
	owner string // "": of no body of ours
	dead  bool
}

func (id identity) is(inode uint64) bool {
	return inode == id.inode || inode == anyInode || id.inode == anyInode
}

// blank is a process without arguments and environment.
type blank struct {
	inode uint64
	since time.Time
}

func newCensus(prefix string) *census {
	return &census{
		prefix: []byte(ownerVariable + "=" + prefix), reapers: ancestors(), last: openLast(),
		begun: map[int]time.Time{}, known: map[int]identity{}, blank: map[int]blank{},
	}
}

// openLast is nil where the kernel does not tell the last pid, or has so few that they may begin anew while a body runs.
func openLast() *os.File {
	most, err := os.ReadFile(procRoot + "/sys/kernel/pid_max")
	if n, notOne := strconv.Atoi(string(bytes.TrimSpace(most))); err != nil || notOne != nil || n < fewPIDs {
		return nil
	}
	last, err := os.Open(procRoot + "/sys/kernel/ns_last_pid")
	if err != nil {
		return nil
	}
	return last
}

// ancestors are this process, those above it, and init. When one of them ends, another of them takes its children.
func ancestors() map[int]bool {
	line := map[int]bool{1: true}
	for pid := unix.Getpid(); pid > 0 && !line[pid]; {
		line[pid] = true
		s, _ := readStatus(pid)
		pid = s.parent
	}
	return line
}

func (c *census) close() {
	if c.last != nil {
		c.last.Close()
	}
}

// childless says for sure, and far more cheaply than a look, that the first process of a body forked nothing: each pid that
// was given away since its own is the first one of another body. That holds for quick ones only, for which no machine can
// have given away all pids in the meantime and have begun anew; of others, and where the kernel does not tell, it says no.
// Without it BenchmarkSpawn/memory takes 1.27 times as long and BenchmarkSpawn/cgroup 1.14 times, the bare loop beside them
// unchanged, on a machine with 280 processes: a look reads the list of all of them, however few are new.
func (c *census) childless(pid int) bool {
	var buf [16]byte
	if c.last == nil {
		return false
	}
	n, _ := c.last.ReadAt(buf[:], 0)
	last, err := strconv.Atoi(string(bytes.TrimSpace(buf[:n])))
	if err != nil || last < pid || last-pid > beginAtMost {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := pid; p <= last; p++ {
		if since, ok := c.begun[p]; !ok || time.Since(since) > quick {
			return false
		}
	}
	return true
}

// adopt tells whose a process is that was just started, and is not reaped before it is forgotten.
func (c *census) adopt(pid int, owner string, started time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[pid] = identity{inode: anyInode, owner: owner}
	if len(c.begun) >= beginAtMost {
		maps.DeleteFunc(c.begun, func(_ int, since time.Time) bool { return time.Since(since) > quick })
	}
	if len(c.begun) < beginAtMost {
		c.begun[pid] = started
	}
}

// anyInode is of a process that cannot have a successor yet.
const anyInode = 0

// bury tells that a process is known to be a zombie, or gone.
func (c *census) bury(pid int, inode uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, ok := c.known[pid]; ok && id.is(inode) {
		id.dead = true
		c.known[pid] = id
	}
}

// forget drops a process that is reaped next. Where bodies fork nothing there is never a look, which would drop it too.
func (c *census) forget(pid int, owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[pid].owner == owner {
		delete(c.known, pid)
	}
}

// of lists what is alive of an owner. Where nothing is, it has made sure: a process that forks and exits while /proc is
// read can be missed together with its child, so what was seen to go is a reason to look again.
func (c *census) of(owner string) ([]process, error) {
	for n := 1; n <= looksAtMost; n++ {
		l, err := c.lookTogether()
		if err != nil {
			return nil, err
		}
		alive, gone := l.alive(owner)
		for _, pid := range gone {
			c.bury(pid, l.listed[pid])
		}
		if len(alive) > 0 || !l.moving && len(gone) == 0 && (!l.passing || n >= looksEnough) {
			return alive, nil
		}
	}
	return nil, errMoving
}

// lookTogether returns a look that began after the call; those who call while another one is under way share the next.
// Bodies that end at the same time would each read all of /proc otherwise.
func (c *census) lookTogether() (*look, error) {
	c.mu.Lock()
	r := c.next
	if r != nil {
		c.mu.Unlock()
		<-r.done
		return r.look, r.err
	}
	r = &round{done: make(chan struct{})}
	c.next = r
	c.mu.Unlock()
	c.looking.Lock()
	defer c.looking.Unlock()
	c.mu.Lock()
	c.next = nil // who asks from now on needs a later one
	c.mu.Unlock()
	if r.look, r.err = c.look(); r.err == nil {
		c.remember(r.look)
	}
	close(r.done)
	return r.look, r.err
}

// recall gives those processes that were looked at before.
func (c *census) recall(listed map[int]uint64) map[int]identity {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := make(map[int]identity, len(listed))
	for pid, inode := range listed {
		if id, ok := c.known[pid]; ok && id.is(inode) {
			known[pid] = id
		}
	}
	return known
}

func (c *census) remember(l *look) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) > rememberAtMost*len(l.listed) {
		for pid := range c.known {
			if inode := c.known[pid].inode; inode != anyInode && inode != l.listed[pid] {
				delete(c.known, pid)
			}
		}
	}
	for pid, n := range l.fresh {
		if n.owner != "" || n.certain {
			c.known[pid] = identity{l.listed[pid], n.owner, n.dead}
		}
	}
}

// blankFor says how long a process has been without arguments and environment, on this look and those before.
func (c *census) blankFor(pid int, inode uint64) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := c.blank[pid]; ok && b.inode == inode {
		return time.Since(b.since)
	}
	if len(c.blank) > blankAtMost {
		clear(c.blank)
	}
	c.blank[pid] = blank{inode, time.Now()}
	return 0
}

// ownerIn finds the owner an environment names.
func (c *census) ownerIn(environ []byte) string {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.HasPrefix(entry, c.prefix) {
			return string(entry[len(ownerVariable)+1:])
		}
	}
	return ""
}
