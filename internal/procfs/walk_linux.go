package procfs

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"
)

const listingBytes = 32 << 10

// Walk calls visit with the pid of each process and the inode of its folder, in the order of the kernel's list. It opens no file of
// a process, and allocates nothing for one.
func Walk(visit func(pid int, inode uint64)) error {
	fd, err := unix.Open(Root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("list processes: %w", err)
	}
	defer unix.Close(fd)
	for buf := make([]byte, listingBytes); ; {
		n, err := unix.Getdents(fd, buf)
		if err != nil {
			return fmt.Errorf("list processes: %w", err)
		}
		if n == 0 {
			return nil
		}
		walkEntries(buf[:n], visit)
	}
}

// walkEntries calls visit for each entry of buf that is named by a pid. The entries are the kernel's linux_dirent64: inode, offset,
// length of the entry, type, name.
func walkEntries(buf []byte, visit func(pid int, inode uint64)) {
	const lengthAt, nameAt = 16, 19
	for len(buf) > nameAt {
		length := int(binary.NativeEndian.Uint16(buf[lengthAt:]))
		name, _, _ := bytes.Cut(buf[nameAt:length], []byte{0})
		if pid, ok := number(name); ok {
			visit(pid, binary.NativeEndian.Uint64(buf))
		}
		buf = buf[length:]
	}
}

// number parses a pid, and returns false if the name is none. It is not strconv.Atoi, which allocates an error for each of the many
// other names in the folder.
func number(name []byte) (n int, ok bool) {
	for _, digit := range name {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		n = 10*n + int(digit-'0')
	}
	return n, len(name) > 0
}
