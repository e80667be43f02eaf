package world

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// pools are the pools of each history, with their slots.
var pools = map[string]int{"narrow": 1, "wide": 3}

// Permits tells the store which permits the worker keeps or wants. Several reasons at one moment may cause one call or two, so the
// fate of the call is drawn by the moment.
func (l *link) Permits(ctx context.Context, all []queue.Permit) ([]queue.PermitAnswer, error) {
	return call(ctx, l.process, "permits", l.boot().String(), func() ([]queue.PermitAnswer, error) { return l.store.permits(ctx, l, all) })
}

// LeaveAlone is never called: no body of a history calls a service.
func (l *link) LeaveAlone(ctx context.Context, run queue.RunID, uses []dagrun.PoolUse, pause time.Duration) error {
	return l.inner.LeaveAlone(ctx, run, uses, pause)
}

func (s *store) permits(ctx context.Context, l *link, all []queue.Permit) ([]queue.PermitAnswer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.count(func(c *Counts) { c.Calls++ })
	return l.inner.Permits(context.WithoutCancel(ctx), all)
}

// usesOf returns what a task takes of pools, for its body or for its publish.
func usesOf(step *dagrun.Step, publish bool) []dagrun.PoolUse {
	if publish {
		return step.PublishPools
	}
	return step.Pools
}

// crowds checks the pools of a body that begins.
//
//	C4 the living bodies of a pool take no more than its slots, and neither do the tasks that are recorded as under way
func (a *audit) crowds(w *sighting) {
	living, recorded := map[string]int{}, map[string]int{}
	add := func(to map[string]int, run queue.RunID, name string, publish bool) {
		graph := a.runs[run].graph
		id, err := graph.ParseTask(name)
		if err != nil {
			panic(err)
		}
		for _, use := range usesOf(graph.Step(id.Step), publish) {
			to[use.Pool] += use.Weight
		}
	}
	for other := range a.alive {
		if !other.process.stoodStill() {
			add(living, other.run, other.name, other.publish)
		}
	}
	for _, r := range a.runs {
		for id := range r.tasks {
			if row := r.tasks[id]; row.State == dagrun.TaskRunning && len(r.graph.Step(id.Step).Pools) > 0 && a.drives(r, id) {
				add(recorded, r.id, r.graph.TaskName(id), false)
			}
		}
	}
	for pool, slots := range pools {
		if living[pool] > slots {
			a.breaks("C4: run %d: %s #%d starts at %s, and %d of %d in pool %s are alive", w.run, w.name, w.attempt, w.process.name, living[pool], slots, pool)
		}
		if recorded[pool] > slots {
			a.breaks("C4: run %d: %s #%d starts at %s, and %d of %d in pool %s are recorded as under way", w.run, w.name, w.attempt, w.process.name, recorded[pool], slots, pool)
		}
		if living[pool] == slots {
			a.count(func(c *Counts) { c.FullPools++ })
		}
	}
}

// drives reports whether the task was recorded as it is by the claim that still holds its run. What a process wrote that is dead by
// now does not count: its last commits may arrive late, and it passes permits on while it dies.
func (a *audit) drives(r *row, id dagrun.TaskID) bool {
	if r.finished || r.claim == uuid.Nil || r.wrote[id] != r.epoch || r.driver == nil || r.driver.isDead() {
		return false
	}
	shown, err := a.memory.Get(context.Background(), r.id)
	return err == nil && shown.State != "queued" // a lost worker has the claim no more, as the database says
}
