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
	firstLook    = time.Millisecond // before looking again after a kill: a quarter of the time that went by, within these
	lastLook     = time.Second
	repeatBlock  = time.Minute // how often survivors are reported
	freezeRounds = 16
	blockedShown = 16 // processes named in a report
	doubtWithin  = time.Second
)

// clear kills until nothing is left. It gives up only when asked to stop, after what survives was reported.
func (g *guard) clear(find func() ([]process, error)) bool {
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

// settle takes in what happens until it is time to look again, or until no child is left: a look for each one that ends
// would cost more than all their ends.
func (g *guard) settle(until time.Duration) {
	for now := boottime.Now(); now < until; now = boottime.Now() {
		if g.turn(until - now); g.childless {
			return
		}
	}
}

func nextLook(since time.Duration) time.Duration {
	return min(max((boottime.Now()-since)/4, firstLook), lastLook)
}

// kill is for when no list can be had, and for systems that have none.
func (d *driver) kill() {
	if d == nil || d.ended {
		return
	}
	d.signal(syscall.SIGKILL)
	if !verifies {
		_ = syscall.Kill(-d.PID, syscall.SIGKILL)
	}
}

// freeze stops what is left, until there is nothing new. What is stopped starts nothing, and where their number is
// limited it keeps the places that a fork bomb would fill again as fast as they are freed.
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
			_ = p.signal(sig) // gone is fine; what may not be killed is still there at the next look
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

// descendants lists what is below this process. An empty answer is exact: who is directly below stays in the list, if
// only as a zombie, until the guard reaps it, and it does not while it reads. So whatever has a descendant at the start of
// the reading has an ancestor of it in the list.
func (g *guard) descendants() ([]process, error) {
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

// leftover finds what an earlier incarnation left.
type leftover struct {
	ids    []string
	cgroup cgroup
	list   func() ([]process, error)
	since  time.Duration
}

// find lists what carries one of the ids, with what is below it, and what is in the cgroup. A process that is about to
// execute a program has no environment to look at, so nothing is clean while there is one: for a moment, not for ever.
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
