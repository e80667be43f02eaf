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

// Claim is the ownership of one run by one drive, with a snapshot of the run at the moment of the claim. Callers must not change
// its fields.
type Claim struct {
	Run     RunID
	UID     uuid.UUID // of the run; names in other systems are derived from it, because run numbers may be used again after a restore
	ID      uuid.UUID // never used twice
	Epoch   int       // counts the drives of the run
	Inbox   int64     // the run's inbox counter at the moment of the claim
	Begun   bool      // the run had started before this claim: giving it back must not mark it as never started
	Limited bool      // the claim was made behind a limit: when it ends, another run may be claimed

	DAG         string
	DAGID       int64
	Version     int
	Lane        int
	Queue       string
	Priority    int // of the lane; a higher one goes first
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
	Parent      RunID // 0: the run has no parent
	Root        RunID
	Depth       int

	Schedule          string    // name of the schedule that made the run; "": no schedule did
	PreviousLogicalAt time.Time // fire time of that schedule before LogicalAt; zero: there is none

	// Row is the run's own row as the last drive left it. Its State is always RunQueued, the state before the claim.
	Row dagrun.RunRecord

	stage      int       // stage of the run in the queue before the claim
	keyed      bool      // a limit by key applies to it: runs of other keys may wait before it
	readyAt    time.Time // position of the run within its stage
	unreadable error     // why this version cannot read the run as it is stored; such a claim never leaves the session

	lost     chan struct{}
	lostOnce sync.Once
	left     atomic.Bool
	leaving  func() // Leave calls it if the claim was lost before; nil: nothing is called
}

// NewClaim returns a claim of a run under the claim id id. Its Lost channel is open, and all its other fields are zero. A store
// fills these in before it hands the claim out.
func NewClaim(run RunID, id uuid.UUID) *Claim {
	return &Claim{Run: run, ID: id, lost: make(chan struct{})}
}

// Fresh reports whether this was the first claim of the run, and no control had been stored for the run when it was made. Such a
// run has no tasks, so the driver has nothing to Load.
func (c *Claim) Fresh() bool { return c.Epoch == 1 && c.Inbox == 0 }

// Begins reports whether rec says no more than that the run is running: it equals c.Row in all fields but State, StartedAt and
// Counts, and its State is RunRunning. The claim has stored the state and the start already, so rec need not be written.
func (c *Claim) Begins(rec *dagrun.RunRecord) bool {
	was, is := c.Row, *rec
	was.State, was.StartedAt = dagrun.RunRunning, is.StartedAt // the claim stored both, and no drive changes them
	was.Counts, is.Counts = dagrun.Counts{}, dagrun.Counts{}
	return was == is
}

// Results decodes c.Precomputed: the results, by step name, that the request for the run brought along. These steps do not run.
// An exit code other than 0 becomes a failure of kind exit. It returns nil if the request brought no results, and an error if
// they are no valid JSON.
func (c *Claim) Results() (map[string]dagrun.Result, error) {
	if len(c.Precomputed) == 0 {
		return nil, nil //nolint:nilnil // the request brought no results
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

// Lost returns a channel that is closed once the session knows that the claim is gone, or has given it up. The driver must then
// kill everything of the run, and call Leave.
func (c *Claim) Lost() <-chan struct{} { return c.lost }

// Forfeit closes the channel of Lost, by which the driver learns that it must stop. Only stores call it. Further calls do
// nothing.
func (c *Claim) Forfeit() { c.lostOnce.Do(func() { close(c.lost) }) }

// Leave reports to the session that the driver of this claim has stopped, and that nothing it started for the run is left. If the
// claim is lost but the database still holds it for this worker, the session gives the run back to the queue only after Leave.
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

// Loaded is the state of a run that earlier drives left, and the requests that wait for the next driver.
type Loaded struct {
	Saved   dagrun.Saved // the argument of dagrun.Restore
	Settled []Settled    // step each as EvSettled before EvBegin
	Mailbox Mailbox
	Logs    []LogEnd // ends of the stored logs of all tasks that are recorded as running, or that still have to publish
}

// Settled is a result that was committed together with a task's own SQL, but is not recorded yet.
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
	Lines   int64     // lines begun before chunk Next
	Final   bool      // the final marker is stored
}

// Mailbox holds the requests of people and child runs to a run, at one moment.
type Mailbox struct {
	Inbox    int64     // becomes Batch.Seen once every one of Controls was stepped
	Controls []Control // undecided, oldest first
}

// Batch is the records of one Ready of one drive. They become durable together.
type Batch struct {
	Claim   *Claim
	Seen    int64 // Mailbox.Inbox of the last ReadMail, or Claim.Inbox before the first one
	Records dagrun.Records
	Leave   *dagrun.Leave   // set: the drive ends, and the run goes on later
	Result  *dagrun.Verdict // set: the drive ends, and the run is over
	Details []Detail
	Keeps   []Keep
	Chunks  []Chunk // last chunks of logs, stored together with the records that end their attempts
	Waits   bool    // with Leave.Drained: the next task waits for a slot, and something else is due at Leave.WakeAt all the same
}

// Keep stores the outputs of a task so that later tasks of the step find them by the same cache key. The outputs and the key come
// from the task's record in the same batch, which must say that the task succeeded.
type Keep struct {
	Task dagrun.TaskID
	Step string        // the step name that Cached is called with
	TTL  time.Duration // 0: the outputs are kept forever

	Shared bool // runs of other submitters find the outputs too
}

// keepOf returns the element of b.Keeps for a task record of the batch. It returns nil if there is none, if the task has not
// succeeded, or if the record has no cache key.
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

// Detail adds columns to a task's row that the core does not know. A task without a Detail keeps the stored values.
type Detail struct {
	Task     dagrun.TaskID
	Slot     int
	LastLine string // last line of stderr, for the run's status
}

// ends reports whether this batch gives the claim back: the run has a result, or the driver leaves it.
func (b *Batch) ends() bool { return b.Leave != nil || b.Result != nil }

// claimReply is the answer to a statement that claims runs.
type claimReply struct {
	fenced bool // the worker still has its fence, so the session may claim
	now    time.Time
	limits bool // the worker serves lanes behind limits
	claims []*Claim
}

// read scans all rows into r, and closes rows. Each row is one claim. If nothing was claimed, there is a single row without a
// run, and r.claims stays empty.
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

// or returns the value that p points at, or the zero value if p is nil.
func or[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// claimRow is one row of the view claims. All columns are null if nothing was claimed. The rows of a reply are scanned into one
// claimRow after the other, so a null must reset its field to the zero value. Pointers would do that too, but at thousands of
// claims a second each column would cost an allocation.
type claimRow struct {
	run, inbox, dag, parent, root, left                                                zeronull.Int8
	epoch, version, lane, priority, losses, depth, generation, tolerated, stage, keyed zeronull.Int4
	uid, id                                                                            zeronull.UUID
	params, labels, precomputed, counts                                                []byte
	runAt, readyAt, logicalAt, previousAt, createdAt, startedAt, deadline              zeronull.Timestamptz
	name, queue, trigger, submitter, key, trace, reason, ending, by, text, p           zeronull.Text
	schedule                                                                           zeronull.Text
}

func (c *claimRow) targets() []any {
	return []any{
		&c.name, &c.queue, &c.priority, &c.run, &c.uid, &c.id, &c.epoch, &c.inbox, &c.dag, &c.version, &c.lane, &c.losses, &c.params, &c.labels, &c.precomputed,
		&c.runAt, &c.logicalAt, &c.createdAt, &c.trigger, &c.submitter, &c.key, &c.trace, &c.parent, &c.root, &c.depth, &c.reason,
		&c.generation, &c.ending, &c.by, &c.text, &c.p, &c.startedAt, &c.deadline, &c.left, &c.tolerated, &c.counts,
		&c.schedule, &c.previousAt, &c.stage, &c.readyAt, &c.keyed,
		nil, nil, nil, // state, worker and wake-up time are the same for every claim
	}
}

// claim returns a new Claim made from the scanned row. If the columns of the run's own row cannot be decoded, the claim has the
// reason in unreadable, and must not be handed to a driver.
func (c *claimRow) claim() *Claim {
	claim := NewClaim(RunID(c.run), uuid.UUID(c.id))
	claim.UID, claim.Epoch, claim.Inbox, claim.Losses = uuid.UUID(c.uid), int(c.epoch), int64(c.inbox), int(c.losses)
	claim.DAG, claim.DAGID, claim.Version = string(c.name), int64(c.dag), int(c.version)
	claim.Lane, claim.Queue, claim.Priority = int(c.lane), string(c.queue), int(c.priority)
	claim.stage, claim.readyAt, claim.Begun = int(c.stage), time.Time(c.readyAt), c.stage < stageNew
	claim.keyed = c.keyed > 0
	claim.Params, claim.Labels, claim.Precomputed = c.params, c.labels, c.precomputed
	claim.RunAt, claim.LogicalAt, claim.CreatedAt = time.Time(c.runAt), time.Time(c.logicalAt), time.Time(c.createdAt)
	claim.Trigger, claim.SubmittedBy, claim.Key, claim.Traceparent = string(c.trigger), string(c.submitter), string(c.key), string(c.trace)
	claim.Schedule, claim.PreviousLogicalAt = string(c.schedule), time.Time(c.previousAt)
	claim.Parent, claim.Root, claim.Depth = RunID(c.parent), RunID(c.root), int(c.depth)
	claim.Row, claim.unreadable = c.row()
	return claim
}

// row decodes the run's own row as the last drive left it. State is always RunQueued. It returns an error if the row has an
// ending or counts that this version does not know.
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

// instant converts a stored moment to the core's time, in milliseconds since 1970. It returns 0 for nil.
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

// claimSet holds the claims that a session believes it has. Polls add claims, the journal removes claims that were given back,
// and a claim that turns out to be gone is forfeited.
type claimSet struct {
	mu          sync.Mutex
	byRun       map[RunID]*heldClaim
	forfeited   map[uuid.UUID]*Claim // claims that the session gave up; the database may still hold them, and their drivers may go on
	limitedEnds atomic.Int64         // number of claims behind limits that the set no longer holds
	doubt       func()               // called when the driver of a forfeited claim has left; nil: nothing is called
}

// heldClaim is one held claim, with the part of its drive that is known to be durable.
type heldClaim struct {
	claim *Claim
	acked int64 // highest Seq of a task record that a commit acknowledged
	notes int64 // notes written so far; they number the next notes, so that a flush that is sent twice writes each note once

	followed   bool        // a reader follows the run's log while it is written
	written    bool        // the run's own row was written since the claim
	acted      bool        // something beyond the start of the run was committed since the claim
	calmed     bool        // this drive has reset the run's count of losses
	committing atomic.Bool // a batch of this claim is in the journal
}

// begins reports whether a batch with this record of the run need not write the run's row: rec says no more than that the run is
// running, and no earlier record of this drive has changed the row. A short run then has its row written only once, at its end.
// If rec says more, begins sets h.written, and returns false from then on. It also returns false if rec is nil.
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

// add adds a claim. If the set still holds an older claim of the same run, that claim was lost, for example by a failover. add
// then replaces and forfeits it, because its driver must not go on beside the new one. From now on c.Leave calls h.doubt if c was
// lost before.
func (h *claimSet) add(c *Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old := h.byRun[c.Run]; old != nil && old.claim.ID != c.ID {
		old.claim.Forfeit()
	}
	h.byRun[c.Run] = &heldClaim{claim: c}
	c.leaving = h.doubt
}

// of returns the set's entry for c. It returns nil if the set never held c, holds it no more, or holds another claim of the same
// run.
func (h *claimSet) of(c *Claim) *heldClaim {
	h.mu.Lock()
	defer h.mu.Unlock()
	if held := h.byRun[c.Run]; held != nil && held.claim.ID == c.ID {
		return held
	}
	return nil
}

// remove removes a claim that the session has given back in order. Unlike forfeit, it leaves the claim's Lost channel open. It
// does nothing if the set does not hold c.
func (h *claimSet) remove(c *Claim) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropLocked(c)
}

// dropLocked removes a claim, and counts the end of a limited one. It does nothing if the set holds no claim with this id. The
// caller must hold mu.
func (h *claimSet) dropLocked(c *Claim) {
	if held := h.byRun[c.Run]; held != nil && held.claim.ID == c.ID {
		delete(h.byRun, c.Run)
		if c.Limited {
			h.limitedEnds.Add(1)
		}
	}
}

// forfeit removes a claim that is gone, and closes its Lost channel, so that its driver stops. h.forfeited keeps the claim until
// its driver has left, because the database may still hold it.
func (h *claimSet) forfeit(c *Claim) {
	h.mu.Lock()
	h.dropLocked(c)
	h.forfeited[c.ID] = c
	h.mu.Unlock()
	c.Forfeit()
}

// missing compares the set with f, the database's answer to a sweep. It returns the claims that the set held before the sweep and
// still holds, but that the database lacks. It leaves out claims with a batch in the journal, because that batch may have ended
// the claim.
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

// unknown returns the claims in f that nothing in this session knows: the database says that this worker holds them, but the set
// held them neither before the sweep nor now. It leaves out claims that are or were under way in a poll, and forfeited claims
// with a driver that has not left. expected holds the ids of the polls under way now, f.expected the ids of the polls at the time
// of the sweep. runs[i] is the run of claims[i].
//
// It also forgets every forfeited claim with a driver that has left.
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

// forfeitAll forfeits every claim, at the end of the session.
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

// runs returns the runs of all claims, in no order.
func (h *claimSet) runs() []RunID {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Keys(h.byRun))
}

func (h *claimSet) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.byRun)
}

// sum returns the number of claims and the xor of the first eight bytes of their ids. The answer to a renewal has the same two
// numbers for the claims that the database holds, so different numbers mean different claims.
func (h *claimSet) sum() (count int, hash int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, held := range h.byRun {
		hash ^= int64(binary.BigEndian.Uint64(held.claim.ID[:8]))
	}
	return len(h.byRun), hash
}
