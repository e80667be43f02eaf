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

// Attach returns the link to the guard that started this process, and true; nil and false if no guard did. It asks the guard for
// the worker ids to replace, and waits up to answerWithin for the answer. The guard may be gone already: see Gone. Call Attach
// once, before anything that may start a process: a process that was started before would inherit the descriptors.
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

// fits reports whether value, the content of the guard's variable, names the descriptors of this process and the inodes that they
// have. In a task that inherited the variable it does not.
func fits(value string) bool {
	var own []string
	for _, fd := range []int{fromGuardFD, toGuardFD, lockFD} {
		own = append(own, fmt.Sprintf("%d:%d", fd, inode(fd)))
	}
	return value == strings.Join(own, " ")
}

// sweep kills the descendants of this process, the processes that carry one of the ids, and the processes of group, except this
// process. It looks and kills again until none is left, and returns nil then. If ctx ends before, it returns an error with the
// processes that are left. A zombie does not count: sweep leaves it to its parent.
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

// besides lists the processes that find lists, and the descendants of process self. It leaves out self and zombies.
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
