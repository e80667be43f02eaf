//go:build unix

package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/boottime"
)

// Attach tells whether a guard started this process, and gives the link to it. The guard may be gone already: see Gone.
// Call it before anything that may start a process: until then that one would inherit the descriptors.
func Attach() (*Link, bool) {
	value, marked := os.LookupEnv(marker)
	_ = os.Unsetenv(marker) // not for tasks
	if !marked || !fits(value) {
		return nil, false
	}
	nameProcess(filepath.Base(os.Args[0]))
	for _, fd := range []int{fromGuardFD, toGuardFD, lockFD} {
		unix.CloseOnExec(fd)
	}
	l := newLink(os.NewFile(fromGuardFD, "from guard"), os.NewFile(toGuardFD, "to guard"))
	if a, err := l.ask(request{Attached: true}); err == nil && a.Hello != nil {
		l.hello = *a.Hello
	}
	return l, true
}

// fits tells whether the descriptors are those that the guard named.
func fits(value string) bool {
	var own []string
	for _, fd := range []int{fromGuardFD, toGuardFD, lockFD} {
		own = append(own, fmt.Sprintf("%d:%d", fd, inode(fd)))
	}
	return value == strings.Join(own, " ")
}

// sweep kills what is below this process, what carries one of the ids, and what is in the cgroup, but for itself. Zombies
// are left to whoever started them.
func sweep(ctx context.Context, ids []string, group cgroup) error {
	since := boottime.Now()
	left := &leftover{ids: ids, list: listProcesses, cgroup: group, since: since}
	find := func() ([]process, error) { return left.besides(os.Getpid()) }
	for {
		found, err := find()
		if err == nil && len(found) == 0 {
			return nil
		}
		freeze(found, find)
		signalAll(found, syscall.SIGKILL)
		timer := time.NewTimer(nextLook(since))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("guard: sweep: %w, with these left: %v", errors.Join(ctx.Err(), err), describe(found))
		}
	}
}

// besides lists what is below a process as well, and not that one.
func (l *leftover) besides(self int) ([]process, error) {
	found, err := l.find()
	if err != nil {
		return nil, err
	}
	all, err := l.list()
	if err != nil {
		return nil, err
	}
	found = unique(append(found, below(all, self, nil)...))
	return slices.DeleteFunc(found, func(p process) bool { return p.PID == self || !p.live }), nil
}
