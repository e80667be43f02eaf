//go:build unix

package supervise

import (
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/oarlock-dev/oarlock/internal/boottime"
)

const (
	// After a kill, the pause before the next look is a quarter of the time since the first kill, from firstLook to lastLook.
	firstLook    = time.Millisecond
	lastLook     = time.Second
	repeatBlock  = time.Minute // between two reports of survivors
	freezeRounds = 16
	blockedShown = 16 // processes named in a report
	doubtWithin  = time.Second
)

// clear kills the driver process and the processes that find lists, until find lists none, and returns true then. It handles events
// meanwhile, and reports processes that survive for Limits.Survive. It returns false only if processes are left after that time and
// the guard was asked to stop: otherwise it goes on for ever.
func (g *supervisor) clear(find func() ([]process, error)) bool {
	since := boottime.Now()
	report := since + g.Limits.Survive
	for round := 0; ; round++ {
		left, err := find()
		if err == nil && len(left) == 0 {
			return true
		}
		if now := boottime.Now(); now >= report {
			g.Say(Event{Kind: Blocked, Left: describe(left), Took: now - since, Err: err})
			report = now + repeatBlock
		}
		if g.asked > 0 && boottime.Now() >= since+g.Limits.Survive {
			return false
		}
		g.driver.kill()
		if round > 0 {
			freeze(left, find)
		}
		signalAll(left, syscall.SIGKILL)
		g.settle(boottime.Now() + nextLook(since))
	}
}

// settle handles events until an instant of package boottime, or until no child is left. The caller looks for survivors after that:
// a look after each child that ends would cost more than all the ends together.
func (g *supervisor) settle(until time.Duration) {
	for now := boottime.Now(); now < until; now = boottime.Now() {
		if g.turn(until - now); g.childless {
			return
		}
	}
}

func nextLook(since time.Duration) time.Duration {
	return min(max((boottime.Now()-since)/4, firstLook), lastLook)
}

// kill sends SIGKILL to the driver process itself, and on systems without a list of processes to its process group. It helps when
// no list of processes can be read. It does nothing on a nil driver, or once the process was reaped.
func (d *driver) kill() {
	if d == nil || d.ended {
		return
	}
	d.signal(syscall.SIGKILL)
	if !verifies {
		_ = syscall.Kill(-d.PID, syscall.SIGKILL)
	}
}

// freeze sends SIGSTOP to the processes in left, and to new ones that find lists, until find lists no new one or freezeRounds are
// over. It kills none. A stopped process starts no others. Where the number of processes is limited, it also keeps its place, which
// a fork bomb would otherwise fill again at once.
func freeze(left []process, find func() ([]process, error)) {
	stopped := map[identity]bool{}
	for range freezeRounds {
		fresh := slices.DeleteFunc(slices.Clone(left), func(p process) bool { return stopped[p.identity] || p.spare })
		if len(fresh) == 0 {
			return
		}
		signalAll(fresh, syscall.SIGSTOP)
		for _, p := range fresh {
			stopped[p.identity] = true
		}
		if again, err := find(); err == nil {
			left = again
		}
	}
}

func signalAll(all []process, sig syscall.Signal) {
	for _, p := range all {
		if !p.spare {
			_ = p.signal(sig) // it may be gone; a process that cannot be killed is found by the next look
		}
	}
}

func describe(all []process) []string {
	var shown []string
	for _, p := range all[:min(len(all), blockedShown)] {
		shown = append(shown, p.String())
	}
	return shown
}

// descendants kills the cgroup and reaps ended children, and then lists the processes that are left below the guard or in the
// cgroup. It leaves out g.inherited, the children from before Run.
//
// An empty list is exact: a direct child stays in the list, at least as a zombie, until the guard reaps it, and the guard does not
// reap while it reads. So every descendant that exists at the start of the reading has an ancestor in the list. If the list would
// be empty although the guard has a child, a spare process stands for the child.
func (g *supervisor) descendants() ([]process, error) {
	if g.cgroup != "" {
		g.cgroup.kill()
	}
	g.reap()
	all, err := g.processes()
	if err != nil {
		return nil, err
	}
	left := below(all, os.Getpid(), g.inherited)
	if verifies && len(left) == 0 && !g.childless && len(g.inherited) == 0 {
		left = append(left, process{name: "hidden from this user", state: '?', spare: true})
	}
	if g.cgroup == "" {
		return left, nil
	}
	members, err := g.cgroup.members()
	return unique(append(left, members...)), err
}

// leftover finds the processes that an earlier incarnation left behind.
type leftover struct {
	ids    []string
	cgroup cgroup
	list   func() ([]process, error)
	since  time.Duration
}

// find lists the processes that carry one of the ids, with their descendants, and those in the cgroup. A process that is about to
// execute a program has no environment yet, so it is listed as spare for up to doubtWithin: meanwhile nothing counts as clean.
func (l *leftover) find() ([]process, error) {
	all, err := l.list()
	if err != nil {
		return nil, err
	}
	found := carriers(all, l.ids, os.Getpid(), readEnviron)
	if boottime.Now() >= l.since+doubtWithin {
		found = slices.DeleteFunc(found, func(p process) bool { return p.spare })
	}
	if l.cgroup == "" {
		return found, nil
	}
	members, err := l.cgroup.members()
	return unique(append(found, members...)), err
}
