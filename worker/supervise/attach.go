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

// Attach reports whether a guard started this process, and returns the link to it. The guard may be gone already: see Gone.
// Call Attach before anything that may start a process: a process that was started before would inherit the descriptors.
func Attach() (*Link, bool) {
	value, marked := os.LookupEnv(marker)
	_ = os.Unsetenv(marker) // tasks must not inherit it
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

// fits reports whether the descriptors of this process are the ones that the guard's variable names.
func fits(value string) bool {
	var own []string
	for _, fd := range []int{fromGuardFD, toGuardFD, lockFD} {
		own = append(own, fmt.Sprintf("%d:%d", fd, inode(fd)))
	}
	return value == strings.Join(own, " ")
}

// sweep kills the descendants of this process, the processes that carry one of the ids, and the processes of the cgroup, except
// this process. It leaves zombies to their parents.
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

// besides lists what find finds and the descendants of process self, without self and without zombies.
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
