package queue

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// RunID is the number of a run.
type RunID int64

// Claim is the ownership of a run by one drive, with the run as it was when it was claimed. Its fields must not be changed.
type Claim struct {
	Run     RunID
	UID     uuid.UUID // of the run: what other systems are told is made of it, since numbers come again after a restore
	ID      uuid.UUID // never used twice
	Epoch   int       // counts the drives of the run
	Inbox   int64     // when it was claimed
	Begun   bool      // it had started before, so that giving it back does not make it one that never was claimed
	Limited bool      // it was claimed behind a limit: its end makes room for another run

	DAG         string
	DAGID       int64
	Version     int
	Lane        int
	Queue       string
	Priority    int // of its lane: higher goes first
	Losses      int // drives lost since a task of the run last finished
	Params      json.RawMessage
	Labels      json.RawMessage
	Precomputed json.RawMessage // nil for none
	RunAt       time.Time
	LogicalAt   time.Time
	CreatedAt   time.Time
	Trigger     string
	SubmittedBy string
	Key         string
	Traceparent string
	Parent      RunID // 0 for none
	Root        RunID
	Depth       int

	Schedule          string    // the name of the schedule that made the run, "" where none did
	PreviousLogicalAt time.Time // the time of that schedule before LogicalAt; zero: none

	// Row is the run's own row as the last drive left it. Its State is RunQueued: what a claim finds.
	Row dagrun.RunRecord

	stage      int       // where it stood in the queue
	readyAt    time.Time // its place there
	unreadable error     // why the rest of it is not as it was stored: it never leaves the session

	lost     chan struct{}
	lostOnce sync.Once
	left     atomic.Bool
	leaving  func() // told of Leave where it was lost before; nil: nobody is
}

// NewClaim makes a claim that is not lost. Stores fill in its fields before anybody else sees it.
func NewClaim(run RunID, id uuid.UUID) *Claim {
	return &Claim{Run: run, ID: id, lost: make(chan struct{})}
}

// Fresh says that the run has no tasks and no controls yet: there is nothing to Load.
func (c *Claim) Fresh() bool { return c.Epoch == 1 && c.Inbox == 0 }

// Begins says whether a record of the run only says that it is running, as its row does since the claim.
func (c *Claim) Begins(rec *dagrun.RunRecord) bool {
	was, is := c.Row, *rec
	was.State, was.StartedAt = dagrun.RunRunning, is.StartedAt // which the claim stored, and nothing changes
	was.Counts, is.Counts = dagrun.Counts{}, dagrun.Counts{}
	return was == is
}

// Results are what was handed in with the request instead of running steps, by step; nil for none.
func (c *Claim) Results() (map[string]dagrun.Result, error) {
	if len(c.Precomputed) == 0 {
		return nil, nil //nolint:nilnil // none were
	}
	var given map[string]struct {
		ExitCode int             `json:"exit_code"`
		Outputs  json.RawMessage `json:"outputs"`
	}
	if err := json.Unmarshal(c.Precomputed, &given); err != nil {
		return nil, fmt.Errorf("precomputed results: %w", err)
	}
	results := make(map[string]dagrun.Result, len(given))
	for step, g := range given {
		res := dagrun.Result{ExitCode: g.ExitCode, HasExit: true, Outputs: dagrun.JSON(g.Outputs)}
		if g.ExitCode != 0 {
			res.Kind = dagrun.KindExit
		}
		results[step] = res
	}
	return results, nil
}

// Lost is closed once the session knows that the claim is gone.
func (c *Claim) Lost() <-chan struct{} { return c.lost }

// Forfeit closes Lost. Stores call it; it may be called more than once.
func (c *Claim) Forfeit() { c.lostOnce.Do(func() { close(c.lost) }) }

// Leave says that its driver is gone, with everything of the run that it had under way. Before that the worker does not give
// back a claim that was lost and that the database still has.
func (c *Claim) Leave() {
	c.left.Store(true)
	select {
	case <-c.lost:
		if c.leaving != nil {
			c.leaving()
		}
	default:
	}
}

// Loaded is what a former drive left of a run, and what waits for its next driver.
type Loaded struct {
	Saved   dagrun.Saved // what dagrun.Restore takes
	Settled []Settled    // step each as EvSettled before EvBegin
	Mailbox Mailbox
	Logs    []LogEnd // of the tasks recorded as running, or with a publish to come: where their log ends
}

// Settled is a result that committed together with a task's own SQL, but was not recorded yet.
type Settled struct {
	Task    dagrun.TaskID
	Attempt int
	Outputs dagrun.JSON
}

// LogEnd says where the stored log of an attempt ends.
type LogEnd struct {
	Task    dagrun.TaskID
	Attempt int
	Day     time.Time // the log_day of the attempt
	Next    int       // number of the next chunk
	Lines   int64     // begun before it
	Final   bool      // the final marker is there
}

// Mailbox is what people and child runs ask of a run, as one moment shows it.
type Mailbox struct {
	Inbox    int64     // Batch.Seen, once all Controls were stepped
	Controls []Control // undecided, oldest first
}

// Batch is what one drive wants to be durable: the records of one Ready, in one piece.
type Batch struct {
	Claim   *Claim
	Seen    int64 // Mailbox.Inbox, or Claim.Inbox while nothing was read
	Records dagrun.Records
	Leave   *dagrun.Leave   // the drive ends and the run goes on later
	Result  *dagrun.Verdict // the drive ends and the run is over
	Details []Detail
	Keeps   []Keep
	Chunks  []Chunk // the last pieces of logs, which ride with the records of their ends
	Waits   bool    // with Leave.Drained: its next task waits for a slot, and at Leave.WakeAt something is due all the same
}

// Keep has a task's outputs found by later tasks of the step that have the same cache key: those of its record in the same
// batch, which names the key and says succeeded.
type Keep struct {
	Task dagrun.TaskID
	Step string        // as Cached is asked for it
	TTL  time.Duration // 0: for good

	Shared bool // found by runs of other submitters too
}

// keepOf says whether a record's outputs are to be kept.
func (b *Batch) keepOf(t *dagrun.TaskRecord) *Keep {
	if t.State != dagrun.TaskSucceeded || t.CacheKey == "" {
		return nil
	}
	for i := range b.Keeps {
		if b.Keeps[i].Task == t.ID {
			return &b.Keeps[i]
		}
	}
	return nil
}

// Detail adds to a task's row what the core does not know. A task without one keeps what is stored.
type Detail struct {
	Task     dagrun.TaskID
	Slot     int
	LastLine string // of stderr, for status
}

// ends says whether the claim is given back with this batch.
func (b *Batch) ends() bool { return b.Leave != nil || b.Result != nil }

// claimReply is what a statement that claims brings.
type claimReply struct {
	fenced bool // the worker's session may still claim
	now    time.Time
	limits bool // the worker serves lanes behind limits
	claims []*Claim
}

// read takes all rows: each is a claim, but for the only one where there is none.
func (r *claimReply) read(rows pgx.Rows) error {
	defer rows.Close()
	var c claimRow
	all := append([]any{&r.fenced, &r.now, &r.limits}, c.targets()...)
	for rows.Next() {
		if err := rows.Scan(all...); err != nil {
			return err
		}
		if c.run != 0 {
			r.claims = append(r.claims, c.claim())
		}
	}
	return rows.Err()
}

// or is what a pointer points at, or nothing.
func or[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// claimRow is a claimed run: its columns are those of the view claims. All are null where nothing was claimed. Rows are scanned
// into it one after the other, so what is null must become nothing again: thousands of claims a second are not to be pointers to
// each of their columns.
type claimRow struct {
	run, inbox, dag, parent, root, left                                         zeronull.Int8
	epoch, version, lane, priority, losses, depth, generation, tolerated, stage zeronull.Int4
	uid, id                                                                     zeronull.UUID
	params, labels, precomputed, counts                                         []byte
	runAt, readyAt, logicalAt, previousAt, createdAt, startedAt, deadline       zeronull.Timestamptz
	name, queue, trigger, submitter, key, trace, reason, ending, by, text, p    zeronull.Text
	schedule                                                                    zeronull.Text
}

func (c *claimRow) targets() []any {
	return []any{
		&c.name, &c.queue, &c.priority, &c.run, &c.uid, &c.id, &c.epoch, &c.inbox, &c.dag, &c.version, &c.lane, &c.losses, &c.params, &c.labels, &c.precomputed,
		&c.runAt, &c.logicalAt, &c.createdAt, &c.trigger, &c.submitter, &c.key, &c.trace, &c.parent, &c.root, &c.depth, &c.reason,
		&c.generation, &c.ending, &c.by, &c.text, &c.p, &c.startedAt, &c.deadline, &c.left, &c.tolerated, &c.counts,
		&c.schedule, &c.previousAt, &c.stage, &c.readyAt,
		nil, nil, nil, // state, worker and wake-up time: what every claim has
	}
}

// claim is the claim of a row, also of one that cannot be read.
func (c *claimRow) claim() *Claim {
	claim := NewClaim(RunID(c.run), uuid.UUID(c.id))
	claim.UID, claim.Epoch, claim.Inbox, claim.Losses = uuid.UUID(c.uid), int(c.epoch), int64(c.inbox), int(c.losses)
	claim.DAG, claim.DAGID, claim.Version = string(c.name), int64(c.dag), int(c.version)
	claim.Lane, claim.Queue, claim.Priority = int(c.lane), string(c.queue), int(c.priority)
	claim.stage, claim.readyAt, claim.Begun = int(c.stage), time.Time(c.readyAt), c.stage < stageNew
	claim.Params, claim.Labels, claim.Precomputed = c.params, c.labels, c.precomputed
	claim.RunAt, claim.LogicalAt, claim.CreatedAt = time.Time(c.runAt), time.Time(c.logicalAt), time.Time(c.createdAt)
	claim.Trigger, claim.SubmittedBy, claim.Key, claim.Traceparent = string(c.trigger), string(c.submitter), string(c.key), string(c.trace)
	claim.Schedule, claim.PreviousLogicalAt = string(c.schedule), time.Time(c.previousAt)
	claim.Parent, claim.Root, claim.Depth = RunID(c.parent), RunID(c.root), int(c.depth)
	claim.Row, claim.unreadable = c.row()
	return claim
}

// row is the run's own row as the last drive left it.
func (c *claimRow) row() (dagrun.RunRecord, error) {
	r := dagrun.RunRecord{
		State: dagrun.RunQueued, Reason: string(c.reason), Generation: int(c.generation), EndingBy: string(c.by), EndingText: string(c.text),
		PausedBy: string(c.p), StartedAt: instantOf(c.startedAt), Deadline: instantOf(c.deadline), Left: dagrun.Duration(c.left), Tolerated: int(c.tolerated),
	}
	var err error
	if r.Ending, err = decodeEnding(string(c.ending)); err != nil {
		return r, err
	}
	r.Counts, err = decodeCounts(c.counts)
	return r, err
}

// instant is a stored moment as the core counts: nothing is 0.
func instant(t *time.Time) dagrun.Time {
	if t == nil {
		return 0
	}
	return dagrun.Time(t.UnixMilli())
}

func instantOf(t zeronull.Timestamptz) dagrun.Time {
	if time.Time(t).IsZero() {
		return 0
	}
	return dagrun.Time(time.Time(t).UnixMilli())
}

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
