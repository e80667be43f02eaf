package exec

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/offspring"
)

// noPidFD is the value that a kernel without pidfds leaves in SysProcAttr.PidFD.
const noPidFD = -1

// watch waits until the first process is a zombie, and then closes b.ended. It does not reap the process: until then its pid and
// group number stay taken.
func (b *body) watch() {
	defer close(b.ended)
	if b.pidFD != noPidFD && b.watchFD(b.pidFD) {
		return
	}
	b.isZombie(0)
}

// watchFD waits for the end of the first process in Go's poller, and closes fd, its pidfd. It returns false if it could not wait
// there: then the caller must wait by other means. A thread that waits in waitid for each body costs a third of what starting the
// body costs.
func (b *body) watchFD(fd int) (seen bool) {
	pollable(fd)
	file := os.NewFile(uintptr(fd), "pidfd")
	defer file.Close()
	conn, err := file.SyscallConn()
	if err != nil {
		return false
	}
	err = conn.Read(func(uintptr) bool {
		seen = b.isZombie(unix.WNOHANG)
		return seen
	})
	return err == nil && seen
}

// isZombie reports whether the first process has ended; it does not reap it. With WNOHANG in options it returns at once, else it
// waits for the end. It also returns true if the kernel does not know the process as a child.
func (b *body) isZombie(options int) bool {
	for {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, b.tree.leader, &info, unix.WEXITED|unix.WNOWAIT|options, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err != nil || info.Signo != 0
	}
}

// wait reaps the first process and stores its status in b.status. It blocks until the process ends, so callers call it when that
// has happened or is about to.
func (b *body) wait() {
	defer offspring.Reaped(b.tree.leader)
	for {
		if _, err := unix.Wait4(b.tree.leader, &b.status, 0, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
