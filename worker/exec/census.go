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
	rememberAtMost = 4 // entries, as a multiple of the number of processes
	blankAtMost    = 1000
	blankPatience  = 5 * time.Second // far longer than an exec takes
	looksAtMost    = 10
	looksEnough    = 2 // if only foreign processes come and go

	quick       = 100 * time.Millisecond
	beginAtMost = 1000  // bodies begun within quick
	fewPIDs     = 32768 // minimum of pid_max: with fewer, pids might be used again within quick
)

var errMoving = errors.New("processes of the body come and go faster than they can be looked at")

// census knows which process belongs to which body. It remembers the owner of each process, which never changes, so that a look
// costs one reading of the folder /proc, besides a reading of each new process.
type census struct {
	prefix  []byte       // of the environment entries that name an owner of this executor
	reapers map[int]bool // pids that may become the parent of an orphan of ours: this process, its ancestors, and init
	last    *os.File     // file with the last pid that the kernel gave away; nil: the kernel does not have it

	mu    sync.Mutex
	begun map[int]time.Time // start times of the first processes of bodies, for as long as quick allows
	known map[int]identity
	blank map[int]blank
	next  *round // the next look, for callers that came during the present one; nil: no caller waits

	looking sync.Mutex
}

// round is a look that several callers wait for.
type round struct {
	done chan struct{}
	look *look
	err  error
}

// identity is a process that a look has examined. No later process with its pid has the same inode in /proc.
type identity struct {
	inode uint64
	owner string // "": belongs to no body of ours
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

// openLast opens the file with the last pid. It returns nil where the kernel lacks the file, or has so few pids that they might
// be used again while a body runs.
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

// ancestors returns the pids of this process, its ancestors, and init. When one of them ends, another adopts its children.
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

// childless reports whether the first process of a body certainly forked nothing. It costs far less than a look: it checks that
// each pid given away since is the first process of another body. That proves something only for a quick body, during which no
// machine can have given away all pids and begun again; for others, and where the kernel does not tell the last pid, the answer
// is false. Without childless, BenchmarkSpawn/memory takes 1.27 times as long and BenchmarkSpawn/cgroup 1.14 times, the bare loop
// beside them unchanged, on a machine with 280 processes: a look reads the list of all of them, however few are new.
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

// adopt records the owner of a process that was just started. The caller must call forget before it reaps the process.
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

// anyInode is the inode of a process that has not been reaped, so that its pid cannot have passed to another process.
const anyInode = 0

// bury records that a process is a zombie, or gone.
func (c *census) bury(pid int, inode uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if id, ok := c.known[pid]; ok && id.is(inode) {
		id.dead = true
		c.known[pid] = id
	}
}

// forget drops a process that is about to be reaped. Looks drop such processes too, but where bodies fork nothing no look is
// made.
func (c *census) forget(pid int, owner string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[pid].owner == owner {
		delete(c.known, pid)
	}
}

// of lists the living processes of an owner. An empty list is certain: a process that forks and exits while /proc is read can be
// missed together with its child, so of looks again when a process went away during a look. It returns errMoving if that goes on.
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

// lookTogether returns a look that began after the call. Callers that come during a look share the next one: bodies that end at
// the same time would otherwise each read all of /proc.
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
	c.next = nil // later callers need a later look
	c.mu.Unlock()
	if r.look, r.err = c.look(); r.err == nil {
		c.remember(r.look)
	}
	close(r.done)
	return r.look, r.err
}

// recall returns the identities of the listed processes that were examined before.
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

// blankFor returns for how long a process has had no arguments and environment, counted from the look that first saw it so.
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

// ownerIn returns the owner that an environment names; "" for none.
func (c *census) ownerIn(environ []byte) string {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.HasPrefix(entry, c.prefix) {
			return string(entry[len(ownerVariable)+1:])
		}
	}
	return ""
}
