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

// claimSet is the claims that a session believes it has. Polls add to it, the journal takes out what was given back, and claims that
// are found to be gone are forfeited.
type claimSet struct {
	mu          sync.Mutex
	byRun       map[RunID]*heldClaim
	forfeited   map[uuid.UUID]*Claim // claims we gave up: the database may have them still, and their drivers may be at work still
	limitedEnds atomic.Int64         // claims behind limits that are held no more
	doubt       func()               // told when nothing is left of one of those; nil: nobody is
}

// heldClaim is one claim, and what its driver was told is durable.
type heldClaim struct {
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
func (h *heldClaim) begins(rec *dagrun.RunRecord) bool {
	if rec == nil || h.written {
		return false
	}
	h.written = !h.claim.Begins(rec)
	return !h.written
}

func newClaimSet() *claimSet {
	return &claimSet{byRun: map[RunID]*heldClaim{}, forfeited: map[uuid.UUID]*Claim{}}
}

// add takes a claim in. One of the same run that is still here was lost, by a failover for instance: its driver must not
// go on beside the new one.
func (h *claimSet) add(c *Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.byRun[c.Run]; old != nil && old.claim.ID != c.ID {
		old.claim.Forfeit()
	}
	h.byRun[c.Run] = &heldClaim{claim: c}
	c.leaving = h.doubt
}

// of is a claim as it is held, nil if the claim is not held (any more).
func (h *claimSet) of(c *Claim) *heldClaim {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.byRun[c.Run]; held != nil && held.claim.ID == c.ID {
		return held
	}
	return nil
}

// remove takes a claim out that was given back in order.
func (h *claimSet) remove(c *Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(c)
}

// dropLocked is for callers that have the lock.
func (h *claimSet) dropLocked(c *Claim) {
	if held := h.byRun[c.Run]; held != nil && held.claim.ID == c.ID {
		delete(h.byRun, c.Run)
		if c.Limited {
			h.limitedEnds.Add(1)
		}
	}
}

// forfeit takes a claim out that is gone, and lets its driver know.
func (h *claimSet) forfeit(c *Claim) {
	h.mu.Lock()
	h.dropLocked(c)
	h.forfeited[c.ID] = c
	h.mu.Unlock()
	c.Forfeit()
}

// missing are the claims that were here before the database was asked, that it lacks, and that are still here: not those that the
// journal has something of, which may be their end.
func (h *claimSet) missing(f *sweepReply) (missing []*Claim) {
	there := make(map[uuid.UUID]bool, len(f.claims))
	for _, id := range f.claims {
		there[id] = true
	}
	for _, held := range f.before {
		if c := held.claim; !there[c.ID] && !held.committing.Load() && h.of(c) != nil {
			missing = append(missing, c)
		}
	}
	return missing
}

// unknown are claims of the database's that nobody here knows of: they were not here before it was asked, nor are now, no poll was or is
// bringing them, and no driver is left on them. expected are the ids that polls may be bringing now.
func (h *claimSet) unknown(f *sweepReply, expected []uuid.UUID) (runs []RunID, claims []uuid.UUID) {
	known := make(map[uuid.UUID]bool, len(f.before))
	for _, held := range slices.Concat(f.before, h.all()) {
		known[held.claim.ID] = true
	}
	for _, id := range slices.Concat(f.expected, expected) {
		known[id] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, id := range f.claims {
		if c := h.forfeited[id]; !known[id] && (c == nil || c.left.Load()) {
			runs, claims = append(runs, f.runs[i]), append(claims, id)
		}
	}
	maps.DeleteFunc(h.forfeited, func(_ uuid.UUID, c *Claim) bool { return c.left.Load() })
	return runs, claims
}

// forfeitAll is the end of a session.
func (h *claimSet) forfeitAll() {
	for _, held := range h.all() {
		h.forfeit(held.claim)
	}
}

func (h *claimSet) all() []*heldClaim {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*heldClaim, 0, len(h.byRun))
	for _, held := range h.byRun {
		all = append(all, held)
	}
	return all
}

// runs are those of all claims.
func (h *claimSet) runs() []RunID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.byRun))
}

// count is the number of claims.
func (h *claimSet) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byRun)
}

// sum is the number of claims and the xor of the first eight bytes of their ids. A renewal brings the same of what the
// database holds.
func (h *claimSet) sum() (count int, hash int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, held := range h.byRun {
		hash ^= int64(binary.BigEndian.Uint64(held.claim.ID[:8]))
	}
	return len(h.byRun), hash
}
