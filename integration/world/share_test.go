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

// Rules for the sharing of work.
//
//	C2 no run waits for idleMost while a worker that may serve it could start its first ready task; a worker counts while its looks,
//	   polls and renewals get through
//	C3 each worker gives a run back for want of a slot less than three times within a second, unless meanwhile a task of the run
//	   starts or ends, or a request arrives
const (
	idleEvery = 100 * time.Millisecond
	idleMost  = 2 * time.Second
	movesMost = 2 // by one worker within movesTime
	movesTime = time.Second
	lookFresh = queue.LookInterval + queue.LookInterval/2
)

// sharing notes since when a worker has a free slot while a run on another worker waits for one.
type sharing struct {
	asking  map[asking]time.Time   // since when a call is under way
	looked  map[*process]time.Time // when the last look succeeded, if no poll failed since
	renewed map[*process]time.Time
	idle    map[queue.RunID]time.Time                // since when the run waits beside a free slot
	leaving map[queue.RunID]int                      // releases under way, which may take a while
	moves   map[queue.RunID]map[*process][]time.Time // the last movesMost moves since the run made progress
}

// asking is a kind of call. A worker has one of each kind under way at a time.
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

// asks notes that a worker sends a poll or a look, which may take a while.
func (s *store) asks(p *process, op string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audit.sharing.asking[asking{p, op}] = time.Now()
}

// answered notes the answer to a poll or a look. After an error the worker does not count until a look succeeds.
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

// waitsLong reports whether a worker has waited too long for an answer to a poll or a look.
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

// movedBy counts the moves and starts in a batch.
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
			if r, err := a.memory.Get(context.Background(), id); err == nil && r.State == "queued" && !r.RunAt.After(now) && !strings.HasPrefix(r.Reason, "waits for key") && !strings.HasPrefix(r.Reason, "waits for pool") {
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

// roomAndStalled returns a worker with a free slot and with calls that get through, and the runs on other workers that
// only wait for a slot.
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
		if status.Slots.Free > status.Slots.Expected && status.Slots.Waiting == 0 {
			room = p
		}
		stalled = append(stalled, status.Stalled...)
	}
	return room, stalled
}

// current reports whether the process is alive and registered under this id.
func (p *process) current(id uuid.UUID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.isDead() && len(p.ids) > 0 && p.ids[len(p.ids)-1] == id
}

// stands reports whether the process is frozen or cut off.
func (p *process) stands() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.frozen) || time.Now().Before(p.cut)
}
