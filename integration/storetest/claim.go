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

// Poll claims.
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
	s.claimAll(want, &p)
	p.Hungry = len(p.Claims) < free
	if w.Only == 0 {
		w.hungry, w.least = max(0, want.Free-len(p.Claims)), want.Least
		s.passOn(told, want.Free, p.Claims)
		if !p.Hungry {
			p.Top = m.top(w, want.Least)
		}
	}
	return p, nil
}

// claimAll claims for slots; where there are none, what may need no slot.
func (s *MemorySession) claimAll(want queue.Want, p *queue.Polled) {
	m := s.store
	take := func(n int, may func(*run) bool) {
		for range n {
			r := m.head(s.worker, may)
			if r == nil {
				return
			}
			p.Claims = append(p.Claims, s.claim(r))
		}
	}
	above := func(r *run) bool { return want.Above == nil || r.lane.priority > *want.Above }
	if want.Slots == 0 {
		take(want.Idle, func(r *run) bool { return above(r) && r.epoch > 0 && !r.slotWanted && r.rec.StartedAt != 0 })
		return
	}
	take(want.Slots, above)
}

// top is the highest priority of a run that a worker may claim and that ranks above all its tasks that wait.
func (m *Memory) top(w *worker, least *int) *int {
	if least == nil {
		return nil
	}
	for _, l := range m.lanes {
		if l.priority > *least && w.serves(l) && !m.full(l) {
			if r := m.next(l, m.now(), func(*run) bool { return true }); r != nil {
				r.listed = true
				l.due.push(r)
				return &l.priority
			}
		}
	}
	return nil
}

// passOn tells others of what a worker was told of and has no room for.
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

// own is the run that a worker of one family is to claim next, nil for none. In its lane it stays listed until it would be
// first there.
func (m *Memory) own(w *worker) (first *run) {
	now := m.now()
	for _, r := range m.runs {
		switch {
		case !m.descends(r, w.Only) || r.rec.State != dagrun.RunQueued || r.epoch == 0 && r.runAt.After(now) || r.held() || m.full(r.lane):
		case r.rec.StartedAt == 0 && !m.active(r.version.dag):
		case first == nil || r.id < first.id:
			first = r
		}
	}
	return first
}

// descends says whether a run is another one, or a child that is waited for of one that does.
func (m *Memory) descends(r *run, from queue.RunID) bool {
	for r.id != from && r.parent != 0 {
		r = m.runs[r.parent-1]
	}
	return r.id == from
}

// head is the run that a worker is to claim next of those it may, nil for none.
func (m *Memory) head(w *worker, may func(*run) bool) *run {
	if w.Only != 0 {
		return m.own(w)
	}
	now := m.now()
	for _, l := range m.lanes {
		if !w.serves(l) || m.full(l) {
			continue
		}
		if r := m.next(l, now, may); r != nil {
			return r
		}
	}
	return nil
}

// goOn has a run that has begun be due by now.
func (m *Memory) goOn(r *run, now time.Time) {
	if r.epoch == 0 || !r.runAt.After(now) {
		return
	}
	r.runAt = now
	if r.listed {
		r.lane.due.remove(func(other *run) bool { return other == r })
		r.lane.due.push(r)
	}
}

// next takes the first due run out that may be claimed.
func (m *Memory) next(l *lane, now time.Time, may func(*run) bool) *run {
	room := map[*dag]bool{} // of those whose runs are here: a lane may have some of before their DAG had a limit
	var passed []*run
	defer func() {
		for _, r := range passed {
			l.due.push(r)
		}
	}()
	for {
		r, ok := l.due.first()
		if !ok || r.runAt.After(now) {
			return nil
		}
		l.due.pop()
		d := r.version.dag
		if _, known := room[d]; !known {
			room[d] = m.active(d)
		}
		switch {
		case r.rec.State != dagrun.RunQueued: // canceled, or out of time
			r.listed = false
		case r.held() || r.rec.StartedAt == 0 && !room[d] || !may(r):
			passed = append(passed, r)
		default:
			r.listed = false
			return r
		}
	}
}

// held says whether a run may not begin, because its queue or its DAG is paused.
func (r *run) held() bool {
	return r.rec.StartedAt == 0 && (r.lane.queue.paused || r.version.dag.paused)
}

// full says whether a lane's queue has all the claims it may have. It counts what is there.
func (m *Memory) full(l *lane) bool {
	return l.queue.maxRunning > 0 && m.claimed(func(r *run) bool { return r.lane.queue == l.queue }) >= l.queue.maxRunning
}

// active says whether a DAG may have one more run. What has started is counted, and may go on.
func (m *Memory) active(d *dag) bool {
	if d.limit == 0 {
		return true
	}
	n := 0
	for _, r := range m.runs {
		if r.version.dag == d && !r.over() && (r.claim != nil || r.rec.StartedAt != 0) {
			n++
		}
	}
	return n < d.limit
}

func (m *Memory) claimed(is func(*run) bool) int {
	n := 0
	for _, w := range m.workers {
		for _, r := range w.runs {
			if is(r) {
				n++
			}
		}
	}
	return n
}

// claim makes a run the session's.
func (s *MemorySession) claim(r *run) *queue.Claim {
	m := s.store
	r.epoch++
	r.wakeAt = noTime
	r.rec.WakeAt = 0
	c := queue.NewClaim(r.id, m.newID())
	c.Begun = r.rec.StartedAt != 0
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
	return c
}

// letGo is the end of a claim, in the store.
func (m *Memory) letGo(r *run) {
	delete(r.owner.runs, r.id)
	r.claim, r.owner = nil, nil
}

// Load reads what former drives left. Of a claim that is gone it is nil.
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

// left is what a run's next driver goes on from.
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

// ReadMail reads what is asked of runs. Of a claim that is gone it is nil.
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

// Definition is a version of a DAG, compiled.
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
	return &queue.Definition{Spec: v.spec, Graph: v.graph}, nil
}

// sortedRuns are a worker's runs by id.
func (w *worker) sortedRuns() []*run {
	runs := make([]*run, 0, len(w.runs))
	for _, r := range w.runs {
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b *run) int { return int(a.id - b.id) })
	return runs
}
