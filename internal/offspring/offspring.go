package offspring

import "sync"

var (
	// starting is held for reading while a child is being started, until it is listed. A writer thus knows all children that were
	// started before.
	starting sync.RWMutex

	mu      sync.Mutex
	started = map[int]int{} // children not reaped yet, by pid; 2: a pid passed on before Reaped was called for its former owner
)

// Start calls the function start, which starts a child, and returns its results. It lists the child as one that this process
// started, until Reaped is called for its pid. After an error it lists nothing. The function start must not call Start.
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

// Reaped takes a child that Start listed from the list. The caller calls it once, after it has waited for the child. The pid may
// belong to a new child of Start by then, and that child stays listed. Reaped then makes the goroutine of Adopt look for orphans
// again.
func Reaped(pid int) {
	mu.Lock()
	if started[pid]--; started[pid] <= 0 {
		delete(started, pid)
	}
	mu.Unlock()
	look()
}

// Adopted reports whether this process adopted a process rather than started it by Start. The caller has seen the process as a
// child of this process. Adopted may wait for calls of Start that are under way.
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
