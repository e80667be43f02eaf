package pglocal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

const pollEvery = 10 * time.Millisecond

// flock is an open lock file. A bare descriptor, not an os.File: the garbage collector must not let go of it.
type flock int

// openFlock does not follow links: as root, the folder may belong to the server's user.
func openFlock(path string) (flock, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	return flock(fd), nil
}

func (l flock) try(how int) bool { return unix.Flock(int(l), how|unix.LOCK_NB) == nil }

func (l flock) close() { _ = unix.Close(int(l)) }

// lockFile waits for the exclusive lock on path. A file that was removed meanwhile (with its throw-away folder) is
// no lock at all, so it looks again.
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

func (l flock) is(path string) bool {
	var open, named unix.Stat_t
	return unix.Fstat(int(l), &open) == nil && unix.Stat(path, &named) == nil && open.Ino == named.Ino && open.Dev == named.Dev
}

var (
	errPatience = errors.New("patience ran out")
	errVanished = errors.New("the throw-away folder was removed meanwhile")
)

// poll asks until done, an error, or the end of ctx.
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
