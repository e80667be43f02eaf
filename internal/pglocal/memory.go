package pglocal

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/procfs"
)

const (
	memoryFolder = "/dev/shm"
	tmpfsMagic   = 0x01021994
	wantRoom     = 2 << 30 // the tests of oarlock need far less
	wantMemory   = 4 << 30
)

// FastTempDir returns TempDir, or a folder in memory if there is plenty of memory and TMPDIR is not set. It is for servers
// that create and drop databases all the time: ext4 gets slow at creating files next to recently deleted ones.
func FastTempDir() string {
	if os.Getenv("TMPDIR") == "" && roomy(memoryFolder) && freeMemory() >= wantMemory && memoryLimit() >= wantMemory {
		return memoryFolder
	}
	return TempDir()
}

func roomy(dir string) bool {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return err == nil && int64(st.Type) == tmpfsMagic && st.Bavail*uint64(st.Bsize) >= wantRoom
}

// freeMemory returns the bytes that are available without swapping, as the kernel estimates them; 0: unknown.
func freeMemory() uint64 {
	b, _ := os.ReadFile(procfs.Root + "/meminfo") // without the file: no bytes, so 0
	_, rest, _ := bytes.Cut(b, []byte("MemAvailable:"))
	line, _, _ := bytes.Cut(rest, []byte("kB"))
	return number(line) << 10
}

// memoryLimit returns the container's limit of memory in bytes, or a huge number if there is none.
func memoryLimit() uint64 {
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if b, err := os.ReadFile(file); err == nil {
			if n := number(b); n > 0 {
				return n
			}
		}
	}
	return 1 << 62
}

func number(b []byte) uint64 {
	n, err := strconv.ParseUint(string(bytes.TrimSpace(b)), 10, 63)
	if err != nil {
		return 0 // "max"
	}
	return n
}
