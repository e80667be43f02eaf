package integration

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/internal/procfs"
)

// fault is a kind of harm. A fault must be over, or undone by later, before the seed's faults end.
type fault struct {
	kind string
	odds int
	do   func(a *chaosBundle, r *rand.Rand) (done bool)
}

func choose(r *rand.Rand, from []fault) *fault {
	total := 0
	for i := range from {
		total += from[i].odds
	}
	n := r.IntN(total)
	for i := range from {
		if n -= from[i].odds; n < 0 {
			return &from[i]
		}
	}
	return &from[0]
}

// harm does one fault after the other until the time for faults is over.
func (a *chaosBundle) harm(r *rand.Rand, from []fault, end time.Time, low, high time.Duration) {
	for time.Now().Before(end) && a.ctx.Err() == nil {
		pause(a.ctx, between(r, low, high))
		if f := choose(r, from); f.do(a, r) {
			a.did(f.kind)
		}
	}
}

func (a *chaosBundle) did(kind string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults[kind]++
}

// later undoes a fault after a while.
func (a *chaosBundle) later(d time.Duration, undo func()) {
	a.atWork.Go(func() {
		pause(a.ctx, d)
		undo()
	})
}

// strike makes later undo a fault of these workers, or of all. Until then they need not share work.
func (a *chaosBundle) strike(d time.Duration, undo func(), units ...*station) {
	over := a.storm(units...)
	a.later(d, func() {
		undo()
		over()
	})
}

func (a *chaosBundle) excuse(driver int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.excused[driver] = true
}

// idle picks a worker that no fault uses, and reserves it until free is called.
func (a *chaosBundle) idle(r *rand.Rand) (u *station, free func()) {
	for _, i := range r.Perm(len(a.units)) {
		u := a.units[i]
		u.mu.Lock()
		taken := u.busy
		u.busy = true
		u.mu.Unlock()
		if !taken {
			return u, func() {
				u.mu.Lock()
				u.busy = false
				u.mu.Unlock()
			}
		}
	}
	return nil, nil
}

// used returns how many faults used a worker.
func (u *station) used() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.uses
}

// use counts one more.
func (u *station) use() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.uses++
}

func (a *chaosBundle) breakProcesses(r *rand.Rand, end time.Time) {
	a.harm(r, []fault{
		{"kill -9 of the driver process", 6, killDriver},
		{"kill -9 of the guard", 3, killGuard},
		{"kill -9 of guard and driver process", 2, killBoth},
		{"SIGTERM, and a start", 3, stopWorker},
		{"SIGSTOP of the driver process, SIGCONT", 4, freezeDriver},
		{"SIGSTOP of the guard, SIGCONT", 2, freezeGuard},
		{"SIGSTOP of a whole host, SIGCONT", 2, freezeAll},
	}, end, 300*time.Millisecond, 1200*time.Millisecond)
}

// stopWorker asks a worker to end. Its station starts it again.
func stopWorker(a *chaosBundle, r *rand.Rand) bool { return signalGuard(a, r, syscall.SIGTERM) }

// killGuard kills the guard, so the driver process must end the worker. It hands on its runs first. Processes that tasks
// may leave behind (leftovers: keep) live until that is done.
func killGuard(a *chaosBundle, r *rand.Rand) bool { return signalGuard(a, r, syscall.SIGKILL) }

func signalGuard(a *chaosBundle, r *rand.Rand, sig syscall.Signal) bool {
	u, free := a.idle(r)
	if u == nil {
		return false
	}
	defer free()
	guard, driver := u.pids()
	if driver == 0 {
		return false
	}
	u.use()
	defer a.storm(u)()
	return syscall.Kill(guard, sig) == nil
}

// swept is how soon nothing may be left of a driver process that was killed.
const swept = 2 * time.Second

// killDriver kills the driver process. The guard must end everything it left, unless another fault hits the guard too
// (W4).
func killDriver(a *chaosBundle, r *rand.Rand) bool {
	u, free := a.idle(r)
	if u == nil {
		return false
	}
	defer free()
	guard, driver := u.pids()
	lives := livesBelow(guard, driver)
	defer a.storm(u)()
	if driver == 0 || syscall.Kill(driver, syscall.SIGKILL) != nil {
		return false
	}
	u.use()
	uses := u.used()
	a.later(swept, func() {
		if a.ctx.Err() != nil || u.used() != uses {
			return
		}
		for _, id := range lives {
			if left := carriers(id); len(left) > 0 {
				a.say("%s processes %v of worker %s are left %v after its end", late, left, id, swept)
			}
		}
	})
	return true
}

// late begins a breach about the moment at which processes were gone.
const late = "W4, late:"

// livesBelow returns the ids of workers that started children of these processes.
func livesBelow(parents ...int) (ids []string) {
	for _, parent := range parents {
		for _, pid := range children(parent) {
			env, _ := procfs.Environ(pid)
			for pair := range strings.SplitSeq(string(env), "\x00") {
				if id, ok := strings.CutPrefix(pair, "OARLOCK_WORKER_ID="); ok && !slices.Contains(ids, id) {
					ids = append(ids, id)
				}
			}
		}
	}
	return ids
}

// killBoth kills guard and driver process. Until the next start nothing ends their tasks, which live on if the lease is
// over before.
func killBoth(a *chaosBundle, r *rand.Rand) bool {
	u, free := a.idle(r)
	if u == nil {
		return false
	}
	defer free()
	guard, driver := u.pids()
	if driver == 0 {
		return false
	}
	u.use()
	defer a.storm(u)()
	a.excuse(driver)
	for _, sig := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		_ = syscall.Kill(guard, sig)
		_ = syscall.Kill(driver, sig)
	}
	return true
}

// spell draws how long a worker is frozen, or silent: from unnoticed to long enough to lose the lease.
func spell(r *rand.Rand) time.Duration { return between(r, chaosTTL*3/10, chaosTTL*3) }

func (a *chaosBundle) freeze(r *rand.Rand, who func(guard, driver int) []int) bool {
	u, free := a.idle(r)
	if u == nil {
		return false
	}
	guard, driver := u.pids()
	if driver == 0 {
		free()
		return false
	}
	u.use()
	pids := who(guard, driver)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	a.strike(spell(r), func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
		free()
	}, u)
	return true
}

func freezeDriver(a *chaosBundle, r *rand.Rand) bool {
	return a.freeze(r, func(_, driver int) []int { return []int{driver} })
}

func freezeGuard(a *chaosBundle, r *rand.Rand) bool {
	return a.freeze(r, func(guard, _ int) []int { return []int{guard} })
}

// freezeAll also stops every process that a worker has started. A process that is awake a moment longer starts nothing
// that stays awake.
func freezeAll(a *chaosBundle, r *rand.Rand) bool {
	return a.freeze(r, func(guard, driver int) []int {
		a.excuse(driver)
		all := []int{guard, driver}
		stopped := map[int]bool{}
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
			stopped[pid] = true
		}
		for i := 0; i < len(all); i++ {
			for _, pid := range children(all[i]) {
				if !stopped[pid] && syscall.Kill(pid, syscall.SIGSTOP) == nil {
					stopped[pid] = true
					all = append(all, pid)
				}
			}
		}
		return all
	})
}

// inject adds a fault that waits for its message on one of the workers' connections.
func inject(kind string, when func() netfault.Match, do netfault.Action) fault {
	return fault{kind, 2, func(a *chaosBundle, r *rand.Rand) bool {
		u, p := a.proxy(r)
		injected := p.Inject(netfault.Fault{When: when(), Do: do, Nth: 1 + r.IntN(8)})
		a.mu.Lock()
		a.waiting = append(a.waiting, awaited{kind: kind, fault: injected, unit: u})
		a.mu.Unlock()
		if do == netfault.Hold {
			a.later(spell(r), injected.Release)
		}
		return false // it counts once it has fired
	}}
}

func atFlush() netfault.Match { return flush }

// proxy picks one of the workers' proxies to the server that takes writes.
func (a *chaosBundle) proxy(r *rand.Rand) (*station, *netfault.Proxy) {
	u := a.units[r.IntN(len(a.units))]
	return u, u.proxies[a.takes]
}

func networkFaults() []fault {
	return []fault{
		{"all connections of a worker cut", 3, func(a *chaosBundle, r *rand.Rand) bool {
			u, p := a.proxy(r)
			defer a.storm(u)()
			p.CutAll()
			return true
		}},
		inject("a flush cut before the server has it", atFlush, netfault.Cut),
		inject("a flush cut in half", atFlush, netfault.CutHalf),
		inject("half a flush sent, the connection stays", atFlush, netfault.HalfSent),
		inject("the reply of a flush cut", written, netfault.Cut),
		inject("the reply of a flush cut in half", written, netfault.CutHalf),
		inject("the reply of a flush held back", written, netfault.Hold),
		inject("a flush held back", atFlush, netfault.Hold),
		inject("no more replies after a flush", written, netfault.Mute),
		inject("a connection cut at any reply", func() netfault.Match { return netfault.OfType(netfault.Server, 'Z') }, netfault.Cut),
		{"a worker's network silent", 3, func(a *chaosBundle, r *rand.Rand) bool {
			u, p := a.proxy(r)
			p.Freeze()
			a.strike(spell(r), p.Thaw, u)
			return true
		}},
		{"a slow network", 2, func(a *chaosBundle, r *rand.Rand) bool {
			u, p := a.proxy(r)
			p.SetDelay(between(r, 5*time.Millisecond, 120*time.Millisecond))
			a.strike(spell(r), func() { p.SetDelay(0) }, u)
			return true
		}},
		{"connections refused", 2, func(a *chaosBundle, r *rand.Rand) bool {
			u, p := a.proxy(r)
			p.Refuse(true)
			p.CutAll()
			a.strike(spell(r), func() { p.Refuse(false) }, u)
			return true
		}},
		{"a client's reply cut after it was done", 4, cutClient},
		{"all connections of a client cut", 2, func(a *chaosBundle, r *rand.Rand) bool {
			a.clientProxy(r).CutAll()
			return true
		}},
	}
}

func (a *chaosBundle) clientProxy(r *rand.Rand) *netfault.Proxy {
	return a.clients[r.IntN(len(a.clients))].proxies[a.takes]
}

func cutClient(a *chaosBundle, r *rand.Rand) bool {
	match := netfault.Completed([]string{"COMMIT", "SELECT 1"}[r.IntN(2)]) // sql-shown: the command tag that the server returns
	injected := a.clientProxy(r).Inject(netfault.Fault{When: match, Do: netfault.Cut})
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting = append(a.waiting, awaited{kind: "a client's reply cut after it was done", fault: injected})
	return false
}

// pullCable cuts off a worker that has a network of its own.
var pullCable = fault{"a network's link down", 8, func(a *chaosBundle, r *rand.Rand) bool {
	cable := a.units[0].cable
	cable.cut(a.t)
	a.strike(spell(r), func() { cable.mend(a.t) }, a.units[0])
	return true
}}

// backendPIDs returns the processes of a server that serve workers.
func (a *chaosBundle) backendPIDs() (pids []int) {
	for _, pid := range children(a.node().PID()) {
		title, _ := procfs.Cmdline(pid)
		if len(title) > 0 && containsAll(string(title), "chaos_worker", a.name) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func (a *chaosBundle) unsetAll() error {
	ctx, cancel := context.WithTimeout(a.ctx, patience)
	defer cancel()
	for _, name := range stepped {
		if err := script(ctx, a.node().URL(), "unset", "name", name); err != nil {
			return err
		}
	}
	return script(ctx, a.node().URL(), "reload")
}

// heal undoes the remaining faults, and counts the faults that waited for a message and got it.
func (a *chaosBundle) heal(t *testing.T) {
	t.Helper()
	until(t, "settings are as they were", func() bool { return a.unsetAll() == nil })
	if a.scene == clockScene {
		a.stepClock(a.maxStep) // so that everything postponed until then is due
	}
	for _, u := range a.units {
		for _, p := range u.proxies {
			p.SetDelay(0)
			p.Refuse(false)
			p.Thaw()
		}
		if u.cable != nil {
			u.cable.mend(t)
		}
	}
	until(t, "schedules are paused", func() bool { return script(context.WithoutCancel(t.Context()), a.superURL(), "schedules_stop") == nil })
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.waiting {
		w.fault.Release()
		select {
		case <-w.fault.Fired():
			a.faults[w.kind]++
		default:
		}
	}
}
