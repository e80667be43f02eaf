package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// place is the folder of a cluster.
type place struct{ dir string }

func (p place) path(name string) string { return filepath.Join(p.dir, name) }

func (p place) socket() string { return p.path("socket") }

// program is oarlock, or a link to it.
func (p place) program() string { return filepath.Join(p.dir, "bin", "oarlock") }

const lockName = "lock" // marks the folder as ours; the keeper holds it

// errUp: there is one already.
var errUp = errors.New("a cluster is up there: `down` ends it")

// occupy makes the folder and takes its lock. What a keeper left that was killed is removed first.
func (p place) occupy() (*os.File, error) {
	if err := p.vacate(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.dir, err)
	}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the folder: %w", err)
	}
	for _, name := range []string{"bin", "logs", "state"} {
		if err := os.Mkdir(p.path(name), 0o700); err != nil {
			return nil, fmt.Errorf("make the folder: %w", err)
		}
	}
	// Workers read no settings file but this one.
	if err := os.WriteFile(p.path("oarlock.yaml"), nil, 0o600); err != nil {
		return nil, fmt.Errorf("make the settings file: %w", err)
	}
	lock, err := os.OpenFile(p.path(lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the lock: %w", err)
	}
	return lock, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// vacate removes a folder that nobody holds, if it is one of ours.
func (p place) vacate() error {
	info, err := os.Lstat(p.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lock, err := os.OpenFile(p.path(lockName), os.O_RDWR|syscall.O_NOFOLLOW, 0)
	st, ours := info.Sys().(*syscall.Stat_t)
	if err != nil || !info.IsDir() || !ours || int(st.Uid) != os.Getuid() {
		return errors.New("this is something else: name another folder with --dir")
	}
	defer lock.Close()
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return errUp
	}
	return os.RemoveAll(p.dir)
}
