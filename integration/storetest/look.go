package storetest

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// Look reports on other workers and on what is due. It queues runs whose time has come, and ends queued runs that waited too long.
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
	looked := queue.Looked{Now: stamp(m.now()), Due: w.Only != 0 || m.anyDue(w)} // before what it queues, of which workers are told
	s.watch()
	looked.Sweep = len(s.silent) > 0
	looked.Attend = w.Only == 0 && m.agendaDue()
	looked.Queued = m.wake()
	m.expire()
	if w.Only == 0 {
		looked.Shared = m.shared(s, load.Lanes)
		looked.Highest, looked.Begun = m.due(w)
	}
	return looked, nil
}

// due is the highest priority of which a run is due, nil for none, and how many have begun and wait for a slot, 100 at the most.
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

// Sweep takes over from workers that looks found silent.
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

// watch notes workers whose beat stood still for their TTL, as far as this session saw.
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

// overlook leaves out the time until the next look: one failed.
func (s *MemorySession) overlook() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.blind = true
}

// others says whether another worker serves a lane, and was heard of lately.
func (m *Memory) others(s *MemorySession, l *lane) bool {
	for _, w := range m.workers {
		if s.countsOn(w) && w.serves(l) {
			return true
		}
	}
	return false
}

// countsOn says whether another worker is at work and gives signs of life.
func (s *MemorySession) countsOn(w *worker) bool {
	seen, known := s.peers[w.ID]
	return w != s.worker && w.State == queue.WorkerLive && w.Unfit == "" && w.Only == 0 && known && seen.took <= min(w.TTL/3, 10*time.Second)+queue.LookInterval
}

// shared are the lanes, of these, that another worker may serve.
func (m *Memory) shared(s *MemorySession, of []int) (lanes []int) {
	for _, l := range m.lanes {
		if slices.Contains(of, l.id) && m.others(s, l) {
			lanes = append(lanes, l.id)
		}
	}
	slices.Sort(lanes)
	return lanes
}

// anyDue says whether a run is due in a lane of a worker's, and no pause holds it.
func (m *Memory) anyDue(w *worker) bool {
	now := m.now()
	due := func(r *run) bool { return r.isDue(now) && !r.isPaused() }
	holds := func(s shelf) bool { return slices.ContainsFunc(s.runs, due) }
	return slices.ContainsFunc(m.lanes, func(l *lane) bool { return w.serves(l) && slices.ContainsFunc(l.shelves[:], holds) })
}

// wake queues runs whose time has come: parked ones, and those that wait for a slot.
func (m *Memory) wake() int {
	n, now := 0, m.now()
	for {
		a, ok := m.waking.first()
		if !ok || a.at.After(now) {
			return n
		}
		m.waking.pop()
		if a.run.wakeAt.Equal(a.at) { // it is parked, or waits for a slot
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
