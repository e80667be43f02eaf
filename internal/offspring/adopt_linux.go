package offspring

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ended gets a value when a child may have ended.
var ended = make(chan os.Signal, 1)

// Adopt makes this process the parent of each descendant that is orphaned from now on, for as long as the process lives. A
// goroutine reaps orphans when they end. release stops that goroutine and waits for its end; the caller calls it at most once.
// Afterwards orphans stay zombies until the caller calls Reap.
func Adopt() (release func(), err error) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("become a child subreaper: %w", err)
	}
	over, done := make(chan struct{}), make(chan struct{})
	signal.Notify(ended, unix.SIGCHLD)
	go func() {
		defer close(done)
		for {
			select {
			case <-ended:
				reapEnded()
			case <-over:
				return
			}
		}
	}()
	return func() {
		signal.Stop(ended)
		close(over)
		<-done
	}, nil
}

// look makes the goroutine of Adopt look for ended orphans once more, and does not wait. An ended child that was not reaped yet may
// have hidden an orphan from it: see reapEnded.
func look() {
	select {
	case ended <- unix.SIGCHLD:
	default:
	}
}

// reapEnded reaps ended orphans, one after the other. It stops when no child has ended, and at the first ended child that this
// process started itself: the code that started it must reap it, and calls Reaped then, which looks again. reapEnded asks the
// kernel for the pid before Reap takes the lock, because most children that end are not orphans.
func reapEnded() {
	for {
		pid := firstEnded()
		if pid == 0 || listed(pid) || !Reap(pid) {
			return
		}
	}
}

// Reap reaps a process if this process adopted it as an orphan and it has ended. It reports whether it did, and does not wait for
// the end. It may wait for calls of Start that are under way.
func Reap(pid int) bool {
	if listed(pid) {
		return false
	}
	starting.Lock() // until the end, so that no child of others gets the pid meanwhile
	defer starting.Unlock()
	for !listed(pid) {
		got, err := unix.Wait4(pid, nil, unix.WNOHANG, nil)
		if !errors.Is(err, unix.EINTR) {
			return got == pid
		}
	}
	return false
}

// childInfo is the siginfo_t that waitid fills in. Package unix has no field for the pid.
type childInfo struct {
	_      [3]int32
	fields struct {
		_   [0]uintptr // aligned as the kernel's union, which has pointers
		pid int32
		_   [28]int32
	}
}

// firstEnded returns the pid of a child that has ended and was not reaped; 0 for none. The kernel names the oldest child first.
func firstEnded() int {
	for {
		var info childInfo
		err := unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) //nolint:gosec // childInfo is as large, and laid out as the kernel has it
		if !errors.Is(err, unix.EINTR) {
			return int(info.fields.pid)
		}
	}
}
