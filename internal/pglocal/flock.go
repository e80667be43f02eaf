package pglocal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const pollEvery = 10 * time.Millisecond

// flock is an open lock file. It is a bare descriptor and not an os.File, because the garbage collector must not close it.
type flock int

// openFlock opens a lock file, and creates it if it does not exist. It takes no lock. It does not follow links, because the folder
// may belong to the server's user while this process is root. The caller closes the file.
func openFlock(path string) (flock, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	return flock(fd), nil
}

// try takes the lock, LOCK_SH or LOCK_EX, without waiting. It reports whether it got the lock.
func (l flock) try(how int) bool { return unix.Flock(int(l), how|unix.LOCK_NB) == nil }

func (l flock) close() { _ = unix.Close(int(l)) }

// lockFile waits for the exclusive lock on path, and returns the open lock file; closing it releases the lock. After the end of ctx
// it returns an *Error of kind ErrBusy. It tries again if the file was removed meanwhile, with its throw-away folder: a lock on a
// removed file protects nothing.
func lockFile(ctx context.Context, path string) (flock, error) {
	for {
		l, err := openFlock(path)
		if err != nil {
			return -1, err
		}
		err = poll(ctx, func() (bool, error) { return l.try(unix.LOCK_EX), nil })
		if err != nil {
			l.close()
			return -1, &Error{ErrBusy, "another process is starting or stopping the server: " + path + " is held", advice[ErrBusy], err}
		}
		if l.is(path) {
			return l, nil
		}
		l.close()
	}
}

// is reports whether path still names the open lock file, and was not removed or replaced meanwhile.
func (l flock) is(path string) bool {
	var open, named unix.Stat_t
	return unix.Fstat(int(l), &open) == nil && unix.Stat(path, &named) == nil && open.Ino == named.Ino && open.Dev == named.Dev
}

var (
	errPatience = errors.New("patience ran out")
	errVanished = errors.New("the temporary folder was removed in the meantime")
)

// poll calls done at once and then every pollEvery, until it returns true or an error, or until ctx ends. It returns the error of
// done, or the cause of the end of ctx.
func poll(ctx context.Context, done func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}
