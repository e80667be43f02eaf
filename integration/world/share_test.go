package world

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

// How the audit looks at the sharing of work.
//
//	C2 no run waits for idleMost while a worker that may serve it could start its first ready task; a worker counts while its looks,
//	   polls and signs of life get through
//	C3 a run is moved for want of a slot by each worker less than three times within a second, unless something of it starts, ends or is
//	   asked meanwhile
const (
	idleEvery = 100 * time.Millisecond
	idleMost  = 2 * time.Second
	movesMost = 2 // by one worker within movesTime
	movesTime = time.Second
	lookFresh = queue.LookInterval + queue.LookInterval/2
)

// sharing is since when a worker with a free slot and a run that waits for one stand side by side.
type sharing struct {
	asking  map[asking]time.Time   // since when a call is under way
	looked  map[*process]time.Time // last, with success, and no poll failed since
	renewed map[*process]time.Time
	idle    map[queue.RunID]time.Time                // since when
	leaving map[queue.RunID]int                      // drives whose release is under way, which may take a while
	moves   map[queue.RunID]map[*process][]time.Time // the last movesMost, since something of the run went on
}

// asking is a kind of call that a worker has under way, one at a time.
type asking struct {
	process *process
	op      string
}

func newSharing() sharing {
	return sharing{
		asking: map[asking]time.Time{}, looked: map[*process]time.Time{}, renewed: map[*process]time.Time{},
		idle: map[queue.RunID]time.Time{}, leaving: map[queue.RunID]int{}, moves: map[queue.RunID]map[*process][]time.Time{},
	}
}

// asks says that a worker sends a poll or a look, which may take a while.
func (s *store) asks(p *process, op string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.sharing.asking[asking{p, op}] = time.Now()
}

// answered takes in that a worker got an answer to a poll or a look, or none: then it is not counted on until a look gets one.
func (s *store) answered(p *process, op string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.audit.sharing.asking, asking{p, op})
	switch {
	case err != nil:
		delete(s.audit.sharing.looked, p)
	case op == opLook:
		s.audit.sharing.looked[p] = time.Now()
	}
}

// waitsLong reports whether a worker has waited for an answer to a poll or a look since long ago.
func (s *sharing) waitsLong(p *process, now time.Time) bool {
	for _, op := range []string{opPoll, opLook} {
		if since, asks := s.asking[asking{p, op}]; asks && now.Sub(since) > idleEvery {
			return true
		}
	}
	return false
}

// leaves counts releases that are under way.
func (s *store) leaves(run queue.RunID, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.sharing.leaving[run] += by
}

// moved counts a run that a worker gave back for want of a slot.
func (a *audit) moved(p *process, run queue.RunID) {
	a.count(func(c *Counts) { c.Shared++ })
	if a.sharing.moves[run] == nil {
		a.sharing.moves[run] = map[*process][]time.Time{}
	}
	now, last := time.Now(), a.sharing.moves[run][p]
	if len(last) == movesMost && now.Sub(last[0]) < movesTime {
		a.breaks("C3: run %d: moved %d times by %s within %v, and nothing of it starts", run, movesMost+1, p.name, now.Sub(last[0]))
	}
	if len(last) == movesMost {
		last = last[1:]
	}
	a.sharing.moves[run][p] = append(last, now)
}

// movedBy counts moves and starts in what a drive wrote.
func (a *audit) movedBy(p *process, b *queue.Batch) {
	for i := range b.Records.Tasks {
		if state := b.Records.Tasks[i].State; state == dagrun.TaskRunning || state == dagrun.TaskWaiting || state.Terminal() {
			delete(a.sharing.moves, b.Claim.Run)
		}
	}
	for _, n := range b.Records.Notes {
		if n.Kind == "handed_on" && strings.Contains(n.Text, "no free slot") {
			a.moved(p, b.Claim.Run)
		}
	}
}

// watchSharing looks again and again, until everything is over.
func (h *history) watchSharing(ctx context.Context) {
	every := time.NewTicker(idleEvery)
	defer every.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			h.store.lookAtSharing()
		}
	}
}

func (s *store) lookAtSharing() {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, now := s.audit, time.Now()
	a.lookAtPulse(now)
	room, stalled := a.roomAndStalled(now)
	waits := map[queue.RunID]bool{}
	if room != nil {
		for _, id := range a.order {
			if r, err := a.memory.Get(context.Background(), id); err == nil && r.State == "queued" && !r.RunAt.After(now) {
				waits[id] = true
			}
		}
		for _, run := range stalled {
			waits[run] = a.sharing.leaving[run] == 0
		}
	}
	for run := range a.sharing.idle {
		if !waits[run] {
			delete(a.sharing.idle, run)
		}
	}
	for run, really := range waits {
		since, known := a.sharing.idle[run]
		switch {
		case !really:
			delete(a.sharing.idle, run)
		case !known:
			a.sharing.idle[run] = now
		case now.Sub(since) > idleMost:
			a.breaks("C2: run %d waits for %v while %s has a free slot", run, now.Sub(since), room.name)
			a.sharing.idle[run] = now
		}
	}
}

// roomAndStalled finds a worker with a free slot whose calls get through, and runs that can do nothing until they get one on another
// worker.
func (a *audit) roomAndStalled(now time.Time) (room *process, stalled []queue.RunID) {
	for _, id := range a.registrations {
		p := a.owners[id]
		if !p.current(id) || now.Sub(a.sharing.looked[p]) > lookFresh || now.Sub(a.sharing.renewed[p]) > beatEvery+queue.LookInterval {
			continue
		}
		status := p.worker.Status()
		if status.Phase != worker.Live || p.stands() || a.sharing.waitsLong(p, now) {
			continue
		}
		if status.Gate.Free > status.Gate.Expected && status.Gate.Waiting == 0 {
			room = p
		}
		stalled = append(stalled, status.Stalled...)
	}
	return room, stalled
}

// current says whether the process is alive under this registration.
func (p *process) current(id uuid.UUID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.isDead() && len(p.ids) > 0 && p.ids[len(p.ids)-1] == id
}

// stands says whether the process is frozen or cut off.
func (p *process) stands() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.frozen) || time.Now().Before(p.cut)
}
