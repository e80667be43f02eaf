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

// freeAtMost bounds the working folders that wait for another body.
const freeAtMost = 64

// workdir is a working folder.
type workdir struct {
	path string
	made mark // as it was when it was made
}

// mark is what is different of a folder once something was made, removed or changed in it, or with it.
type mark struct {
	dev, ino uint64
	mode     uint32
	uid, gid uint32
	changed  unix.Timespec
	there    bool
}

// workdirs makes working folders. One that its body left as it had got it serves another body: beside a database that syncs,
// making a folder and removing it again takes longer than a small program runs.
type workdirs struct {
	session *session

	mu   sync.Mutex
	free []*workdir
}

// take gives an empty folder that nobody has used, as far as anyone could tell.
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

// give takes a folder back, of which nobody makes use any more.
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

// isEmpty looks itself: what was made in the same tick of the kernel's clock as the folder leaves its time as it is.
func isEmpty(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	_, err = f.Readdirnames(1)
	return errors.Is(err, io.EOF)
}
