package storetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// overdue is how long a permit waits before the store keeps what comes free for it.
const overdue = 30 * time.Second

// poolRow is a pool of the store.
type poolRow struct {
	slots  int
	perKey bool
	closed map[string]time.Time // by key
}

// permitRow is a permit that a worker has or asks for.
type permitRow struct {
	queue.Permit
	worker  *worker
	since   time.Time
	granted bool
}

// SetPool makes a pool, or changes it, and reports whether it is new. It knows no rates.
func (m *Memory) SetPool(ctx context.Context, pool string, limits queue.PoolLimits) (isNew bool, err error) {
	if err := m.enter(ctx); err != nil {
		return false, err
	}
	defer m.mu.Unlock()
	if limits.Rate != 0 {
		return false, fmt.Errorf("set pool %s: the store in memory knows no rates", pool)
	}
	if limits.Slots < 1 {
		return false, refusal(nil, "OA013", "give it slots", "pool %s limits nothing", pool)
	}
	isNew = m.pools[pool] == nil
	m.pools[pool] = &poolRow{limits.Slots, limits.PerKey, map[string]time.Time{}}
	return isNew, nil
}

// Permits takes in all permits that the worker keeps or wants, and grants what is free to the first in order.
func (s *MemorySession) Permits(ctx context.Context, all []queue.Permit) ([]queue.PermitAnswer, error) {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	if !s.worker.fenced {
		return nil, queue.ErrNoPermits
	}
	m.takeIn(s.worker, all)
	m.grantPermits(s.worker)
	var answers []queue.PermitAnswer
	for _, p := range m.permits {
		if p.worker != s.worker {
			continue
		}
		a := queue.PermitAnswer{Nth: p.Nth, Granted: p.granted}
		a.Contested = slices.ContainsFunc(m.permits, func(o *permitRow) bool { return o.worker != p.worker && !o.granted && p.meets(o, m) })
		a.Once = slices.ContainsFunc(p.Pools, func(u dagrun.PoolUse) bool {
			return m.pools[u.Pool] != nil && m.pools[u.Pool].closed[u.Key].After(m.now())
		})
		if !a.Granted {
			a.Reason = fmt.Sprintf("waits for pool %s", p.Pools[0].Pool)
		}
		answers = append(answers, a)
	}
	return answers, nil
}

// LeaveAlone closes keys of pools for a while.
func (s *MemorySession) LeaveAlone(ctx context.Context, _ queue.RunID, uses []dagrun.PoolUse, pause time.Duration) error {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	for _, u := range uses {
		if pool := m.pools[u.Pool]; pool != nil && pool.perKey {
			if until := m.now().Add(min(pause, time.Hour)); until.After(pool.closed[u.Key]) {
				pool.closed[u.Key] = until
			}
		}
	}
	return nil
}

// takeIn makes the permits of a worker the given ones.
func (m *Memory) takeIn(w *worker, all []queue.Permit) {
	named := func(p *permitRow) int {
		return slices.IndexFunc(all, func(n queue.Permit) bool { return n.Nth == p.Nth })
	}
	m.permits = slices.DeleteFunc(m.permits, func(p *permitRow) bool { return p.worker == w && named(p) < 0 })
	for _, n := range all {
		i := slices.IndexFunc(m.permits, func(p *permitRow) bool { return p.worker == w && p.Nth == n.Nth })
		if i < 0 {
			m.permits = append(m.permits, &permitRow{worker: w, since: m.now(), granted: n.Held})
			i = len(m.permits) - 1
		}
		m.permits[i].Permit = n
	}
}

// grantPermits grants all that can be granted: by run priority, step priority, and then to the permit that has waited longest.
func (m *Memory) grantPermits(caller *worker) {
	waiting := slices.DeleteFunc(slices.Clone(m.permits), func(p *permitRow) bool { return p.granted })
	slices.SortStableFunc(waiting, func(a, b *permitRow) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(b.StepPriority, a.StepPriority), a.since.Compare(b.since))
	})
	var kept []*permitRow // overdue ones, which keep what comes free
	for _, p := range waiting {
		switch {
		case slices.ContainsFunc(kept, func(o *permitRow) bool { return p.meets(o, m) }):
		case !slices.ContainsFunc(p.Pools, func(u dagrun.PoolUse) bool { return m.freeOf(u) < u.Weight }):
			p.granted = true
			if p.worker != caller {
				p.worker.tell(func(h *queue.Heard) { h.Permits = true })
			}
		case m.now().Sub(p.since) > overdue:
			kept = append(kept, p)
		}
	}
}

// freeOf returns how many slots of a pool are free for a use; -1 if there is no such pool, or if it is closed.
func (m *Memory) freeOf(u dagrun.PoolUse) int {
	pool := m.pools[u.Pool]
	if pool == nil || pool.closed[u.Key].After(m.now()) {
		return -1
	}
	left := pool.slots
	for _, p := range m.permits {
		for _, o := range p.Pools {
			if p.granted && sameShare(u, o, pool) {
				left -= o.Weight
			}
		}
	}
	return left
}

// meets reports whether two permits take from the same pool and key.
func (p *permitRow) meets(o *permitRow, m *Memory) bool {
	return slices.ContainsFunc(p.Pools, func(a dagrun.PoolUse) bool {
		return slices.ContainsFunc(o.Pools, func(b dagrun.PoolUse) bool { return sameShare(a, b, m.pools[a.Pool]) })
	})
}

// sameShare reports whether two uses of a pool are counted together.
func sameShare(a, b dagrun.PoolUse, pool *poolRow) bool {
	return a.Pool == b.Pool && (a.Key == b.Key || pool != nil && !pool.perKey)
}

// crowded reports whether a worker waits for a pool.
func (m *Memory) crowded(name string) bool {
	return slices.ContainsFunc(m.permits, func(p *permitRow) bool {
		return !p.granted && slices.ContainsFunc(p.Pools, func(u dagrun.PoolUse) bool { return u.Pool == name })
	})
}

// waitsForPool returns the reason of a new run that a crowded pool holds back, "" for any other run.
func (m *Memory) waitsForPool(r *run) string {
	if d := r.lane.owner; d != nil && r.stage == stageNew {
		if i := slices.IndexFunc(d.pools, m.crowded); i >= 0 {
			return fmt.Sprintf("waits for pool %s, for which other runs wait already", d.pools[i])
		}
	}
	return ""
}

// losePermits takes all permits from a worker that has no fence any more.
func (m *Memory) losePermits(w *worker) {
	m.permits = slices.DeleteFunc(m.permits, func(p *permitRow) bool { return p.worker == w })
}
