package queue

import (
	"encoding/binary"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// holdings are the claims that a session believes it has. Poll adds to them, the journal takes out what was given back,
// and whoever learns that a claim is gone forfeits it.
type holdings struct {
	mu    sync.Mutex
	byRun map[RunID]*holding
	given map[uuid.UUID]*Claim // up: the database may have them still, and their drivers may be at work still
	doubt func()               // told when nothing is left of one of those; nil: nobody is
}

// holding is one claim, and what its driver was told is durable.
type holding struct {
	claim *Claim
	acked int64 // highest Seq of a task record that a commit acknowledged
	notes int64 // notes written so far: a note's number makes a flush that is sent twice write it once

	followed   bool        // somebody reads the log while it is written
	written    bool        // the run's own row, since the claim
	acted      bool        // something that happened of the run was committed since the claim
	calmed     bool        // its losses were set back in this drive
	committing atomic.Bool // the journal has a batch of it
}

// begins says whether a record of the run only says that it is running, as its row does since the claim. A run that is short
// then has its row written at its end and not before.
func (h *holding) begins(rec *dagrun.RunRecord) bool {
	if rec == nil || h.written {
		return false
	}
	h.written = !h.claim.Begins(rec)
	return !h.written
}

func newHoldings() *holdings {
	return &holdings{byRun: map[RunID]*holding{}, given: map[uuid.UUID]*Claim{}}
}

// add takes a claim in. One of the same run that is still here was lost, by a failover for instance: its driver must not
// go on beside the new one.
func (h *holdings) add(c *Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.byRun[c.Run]; old != nil && old.claim.ID != c.ID {
		old.claim.Forfeit()
	}
	h.byRun[c.Run] = &holding{claim: c}
	c.leaving = h.doubt
}

// of is the holding of a claim, nil if the claim is not held (any more).
func (h *holdings) of(c *Claim) *holding {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.byRun[c.Run]; held != nil && held.claim.ID == c.ID {
		return held
	}
	return nil
}

// remove takes a claim out that was given back in order.
func (h *holdings) remove(c *Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(c)
}

// drop is for who has the lock.
func (h *holdings) drop(c *Claim) {
	if held := h.byRun[c.Run]; held != nil && held.claim.ID == c.ID {
		delete(h.byRun, c.Run)
	}
}

// forfeit takes a claim out that is gone, and lets its driver know.
func (h *holdings) forfeit(c *Claim) {
	h.mu.Lock()
	h.drop(c)
	h.given[c.ID] = c
	h.mu.Unlock()
	c.Forfeit()
}

// missing are the claims that were here before the database was asked, that it lacks, and that are still here: not those that the
// journal has something of, which may be their end.
func (h *holdings) missing(found *strays) (missing []*Claim) {
	there := make(map[uuid.UUID]bool, len(found.claims))
	for _, id := range found.claims {
		there[id] = true
	}
	for _, held := range found.before {
		if c := held.claim; !there[c.ID] && !held.committing.Load() && h.of(c) != nil {
			missing = append(missing, c)
		}
	}
	return missing
}

// strange are claims of the database's that were not here before it was asked, nor are now, nor is their driver, if there was
// one.
func (h *holdings) strange(found *strays) (gone strays) {
	known := make(map[uuid.UUID]bool, len(found.before))
	for _, held := range slices.Concat(found.before, h.all()) {
		known[held.claim.ID] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, id := range found.claims {
		if c := h.given[id]; !known[id] && (c == nil || c.left.Load()) {
			gone.runs, gone.claims = append(gone.runs, found.runs[i]), append(gone.claims, id)
		}
	}
	maps.DeleteFunc(h.given, func(_ uuid.UUID, c *Claim) bool { return c.left.Load() })
	return gone
}

// forfeitAll is the end of a session.
func (h *holdings) forfeitAll() {
	for _, held := range h.all() {
		h.forfeit(held.claim)
	}
}

func (h *holdings) all() []*holding {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*holding, 0, len(h.byRun))
	for _, held := range h.byRun {
		all = append(all, held)
	}
	return all
}

// runs are those of all claims.
func (h *holdings) runs() []RunID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.byRun))
}

// count is the number of claims.
func (h *holdings) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byRun)
}

// sum is the number of claims and the xor of the first eight bytes of their ids. A renewal brings the same of what the
// database holds.
func (h *holdings) sum() (count int, hash int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, held := range h.byRun {
		hash ^= int64(binary.BigEndian.Uint64(held.claim.ID[:8]))
	}
	return len(h.byRun), hash
}
