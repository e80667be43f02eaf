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

// lock waits until no guard and no driver process of this name is left, or until the guard is asked to stop.
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

// evict kills a driver process that should have ended long ago, after its guard died. A frozen one would hold the lock, and keep
// its tasks, for ever.
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

// killBelow kills the descendants of a driver process. When the driver process is dead, an orphan that carries no worker id is no
// longer below it, and nothing would find the orphan.
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

// found reports whether the processes of a list, if any are left, are visible here and belong to a predecessor of this guard.
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

// begin kills what an earlier incarnation left behind, waits until it is gone, and takes over the worker ids of its list.
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

// makeCgroup makes a cgroup for the next driver process, g.cgroup, and writes it into the lock file. If that fails, it tells
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

// write writes the list for changes that need not be durable at once. If it fails, the list names too much, never too little.
func (g *supervisor) write(next list) {
	if err := g.lockFile.write(next); err != nil {
		g.Say(Event{Kind: Unwritten, Err: err})
	}
}
