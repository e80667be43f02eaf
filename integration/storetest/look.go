package storetest

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// Look reports on other workers and on what is due.
func (s *MemorySession) Look(ctx context.Context, load queue.Load) (queue.Looked, error) {
	m := s.store
	if err := m.enter(ctx); err != nil {
		s.overlook()
		return queue.Looked{}, err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return queue.Looked{}, err
	}
	w := s.worker
	if w.State == queue.WorkerLive {
		w.Busy, w.Waiting = load.Busy, load.Waiting
	}
	looked := queue.Looked{Now: stamp(m.now()), Due: w.Only != 0 || m.anyDue(w)}
	s.watch()
	looked.Sweep = len(s.silent) > 0
	looked.Attend = w.Only == 0 && m.agendaDue()
	if w.Only == 0 {
		looked.Shared = m.shared(s, load.Lanes)
		looked.Highest, looked.Begun = m.due(w)
	}
	return looked, nil
}

// DoChores queues parked runs that are due, and ends queued runs that waited too long.
func (s *MemorySession) DoChores(ctx context.Context) (queued int, err error) {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return 0, err
	}
	queued = m.wake()
	m.expire()
	return queued, nil
}

// due returns the highest priority of a due run, nil for none, and how many runs have begun and wait for a slot, at most
// 100.
func (m *Memory) due(w *worker) (highest *int, begun int) {
	for _, s := range m.shelvesFor(w, order{last: stageNew, lowest: math.MinInt}, nil) {
		if i := slices.IndexFunc(s.runs, func(r *run) bool { return r.isDue(m.now()) && !r.isPaused() }); i >= 0 && (highest == nil || s.lane.priority > *highest) {
			highest = &s.lane.priority
		}
		if s.stage == stageBegun {
			begun += len(s.runs)
		}
	}
	return highest, min(begun, 100)
}

// Sweep takes over from the workers that earlier looks found silent.
func (s *MemorySession) Sweep(ctx context.Context) (queue.Swept, error) {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return queue.Swept{}, err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return queue.Swept{}, err
	}
	swept := queue.Swept{Done: true}
	for _, w := range m.workers {
		if beat, silent := s.silent[w.ID]; silent && w.fenced && w.Beat == beat {
			lost := queue.LostWorker{ID: w.ID, Name: w.Name, Runs: m.lose(w)}
			swept.Lost, swept.Queued = append(swept.Lost, lost), swept.Queued+lost.Runs
		}
	}
	clear(s.silent)
	return swept, nil
}

// watch notes the workers with a beat that stood still for their TTL, as far as this session saw.
func (s *MemorySession) watch() {
	m := s.store
	now := m.boot()
	gap := now - s.looked
	if s.blind {
		gap = 0
	}
	s.looked, s.blind = now, false
	for _, w := range m.workers {
		if w == s.worker || !w.fenced {
			continue
		}
		seen, ok := s.peers[w.ID]
		if !ok || seen.beat != w.Beat {
			s.peers[w.ID] = silence{beat: w.Beat}
			continue
		}
		seen.took += gap
		s.peers[w.ID] = seen
		if seen.took >= w.TTL {
			s.silent[w.ID] = w.Beat
		}
	}
}

// overlook excludes the time until the next look from the silence of others, because a look failed.
func (s *MemorySession) overlook() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.blind = true
}

// others reports whether another worker serves a lane and was alive lately.
func (m *Memory) others(s *MemorySession, l *lane) bool {
	for _, w := range m.workers {
		if s.countsOn(w) && w.serves(l) {
			return true
		}
	}
	return false
}

// countsOn reports whether w is another worker that claims runs and was alive lately.
func (s *MemorySession) countsOn(w *worker) bool {
	seen, known := s.peers[w.ID]
	return w != s.worker && w.State == queue.WorkerLive && w.Unfit == "" && w.Only == 0 && known && seen.took <= min(w.TTL/3, 10*time.Second)+queue.LookInterval
}

// shared returns those of the given lanes that another worker may serve.
func (m *Memory) shared(s *MemorySession, of []int) (lanes []int) {
	for _, l := range m.lanes {
		if slices.Contains(of, l.id) && m.others(s, l) {
			lanes = append(lanes, l.id)
		}
	}
	slices.Sort(lanes)
	return lanes
}

// anyDue reports whether a lane of a worker has a due run that no pause holds.
func (m *Memory) anyDue(w *worker) bool {
	now := m.now()
	due := func(r *run) bool { return r.isDue(now) && !r.isPaused() }
	holds := func(s shelf) bool { return slices.ContainsFunc(s.runs, due) }
	return slices.ContainsFunc(m.lanes, func(l *lane) bool { return w.serves(l) && slices.ContainsFunc(l.shelves[:], holds) })
}

// wake queues the runs with a timer that has ended: parked runs, and runs that wait for a slot.
func (m *Memory) wake() int {
	n, now := 0, m.now()
	for {
		a, ok := m.waking.first()
		if !ok || a.at.After(now) {
			return n
		}
		m.waking.pop()
		if a.run.wakeAt.Equal(a.at) { // else the timer was replaced
			m.requeue(a.run, stageRoused, reachAll)
			n++
		}
	}
}

// expire fails runs that waited too long to start.
func (m *Memory) expire() {
	now := m.now()
	for {
		a, ok := m.expiring.first()
		if !ok || a.at.After(now) {
			return
		}
		m.expiring.pop()
		if r := a.run; r.rec.State == dagrun.RunQueued && r.rec.StartedAt == 0 && r.queueDeadline.Equal(a.at) {
			m.log(r, queue.Event{Kind: "queue_timeout", Message: "did not start in time"})
			m.end(r, dagrun.RunFailed, "queue_timeout")
		}
	}
}
