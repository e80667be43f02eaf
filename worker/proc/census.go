package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	procRoot       = "/proc"
	maxEnviron     = 4 << 20 // the kernel's own limit is a quarter of the stack's, 2 MiB as a rule
	listingBytes   = 32 << 10
	kernelThread   = 0x00200000 // PF_KTHREAD
	ownerVariable  = "OARLOCK_BODY_ID"
	statusBytes    = 1 << 10
	rememberAtMost = 4 // times the processes there are
)

// census tells which processes belong to which body. It remembers whom a process belongs to, which never changes: a look
// then costs one reading of /proc's folder, besides the processes that are new.
type census struct {
	self   int
	prefix []byte // of every owner here, as it stands in an environment

	mu    sync.Mutex
	known map[int]identity
}

// identity is a process that was looked at. No later process with its pid has the same inode in /proc.
type identity struct {
	inode uint64
	owner string // "": of no body of ours
}

// process is one that is alive.
type process struct {
	pid, parent, group int
}

// status is what /proc says about a process.
type status struct {
	process
	dead   bool // a zombie, all threads of it
	kernel bool
}

func newCensus(prefix string) *census {
	return &census{self: unix.Getpid(), prefix: []byte(ownerVariable + "=" + prefix), known: map[int]identity{}}
}

// adopt tells whose a process is that was just started.
func (c *census) adopt(pid int, owner string) {
	var st unix.Stat_t
	if unix.Stat(procPath(pid, ""), &st) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known[pid] = identity{st.Ino, owner}
}

// of lists what is alive of an owner.
func (c *census) of(owner string) ([]process, error) {
	listed, err := listProcesses()
	if err != nil {
		return nil, err
	}
	var alive []process
	for _, pid := range c.owned(owner, listed) {
		if s, ok := readStatus(pid); ok && !s.dead {
			alive = append(alive, s.process)
		}
	}
	return alive, nil
}

// owned looks at the processes that are new, and gives the owner's.
func (c *census) owned(owner string, listed map[int]uint64) []int {
	look := &look{census: c, listed: listed, known: c.recall(listed), fresh: map[int]*newcomer{}}
	for pid := range listed {
		if _, ok := look.known[pid]; !ok {
			look.meet(pid)
		}
	}
	for pid := range look.fresh {
		look.owner(pid)
	}
	c.remember(look)
	var pids []int
	for pid := range listed {
		if look.owner(pid) == owner {
			pids = append(pids, pid)
		}
	}
	return pids
}

// recall gives the owners of those processes that were looked at before.
func (c *census) recall(listed map[int]uint64) map[int]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := make(map[int]string, len(listed))
	for pid, inode := range listed {
		if id, ok := c.known[pid]; ok && id.inode == inode {
			known[pid] = id.owner
		}
	}
	return known
}

func (c *census) remember(l *look) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) > rememberAtMost*len(l.listed) {
		for pid := range c.known {
			if l.listed[pid] != c.known[pid].inode {
				delete(c.known, pid)
			}
		}
	}
	for pid, n := range l.fresh {
		if n.owner != "" || n.certain {
			c.known[pid] = identity{l.listed[pid], n.owner}
		}
	}
}

// look is one reading of /proc.
type look struct {
	census *census
	listed map[int]uint64
	known  map[int]string
	fresh  map[int]*newcomer
}

// newcomer is a process nobody looked at before.
type newcomer struct {
	status
	owner   string
	certain bool // that it is nobody's, and will be
	decided bool
}

func (l *look) meet(pid int) {
	s, ok := readStatus(pid)
	if !ok {
		return
	}
	n := &newcomer{status: s, certain: s.kernel}
	l.fresh[pid] = n
	if s.kernel {
		return
	}
	environ, hidden := readEnviron(pid)
	n.owner, n.decided = l.census.ownerIn(environ)
	// A child of ours between fork and exec has our own environment, one between two programs has none yet.
	n.certain = (len(environ) > 0 || hidden || s.dead) && s.parent != l.census.self
}

// owner is who a process belongs to: as it says itself, or else its group's first process, or else its parent.
func (l *look) owner(pid int) string {
	if owner, ok := l.known[pid]; ok {
		return owner
	}
	n := l.fresh[pid]
	if n == nil {
		return ""
	}
	if !n.decided {
		n.decided = true // first, so that a circle made by reused pids ends
		if n.owner = l.owner(n.group); n.owner == "" {
			n.owner = l.owner(n.parent)
		}
		_, seen := l.listed[n.parent]
		n.certain = n.certain && (seen || n.parent == 0)
	}
	return n.owner
}

// ownerIn finds the owner an environment names.
func (c *census) ownerIn(environ []byte) (string, bool) {
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if bytes.HasPrefix(entry, c.prefix) {
			return string(entry[len(ownerVariable)+1:]), true
		}
	}
	return "", false
}

// listProcesses gives all pids, each with the inode of its folder.
func listProcesses() (map[int]uint64, error) {
	fd, err := unix.Open(procRoot, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer unix.Close(fd)
	listed := make(map[int]uint64, 128)
	for buf := make([]byte, listingBytes); ; {
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			return nil, fmt.Errorf("list processes: %w", err)
		}
		if n == 0 {
			return listed, nil
		}
		parseEntries(buf[:n], listed)
	}
}

// parseEntries reads the kernel's linux_dirent64: inode, offset, length of the entry, type, name.
func parseEntries(buf []byte, listed map[int]uint64) {
	const lengthAt, nameAt = 16, 19
	for len(buf) > nameAt {
		length := int(binary.NativeEndian.Uint16(buf[lengthAt:]))
		name, _, _ := bytes.Cut(buf[nameAt:length], []byte{0})
		if pid, err := strconv.Atoi(string(name)); err == nil {
			listed[pid] = binary.NativeEndian.Uint64(buf)
		}
		buf = buf[length:]
	}
}

func procPath(pid int, file string) string { return procRoot + "/" + strconv.Itoa(pid) + "/" + file }

// readStatus reads /proc/<pid>/stat; not ok means the process is gone.
func readStatus(pid int) (status, bool) {
	var buf [statusBytes]byte
	n, err := readInto(procPath(pid, "stat"), buf[:])
	if err != nil {
		return status{}, false
	}
	return parseStatus(pid, buf[:n])
}

// parseStatus reads what follows the name, which stands in parentheses and may hold anything.
func parseStatus(pid int, text []byte) (status, bool) {
	const state, parent, group, flags, threads = 0, 1, 2, 6, 17
	end := bytes.LastIndexByte(text, ')')
	field := bytes.Fields(text[end+1:])
	if end < 0 || len(field) <= threads {
		return status{}, false
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(string(field[i]))
		return n
	}
	// A first thread that ended is a zombie too while others go on.
	dead := (field[state][0] == 'Z' || field[state][0] == 'X') && number(threads) <= 1
	return status{process{pid, number(parent), number(group)}, dead, number(flags)&kernelThread != 0}, true
}

// readEnviron gives nothing for a zombie, a process that is gone, and one whose environment is hidden from us.
func readEnviron(pid int) (environ []byte, hidden bool) {
	for size := 16 << 10; ; size *= 4 {
		buf := make([]byte, size)
		n, err := readInto(procPath(pid, "environ"), buf)
		if err != nil {
			return nil, errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
		}
		if n < size || size >= maxEnviron {
			return buf[:n], false
		}
	}
}

// readInto fills buf from a file, as far as it goes.
func readInto(path string, buf []byte) (int, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	total := 0
	for total < len(buf) {
		n, err := unix.Read(fd, buf[total:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return total, err
		}
		if n == 0 {
			break
		}
		total += n
	}
	return total, nil
}
