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

	"github.com/oarlock-dev/oarlock/internal/procfs"
)

const (
	ownerVariable  = "OARLOCK_BODY_ID"
	rememberAtMost = 4 // entries, as a multiple of the number of processes
	unnamedMax     = 1000
	unnamedTimeout = 5 * time.Second // far longer than an exec takes
	looksAtMost    = 10
	looksEnough    = 2 // if only foreign processes come and go

	quick       = 100 * time.Millisecond
	beginAtMost = 1000  // bodies begun within quick
	fewPIDs     = 32768 // minimum of pid_max: with fewer, pids might be used again within quick
)

var self = unix.Getpid()

var errMoving = errors.New("processes of the body come and go faster than they can be looked at")

// procTracker knows which process belongs to which body. It remembers the owner of each process, which never changes, so that a
// look costs one reading of the folder /proc, besides a reading of each new process.
type procTracker struct {
	prefix  []byte          // of the environment entries that name an owner of this executor
	reapers map[int]bool    // pids that may become the parent of an orphan of ours: this process, its ancestors, and init
	last    *os.File        // file with the last pid that the kernel gave away; nil: the kernel does not have it
	adopts  bool            // this process adopts the orphans of bodies; see package offspring
	before  map[uint64]bool // inodes of the children that were there before
	worker  string          // variable with the worker's id; "": none

	mu      sync.Mutex
	begun   map[int]time.Time // start times of the first processes of bodies, for as long as quick allows
	known   map[int]identity
	bodies  map[string]bool            // owners that may have a living process
	strays  map[string]map[string]bool // by the owner of the stray: the bodies that may have started it
	unnamed map[int]unnamedProc
	next    *round // the next look, for callers that came during the present one; nil: no caller waits

	looking sync.Mutex
}

// round is a look that several callers wait for.
type round struct {
	done chan struct{}
	look *look
	err  error
}

// process is a living process.
type process struct {
	pid, group int
	inode      uint64 // of its folder in /proc, which no other process has; 0: not read
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

// unnamedProc is a process without arguments and environment.
type unnamedProc struct {
	inode uint64
	since time.Time
}

func newProcTracker(prefix string, c Config) *procTracker {
	return &procTracker{
		before: children(), prefix: []byte(ownerVariable + "=" + prefix), reapers: ancestors(), last: openLast(), adopts: c.Adopts, worker: c.WorkerVariable,
		begun: map[int]time.Time{}, known: map[int]identity{}, unnamed: map[int]unnamedProc{},
		bodies: map[string]bool{}, strays: map[string]map[string]bool{},
	}
}

// openLast opens the file with the last pid that the kernel gave away. It returns nil where the kernel lacks the file, or has so
// few pids that they might be used again while a body runs. The caller must close it.
func openLast() *os.File {
	most, err := os.ReadFile(procfs.Root + "/sys/kernel/pid_max")
	if n, notOne := strconv.Atoi(string(bytes.TrimSpace(most))); err != nil || notOne != nil || n < fewPIDs {
		return nil
	}
	last, err := os.Open(procfs.Root + "/sys/kernel/ns_last_pid")
	if err != nil {
		return nil
	}
	return last
}

// ancestors returns the pids of this process, its ancestors, and init. One of them becomes the parent of a process that is orphaned
// below this process.
func ancestors() map[int]bool {
	line := map[int]bool{1: true}
	for pid := unix.Getpid(); pid > 0 && !line[pid]; {
		line[pid] = true
		stat, _ := procfs.ReadStat(pid)
		pid = stat.Parent
	}
	return line
}

// children returns the inodes in /proc of all processes that are children of this process now.
func children() map[uint64]bool {
	inodes := map[uint64]bool{}
	pids, _ := procfs.Children(self) // New has listed processes before
	for _, pid := range pids {
		inodes[procfs.Inode(pid)] = true
	}
	return inodes
}

func (t *procTracker) close() {
	if t.last != nil {
		t.last.Close()
	}
}

// childless reports whether the first process of a body, pid, certainly forked nothing. It costs far less than a look: it checks
// that each pid given away since is the first process of another body. That proves something only for a quick body, during which no
// machine can have given away all pids and begun again; for others, and where the kernel does not tell the last pid, the answer is
// false. Without childless, BenchmarkSpawn/memory takes 1.27 times as long and BenchmarkSpawn/cgroup 1.14 times, the bare loop
// beside them unchanged, on a machine with 280 processes: a look reads the list of all of them, however few are new.
func (t *procTracker) childless(pid int) bool {
	var buf [16]byte
	if t.last == nil {
		return false
	}
	n, _ := t.last.ReadAt(buf[:], 0)
	last, err := strconv.Atoi(string(bytes.TrimSpace(buf[:n])))
	if err != nil || last < pid || last-pid > beginAtMost {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := pid; p <= last; p++ {
		if since, ok := t.begun[p]; !ok || time.Since(since) > quick {
			return false
		}
	}
	return true
}

// adopt records the owner of the first process of a body, which was just started. started is a moment before the start, for
// childless. The caller must call forget before it reaps the process.
func (t *procTracker) adopt(pid int, owner string, started time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[pid] = identity{inode: anyInode, owner: owner}
	if len(t.begun) >= beginAtMost {
		maps.DeleteFunc(t.begun, func(_ int, since time.Time) bool { return time.Since(since) > quick })
	}
	if len(t.begun) < beginAtMost {
		t.begun[pid] = started
	}
}

// anyInode is the inode of a process that has not been reaped, so that its pid cannot have passed to another process.
const anyInode = 0

// bury records that a process is a zombie or gone, so that it no longer counts as alive. It does nothing if the tracker does not
// know a process with this pid and inode. With anyInode, the pid alone decides.
func (t *procTracker) bury(pid int, inode uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, ok := t.known[pid]; ok && id.is(inode) {
		id.dead = true
		t.known[pid] = id
	}
}

// forget drops the first process of a body, which the caller is about to reap, unless owner is no longer its owner. Looks drop such
// processes too, but where bodies fork nothing no look is made.
func (t *procTracker) forget(pid int, owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[pid].owner == owner {
		delete(t.known, pid)
	}
}

// of lists the living processes of a body, and of strays that no other body may have started. It makes looks, and reaps orphans
// that have ended. If the list is empty it also forgets these strays.
//
// An empty list is certain if the error is nil. A process that forks and exits while /proc is read can be missed together with its
// child, so of looks again when a process went away during a look. If that goes on for looksAtMost looks, of returns errMoving.
func (t *procTracker) of(owner string) ([]process, error) {
	for n := 1; n <= looksAtMost; n++ {
		l, err := t.lookTogether()
		if err != nil {
			return nil, err
		}
		owners := t.owners(owner)
		alive, gone := l.alive(owners)
		for _, pid := range gone {
			t.bury(pid, l.listed[pid])
			t.reap(pid)
		}
		if len(alive) > 0 {
			return alive, nil
		}
		if !l.moving && len(gone) == 0 && (!l.passing || n >= looksEnough) {
			t.haveEnded(owners)
			return nil, nil
		}
	}
	return nil, errMoving
}

// lookTogether returns a look that began after the call, and remembers it. It first waits for the end of a look in progress.
// Callers that come during a look share the next one: bodies that end at the same time would otherwise each read all of /proc.
func (t *procTracker) lookTogether() (*look, error) {
	t.mu.Lock()
	r := t.next
	if r != nil {
		t.mu.Unlock()
		<-r.done
		return r.look, r.err
	}
	r = &round{done: make(chan struct{})}
	t.next = r
	t.mu.Unlock()
	t.looking.Lock()
	defer t.looking.Unlock()
	t.mu.Lock()
	t.next = nil // later callers need a later look
	t.mu.Unlock()
	if r.look, r.err = t.look(); r.err == nil {
		t.remember(r.look)
	}
	close(r.done)
	return r.look, r.err
}

// recall returns the identities of the processes that an earlier look examined, by pid. listed has the inode of each pid: a process
// that got the pid of another one later does not count.
func (t *procTracker) recall(listed map[int]uint64) map[int]identity {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := make(map[int]identity, len(listed))
	for pid, inode := range listed {
		if id, ok := t.known[pid]; ok && id.is(inode) {
			known[pid] = id
		}
	}
	return known
}

func (t *procTracker) remember(l *look) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) > rememberAtMost*len(l.listed) {
		for pid := range t.known {
			if inode := t.known[pid].inode; inode != anyInode && inode != l.listed[pid] {
				delete(t.known, pid)
			}
		}
	}
	for pid, n := range l.fresh {
		if n.owner != "" || n.certain {
			t.known[pid] = identity{l.listed[pid], n.owner, !n.Live}
		}
	}
	t.forgetStraysLocked(l)
}

// unnamedFor returns for how long a process has had no arguments and no environment. The caller has found that it has none now. The
// time counts from the first call for the process, which returns 0.
func (t *procTracker) unnamedFor(pid int, inode uint64) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if b, ok := t.unnamed[pid]; ok && b.inode == inode {
		return time.Since(b.since)
	}
	if len(t.unnamed) > unnamedMax {
		clear(t.unnamed)
	}
	t.unnamed[pid] = unnamedProc{inode, time.Now()}
	return 0
}

// namesWorker reports whether an environment has Config.WorkerVariable. Then the guard that ends the worker with this id finds the
// process. It returns false if that variable is "".
func (t *procTracker) namesWorker(environ []byte) bool {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if name, _, _ := bytes.Cut(entry, []byte{'='}); t.worker != "" && string(name) == t.worker {
			return true
		}
	}
	return false
}

// ownerIn returns the owner in the OARLOCK_BODY_ID of an environment; "" if there is none, or if it is a body of another executor.
func (t *procTracker) ownerIn(environ []byte) string {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.HasPrefix(entry, t.prefix) {
			return string(entry[len(ownerVariable)+1:])
		}
	}
	return ""
}
