//go:build unix

package supervise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockFile is the lock file. Its lock belongs to a guard and its driver process, and its text lists the ids of workers that may
// hold runs in the database. Lock and list are one file, so that deleting the lock deletes the list, too: no worker is replaced
// because of a list without its lock.
//
// Each line is the whole list, and the last complete line counts. So a change is either there or not, even if the guard is killed
// while it writes. The list need not survive a crash of the machine, because another boot makes it void.
type lockFile struct {
	path string
	fd   int // not an os.File, because it is passed to driver processes
	end  int64
	list list
}

type list struct {
	host
	File    file     `json:"file"`
	Guard   identity `json:"guard"`
	Driver  identity `json:"driver"`
	Cgroup  string   `json:"cgroup,omitempty"`
	Workers []string `json:"workers"`
}

// host is what must be equal for the processes of a list to be visible here.
type host struct {
	Boot      string `json:"boot"`
	Namespace string `json:"pid_namespace"`
}

// file identifies the file that a list was written to. In a copy of the file the list is not valid: its processes may be alive,
// and hold the lock of the original.
type file struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

const (
	rotateBytes   = 256 << 10 // past this size the file is written from its beginning again; many times the longest line
	lockFileBytes = 1 << 20   // a longer file is not ours
	lockName      = "worker-%s.lock"
)

// openLockFile opens the lock file of a worker's name, and makes it and its folder if they are missing. It does not lock the file.
// The caller must close it.
func openLockFile(folder, name string) (*lockFile, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	l := &lockFile{path: filepath.Join(folder, fmt.Sprintf(lockName, name)), fd: -1}
	return l, l.open()
}

// open opens the file, which it makes if there is none, and closes the one that was open before. It returns an error for a link,
// and for a file of another user or one that other users may write: the processes that the file lists get killed.
func (l *lockFile) open() error {
	fd, err := unix.Open(l.path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return &fs.PathError{Op: "open the lock file", Path: l.path, Err: err}
	}
	l.close()
	l.fd = fd
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "look at the lock file", Path: l.path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Mode&0o022 != 0 || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s must be a plain file of this user, and no other user may write to it: remove it, or use another state folder", l.path)
	}
	return nil
}

func (l *lockFile) close() {
	if l.fd >= 0 {
		_ = unix.Close(l.fd)
		l.fd = -1
	}
}

// try takes the lock if it is free, does not wait, and reports whether it has the lock. If the file was removed or replaced
// meanwhile, the lock means nothing: then try opens the file anew and returns false, and the next call may get the lock.
func (l *lockFile) try() (bool, error) {
	err := unix.Flock(l.fd, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	if err != nil {
		return false, &fs.PathError{Op: "lock", Path: l.path, Err: err}
	}
	if l.inPlace() {
		return true, nil
	}
	return false, l.open()
}

func (l *lockFile) inPlace() bool {
	var open, named unix.Stat_t
	return unix.Fstat(l.fd, &open) == nil && unix.Lstat(l.path, &named) == nil && open.Ino == named.Ino && open.Dev == named.Dev
}

func (l *lockFile) file() file {
	var st unix.Stat_t
	_ = unix.Fstat(l.fd, &st)
	return file{Device: uint64(st.Dev), Inode: st.Ino} //nolint:unconvert // signed on some systems
}

// read sets l.list to the last complete line of the file, and l.end to where that line ends. A file without a complete line is an
// empty list. After an error l.list is empty, too.
func (l *lockFile) read() error {
	l.list, l.end = list{}, 0
	text := make([]byte, lockFileBytes)
	n, err := unix.Pread(l.fd, text, 0)
	if err != nil {
		return &fs.PathError{Op: "read", Path: l.path, Err: err}
	}
	text = text[:n]
	end := bytes.LastIndexByte(text, '\n') + 1
	if end == 0 {
		return nil
	}
	last := text[bytes.LastIndexByte(text[:end-1], '\n')+1 : end]
	var found list
	if err := json.Unmarshal(last, &found); err != nil {
		return fmt.Errorf("%s: its last line is not understood: %w", l.path, err)
	}
	for _, id := range found.Workers {
		if !validName.MatchString(id) {
			return fmt.Errorf("%s: %q is no worker id", l.path, id)
		}
	}
	l.list, l.end = found, int64(end)
	return nil
}

// write appends next to the file and makes it l.list; it fills in next.File. After an error, l.list and the file have the old list.
// If the file has grown too long, the new line becomes the only one. write does not wait for the disk.
func (l *lockFile) write(next list) error {
	next.File = l.file()
	line, err := json.Marshal(next)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	rotate := l.end+int64(len(line)) > rotateBytes
	at := l.end
	if rotate {
		at = 0 // the old list stays the last line until the file is cut
	}
	n, err := unix.Pwrite(l.fd, line, at)
	if err == nil && n < len(line) {
		err = unix.ENOSPC
	}
	if err == nil && rotate {
		err = unix.Ftruncate(l.fd, int64(n))
	}
	if err != nil {
		return &fs.PathError{Op: "write", Path: l.path, Err: err}
	}
	l.list, l.end = next, at+int64(n)
	return nil
}
