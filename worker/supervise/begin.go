//go:build unix

package supervise

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/oarlock-dev/oarlock/internal/boottime"
)

// errOtherHost means that the list was written before the machine was booted again, or in another PID namespace. After a boot,
// the leases of the list must expire like those of a lost host. In another namespace, its processes may be alive where this guard
// cannot look.
var errOtherHost = errors.New("the lock file is from another boot or another PID namespace")

// errCopied means that the list is in a copy of the lock file: the guard that wrote it holds another lock, and may be alive.
var errCopied = errors.New("the lock file is a copy")

// lock takes the lock of this worker's name. While another guard or driver process of this name holds it, lock waits and handles
// events. After Limits.Handover it kills a driver process that outlived its guard, see evict. It returns nil when it has the lock.
// It also returns nil, without the lock, when the guard was asked to stop: the caller must check g.asked.
func (g *supervisor) lock() error {
	since := boottime.Now()
	for said := false; g.asked == 0; {
		held, err := g.lockFile.try()
		if held && said {
			g.Say(Event{Kind: Freed, Took: boottime.Now() - since})
		}
		if held || err != nil {
			return err
		}
		_ = g.lockFile.read() // an error is ignored: the holder of the lock may be writing now
		if !said {
			g.Say(Event{Kind: Waiting, PID: g.lockFile.list.Guard.PID})
			said = true
		}
		if boottime.Now()-since >= g.Limits.Handover {
			g.evict()
		}
		g.turn(lockEvery)
	}
	return nil
}

// evict kills the driver process that the lock file names, and its descendants, if its guard is dead. It does not wait for their
// end. A frozen driver process would hold the lock, and keep its tasks, for ever. evict does nothing if the list is not of this
// host, or if the driver process is gone.
func (g *supervisor) evict() {
	old := g.lockFile.list
	if !g.found(old) || old.Guard.alive() || !old.Driver.alive() {
		return
	}
	g.killBelow(old.Driver.PID)
	if old.Driver.signal(syscall.SIGKILL) == nil {
		g.Say(Event{Kind: Evicted, PID: old.Driver.PID})
	}
}

// killBelow kills the descendants of a driver process, before the caller kills the driver process itself. Afterwards an orphan that
// carries no worker id would no longer be below it, and nothing would find the orphan.
func (g *supervisor) killBelow(driver int) {
	find := func() ([]process, error) {
		all, err := g.processes()
		return below(all, driver, nil), err
	}
	left, _ := find() // a list that cannot be read is empty
	freeze(left, find)
	left, _ = find()
	signalAll(left, syscall.SIGKILL)
}

// found reports whether a list was written under this boot and PID namespace, and to this lock file. Only then this guard can see
// the processes that are left of it, and may kill them.
func (g *supervisor) found(l list) bool { return g.unfound(l) == nil }

func (g *supervisor) unfound(l list) error {
	switch {
	case g.host == host{} || l.host != g.host:
		return errOtherHost
	case l.File != g.lockFile.file():
		return errCopied
	}
	return nil
}

// begin kills the processes that an earlier incarnation left behind, and waits until they are gone. It writes its worker ids to the
// lock file again, for the driver process to replace. It ignores a list that cannot be read, or is from another host or file, and
// tells Ignored. It returns an error if this process is itself a task of that incarnation. If the guard is asked to stop meanwhile,
// begin may return nil without having finished: the caller must check g.asked.
func (g *supervisor) begin() error {
	err := g.lockFile.read()
	old := g.lockFile.list
	if err == nil && len(old.Workers) > 0 {
		err = g.unfound(old)
	}
	if err != nil {
		g.Say(Event{Kind: Ignored, Workers: old.Workers, Err: err})
		old = list{}
	}
	if g.found(old) {
		if err := g.sweep(old); err != nil || g.asked > 0 {
			return err
		}
	}
	return g.lockFile.write(list{host: g.host, Guard: identify(os.Getpid()), Workers: old.Workers})
}

func (g *supervisor) sweep(old list) error {
	if own := os.Getenv(WorkerEnv); slices.Contains(old.Workers, own) {
		return fmt.Errorf("a task of worker %s started this process, which would replace that worker: start it elsewhere", own)
	}
	since := boottime.Now()
	left := &leftover{ids: old.Workers, list: g.processes, since: since}
	if c := cgroup(old.Cgroup); c.ours() {
		left.cgroup = c
		c.kill()
	}
	if !g.clear(left.find) {
		return errLeft
	}
	if left.cgroup != "" {
		left.cgroup.remove()
	}
	g.Say(Event{Kind: Swept, Workers: old.Workers, Took: boottime.Now() - since})
	return nil
}

// makeCgroup makes a cgroup for the next driver process, sets g.cgroup, and writes it into the lock file. If that fails, it tells
// Uncontained once, and from then on driver processes run without one. No cgroup is used twice: a process of a cgroup that was
// killed once cannot start others in new cgroups below it, because the kernel (6.18 for one) kills those at birth.
func (g *supervisor) makeCgroup() {
	if g.ungrouped {
		return
	}
	c, err := makeCgroup()
	if err != nil {
		g.ungrouped = true
		g.Say(Event{Kind: Uncontained, Err: err})
		return
	}
	g.cgroup = c
	next := g.lockFile.list
	next.Cgroup = string(c)
	g.write(next)
}

func (g *supervisor) dropCgroup() {
	c := g.cgroup
	g.cgroup = ""
	if c == "" || !c.remove() {
		return // it stays in the list, so that the next guard can kill the processes in it
	}
	next := g.lockFile.list
	next.Cgroup = ""
	g.write(next)
}

// write writes a list with a changed driver process or cgroup to the lock file. If it fails, it only tells Unwritten: the old list
// stays, and has the same worker ids, by which a later guard finds the processes of tasks.
func (g *supervisor) write(next list) {
	if err := g.lockFile.write(next); err != nil {
		g.Say(Event{Kind: Unwritten, Err: err})
	}
}
