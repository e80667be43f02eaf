package worker

import (
	"sync"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// bodies are those of a drive that are under way. They belong to its driver, but for the order to give all of them up: that
// is for when the driver waits for a database that is away.
type bodies struct {
	mu      sync.Mutex
	byTask  map[dagrun.TaskID]*body
	running sync.WaitGroup
}

func (b *bodies) add(one *body) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byTask[one.task] = one
}

// remove says whether it was there.
func (b *bodies) remove(one *body) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.byTask[one.task] != one {
		return false
	}
	delete(b.byTask, one.task)
	return true
}

// attempt is the body of an attempt, nil if it is not under way.
func (b *bodies) attempt(task dagrun.TaskID, attempt int) *body {
	b.mu.Lock()
	defer b.mu.Unlock()
	if one := b.byTask[task]; one != nil && one.attempt == attempt {
		return one
	}
	return nil
}

func (b *bodies) each(do func(*body)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range b.byTask {
		do(one)
	}
}
