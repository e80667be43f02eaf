package storetest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

var noTime time.Time

// Poll claims runs for the free slots of the worker and, with Want.Idle, runs that may need no slot.
func (s *MemorySession) Poll(ctx context.Context, want queue.Want) (queue.Polled, error) {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return queue.Polled{}, err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return queue.Polled{}, err
	}
	want.Slots, want.Idle = min(want.Slots, queue.MaxClaims), min(want.Idle, queue.MaxClaims)
	free := min(want.Slots, want.Free)
	p := queue.Polled{Now: stamp(m.now()), Sweep: len(s.silent) > 0}
	w := s.worker
	told := w.told
	w.told = nil
	if w.State != queue.WorkerLive {
		w.hungry, w.least, p.Hungry = 0, nil, free > 0
		return p, nil
	}
	p.Claims = s.claimAll(want)
	p.Hungry = len(p.Claims) < free
	if w.Only == 0 {
		w.hungry, w.least = max(0, want.Free-len(p.Claims)), want.Least
		s.passOn(told, want.Free, p.Claims)
	}
	return p, nil
}

// claimAll claims runs for slots. If the worker wants no slots, it claims runs that may need none.
func (s *MemorySession) claimAll(want queue.Want) (claims []*queue.Claim) {
	m, room := s.store, cmp.Or(want.Slots, want.Idle)
	if s.worker.Only != 0 {
		for r := m.own(s.worker); r != nil && len(claims) < room; r = m.own(s.worker) {
			claims = append(claims, s.claim(r))
		}
		return claims
	}
	for _, from := range m.shelvesFor(s.worker, s.order(&want), slices.Clone(s.turns)) {
		for _, r := range m.claimable(s.worker, from, room-len(claims)) {
			claims = append(claims, s.claim(r))
		}
	}
	return claims
}

// passOn tells other workers of the queued runs that this worker heard of and has no room for.
func (s *MemorySession) passOn(told map[int]int, free int, claims []*queue.Claim) {
	m := s.store
	if len(claims) < free || len(told) == 0 || !slices.ContainsFunc(m.workers, s.countsOn) {
		return
	}
	for _, c := range claims {
		told[c.Lane]--
	}
	for _, l := range m.lanes {
		if told[l.id] > 0 {
			m.spread(l, told[l.id], reachHungry)
		}
	}
}

// own returns the run that a worker with Only set claims next, nil for none. A run that has begun comes before a new one.
func (m *Memory) own(w *worker) (first *run) {
	for _, r := range m.runs {
		if r.shelf == nil || !m.descends(r, w.Only) || len(m.claimable(w, &shelf{r.lane, r.stage, []*run{r}}, 1)) == 0 {
			continue
		}
		if first == nil || cmp.Or(cmp.Compare(r.stage/stageNew, first.stage/stageNew), byPlace(r, first)) < 0 {
			first = r
		}
	}
	return first
}

// descends reports whether a run is the run named by from, or one of its children at any depth. Detached children do not
// count.
func (m *Memory) descends(r *run, from queue.RunID) bool {
	for r.id != from && r.parent != 0 {
		r = m.runs[r.parent-1]
	}
	return r.id == from
}

func (s *MemorySession) claim(r *run) *queue.Claim {
	m := s.store
	r.unshelve()
	r.epoch++
	r.acted, r.wakeAt, r.rec.WakeAt = false, noTime, 0
	c := queue.NewClaim(r.id, m.newID())
	c.Begun, c.Limited = r.stage < stageNew, r.lane.queue.maxRunning > 0 || r.lane.owner != nil && (r.lane.owner.limit > 0 || r.lane.limit() > 0)
	r.rec.StartedAt = cmp.Or(r.rec.StartedAt, stamp(m.now()))
	c.UID, c.Epoch, c.Inbox, c.Losses = r.uid, r.epoch, r.inbox, r.losses
	c.DAG, c.DAGID, c.Version = r.version.dag.name, r.version.dag.id, r.version.number
	c.Lane, c.Queue, c.Priority = r.lane.id, r.lane.laneKey.queue, r.lane.priority
	c.Params, c.Labels, c.Precomputed = r.params, spell(r.labels), r.precomputed
	c.RunAt, c.LogicalAt, c.CreatedAt = r.runAt, r.logicalAt, r.createdAt
	if r.schedule != nil {
		c.Schedule, c.PreviousLogicalAt = r.schedule.spec.Name, r.previousAt
	}
	c.Trigger, c.SubmittedBy, c.Key, c.Traceparent = r.trigger, r.submittedBy, r.key, r.traceparent
	c.Parent, c.Root, c.Depth = r.parent, r.root, r.depth
	c.Row = r.rec
	r.rec.State = dagrun.RunRunning
	r.claim, r.owner = c, s.worker
	s.worker.runs[r.id] = r
	s.held[r.id] = c
	s.turns = append(slices.DeleteFunc(s.turns, func(name string) bool { return name == c.Queue }), c.Queue)
	return c
}

// letGo ends the claim of a run in the store.
func (m *Memory) letGo(r *run) {
	delete(r.owner.runs, r.id)
	r.claim, r.owner = nil, nil
}

// Load reads what former drives left of each claimed run. For a claim that is gone the element is nil.
func (s *MemorySession) Load(ctx context.Context, claims []*queue.Claim) ([]*queue.Loaded, error) {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, err
	}
	loaded := make([]*queue.Loaded, len(claims))
	for i, c := range claims {
		if r := s.own(c); r != nil {
			loaded[i] = m.left(r)
		}
	}
	return loaded, nil
}

// left returns the state that the next driver of a run continues from.
func (m *Memory) left(r *run) *queue.Loaded {
	l := &queue.Loaded{Saved: dagrun.Saved{Run: r.claim.Row}, Mailbox: queue.Mailbox{Inbox: r.inbox, Controls: r.undecided()}}
	for _, row := range r.sortedTasks() {
		l.Saved.Tasks = append(l.Saved.Tasks, row.TaskRecord)
		if row.settled != nil && row.State == dagrun.TaskRunning && row.settled.Attempt == row.Attempt {
			l.Settled = append(l.Settled, *row.settled)
		}
		if row.State == dagrun.TaskRunning || row.LogGoesOn() {
			end := queue.LogEnd{Task: row.ID, Attempt: row.Attempt, Day: row.day}
			if log := m.logs[attemptKey{r.id, row.ID, row.Attempt}]; log != nil {
				end.Next, end.Lines, end.Final = log.end()
			}
			l.Logs = append(l.Logs, end)
		}
	}
	return l
}

// ReadMail reads the open controls of each claimed run. For a claim that is gone the element is nil.
func (s *MemorySession) ReadMail(ctx context.Context, claims []*queue.Claim) ([]*queue.Mailbox, error) {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, err
	}
	boxes := make([]*queue.Mailbox, len(claims))
	for i, c := range claims {
		if r := s.own(c); r != nil {
			boxes[i] = &queue.Mailbox{Inbox: r.inbox, Controls: r.undecided()}
		}
	}
	return boxes, nil
}

// Definition returns one version of a DAG, compiled.
func (s *MemorySession) Definition(ctx context.Context, dagID int64, number int) (*queue.Definition, error) {
	m := s.store
	if err := m.enter(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	v := m.versions[versionKey{dagID, number}]
	if v == nil {
		return nil, refusal(queue.ErrNotFound, "OA001", "apply it first", "there is no dag %d in version %d", dagID, number)
	}
	return queue.NewDefinition(v.spec, v.graph), nil
}

// sortedRuns returns the runs that a worker has claimed, sorted by id.
func (w *worker) sortedRuns() []*run {
	runs := make([]*run, 0, len(w.runs))
	for _, r := range w.runs {
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b *run) int { return int(a.id - b.id) })
	return runs
}
