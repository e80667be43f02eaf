package exec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// freeAtMost bounds the unused working folders that are kept for other bodies.
const freeAtMost = 64

type workdir struct {
	path string
	made mark // mark right after the folder was made
}

// mark is the state of a folder. It changes whenever something is made, removed or renamed in the folder, or its attributes
// change.
type mark struct {
	dev, ino uint64
	mode     uint32
	uid, gid uint32
	changed  unix.Timespec
	there    bool
}

// workdirs makes working folders. A folder that its body left exactly as it was serves another body: beside a database that
// syncs, making and removing a folder takes longer than a small program runs.
type workdirs struct {
	session *session

	mu   sync.Mutex
	free []*workdir
}

// take returns an empty working folder: one that its last body left exactly as it was, or a new one with the given name. The caller
// must give it back by give or remove.
func (w *workdirs) take(name string) (*workdir, error) {
	for d := w.pop(); d != nil; d = w.pop() {
		if d.made == markOf(d.path) {
			return d, nil
		}
		_ = removeTree(d.path)
	}
	d := &workdir{path: filepath.Join(w.session.path, name)}
	if err := w.session.retry(func() error { return os.Mkdir(d.path, 0o700) }); err != nil {
		return nil, fmt.Errorf("make the working folder of the attempt: %w", err)
	}
	d.made = markOf(d.path)
	return d, nil
}

func (w *workdirs) pop() *workdir {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.free) == 0 {
		return nil
	}
	last := len(w.free) - 1
	d := w.free[last]
	w.free = w.free[:last]
	return d
}

// give takes back a folder that no process uses any more. It keeps an untouched folder for another body, unless freeAtMost are kept
// already, and removes any other; with Config.KeepWorkDir, remove leaves the folder in place.
func (w *workdirs) give(d *workdir) {
	if d.made.there && d.made == markOf(d.path) && isEmpty(d.path) && !w.session.keep && w.push(d) {
		return
	}
	w.remove(d)
}

func (w *workdirs) remove(d *workdir) {
	if !w.session.keep && unix.Rmdir(d.path) != nil {
		_ = removeTree(d.path)
	}
}

func (w *workdirs) push(d *workdir) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.free) >= freeAtMost {
		return false
	}
	w.free = append(w.free, d)
	return true
}

func markOf(path string) mark {
	var st unix.Stat_t
	if unix.Lstat(path, &st) != nil {
		return mark{}
	}
	return mark{dev: st.Dev, ino: st.Ino, mode: st.Mode, uid: st.Uid, gid: st.Gid, changed: st.Ctim, there: true}
}

// isEmpty reports whether a folder has no entries; false if it cannot be read. It reads the folder, because a change within the
// same tick of the kernel's clock as the folder's making leaves its mark unchanged.
func isEmpty(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	return errors.Is(err, io.EOF)
}
