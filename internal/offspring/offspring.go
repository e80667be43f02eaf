package offspring

import "sync"

var (
	// starting is held for reading while a child is being started, until it is listed. A writer thus knows all children that were
	// started before.
	starting sync.RWMutex

	mu      sync.Mutex
	started = map[int]int{} // children not reaped yet, by pid; 2: a pid passed on before Reaped was called for its former owner
)

// Start calls start, which starts a child and returns its pid, and lists the child until Reaped is called for the pid. The function
// start must not call Start.
func Start(start func() (pid int, err error)) (int, error) {
	starting.RLock()
	defer starting.RUnlock()
	pid, err := start()
	if err == nil {
		mu.Lock()
		defer mu.Unlock()
		started[pid]++
	}
	return pid, err
}

// Reaped takes a child from the list. The caller has waited for it, so its pid may belong to another process by now.
func Reaped(pid int) {
	mu.Lock()
	if started[pid]--; started[pid] <= 0 {
		delete(started, pid)
	}
	mu.Unlock()
	look()
}

// Adopted reports whether a process that the caller saw as a child of this process is one that this process did not start.
func Adopted(pid int) bool {
	if listed(pid) {
		return false
	}
	starting.Lock() // waits until each child that is being started is listed
	defer starting.Unlock()
	return !listed(pid)
}

func listed(pid int) bool {
	mu.Lock()
	defer mu.Unlock()
	return started[pid] > 0
}
