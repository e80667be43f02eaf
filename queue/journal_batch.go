package queue

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

// Bounds of a flush. A larger commit is split over several flushes, and a larger row goes in a flush of its own.
const (
	flushRowsMax  = 1000
	flushBytesMax = 1 << 20
	rowBytes      = 300 // about the size of a row without its texts
	approverBytes = 103
)

// pendingCommit is a batch on its way through the journal.
type pendingCommit struct {
	batch      *Batch
	held       *heldClaim
	begins     bool        // the batch says nothing of the run but that it is running, which the run's row has said since the claim
	release    bool        // of a Release: the run goes back to the queue
	waits      bool        // of a Release: the next task waits for a slot; refused if anything was requested since the claim
	wake       dagrun.Time // of a Release with waits: when something else of the run is due; 0: nothing is
	failReason string      // of a FailRun: why the run fails, even if something was requested meanwhile
	rows       int
	bytes      int
	state      atomic.Int32
	done       chan error // takes the outcome, once

	details map[dagrun.TaskID]*Detail // nil if there are at most fewDetails
	all     flushPart                 // returned by whole

	due    time.Time     // when to check a set-aside commit again
	pause  time.Duration // before that check
	aside  time.Time     // since when the commit is set aside; zero: it never was
	holder string        // connection that holds the row; "": unknown
}

// States of a commit. The waiting caller may withdraw a commit as long as the journal has not taken it.
const (
	commitQueued = iota
	commitTaken
	commitWithdrawn
)

func newPendingCommit(b *Batch, held *heldClaim) *pendingCommit {
	e := &pendingCommit{batch: b, held: held, done: make(chan error, 1), begins: held.begins(b.Records.Run)}
	if len(b.Details) > fewDetails {
		e.details = make(map[dagrun.TaskID]*Detail, len(b.Details))
		for i := range b.Details {
			e.details[b.Details[i].Task] = &b.Details[i]
		}
	}
	e.measure()
	return e
}

// acts reports whether the batch records more than the start of its run: a task, an attempt, a decided control, a note, a chunk,
// or that the run is ending or paused.
func (e *pendingCommit) acts() bool {
	rec := &e.batch.Records
	return len(rec.Tasks)+len(rec.Attempts)+len(rec.Controls)+len(rec.Notes)+len(e.batch.Chunks) > 0 ||
		rec.Run != nil && (rec.Run.Ending != dagrun.EndingNone || rec.Run.PausedBy != "")
}

func (e *pendingCommit) measure() {
	rec := &e.batch.Records
	e.rows = 1 + len(rec.Tasks) + len(rec.Attempts) + len(rec.Controls) + len(rec.Notes) + len(e.batch.Chunks)
	e.bytes = e.tailBytes()
	for i := range rec.Tasks {
		e.bytes += e.taskBytes(&rec.Tasks[i])
	}
	for i := range rec.Attempts {
		e.bytes += attemptBytes(&rec.Attempts[i])
	}
	for i := range e.batch.Chunks {
		e.bytes += chunkBytes(&e.batch.Chunks[i])
	}
}

// tailBytes returns the estimated size of the rows that go with the last part: the run, the decided controls and the notes.
func (e *pendingCommit) tailBytes() int {
	rec := &e.batch.Records
	size := rowBytes * (1 + len(rec.Controls) + len(rec.Notes))
	for i := range rec.Controls {
		size += len(rec.Controls[i].Message)
	}
	for i := range rec.Notes {
		size += len(rec.Notes[i].Text)
	}
	if rec.Run != nil {
		size += len(rec.Run.Reason) + len(rec.Run.EndingText)
	}
	return size
}

func (e *pendingCommit) taskBytes(t *dagrun.TaskRecord) int {
	size := rowBytes + len(t.ID.Item) + len(t.Reason) + len(t.Outputs) + len(t.CacheKey) + len(e.detail(t.ID).LastLine)
	if e.batch.keepOf(t) != nil {
		size += rowBytes + len(t.Outputs)
	}
	if t.Asks != nil {
		size += rowBytes + len(t.Asks.Prompt) + len(t.Asks.Inputs) + approverBytes*len(t.Asks.Approvers)
	}
	if t.Growth != nil {
		size += len(t.Growth.Stderr)
		for i := range t.Growth.Choices {
			size += len(t.Growth.Choices[i].Value) + 24
		}
		for i := range t.Growth.Items {
			size += len(t.Growth.Items[i].Key) + len(t.Growth.Items[i].Value) + 24
		}
	}
	return size
}

func attemptBytes(a *dagrun.AttemptRecord) int { return rowBytes + len(a.ID.Item) + len(a.Reason) }

func chunkBytes(c *Chunk) int { return rowBytes + len(c.Data) }

var noDetail Detail

// fewDetails is the number of details up to which a list is searched as fast as a map. Most batches would need a map for a single
// detail.
const fewDetails = 4

// detail returns the last Detail of a task in the batch, or noDetail if there is none. It never returns nil.
func (e *pendingCommit) detail(id dagrun.TaskID) *Detail {
	if e.details == nil {
		for i := range slices.Backward(e.batch.Details) { // the last detail of a task counts
			if e.batch.Details[i].Task == id {
				return &e.batch.Details[i]
			}
		}
		return &noDetail
	}
	if d := e.details[id]; d != nil {
		return d
	}
	return &noDetail
}

// ends reports whether the commit gives the claim back.
func (e *pendingCommit) ends() bool { return e.release || e.failReason != "" || e.batch.ends() }

// compares reports whether the commit is refused if the run has controls that its driver has not read.
func (e *pendingCommit) compares() bool { return e.waits || e.batch.ends() }

// wakeAt returns when the run is due again, by the batch's Leave or else by e.wake; 0: nothing is due.
func (e *pendingCommit) wakeAt() dagrun.Time {
	if e.batch.Leave == nil {
		return e.wake
	}
	return e.batch.Leave.WakeAt
}

// finishes reports whether the batch records that a task finished. Drives that were lost before that count no more as losses of
// the run.
func (e *pendingCommit) finishes() bool {
	for i := range e.batch.Records.Tasks {
		if e.batch.Records.Tasks[i].State.Terminal() {
			return true
		}
	}
	return false
}

// flushPart is the part of a commit that goes into one flush: the whole commit, unless it is too large.
type flushPart struct {
	commit   *pendingCommit
	tasks    []dagrun.TaskRecord
	attempts []dagrun.AttemptRecord
	chunks   []Chunk
	last     bool // this part also carries the controls, the notes and the run's row
	err      error
	settled  bool // the outcome is known and is in err
}

func (p *flushPart) settle(err error) { p.err, p.settled = err, true }

// calms reports whether the part resets the run's count of losses. The last part of a commit in which a task finished does, if
// the run had losses at the claim and this drive has not reset the count yet.
func (p *flushPart) calms() bool {
	h := p.commit.held
	return p.last && h.claim.Losses > 0 && !h.calmed && p.commit.finishes()
}

// changes reports whether the part changes the run's own row. The last part of a commit does if it gives the claim back, or has a
// record of the run that says more than the row (see heldClaim.begins). So does a part that resets the count of losses.
func (p *flushPart) changes() bool {
	return p.last && (p.commit.ends() || p.commit.batch.Records.Run != nil && !p.commit.begins) || p.calms()
}

// tells reports whether the part tells a parent run that the run ended.
func (p *flushPart) tells() bool {
	return p.last && p.commit.batch.Result != nil && p.commit.batch.Claim.Parent != 0
}

// drained reports whether the part puts the run back into the queue. The last part does so for a Release, and for a Leave with
// Drained set in a batch without a Result.
func (p *flushPart) drained() bool {
	b := p.commit.batch
	return p.last && (p.commit.release || b.Result == nil && b.Leave != nil && b.Leave.Drained)
}

// stage returns the stage at which the part puts the run back into the queue. back is false if the part does not do that. A
// Release before anything happened to the run gives stageNew. A run with a task that waits for a slot goes to stageBegun, and any
// other to stageRoused.
func (p *flushPart) stage() (stage int, back bool) {
	e := p.commit
	switch {
	case !p.drained():
		return 0, false
	case e.release && !e.batch.Claim.Begun && !e.held.acted:
		return stageNew, true
	case e.waits || e.batch.Waits:
		return stageBegun, true
	default:
		return stageRoused, true
	}
}

// run returns the record to write to the run's own row, and the run's next state. A nil rec leaves the other columns as they are,
// and "" leaves the state as it is. Only the last part has either.
func (p *flushPart) run() (rec *dagrun.RunRecord, state string) {
	b := p.commit.batch
	if !p.last {
		return nil, ""
	}
	rec = b.Records.Run
	switch {
	case b.Result != nil && rec == nil:
		return &dagrun.RunRecord{Reason: b.Result.Reason, Tolerated: b.Result.Tolerated}, b.Result.State.String()
	case b.Result != nil:
		return rec, b.Result.State.String()
	case p.drained():
		return rec, dagrun.RunQueued.String()
	case rec != nil:
		return rec, rec.State.String()
	default:
		return nil, ""
	}
}

// highest returns the highest Seq of a task record in the part; 0: it has none.
func (p *flushPart) highest() int64 {
	var highest int64
	for i := range p.tasks {
		highest = max(highest, p.tasks[i].Seq)
	}
	return highest
}

// whole returns the commit as one part that is not settled. The result is &e.all, so the next call overwrites it.
func (e *pendingCommit) whole() *flushPart {
	rec := &e.batch.Records
	e.all = flushPart{commit: e, tasks: rec.Tasks, attempts: rec.Attempts, chunks: e.batch.Chunks, last: true}
	return &e.all
}

func (e *pendingCommit) fits() bool { return e.rows <= flushRowsMax && e.bytes <= flushBytesMax }

// parts splits the commit into parts that each fit into one flush, in the order in which they must be written. A commit that fits
// is one part. A task stays together with its attempts, and comes after the last chunks of its logs. The decision about the run
// comes last. So the run can go on from any prefix of the parts.
func (e *pendingCommit) parts() []*flushPart {
	if e.fits() {
		return []*flushPart{e.whole()}
	}
	c := commitSplitter{entry: e, part: &flushPart{commit: e}}
	attempts, chunks := e.byTask()
	for i := range e.batch.Records.Tasks {
		t := &e.batch.Records.Tasks[i]
		c.withChunks(chunks[t.ID])
		c.withTask(t, attempts[t.ID])
		delete(attempts, t.ID)
		delete(chunks, t.ID)
	}
	for i := range e.batch.Records.Attempts { // attempts of tasks that are not in the batch
		id := e.batch.Records.Attempts[i].ID
		c.withAttempts(attempts[id])
		delete(attempts, id)
	}
	for i := range e.batch.Chunks {
		id := e.batch.Chunks[i].Task
		c.withChunks(chunks[id])
		delete(chunks, id)
	}
	c.room(1, e.tailBytes())
	c.part.last = true
	return append(c.done, c.part)
}

func (e *pendingCommit) byTask() (attempts map[dagrun.TaskID][]dagrun.AttemptRecord, chunks map[dagrun.TaskID][]Chunk) {
	attempts, chunks = map[dagrun.TaskID][]dagrun.AttemptRecord{}, map[dagrun.TaskID][]Chunk{}
	for _, a := range e.batch.Records.Attempts {
		attempts[a.ID] = append(attempts[a.ID], a)
	}
	for _, c := range e.batch.Chunks {
		chunks[c.Task] = append(chunks[c.Task], c)
	}
	return attempts, chunks
}

// commitSplitter fills one part after another.
type commitSplitter struct {
	entry       *pendingCommit
	done        []*flushPart
	part        *flushPart
	rows, bytes int
}

// room counts the next rows, which must stay together, into the current part. If they do not fit, it first moves that part to
// c.done, and begins a new one. The caller then adds the rows to c.part.
func (c *commitSplitter) room(rows, size int) {
	if c.rows > 0 && (c.rows+rows > flushRowsMax || c.bytes+size > flushBytesMax) {
		c.done = append(c.done, c.part)
		c.part, c.rows, c.bytes = &flushPart{commit: c.entry}, 0, 0
	}
	c.rows += rows
	c.bytes += size
}

// withTask adds a task together with its attempts to the current part. Until the task's row is written, the stored row still
// describes the first of these attempts.
func (c *commitSplitter) withTask(t *dagrun.TaskRecord, attempts []dagrun.AttemptRecord) {
	size := c.entry.taskBytes(t)
	for i := range attempts {
		size += attemptBytes(&attempts[i])
	}
	c.room(1+len(attempts), size)
	c.part.attempts = append(c.part.attempts, attempts...)
	c.part.tasks = append(c.part.tasks, *t)
}

func (c *commitSplitter) withAttempts(attempts []dagrun.AttemptRecord) {
	for i := range attempts {
		c.room(1, attemptBytes(&attempts[i]))
		c.part.attempts = append(c.part.attempts, attempts[i])
	}
}

func (c *commitSplitter) withChunks(chunks []Chunk) {
	for i := range chunks {
		c.room(1, chunkBytes(&chunks[i]))
		c.part.chunks = append(c.part.chunks, chunks[i])
	}
}
