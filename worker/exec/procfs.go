package exec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	procRoot     = "/proc"
	maxEnviron   = 4 << 20 // the kernel's limit is a quarter of the stack limit, usually 2 MiB
	listingBytes = 32 << 10
	kernelThread = 0x00200000 // PF_KTHREAD
	statusBytes  = 1 << 10
)

// process is a living process.
type process struct {
	pid, parent, group int
	inode              uint64 // of its folder in /proc, which no other process has; 0: not read
}

// status is a process's line of /proc.
type status struct {
	process
	dead   bool // all its threads have ended
	kernel bool
}

var self = unix.Getpid()

// listProcesses returns all pids, each with the inode of its folder.
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

// parseEntries parses the kernel's linux_dirent64: inode, offset, length of the entry, type, name.
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

// inodeOf returns the inode of a process's folder; 0 if the process is gone.
func inodeOf(pid int) uint64 {
	var st unix.Stat_t
	if unix.Stat(procPath(pid, ""), &st) != nil {
		return 0
	}
	return st.Ino
}

func procPath(pid int, file string) string { return procRoot + "/" + strconv.Itoa(pid) + "/" + file }

// readStatus reads /proc/<pid>/stat. It returns false if the process is gone.
func readStatus(pid int) (status, bool) {
	var buf [statusBytes]byte
	n, err := readInto(procPath(pid, "stat"), buf[:])
	if err != nil {
		return status{}, false
	}
	return parseStatus(pid, buf[:n])
}

// parseStatus parses the fields after the name. The name is in parentheses and may hold any character.
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
	// A first thread that ended is shown as a zombie, too, while other threads go on.
	dead := (field[state][0] == 'Z' || field[state][0] == 'X') && number(threads) <= 1
	return status{process{pid: pid, parent: number(parent), group: number(group)}, dead, number(flags)&kernelThread != 0}, true
}

// readEnviron returns the environment of a process; nothing for a zombie and for a process that is gone. hidden means that this
// user may not read it. Where the first thread has ended, only the other threads show the environment.
func readEnviron(pid int) (environ []byte, hidden bool) {
	if environ, hidden = readEnvironAt(procPath(pid, "environ")); len(environ) > 0 || hidden {
		return environ, hidden
	}
	threads, _ := os.ReadDir(procPath(pid, "task"))
	for _, thread := range threads {
		if environ, _ := readEnvironAt(procPath(pid, "task/"+thread.Name()+"/environ")); len(environ) > 0 {
			return environ, false
		}
	}
	return nil, false
}

func readEnvironAt(path string) (environ []byte, hidden bool) {
	for size := 16 << 10; ; size *= 4 {
		buf := make([]byte, size)
		n, err := readInto(path, buf)
		if err != nil {
			return nil, errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)
		}
		if n < size || size >= maxEnviron {
			return buf[:n], false
		}
	}
}

// readInto fills buf from a file, and returns how many bytes it read.
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
