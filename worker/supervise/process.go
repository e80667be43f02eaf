package supervise

import (
	"bytes"
	"fmt"
	"slices"
)

// identity identifies a process during one boot of the machine. A PID alone does not, because PIDs are reused.
type identity struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot
}

// process is what /proc shows of a process.
type process struct {
	identity
	parent int
	state  byte
	live   bool   // false for a zombie; a process of which only the first thread has ended is alive
	kernel bool   // a thread of the kernel
	bare   bool   // it has no environment yet, because it is about to execute a program
	name   string // for messages; a process may choose its own name
	spare  bool   // not to be killed, but while it exists nothing counts as clean
}

func (p process) String() string { return fmt.Sprintf("%d (%s, %c)", p.PID, p.name, p.state) }

// below lists all descendants of the process root, parents first, without root itself. It leaves out the processes of except, with
// their descendants.
func below(all []process, root int, except map[identity]bool) []process {
	children := map[int][]process{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p)
	}
	var found []process
	seen := map[int]bool{root: true} // a list that was read while processes came and went may contain a ring
	next := []int{root}
	for len(next) > 0 {
		parent := next[0]
		next = next[1:]
		for _, p := range children[parent] {
			if seen[p.PID] || except[p.identity] {
				continue
			}
			seen[p.PID] = true
			found = append(found, p)
			next = append(next, p.PID)
		}
	}
	return found
}

// childrenOf returns the direct children of the process parent, as a set.
func childrenOf(all []process, parent int) map[identity]bool {
	found := map[identity]bool{}
	for _, p := range all {
		if p.parent == parent {
			found[p.identity] = true
		}
	}
	return found
}

// carriers lists the processes in all that have one of the worker ids in their environment, with all their descendants. It leaves
// out the process self, and descendants of self unless they have an id themselves. A process that is just about to execute a
// program is listed as spare, because its environment is not there yet. A process with an environment that cannot be read, such as
// another user's, does not count.
func carriers(all []process, ids []string, self int, environ func(pid int) ([]byte, error)) []process {
	marks := make([]string, 0, len(ids))
	for _, id := range ids {
		marks = append(marks, Environ(id))
	}
	except := map[identity]bool{}
	for _, p := range all {
		except[p.identity] = p.PID == self
	}
	var found []process
	for _, p := range all {
		if p.PID == self || p.kernel || !p.live {
			continue
		}
		env, err := environ(p.PID)
		switch {
		case err != nil: // gone, or another user's
		case carries(env, marks):
			found = append(append(found, p), below(all, p.PID, except)...)
		case len(env) == 0 && p.bare:
			p.spare = true
			found = append(found, p)
		}
	}
	return unique(found)
}

func carries(env []byte, marks []string) bool {
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if slices.Contains(marks, string(entry)) {
			return true
		}
	}
	return false
}

// unique removes duplicates and keeps the order. A process is spare only if all its entries are. all stays as it is.
func unique(all []process) []process {
	at := map[identity]int{}
	var kept []process
	for _, p := range all {
		if i, twice := at[p.identity]; twice {
			kept[i].spare = kept[i].spare && p.spare
			continue
		}
		at[p.identity] = len(kept)
		kept = append(kept, p)
	}
	return kept
}
