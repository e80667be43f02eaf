package exec

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// survivorPatience bounds the wait for processes that got SIGKILL: one that sits in the kernel (a dead network disk) runs
// no more of its code, but may take for ever to go.
const survivorPatience = time.Minute

// Pauses between looks at a tree that is about to end.
const (
	pauseMin = time.Millisecond
	pauseMax = 100 * time.Millisecond
)

// tree is all processes of one body.
type tree struct {
	census *census
	cgroup *cgroup // nil: none
	owner  string
	leader int  // the first process, and the number of its group
	ended  bool // the first process is a zombie
	reaped bool
}

// bury takes note that the first process is a zombie.
func (t *tree) bury() {
	t.ended = true
	t.census.bury(t.leader, anyInode)
}

// forget takes note that the first process is about to be reaped.
func (t *tree) forget() { t.census.forget(t.leader, t.owner) }

// alive lists what runs of the body.
func (t *tree) alive() ([]process, error) {
	alive, err := t.census.of(t.owner)
	if err != nil || t.cgroup == nil {
		return alive, err
	}
	pids, err := t.cgroup.pids()
	for _, pid := range pids {
		listed := slices.ContainsFunc(alive, func(p process) bool { return p.pid == pid })
		inode := inodeOf(pid)
		if s, ok := readStatus(pid); ok && !s.dead && !listed {
			s.inode = inode
			alive = append(alive, s.process)
		}
	}
	return alive, err
}

// empty says whether nothing runs any more. When it cannot tell, it says no.
func (t *tree) empty() bool {
	if t.cgroup != nil && t.cgroup.populated() {
		return false
	}
	if !t.reaped && t.ended && t.census.childless(t.leader) {
		return true
	}
	alive, err := t.census.of(t.owner)
	return err == nil && len(alive) == 0
}

// signal sends a signal to all that runs: to the group as one, so that no fork in it gets away, then to those outside.
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

// signal reaches the process that was looked at, or nobody: where pids run short, one that ended has a successor at once.
func (p process) signal(sig unix.Signal) {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if inodeOf(p.pid) == p.inode {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
	}
}

// ask sends the signal that asks a body to end; a stopped process would not hear it otherwise.
func (t *tree) ask(sig unix.Signal) {
	t.signal(sig)
	t.signal(unix.SIGCONT)
}

// kill ends the whole tree, over and over until nothing is left: what forks fast enough is met again.
func (t *tree) kill() error {
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

// survivors names those that SIGKILL did not end.
func (t *tree) survivors() error {
	alive, err := t.alive()
	if err != nil {
		return err
	}
	return fmt.Errorf("after SIGKILL and %s these processes are still there: %s", survivorPatience, strings.Join(names(alive), ", "))
}

// described names what runs of the body.
func (t *tree) described() []string {
	alive, _ := t.alive()
	return names(alive)
}

// names has programs and pids, not arguments: those may hold a secret.
func names(alive []process) (named []string) {
	for _, p := range alive {
		if name, err := os.ReadFile(procPath(p.pid, "comm")); err == nil {
			named = append(named, fmt.Sprintf("%s (pid %d)", strings.TrimSpace(string(name)), p.pid))
		}
	}
	return named
}
