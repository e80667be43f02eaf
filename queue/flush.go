package queue

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/sql"
)

// Indexes of the arguments of a flush in flushArgs.
const (
	argWorker = iota
	argName
	argPlaces
	argLock
	argRuns
	argClaims
	argTasks
	argAttempts
	argDecisions
	argNotes
	argChunks
	argKeeps
	argApprovals
)

var flushArgs = []string{"worker", "name", "places", "lock", "runs", "claims", "tasks", "attempts", "decisions", "notes", "chunks", "keeps", "approvals"}

var flushTypes = sql.Named("queue/flush_types")

// flushText is a flush statement. It is sent as it is, thousands of times a second, so its named arguments are numbered once.
// order holds the index in flushArgs of each numbered argument.
type flushText struct {
	name, sql string
	order     []int
}

// The statement of a flush in four sizes. Parts of a statement cost the server time even if they do nothing, so a flush is sent
// without the parts that it has no rows for.
var (
	wholeFlush = newFlushText("oarlock_flush")
	otherFlush = newFlushText("oarlock_flush_other", "approval")
	runsFlush  = newFlushText("oarlock_flush_runs", "approval", "other")
	tasksFlush = newFlushText("oarlock_flush_tasks", "approval", "other", "run")
	flushTexts = []*flushText{wholeFlush, otherFlush, runsFlush, tasksFlush}
)

func newFlushText(name string, without ...string) *flushText {
	text, order := numbered(sql.Without("queue/flush", without...), flushArgs)
	return &flushText{name, text, order}
}

// numbered replaces each @name in a statement by the number of an argument: $1, $2, …. order[i] is the index in names of the name
// that became $i+1. It panics if the statement has a name that is not in names.
func numbered(statement string, names []string) (text string, order []int) {
	args := pgx.NamedArgs{}
	for i, name := range names {
		args[name] = i
	}
	text, values, err := args.RewriteQuery(context.Background(), nil, statement, nil)
	if err != nil {
		panic(fmt.Sprintf("queue: arguments of a statement: %v", err))
	}
	for _, v := range values {
		order = append(order, v.(int)) //nolint:forcetypeassert // put in above
	}
	return text, order
}

// flush is the arguments of one flush statement. Its buffers are reused.
type flush struct {
	text      *flushText
	args      [argApprovals + 1][]byte
	params    [][]byte
	formats   []int16
	lock      []byte
	places    [8]byte
	runs      flushRows // runs with a change of their own row
	claims    flushRows // claims of all other runs
	tasks     flushRows
	attempts  flushRows
	decisions flushRows
	notes     flushRows
	chunks    flushRows
	keeps     flushRows
	approvals flushRows
	locks     []int64
}

func newFlush(j *journal) *flush {
	f := &flush{
		runs: flushRows{columns: 21}, claims: flushRows{columns: 3}, tasks: flushRows{columns: 35}, attempts: flushRows{columns: 15},
		decisions: flushRows{columns: 6}, notes: flushRows{columns: 10}, chunks: flushRows{columns: 15}, keeps: flushRows{columns: 8},
		approvals: flushRows{columns: 10},
		formats:   []int16{1},
	}
	f.args[argWorker], f.args[argName] = j.worker[:], []byte(j.name)
	return f
}

func (f *flush) groups() []*flushRows {
	return []*flushRows{&f.runs, &f.claims, &f.tasks, &f.attempts, &f.decisions, &f.notes, &f.chunks, &f.keeps, &f.approvals}
}

// fill makes f the flush of parts: it encodes them as f.args, and chooses f.text, the smallest statement that has all they need,
// with its f.params. It replaces the earlier content of f. It sorts parts in place by run, the order in which rows are locked.
// The place of a part is its index in this order, from 1.
func (f *flush) fill(parts []*flushPart) {
	slices.SortFunc(parts, func(a, b *flushPart) int { return int(a.commit.batch.Claim.Run - b.commit.batch.Claim.Run) })
	for _, g := range f.groups() {
		g.reset()
	}
	for i, p := range parts {
		f.add(int64(i+1), p)
	}
	binary.BigEndian.PutUint64(f.places[:], uint64(len(parts)))
	f.args[argPlaces], f.args[argLock] = f.places[:], f.lockOrder(parts)
	for i, g := range f.groups() {
		f.args[argRuns+i] = g.param()
	}
	f.text = f.textFor(parts)
	f.params = f.params[:0]
	for _, arg := range f.text.order {
		f.params = append(f.params, f.args[arg])
	}
}

func (f *flush) textFor(parts []*flushPart) *flushText {
	switch {
	case f.given(argApprovals):
		return wholeFlush
	case slices.ContainsFunc([]int{argLock, argAttempts, argDecisions, argNotes, argChunks, argKeeps}, f.given):
		return otherFlush
	case slices.ContainsFunc(parts, (*flushPart).drained): // the statement notifies the run's lane
		return otherFlush
	case f.given(argRuns):
		return runsFlush
	default:
		return tasksFlush
	}
}

func (f *flush) given(arg int) bool { return f.args[arg] != nil }

// lockOrder returns the runs to lock before any row is changed, in ascending order, as an array in Postgres' binary form. These
// are the parents that parts tell of an end, and all runs with a changed row. It returns nil if no part tells a parent. The next
// call overwrites the result.
func (f *flush) lockOrder(parts []*flushPart) []byte {
	f.locks = f.locks[:0]
	for _, p := range parts {
		if p.tells() {
			f.locks = append(f.locks, int64(p.commit.batch.Claim.Parent))
		}
	}
	if len(f.locks) == 0 {
		return nil
	}
	for _, p := range parts {
		if p.changes() {
			f.locks = append(f.locks, int64(p.commit.batch.Claim.Run))
		}
	}
	slices.Sort(f.locks)
	f.locks = slices.Compact(f.locks)
	f.lock = append(f.lock[:0], make([]byte, arrayHeaderBytes)...)
	putArrayHeader(f.lock, pgtype.Int8OID, len(f.locks))
	for _, id := range f.locks {
		f.lock = binary.BigEndian.AppendUint32(f.lock, 8)
		f.lock = binary.BigEndian.AppendUint64(f.lock, uint64(id))
	}
	return f.lock
}

func (f *flush) add(n int64, p *flushPart) {
	b := p.commit.batch
	if p.changes() {
		f.addRun(n, p)
	} else {
		f.addClaim(n, b.Claim)
	}
	for i := range p.tasks {
		f.addTask(n, b, &p.tasks[i], p.commit.detail(p.tasks[i].ID))
		if k := b.keepOf(&p.tasks[i]); k != nil {
			f.addKeep(n, b, &p.tasks[i], k)
		}
		if p.tasks[i].Asks != nil {
			f.addApproval(n, b, &p.tasks[i])
		}
	}
	for i := range p.attempts {
		f.addAttempt(n, b, &p.attempts[i])
	}
	for i := range p.chunks {
		f.addChunk(n, b, &p.chunks[i])
	}
	if p.last {
		f.addDecisions(n, b)
		f.addNotes(n, p.commit)
	}
}

// addRun adds the row that changes the run's own row, for the part at place n. It writes columns in the order of the type
// oarlock.flush_run. Each function below does the same with the type of its rows.
func (f *flush) addRun(n int64, p *flushPart) {
	e, r := p.commit, &f.runs
	c := e.batch.Claim
	rec, state := p.run()
	r.row()
	r.int(n)
	r.int(int64(c.Run))
	r.uuid(c.ID)
	r.bool(rec != nil)
	r.bool(p.last && e.ends())
	stage, back := p.stage()
	r.intIf(back, int64(stage))
	r.bool(p.calms())
	r.intIf(p.last && e.compares(), e.batch.Seen)
	r.textOrNull(state)
	counts := ""
	wake := e.wakeAt()
	if rec == nil {
		rec = &dagrun.RunRecord{}
	} else {
		counts = encodeCounts(rec.Counts)
		if stage != stageBegun || !back {
			wake = rec.WakeAt
		}
	}
	r.text(rec.Reason)
	r.text(encodeEnding(rec.Ending))
	r.text(rec.EndingBy)
	r.text(rec.EndingText)
	r.text(rec.PausedBy)
	r.time(rec.Deadline)
	r.int(int64(rec.Left))
	r.int(int64(rec.Tolerated))
	r.json(counts)
	r.time(rec.StartedAt)
	r.time(rec.FinishedAt)
	r.time(wake)
}

func (f *flush) addClaim(n int64, c *Claim) {
	r := &f.claims
	r.row()
	r.int(n)
	r.int(int64(c.Run))
	r.uuid(c.ID)
}

func (f *flush) addTask(n int64, b *Batch, t *dagrun.TaskRecord, d *Detail) {
	r := &f.tasks
	r.row()
	r.int(n)
	r.int(int64(b.Claim.Run))
	r.int(int64(b.Claim.Epoch))
	r.int(t.Seq)
	r.int(int64(t.ID.Step))
	r.text(t.ID.Item)
	r.int(int64(t.ID.Alt))
	r.text(t.State.String())
	r.int(int64(t.Attempt))
	r.int(int64(t.Generation))
	r.text(t.Reason)
	r.textOrNull(string(t.Kind))
	r.intIf(t.HasExit, int64(t.ExitCode))
	r.intIf(t.Signal != 0, int64(t.Signal))
	r.intIf(d.Slot != 0, int64(d.Slot))
	r.json(string(t.Outputs))
	r.bool(t.Tolerated)
	r.int(int64(t.Retries))
	r.int(int64(t.PublishTries))
	r.bool(t.Publishing)
	r.text(encodeRequest(t.Request))
	r.text(t.RequestBy)
	r.text(encodeMarked(t.Marked))
	r.json(encodeGrowth(t.Growth))
	r.intIf(t.ResetBy != 0, t.ResetBy)
	r.textOrNull(encodeMarked(t.ResetFrom))
	r.time(t.NextAt)
	r.time(t.Deadline)
	r.textOrNull(t.Ref)
	r.textOrNull(t.CacheKey)
	r.logDay(t.AttemptAt)
	r.textOrNull(d.LastLine)
	r.time(t.StartedAt)
	r.time(t.AttemptAt)
	r.time(t.FinishedAt)
}

func (f *flush) addAttempt(n int64, b *Batch, a *dagrun.AttemptRecord) {
	r := &f.attempts
	r.row()
	r.int(n)
	r.int(int64(b.Claim.Run))
	r.int(int64(a.ID.Step))
	r.text(a.ID.Item)
	r.int(int64(a.ID.Alt))
	r.int(int64(a.Attempt))
	r.int(int64(a.Generation))
	r.text(a.State.String())
	r.textOrNull(string(a.Kind))
	r.intIf(a.HasExit, int64(a.ExitCode))
	r.intIf(a.Signal != 0, int64(a.Signal))
	r.text(a.Reason)
	r.logDay(a.StartedAt)
	r.time(a.StartedAt)
	r.time(a.FinishedAt)
}

func (f *flush) addDecisions(n int64, b *Batch) {
	r := &f.decisions
	for i := range b.Records.Controls {
		d := &b.Records.Controls[i]
		r.row()
		r.int(n)
		r.int(int64(b.Claim.Run))
		r.int(d.ID)
		r.text(string(d.Outcome))
		r.textOrNull(d.State)
		r.textOrNull(d.Message)
	}
}

// addNotes adds the notes of a batch. It numbers them on from the notes that the drive has written before, so that a flush that
// is sent twice writes each note once.
func (f *flush) addNotes(n int64, e *pendingCommit) {
	r := &f.notes
	for i := range e.batch.Records.Notes {
		note := &e.batch.Records.Notes[i]
		task := note.Task
		if task == nil {
			task = &dagrun.TaskID{}
		}
		r.row()
		r.int(n)
		r.int(int64(e.batch.Claim.Run))
		r.int(int64(e.batch.Claim.Epoch))
		r.int(e.held.notes + int64(i))
		r.time(note.At)
		r.text(note.Kind)
		r.intIf(note.Task != nil, int64(task.Step))
		if note.Task == nil {
			r.null(pgtype.TextOID)
		} else {
			r.text(task.Item)
		}
		r.intIf(note.Task != nil, int64(task.Alt))
		r.text(note.Text)
	}
}

func (f *flush) addChunk(n int64, b *Batch, c *Chunk) {
	r := &f.chunks
	r.row()
	r.int(n)
	r.date(c.Day)
	r.int(int64(b.Claim.Run))
	r.int(int64(c.Task.Step))
	r.text(c.Task.Item)
	r.int(int64(c.Task.Alt))
	r.int(int64(c.Attempt))
	r.int(int64(c.Seq))
	r.int(int64(c.Stream))
	r.timestamp(c.At)
	r.bytes(c.Data)
	r.bool(c.Final)
	r.textOrNull(c.Reason)
	r.int(c.Dropped)
	r.int(c.Lines)
}

func (f *flush) addKeep(n int64, b *Batch, t *dagrun.TaskRecord, k *Keep) {
	r := &f.keeps
	r.row()
	r.int(n)
	r.int(b.Claim.DAGID)
	r.text(k.Step)
	r.text(cacheKey(t.CacheKey))
	r.json(string(t.Outputs))
	r.int(int64(b.Claim.Run))
	r.int(k.TTL.Milliseconds())
	r.bool(k.Shared)
}

func (f *flush) addApproval(n int64, b *Batch, t *dagrun.TaskRecord) {
	r := &f.approvals
	r.row()
	r.int(n)
	r.int(int64(b.Claim.Run))
	r.int(int64(t.ID.Step))
	r.text(t.ID.Item)
	r.int(int64(t.ID.Alt))
	r.bool(t.Asks.Open)
	r.text(t.Asks.Prompt)
	r.json(cmp.Or(string(t.Asks.Inputs), "[]"))
	r.json(encodeNames(t.Asks.Approvers))
	r.time(t.AttemptAt)
}

// flushRows is an array of one of the flush_… row types, in Postgres' binary form. It is filled in the order of the type's
// columns: one call of row, then one call per column. It does not use pgx's encoding, which would allocate memory for every
// value.
type flushRows struct {
	elem    uint32 // oid of the row type in this database
	columns int
	buf     []byte
	count   int
	begun   int // offset of the current row's length in buf
}

const arrayHeaderBytes = 20

func (r *flushRows) reset() {
	r.buf, r.count = append(r.buf[:0], make([]byte, arrayHeaderBytes)...), 0
}

// row begins the next row, and ends the one before. The caller must then write every column of the type.
func (r *flushRows) row() {
	r.endRow()
	r.count++
	r.begun = len(r.buf)
	r.buf = binary.BigEndian.AppendUint32(r.buf, 0)
	r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(r.columns))
}

func (r *flushRows) endRow() {
	if r.count > 0 {
		binary.BigEndian.PutUint32(r.buf[r.begun:], uint32(len(r.buf)-r.begun-4))
	}
}

// param ends the last row, and returns the array as an argument, which is valid until reset. Without rows it returns nil, a null,
// which the server reads faster than an empty array.
func (r *flushRows) param() []byte {
	if r.count == 0 {
		return nil
	}
	r.endRow()
	putArrayHeader(r.buf, r.elem, r.count)
	return r.buf
}

func putArrayHeader(buf []byte, elem uint32, count int) {
	binary.BigEndian.PutUint32(buf, 1)        // dimensions
	binary.BigEndian.PutUint32(buf[4:], 0)    // no nulls
	binary.BigEndian.PutUint32(buf[8:], elem) // oid of the elements
	binary.BigEndian.PutUint32(buf[12:], uint32(count))
	binary.BigEndian.PutUint32(buf[16:], 1) // lower bound
}

func (r *flushRows) head(oid uint32, size int) {
	r.buf = binary.BigEndian.AppendUint32(r.buf, oid)
	r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(size))
}

func (r *flushRows) null(oid uint32) {
	r.buf = binary.BigEndian.AppendUint32(r.buf, oid)
	r.buf = binary.BigEndian.AppendUint32(r.buf, math.MaxUint32)
}

func (r *flushRows) int(v int64) {
	r.head(pgtype.Int8OID, 8)
	r.buf = binary.BigEndian.AppendUint64(r.buf, uint64(v))
}

func (r *flushRows) intIf(is bool, v int64) {
	if is {
		r.int(v)
	} else {
		r.null(pgtype.Int8OID)
	}
}

func (r *flushRows) bool(v bool) {
	r.head(pgtype.BoolOID, 1)
	if v {
		r.buf = append(r.buf, 1)
	} else {
		r.buf = append(r.buf, 0)
	}
}

func (r *flushRows) text(s string) {
	r.head(pgtype.TextOID, len(s))
	r.buf = append(r.buf, s...)
}

// textOrNull writes a column of text; "" as null.
func (r *flushRows) textOrNull(s string) {
	if s == "" {
		r.null(pgtype.TextOID)
	} else {
		r.text(s)
	}
}

func (r *flushRows) bytes(b []byte) {
	r.head(pgtype.ByteaOID, len(b))
	r.buf = append(r.buf, b...)
}

func (r *flushRows) uuid(id uuid.UUID) {
	r.head(pgtype.UUIDOID, len(id))
	r.buf = append(r.buf, id[:]...)
}

// json writes a column of jsonb; "" as null.
func (r *flushRows) json(s string) {
	if s == "" {
		r.null(pgtype.JSONBOID)
		return
	}
	r.head(pgtype.JSONBOID, len(s)+1)
	r.buf = append(r.buf, 1) // version of the jsonb format
	r.buf = append(r.buf, s...)
}

// Postgres counts from the year 2000.
const (
	epochMillis  = 946_684_800_000
	dayMillis    = 24 * 60 * 60 * 1000
	latestMillis = math.MaxInt64/1000 - epochMillis // about the year 292,000
)

// time writes a column of timestamptz; 0 as null. The stored value has microseconds, so milliseconds come back exactly. The
// server refuses a time that is out of range.
func (r *flushRows) time(t dagrun.Time) {
	if t == 0 {
		r.null(pgtype.TimestamptzOID)
		return
	}
	r.head(pgtype.TimestamptzOID, 8)
	micros := int64(math.MaxInt64 - 1) // out of range, so the server refuses it
	if -latestMillis < t && t < latestMillis {
		micros = (int64(t) - epochMillis) * 1000
	}
	r.buf = binary.BigEndian.AppendUint64(r.buf, uint64(micros))
}

// timestamp writes the column with the time of a chunk, which is never null.
func (r *flushRows) timestamp(t time.Time) {
	r.head(pgtype.TimestamptzOID, 8)
	r.buf = binary.BigEndian.AppendUint64(r.buf, uint64(t.UnixMicro()-epochMillis*1000))
}

// logDay writes the log_day that belongs to the start t of an attempt: its day in UTC. It writes null for 0.
func (r *flushRows) logDay(t dagrun.Time) {
	if t == 0 {
		r.null(pgtype.DateOID)
		return
	}
	r.day((int64(t) - epochMillis - mod(int64(t), dayMillis)) / dayMillis)
}

// date writes a column of date: the day of t in UTC.
func (r *flushRows) date(t time.Time) {
	day := t.UnixMilli()
	r.day((day - epochMillis - mod(day, dayMillis)) / dayMillis)
}

func (r *flushRows) day(days int64) {
	r.head(pgtype.DateOID, 4)
	r.buf = binary.BigEndian.AppendUint32(r.buf, uint32(int32(max(min(days, math.MaxInt32-1), math.MinInt32+1))))
}

// mod returns a modulo b, for a b above 0. The result is never negative.
func mod(a, b int64) int64 { return (a%b + b) % b }
