package exec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/worker"
)

const (
	sessionPattern  = "session-*"
	sessionAttempts = 10 // tries to make a folder, since a sweep of another executor may remove a folder before it is locked
)

// session is the folder of one executor. The executor holds a lock on it, by which sweeps know that the folder is in use.
type session struct {
	path string
	keep bool

	mu   sync.Mutex
	lock *os.File
}

// openSession makes a folder in dir and locks it, for one executor; it also makes dir if it is missing. Unless keep is set, it
// first removes the folders in dir that no executor has locked. The caller must close the session: this ends the lock, and removes
// the folder unless keep is set.
func openSession(dir string, keep bool) (*session, error) {
	if dir == "" {
		return nil, errors.New("the executor needs a folder for the work of attempts: set Dir")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("work folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the work folder: %w", err)
	}
	if !keep {
		sweepSessions(dir)
	}
	for range sessionAttempts {
		if s := makeSession(dir, keep); s != nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("cannot make and lock a folder in %s: this folder must be writable, and on a file system with flock", dir)
}

func makeSession(dir string, keep bool) *session {
	path, err := os.MkdirTemp(dir, sessionPattern)
	if err != nil {
		return nil
	}
	lock := lockFolder(path)
	if lock == nil {
		return nil
	}
	if _, err := os.Stat(path); err != nil { // another executor's sweep removed it before it was locked
		lock.Close()
		return nil
	}
	return &session{path: path, lock: lock, keep: keep}
}

// lockFolder locks a folder without waiting, and returns the open folder: the caller holds the lock until it closes the file. It
// returns nil if the folder cannot be opened or locked, above all if it is locked already, by another process or by this one.
func lockFolder(path string) *os.File {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		f.Close()
		return nil
	}
	return f
}

// sweepSessions removes the folders of sessions in dir that no executor has locked. It ignores errors: the next sweep tries again.
func sweepSessions(dir string) {
	old, _ := filepath.Glob(filepath.Join(dir, sessionPattern))
	for _, path := range old {
		if lock := lockFolder(path); lock != nil {
			_ = removeTree(path)
			lock.Close()
		}
	}
}

// restore makes the folder again, empty, and locks it, if it was removed, for example by a cleaner of temporary files. It returns
// nil if the folder is there, and an error if the folder cannot be locked, or remake refuses to make it.
func (s *session) restore() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Stat(s.path); err == nil {
		return nil
	}
	if err := remake(s.path); err != nil {
		return err
	}
	lock := lockFolder(s.path)
	if lock == nil {
		return fmt.Errorf("cannot lock %s, which was removed and made again", s.path)
	}
	s.lock.Close()
	s.lock = lock
	return nil
}

// remake makes a folder, which must be missing, and its missing parents. It returns an error if another user could put a folder of
// the same name into the lowest parent that exists.
func remake(path string) error {
	parent := filepath.Dir(path)
	info, err := os.Stat(parent)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = remake(parent)
	case err == nil && !safe(info):
		err = fmt.Errorf("%s was removed, and other users could make this folder in %s again: start the worker again", path, parent)
	}
	if err != nil {
		return err
	}
	return os.Mkdir(path, 0o700)
}

// safe reports whether no user but root can remove or replace what this user makes in a folder: the folder belongs to root or this
// user, and others must not write to it, or it has the sticky bit.
func safe(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	ours := ok && (owner.Uid == 0 || int(owner.Uid) == os.Geteuid())
	return ours && (info.Mode().Perm()&0o022 == 0 || info.Mode()&fs.ModeSticky != 0)
}

// retry calls do. If do returns fs.ErrNotExist, retry makes the session's folder again if it is missing, and calls do a second
// time, unless restore fails. It returns the error of the last call.
func (s *session) retry(do func() error) error {
	err := do()
	if !errors.Is(err, fs.ErrNotExist) || s.restore() != nil {
		return err
	}
	return do()
}

func (s *session) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.lock.Close()
	if s.keep {
		_ = os.Remove(s.path) // fails if the folder is not empty, which is meant
		return nil
	}
	if err := removeTree(s.path); err != nil {
		return fmt.Errorf("remove the work folder: %w", err)
	}
	return nil
}

// place returns the words by which a message names the folder that a session's folder is in, so that users know which one lacks
// room or rights.
func (x *Executor) place(s *session) string {
	if s == x.work {
		return "state_dir " + filepath.Dir(s.path)
	}
	return "temporary files in " + filepath.Dir(s.path)
}

// folder is the files of one attempt: its working folder, and elsewhere the small files that variables name.
type folder struct {
	x      *Executor
	number string // number of the attempt within this executor
	name   string
	work   *workdir // nil: no working folder was needed yet
	output string   // path in $OARLOCK_OUTPUT
	files  []string
	shared bool // a process that the body left behind may still use the working folder
}

func (x *Executor) folder(t *worker.Task, number string) *folder {
	return &folder{x: x, number: number, name: fmt.Sprintf("%d.%s.%d.%s", t.Run, strings.ReplaceAll(t.Step, "/", "_"), t.Attempt, number)}
}

// dir returns the path of the attempt's working folder, which is empty at the first call. The first call makes the folder, or takes
// a folder that another body left untouched. The error says what the host lacks.
func (f *folder) dir() (string, error) {
	if f.work == nil {
		name := f.number // no name of the attempt, because the folder may serve other attempts, too
		if f.x.work.keep {
			name = f.name
		}
		work, err := f.x.workdirs.take(name)
		if err != nil {
			return "", hostFault(err, f.x.place(f.x.work))
		}
		f.work = work
	}
	return f.work.path, nil
}

// write writes content to a file for the body, and returns its path. The name is made of the attempt and suffix; a file of that
// name is replaced. The file is outside the working folder, which stays empty. remove removes the file.
func (f *folder) write(suffix string, content []byte) (string, error) {
	path := filepath.Join(f.x.files.path, f.name+"."+suffix)
	f.files = append(f.files, path)
	if err := f.x.files.retry(func() error { return writeFile(path, content) }); err != nil {
		return "", hostFault(fmt.Errorf("write a file for the attempt: %w", err), f.x.place(f.x.files))
	}
	return path, nil
}

// writeFile writes content to a file, in place of what the file had. It makes the file, for this user only, if it is missing. It is
// os.WriteFile without its preparations for files that can be polled.
func writeFile(path string, content []byte) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	for err == nil && len(content) > 0 {
		var n int
		if n, err = unix.Write(fd, content); errors.Is(err, unix.EINTR) {
			err = nil
		}
		content = content[max(n, 0):]
	}
	if err := errors.Join(err, unix.Close(fd)); err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// remove removes the files of write, and gives the working folder back: another body may get it if it is untouched. With f.shared
// no other body gets it, and it is removed. Errors are ignored, because the executor's folder is removed later with all that is
// left in it.
func (f *folder) remove() {
	for _, path := range f.files {
		if err := unix.Unlink(path); err != nil {
			_ = removeTree(path)
		}
	}
	switch {
	case f.work == nil:
	case f.shared:
		f.x.workdirs.remove(f.work)
	default:
		f.x.workdirs.give(f.work)
	}
}

// removeTree removes a tree like os.RemoveAll. If permissions are missing, it restores the permissions of folders from which a body
// has taken them, and tries once more.
func removeTree(path string) error {
	err := os.RemoveAll(path)
	if err == nil || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (err != nil || d.Type().Perm()&0o700 != 0o700) {
			_ = os.Chmod(path, 0o700) //nolint:gosec // a folder must be entered to be emptied
		}
		return nil
	})
	return os.RemoveAll(path)
}
