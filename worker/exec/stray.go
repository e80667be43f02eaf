package exec

import (
	"fmt"
	"maps"

	"github.com/oarlock-dev/oarlock/internal/offspring"
	"github.com/oarlock-dev/oarlock/internal/procfs"
)

// A stray is an orphan without a sign of its body: it left the group, cleared its environment, and its parents ended before the
// first look at it. Where this process adopts orphans, looks still find it as a child that was not started here. Looks give
// a stray an owner of its own, which its descendants have, too. The tracker knows which bodies were there at the first look: the
// stray came from one of them, since a body is never without a later look while it may have forked. It belongs to the last of
// these bodies to end.

// enter adds a body that is about to start. Strays that are seen for the first time from now on may be the body's, until leave or
// drop.
func (t *procTracker) enter(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.bodies[owner] = true
}

// leave removes a body that has no living process, and reports whether it did. It does not while there is a stray that only this
// body may have started. With keeps, it also does not while there is a stray that this body or another one may have started.
func (t *procTracker) leave(owner string, keeps bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, origins := range t.strays {
		if origins[owner] && (keeps || len(origins) == 1) {
			return false
		}
	}
	t.dropLocked(owner)
	return true
}

// drop removes a body without the conditions of leave, because it did not start, or has processes that survive SIGKILL. No stray
// counts as the body's any more.
func (t *procTracker) drop(owner string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dropLocked(owner)
}

func (t *procTracker) dropLocked(owner string) {
	delete(t.bodies, owner)
	for _, origins := range t.strays {
		delete(origins, owner)
	}
}

// stray makes an owner for a process that was listed as a child of this process and shows no sign of a body, and returns the owner.
// All bodies that are there now may have started the process; a second call for it changes nothing. It returns "" if this process
// adopts no orphans, or the process is no orphan, or is gone.
func (t *procTracker) stray(pid int, inode uint64) string {
	if !t.adopts || t.before[inode] || !offspring.Adopted(pid) {
		return ""
	}
	// Another process with this pid is no reason to take the listed one for an orphan.
	if stat, err := procfs.ReadStat(pid); err != nil || !stat.Live || stat.Parent != self || procfs.Inode(pid) != inode {
		return ""
	}
	owner := fmt.Sprintf("stray-%d-%d", pid, inode)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.strays[owner] == nil {
		t.strays[owner] = maps.Clone(t.bodies)
	}
	return owner
}

// owners returns the owners of the processes that a body has to end: the body itself, and each stray that no other body may have
// started.
func (t *procTracker) owners(body string) map[string]bool {
	owners := map[string]bool{body: true}
	t.mu.Lock()
	defer t.mu.Unlock()
	for stray, origins := range t.strays {
		if len(origins) == 0 || len(origins) == 1 && origins[body] {
			owners[stray] = true
		}
	}
	return owners
}

// haveEnded forgets the strays in owners. The caller has found that no process of them is alive.
func (t *procTracker) haveEnded(owners map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for owner := range owners {
		delete(t.strays, owner)
	}
}

// forgetStraysLocked forgets strays that have no process in a look, because they ended by themselves. It does nothing if processes
// went away during the look, which may have missed a process then.
func (t *procTracker) forgetStraysLocked(l *look) {
	if len(t.strays) == 0 || l.moving || l.passing {
		return
	}
	there := map[string]bool{}
	for pid := range l.listed {
		there[l.owner(pid)] = true
	}
	maps.DeleteFunc(t.strays, func(owner string, _ map[string]bool) bool { return !there[owner] })
}

// reap reaps an orphan that has ended. It does nothing for other processes, or if this process does not adopt the orphans of
// bodies.
func (t *procTracker) reap(pid int) {
	if t.adopts {
		offspring.Reap(pid)
	}
}
