package storetest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// A worker must give its lease up after these shares of its TTL.
const (
	softShare = 6 // tenths
	hardShare = 7
)

// worker is the row of a worker.
type worker struct {
	queue.WorkerInfo
	fenced bool           // reports whether the worker may write
	hungry int            // how many more runs the worker would take
	least  *int           // priority of the worker's next task that waits for a slot; nil: none waits
	told   map[int]int    // by lane: of how many runs the worker was told since its last poll
	turns  map[int]string // by keyed lane: the key at which the last claim ended
	runs   map[queue.RunID]*run
	ear    chan struct{} // holds a token while heard is not empty
	heard  queue.Heard
}

// MemorySession is a worker's side of a Memory.
type MemorySession struct {
	pen

	store  *Memory
	worker *worker
	closed bool
	held   map[queue.RunID]*queue.Claim
	polls  int      // polls for slots, so far
	turns  []string // queues that gave this session runs; the queue that gave one longest ago is first
	peers  map[uuid.UUID]silence
	silent map[uuid.UUID]int64 // workers that the next sweep takes over from, each with the beat at which it stands still
	looked time.Duration       // boot time of the last look
	blind  bool                // reports whether a look failed since then
	soft   time.Duration
	hard   time.Duration
}

// silence is how long one observer has seen a worker's beat stand still.
type silence struct {
	beat int64
	took time.Duration
}

// Register makes a worker known. Called with the same id again, it returns another session of the same worker.
func (m *Memory) Register(ctx context.Context, described queue.Worker) (*MemorySession, error) {
	sent := m.boot()
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	if described.ID == uuid.Nil {
		described.ID = m.newID()
	}
	if described.TTL == 0 {
		described.TTL = queue.DefaultTTL
	}
	w := m.byID[described.ID]
	if w == nil {
		w = &worker{fenced: true, runs: map[queue.RunID]*run{}, ear: make(chan struct{}, 1)}
		w.State, w.Desired, w.StartedAt = queue.WorkerLive, queue.WorkerLive, m.now()
		m.byID[described.ID] = w
		m.workers = append(m.workers, w)
	}
	if !w.fenced {
		return nil, fmt.Errorf("register: worker %s was %s: %w", described.ID, w.State, queue.ErrLeaseLost)
	}
	w.Worker = described
	for _, id := range described.Replaces {
		if dead := m.byID[id]; dead != nil && id != described.ID {
			m.lose(dead)
		}
	}
	s := &MemorySession{pen: pen{ended: make(chan struct{})}, store: m, worker: w, held: map[queue.RunID]*queue.Claim{}, peers: map[uuid.UUID]silence{}, silent: map[uuid.UUID]int64{}}
	s.extend(sent)
	return s, nil
}

// Roles returns the session by the roles that callers use.
func (s *MemorySession) Roles() Session {
	return Session{Claimer: s, Reader: s, Journal: s, Lease: s, LogSink: s}
}

// ID returns the id of the worker.
func (s *MemorySession) ID() uuid.UUID { return s.worker.ID }

// usable returns nil if the session may still be used. If the worker was lost, usable forfeits all claims and returns
// queue.ErrLeaseLost.
func (s *MemorySession) usable() error {
	if s.closed {
		return queue.ErrClosed
	}
	if !s.worker.fenced {
		for _, c := range s.held {
			c.Forfeit()
		}
		clear(s.held)
		return fmt.Errorf("worker %s: %w", s.worker.ID, queue.ErrLeaseLost)
	}
	return nil
}

// own returns the run of a claim. If the claim is gone, own forfeits it, so that its driver stops, and returns nil.
func (s *MemorySession) own(c *queue.Claim) *run {
	r := s.store.runs[c.Run-1]
	if r.claim != nil && r.claim.ID == c.ID && r.owner == s.worker {
		return r
	}
	if held := s.held[c.Run]; held != nil && held.ID == c.ID {
		delete(s.held, c.Run)
	}
	c.Forfeit()
	return nil
}

// extend moves the deadlines of the lease. They count from the moment before the renewal was sent.
func (s *MemorySession) extend(sent time.Duration) {
	s.soft = sent + s.worker.TTL*softShare/10
	s.hard = sent + s.worker.TTL*hardShare/10
}

// Deadline returns the moments of boot time at which the lease must be given up.
func (s *MemorySession) Deadline() (soft, hard time.Duration) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	return s.soft, s.hard
}

// Renew proves that the worker is alive and extends its lease.
func (s *MemorySession) Renew(ctx context.Context, v queue.Vitals) (queue.Renewal, error) {
	m := s.store
	sent := m.boot()
	if err := m.enter(ctx); err != nil {
		return queue.Renewal{}, err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return queue.Renewal{}, err
	}
	w := s.worker
	w.Beat++
	w.BeatAt, w.Busy, w.Waiting, w.Runs = m.now(), v.Busy, v.Waiting, len(w.runs)
	w.Unfit, w.UnfitSince = v.Unfit, v.Since
	s.extend(sent)
	renewed := queue.Renewal{Now: stamp(m.now()), Desired: w.Desired}
	for _, r := range w.sortedRuns() {
		if slices.ContainsFunc(r.controls, func(c *queue.Control) bool { return c.DecidedAt.IsZero() }) {
			renewed.Mail = append(renewed.Mail, queue.Mail{Run: r.id, Inbox: r.inbox})
		}
	}
	return renewed, nil
}

// DrainWorker asks the workers with this name or id to claim nothing more, and returns how many there are.
func (m *Memory) DrainWorker(ctx context.Context, name string) (int, error) {
	if err := m.enter(ctx); err != nil {
		return 0, err
	}
	defer m.mu.Unlock()
	n := 0
	for _, w := range m.workers {
		if w.fenced && (w.Name == name || w.ID.String() == name) {
			n++
			w.Desired = queue.WorkerDraining
			w.tell(func(h *queue.Heard) { h.Drain = true })
		}
	}
	if n == 0 {
		return 0, refusal(queue.ErrNotFound, "OA007", "list workers to see which there are", "there is no live worker %s", name)
	}
	return n, nil
}

// Drain makes the worker claim nothing from now on.
func (s *MemorySession) Drain(ctx context.Context) error {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	s.worker.State, s.worker.hungry, s.worker.least = queue.WorkerDraining, 0, nil
	return nil
}

// Close gives back all claims and ends the worker.
func (s *MemorySession) Close(ctx context.Context) error {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if s.closed {
		return nil
	}
	lost := s.usable() != nil
	s.closed = true
	close(s.ended)
	if lost { // the claims are gone already
		return nil
	}
	for _, r := range s.worker.sortedRuns() {
		stage := stageNew
		if m.tells(r) || r.rec.Ending != dagrun.EndingNone || r.rec.PausedBy != "" {
			stage = stageRoused
		}
		s.release(r, stage)
	}
	s.worker.hungry, s.worker.least, s.worker.Busy, s.worker.Waiting, s.worker.Runs = 0, nil, 0, 0, 0
	s.worker.fenced, s.worker.State, s.worker.EndedAt = false, queue.WorkerGone, m.now()
	m.losePermits(s.worker)
	return nil
}

// lose ends a worker that was found dead: none of its writes lands any more, and then its runs are queued again. It
// returns how many runs.
func (m *Memory) lose(w *worker) int {
	if !w.fenced {
		return 0
	}
	w.fenced, w.State, w.EndedAt = false, queue.WorkerLost, m.now()
	m.losePermits(w)
	w.hungry, w.least, w.Busy, w.Waiting, w.Runs = 0, nil, 0, 0, 0
	runs := w.sortedRuns()
	for _, r := range runs {
		m.letGo(r)
		r.losses++
		m.log(r, queue.Event{Kind: "lost", Worker: w.Name, Epoch: r.epoch, Message: "worker " + w.Name + " was lost: queued again"})
		m.requeue(r, stageRoused, reachAll)
	}
	return len(runs)
}

// tell adds to what a worker hears next.
func (w *worker) tell(add func(*queue.Heard)) {
	add(&w.heard)
	select {
	case w.ear <- struct{}{}:
	default:
	}
}

// Hear waits for a notification and returns all that arrived since the last call.
func (s *MemorySession) Hear(ctx context.Context) (queue.Heard, error) {
	select {
	case <-ctx.Done():
		return queue.Heard{}, ctx.Err()
	case <-s.worker.ear:
	}
	m := s.store
	m.mu.Lock()
	defer m.mu.Unlock()
	heard := s.worker.heard
	s.worker.heard = queue.Heard{}
	return heard, nil
}
