package exec

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/oarlock-dev/oarlock/internal/procfs"
)

// survivorPatience is how long to wait for processes after SIGKILL. A process that is blocked in the kernel, for example by a
// dead network disk, runs no more of its code, but may never go away.
const survivorPatience = time.Minute

// Pauses between looks at a tree that is about to end.
const (
	pauseMin = time.Millisecond
	pauseMax = 100 * time.Millisecond
)

// tree is the processes of one body.
type tree struct {
	tracker *procTracker
	cgroup  *cgroup // nil: none
	owner   string
	leader  int  // the first process, and the number of its group
	ended   bool // the first process is a zombie
	reaped  bool
	keeps   bool // processes that it left behind may live on, strays that may be its own included
}

// bury records in t and in the tracker that the first process is a zombie.
func (t *tree) bury() {
	t.ended = true
	t.tracker.bury(t.leader, anyInode)
}

// forget drops the first process from the tracker. The caller must do so before it reaps the process.
func (t *tree) forget() { t.tracker.forget(t.leader, t.owner) }

// alive lists the living processes of the body: the ones that the tracker knows, and the ones in the cgroup. After an error the
// list may be incomplete.
func (t *tree) alive() ([]process, error) {
	alive, err := t.tracker.of(t.owner)
	if err != nil || t.cgroup == nil {
		return alive, err
	}
	for _, pid := range t.cgroup.pids() {
		listed := slices.ContainsFunc(alive, func(p process) bool { return p.pid == pid })
		inode := procfs.Inode(pid)
		if stat, err := procfs.ReadStat(pid); err == nil && stat.Live && !listed {
			alive = append(alive, process{pid, stat.Group, inode})
		}
	}
	return alive, nil
}

// empty reports whether no process of the body is alive. If so, it removes the body from the tracker. It returns false when it
// cannot tell, and while the tracker has a stray for which the body must wait (see leave): kill and signal then end that stray,
// too, if no other body may have started it.
func (t *tree) empty() bool {
	if t.cgroup != nil && t.cgroup.populated() {
		return false
	}
	if !t.reaped && t.ended && t.tracker.childless(t.leader) && t.tracker.leave(t.owner, t.keeps) {
		return true
	}
	alive, err := t.tracker.of(t.owner)
	return err == nil && len(alive) == 0 && t.tracker.leave(t.owner, t.keeps)
}

// signal sends a signal to all living processes of the body: to the group as a whole, so that no process forked meanwhile escapes,
// and then to each process outside of the group. It does not wait, and ignores errors.
func (t *tree) signal(sig unix.Signal) {
	alive, _ := t.alive()
	if !t.reaped {
		_ = unix.Kill(-t.leader, sig)
	}
	for _, p := range alive {
		if t.reaped || p.group != t.leader {
			p.signal(sig)
		}
	}
}

// signal sends a signal to the process, unless the inode of its pid has changed since it was examined: where pids are scarce,
// another process may have its pid already. Errors are ignored.
func (p process) signal(sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if procfs.Inode(p.pid) == p.inode {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// ask sends sig, by which a body is asked to end, to all processes of the body. It then sends SIGCONT, since a stopped process
// would not handle the signal.
func (t *tree) ask(sig unix.Signal) {
	t.signal(sig)
	t.signal(unix.SIGCONT)
}

// kill sends SIGKILL to all processes of the body until none is left, because processes may fork meanwhile. It waits for at most
// survivorPatience, and then returns an error that names the survivors. It sets t.keeps to false.
func (t *tree) kill() error {
	t.keeps = false
	deadline := time.Now().Add(survivorPatience)
	for pause := pauseMin; ; pause = min(2*pause, pauseMax) {
		if t.cgroup != nil {
			t.cgroup.kill()
		}
		t.signal(unix.SIGKILL)
		if t.empty() {
			return nil
		}
		if time.Now().After(deadline) {
			return t.survivors()
		}
		time.Sleep(pause)
	}
}

// survivors returns an error that names the processes that survived SIGKILL, or the error by which they cannot be listed. It is
// never nil.
func (t *tree) survivors() error {
	alive, err := t.alive()
	if err != nil {
		return err
	}
	return fmt.Errorf("after SIGKILL and %s these processes are still there: %s", survivorPatience, strings.Join(names(alive), ", "))
}

// described returns the name and the pid of each living process of the body, as text.
func (t *tree) described() []string {
	alive, _ := t.alive()
	return names(alive)
}

// names returns the name and the pid of each process as text, without processes that are gone. It leaves out arguments, which may
// contain a secret.
func names(alive []process) (named []string) {
	for _, p := range alive {
		if name, err := procfs.Name(p.pid); err == nil {
			named = append(named, fmt.Sprintf("%s (pid %d)", strings.TrimSpace(name), p.pid))
		}
	}
	return named
}
