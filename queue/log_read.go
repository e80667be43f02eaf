package queue

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/sql"
)

// LogReader reads the selected logs in the order in which their chunks arrived, each chunk once, in bounded memory. One goroutine
// owns it.
type LogReader struct{ reader logReader }

// OpenLogs returns a reader of the logs that q selects. It reads nothing yet, and the reader needs no Close.
func (s *Store) OpenLogs(q LogQuery) *LogReader { return &LogReader{logReader{store: s, query: q}} }

// Stored yields the chunks that are stored now and that the reader has not yielded before. It does not wait for more, and may be
// called again. An error is its last value.
func (l *LogReader) Stored(ctx context.Context) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		f := following{reader: &l.reader, yield: yield}
		err := f.look(ctx)
		for err == nil && l.reader.more && !f.left {
			err = f.pass(ctx)
		}
		if err != nil {
			yield(Chunk{}, wrapError("read logs", err))
		}
	}
}

// Follow yields chunks as FollowLogs does, but only chunks that the reader has not yielded before. It calls idle whenever it
// begins to wait; idle may be nil.
func (l *LogReader) Follow(ctx context.Context, idle func()) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		f := following{reader: &l.reader, yield: yield, idle: idle}
		if err := f.run(ctx); err != nil {
			yield(Chunk{}, wrapError("follow logs", err))
		}
	}
}

// Run returns the run of the logs.
func (l *LogReader) Run() RunID { return l.reader.query.Run }

// Over reports whether the run had ended when the reader last looked for attempts. If it had, a Stored or Follow that has ended
// by itself without an error has yielded everything there will be.
func (l *LogReader) Over() bool { return l.reader.over }

// Steps returns the names of the run's steps, handlers included. It is empty before the first read.
func (l *LogReader) Steps() []string { return l.reader.steps }

// Known yields the step and the item of each attempt that has had a log to read so far, in no order. A task with several attempts
// comes several times. The step is "" if the query selects a single task.
func (l *LogReader) Known() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for key := range l.reader.known {
			if !yield(l.reader.name(key.task), key.task.Item) {
				return
			}
		}
	}
}

// Tasks returns the number of tasks that have had a log to read so far.
func (l *LogReader) Tasks() int {
	tasks := map[dagrun.TaskID]bool{}
	for key := range l.reader.known {
		tasks[key.task] = true
	}
	return len(tasks)
}

// Bounds of one statement that reads logs: at most 16 MiB, of at most so many attempts.
const (
	maxReadChunks   = 256
	maxReadAttempts = 64
)

var (
	logStepsSQL    = sql.Named("queue/log_steps")
	logAttemptsSQL = sql.Named("queue/log_attempts")
	logStartsSQL   = sql.Named("queue/log_starts")
	chunksSQL      = sql.Named("queue/chunks")
)

// ReadLogs reads chunks of a log that the user is allowed to see, at most q.Limit and at most 256. They come in order: by attempt
// and number, and for a whole run task by task in the order of the DAG. It does not wait for chunks that are not stored yet: it
// returns none if there are none. A log is deleted with its run, or when its day is past the retention of every DAG.
func (s *Store) ReadLogs(ctx context.Context, q LogQuery) ([]Chunk, error) {
	r := logReader{store: s, query: q}
	limit := maxReadChunks
	if q.Limit > 0 {
		limit = min(q.Limit, limit)
	}
	err := r.begin(ctx)
	if err == nil {
		err = r.discover(ctx)
	}
	var all []Chunk
	if err == nil {
		err = r.sweep(ctx, limit, func(page []Chunk) bool {
			all = append(all, page...)
			return len(all) < limit
		})
	}
	if err != nil {
		return nil, wrapError("read logs", err)
	}
	return all[:min(limit, len(all))], nil
}

// logReader reads the logs of a run, each chunk once.
type logReader struct {
	store *Store
	query LogQuery

	names map[int]string // names of the steps by number; nil: not begun
	steps []string       // the same names in the order of the steps
	task  *dagrun.TaskID // the only wanted task; nil: all tasks, or all of step
	step  int            // the only wanted step, if the query wants all its tasks; none: -1
	epoch int            // of the newest task record that discover has seen
	seq   int64
	known map[attemptKey]bool
	first map[dagrun.TaskID]int // first wanted attempt of each task
	open  []*openLog            // logs that may still have more to read
	ended int                   // number of logs that were read to their last chunk
	begun bool                  // discover has run
	over  bool                  // the run was over when discover last ran
	more  bool                  // the last pass left chunks for the next one
}

// openLog is the log of one attempt, with the place where reading goes on.
type openLog struct {
	attemptKey

	day   time.Time
	began time.Time // when the attempt began; the Unix epoch: unknown
	next  int
	last  time.Time // when the last chunk that was read arrived
	end   bool      // the final chunk was read
}

// begin reads the steps of the run, and sets r.task or r.step to the task or step that the query names. It returns ErrNotFound if
// there is no such run or step, or if the user is not allowed to see the run. Once it has succeeded, a further call does nothing.
func (r *logReader) begin(ctx context.Context) error {
	if r.names != nil {
		return nil
	}
	steps, err := list(ctx, r.store, logStepsSQL, pgx.StrictNamedArgs{"run": r.query.Run}, pgx.RowToStructByPos[logStep])
	if err != nil {
		return err
	}
	if len(steps) == 0 { // no step means no run, because every DAG has a step
		return noSuchRun(r.query.Run, pgx.ErrNoRows)
	}
	r.step = -1
	if r.query.Step != "" {
		if r.task = r.find(steps); r.task == nil {
			return &noStepError{run: r.query.Run, step: r.query.Step, steps: stepNames(steps)}
		}
		if r.query.Whole {
			r.step, r.task = r.task.Step, nil
		}
	}
	r.known, r.first, r.names, r.steps = map[attemptKey]bool{}, map[dagrun.TaskID]int{}, map[int]string{}, stepNames(steps)
	for _, s := range steps {
		r.names[s.Step] = s.Name
	}
	return nil
}

// noStepError is an ErrNotFound that lists the existing steps.
type noStepError struct {
	run   RunID
	step  string
	steps []string
}

func (e *noStepError) Error() string {
	return fmt.Sprintf("run %d has no step %s: %v", e.run, e.step, ErrNotFound)
}

func (e *noStepError) Unwrap() error { return ErrNotFound }

// Hint returns the names of at most maxShownSteps steps that the run has.
func (e *noStepError) Hint() string {
	shown := e.steps[:min(len(e.steps), maxShownSteps)]
	return "it has " + strings.Join(shown, ", ")
}

// maxShownSteps bounds the steps in a hint.
const maxShownSteps = 20

func stepNames(steps []logStep) []string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = s.Name
	}
	return names
}

type logStep struct {
	Step int
	Name string
}

// find returns the task that the query names, with its step numbered by steps; nil: there is no such step. The query may name a
// replacement as step~1.
func (r *logReader) find(steps []logStep) *dagrun.TaskID {
	name, alt := r.query.Step, r.query.Alt
	if base, number, replaced := strings.Cut(name, "~"); replaced {
		if n, err := strconv.ParseInt(number, 10, 16); err == nil { // a step has no more replacements than fit into 16 bits
			name, alt = base, int(n)
		}
	}
	for _, s := range steps {
		if s.Name == name {
			return &dagrun.TaskID{Step: s.Step, Item: r.query.Item, Alt: alt}
		}
	}
	return nil
}

// discover looks for new attempts, of tasks that have changed since its last run, and adds their logs to r.open. It sets
// r.over if the run is over. After an error the next discover finds the same attempts again.
func (r *logReader) discover(ctx context.Context) error {
	args := pgx.StrictNamedArgs{"run": r.query.Run, "epoch": r.epoch, "seq": r.seq, "step": nil, "item": nil, "alt": nil}
	if r.task != nil {
		args["step"], args["item"], args["alt"] = r.task.Step, r.task.Item, r.task.Alt
	}
	found, err := list(ctx, r.store, logAttemptsSQL, args, pgx.RowToStructByPos[foundLog])
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return noSuchRun(r.query.Run, pgx.ErrNoRows)
	}
	r.over = found[0].Over
	var opened []*openLog
	for _, f := range found {
		r.epoch, r.seq = f.newer(r.epoch, r.seq)
	}
	for _, f := range r.wanted(found) {
		key := attemptKey{r.query.Run, f.task(), f.Attempt}
		if !r.known[key] {
			r.known[key] = true
			opened = append(opened, r.from(&openLog{attemptKey: key, day: f.Day, began: f.Began}))
		}
	}
	if err := r.start(ctx, opened); err != nil {
		for _, l := range opened {
			delete(r.known, l.attemptKey) // the next discover finds them again
		}
		r.epoch, r.seq = 0, 0
		return err
	}
	r.open, r.begun = append(r.open, opened...), true
	return nil
}

type foundLog struct {
	Over         bool
	Epoch        int
	Seq          int64
	Step         int
	Item         string
	Alt, Attempt int
	Day, Began   time.Time
}

func (f *foundLog) task() dagrun.TaskID {
	return dagrun.TaskID{Step: f.Step, Item: f.Item, Alt: f.Alt}
}

func (f *foundLog) newer(epoch int, seq int64) (int, int64) {
	if f.Epoch > epoch || f.Epoch == epoch && f.Seq > seq {
		return f.Epoch, f.Seq
	}
	return epoch, seq
}

// wanted returns the elements of found that the query selects by step and attempt. It overwrites found.
//
// For a query of one task, or with Latest, its first call also fixes in r.first the attempt at which each task begins:
// query.Attempt, or else the newest attempt that exists then. Earlier attempts are left out from then on.
func (r *logReader) wanted(found []foundLog) []foundLog {
	if !r.begun && (r.task != nil || r.query.Latest) {
		for _, f := range found { // the latest attempt of a task comes last
			r.first[f.task()] = cmp.Or(r.query.Attempt, f.Attempt)
		}
	}
	return slices.DeleteFunc(found, func(f foundLog) bool {
		return f.Attempt == 0 || r.step >= 0 && f.Step != r.step || f.Attempt < r.first[f.task()] ||
			r.query.Attempt > 0 && f.Attempt != r.query.Attempt
	})
}

// from sets l.next, the number of the first chunk to read, and l.end if nothing is left to read. It returns l. In a query of one
// task, the log of the first call begins at query.From; from then sets query.From to 0, so that later attempts are read from
// their start. In a query with Last, reading begins after that chunk, and logs before it are at their end.
func (r *logReader) from(l *openLog) *openLog {
	last := r.query.Last
	switch {
	case r.task != nil:
		l.next = r.query.From
		r.query.From = 0 // read later attempts from their start
	case last != nil:
		if order := l.compare(last.attempt()); order < 0 {
			l.end = true
		} else if order == 0 {
			l.next, l.end = last.Seq+1, last.Final
		}
	}
	return l
}

// start moves l.next of the opened logs forward to the places where the query's Lines and Since begin. It does nothing if the
// query has neither. It also does nothing after the first discover, so that later logs are read from their start.
func (r *logReader) start(ctx context.Context, opened []*openLog) error {
	q := r.query
	if r.begun || q.Lines == 0 && q.Since.IsZero() {
		return nil
	}
	for logs := range slices.Chunk(opened, maxStarts) {
		args := r.places(logs)
		args["lines"], args["since"] = given(int64(q.Lines)), moment(q.Since)
		starts, err := list(ctx, r.store, logStartsSQL, args, pgx.RowToStructByPos[logStart])
		if err != nil {
			return err
		}
		for _, s := range starts {
			l := logs[s.Place-1]
			l.next = max(l.next, s.Seq)
		}
	}
	return nil
}

// maxStarts bounds the logs of one statement that looks for these places.
const maxStarts = 1000

type logStart struct{ Place, Seq int }

// places returns the arguments that identify logs: the run, and one array for each column of the logs' keys.
func (r *logReader) places(logs []*openLog) pgx.StrictNamedArgs {
	return pgx.StrictNamedArgs{
		"run":      r.query.Run,
		"steps":    of(logs, func(l *openLog) int { return l.task.Step }),
		"items":    of(logs, func(l *openLog) string { return l.task.Item }),
		"alts":     of(logs, func(l *openLog) int { return l.task.Alt }),
		"attempts": of(logs, func(l *openLog) int { return l.attempt }),
		"days":     of(logs, func(l *openLog) time.Time { return l.day }),
	}
}

func of[T any](logs []*openLog, field func(*openLog) T) []T {
	return column(logs, func(l **openLog) T { return field(*l) })
}

func (k attemptKey) compare(other attemptKey) int {
	return cmp.Or(cmp.Compare(k.task.Step, other.task.Step), cmp.Compare(k.task.Item, other.task.Item),
		cmp.Compare(k.task.Alt, other.task.Alt), cmp.Compare(k.attempt, other.attempt))
}

// sweep reads all open logs further, one after the other, to the last stored chunk of each. It passes the chunks to take, in
// pages of at most limit, until take returns false.
func (r *logReader) sweep(ctx context.Context, limit int, take func([]Chunk) bool) error {
	for logs := range slices.Chunk(r.open, maxReadAttempts) {
		logs = slices.DeleteFunc(slices.Clone(logs), func(l *openLog) bool { return l.end })
		for full := len(logs) > 0; full; {
			page, err := r.chunks(ctx, logs, limit, limit)
			if err != nil {
				return err
			}
			for i := range page {
				r.passed(logs[page[i].place-1], &page[i].Chunk)
			}
			if len(page) > 0 && !take(bare(page)) {
				return nil
			}
			full = len(page) == limit
		}
	}
	return nil
}

// placed is a chunk with the place of its log among the requested ones.
type placed struct {
	Chunk
	place int // counted from 1
}

func bare(page []placed) []Chunk { return column(page, func(p *placed) Chunk { return p.Chunk }) }

// chunks reads the next chunks of some logs, at most each chunks of one log and limit in all. They come log by log, in order. It
// does not move the logs' next: passed does.
func (r *logReader) chunks(ctx context.Context, logs []*openLog, limit, each int) ([]placed, error) {
	args := r.places(logs)
	args["froms"] = of(logs, func(l *openLog) int { return l.next })
	args["max_rows"], args["max_each"] = limit, each
	return list(ctx, r.store, chunksSQL, args, func(row pgx.CollectableRow) (c placed, err error) {
		err = row.Scan(&c.place, &c.Seq, &c.Stream, &c.At, &c.Data, &c.Final, &c.Reason, &c.Dropped, &c.Lines)
		if err == nil {
			l := logs[c.place-1]
			c.Run, c.Task, c.Attempt, c.Day, c.Step = r.query.Run, l.task, l.attempt, l.day, r.name(l.task)
		}
		return c, err
	})
}

// passed moves l.next behind chunk c of the log. If c is the final chunk, it sets l.end, and counts the log in r.ended.
func (r *logReader) passed(l *openLog, c *Chunk) {
	l.next, l.last, l.end = c.Seq+1, later(l.last, c.At), c.Final
	if c.Final {
		r.ended++
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// name returns the name of a task's step. For a replacement it appends ~ and the number of the replacement, as in load~2. It
// returns "" if the query wants only one task.
func (r *logReader) name(task dagrun.TaskID) string {
	switch {
	case r.task != nil:
		return ""
	case task.Alt > 0:
		return fmt.Sprintf("%s~%d", r.names[task.Step], task.Alt)
	}
	return r.names[task.Step]
}

// Bounds of one pass over logs.
const (
	maxReadAhead   = 16 // logs read too early, together with logs that must be read now
	maxReadsInPass = 64 // reads of a pass while the run goes on; then it is time to look for new attempts
)

// arrival is one pass over the open logs of a run: the chunks that are stored now, in the order of their arrival. It keeps a few
// chunks of each log that was being written at the time that the pass has reached. So memory grows neither with the size of logs
// nor with their number.
type arrival struct {
	reader  *logReader
	later   []*openLog // logs that the pass has not read yet, in the order in which their attempts began
	cursors []*cursor  // logs that have chunks in memory, or more to read
	reads   int
}

// cursor is a log during a pass.
type cursor struct {
	*openLog

	chunks []Chunk // read, but not handed over yet
	more   bool    // there may be more chunks after them
}

// newArrival begins a pass over the logs in r.open. It first removes logs that were read to their end, and resets r.more.
func (r *logReader) newArrival() *arrival {
	r.open = slices.DeleteFunc(r.open, func(l *openLog) bool { return l.end })
	r.more = false
	a := &arrival{reader: r, later: slices.Clone(r.open)}
	slices.SortStableFunc(a.later, func(l, other *openLog) int {
		return cmp.Or(l.from().Compare(other.from()), l.compare(other.attemptKey))
	})
	return a
}

// from returns a time no later than the arrival of the log's next chunk.
func (l *openLog) from() time.Time { return later(l.began, l.last) }

// at returns when the first chunk arrived. If the clock was set back, the chunk still comes after the earlier chunks of its log.
func (c *cursor) at() time.Time { return later(c.chunks[0].At, c.last) }

// each passes chunks to take, oldest first, until take returns false or no stored chunk is left. A chunk that was read but not
// passed to take is read again by the next pass. While the run goes on, each ends after maxReadsInPass reads, and sets the
// reader's more.
func (a *arrival) each(ctx context.Context, take func(Chunk) bool) error {
	for {
		if wanted := a.wanted(); len(wanted) > 0 {
			if a.reads++; a.reads > maxReadsInPass && !a.reader.over {
				a.reader.more = true
				return nil
			}
			if err := a.read(ctx, wanted); err != nil {
				return err
			}
			continue
		}
		c := a.first()
		if c == nil || !a.pass(c, take) {
			return nil
		}
	}
}

// pass takes the first chunk out of c.chunks, marks it as read, and returns the result of take for it. If c has nothing more,
// pass removes it from a.cursors. c must have a chunk.
func (a *arrival) pass(c *cursor, take func(Chunk) bool) bool {
	chunk := c.chunks[0]
	c.chunks = c.chunks[1:]
	a.reader.passed(c.openLog, &chunk)
	if len(c.chunks) == 0 && !c.more {
		a.cursors = slices.DeleteFunc(a.cursors, func(other *cursor) bool { return other == c })
	}
	return take(chunk)
}

// first returns the log with the oldest chunk; nil: no log has more. Each of a.cursors must have a chunk.
func (a *arrival) first() *cursor {
	var oldest *cursor
	for _, c := range a.cursors {
		if oldest == nil || c.at().Before(oldest.at()) {
			oldest = c
		}
	}
	return oldest
}

// wanted returns the logs that must be read before the oldest chunk is known. If it returns none, the first chunk of a.first is
// the oldest. It moves logs that may have an older chunk from a.later to a.cursors.
func (a *arrival) wanted() []*cursor {
	var wanted []*cursor
	for _, c := range a.cursors {
		if len(c.chunks) == 0 && len(wanted) < maxReadAttempts {
			wanted = append(wanted, c)
		}
	}
	if len(wanted) > 0 {
		return wanted
	}
	n := a.due(a.first())
	if n > 0 && n < maxReadAhead {
		n = min(maxReadAhead, len(a.later))
	}
	for _, l := range a.later[:n] {
		wanted = append(wanted, &cursor{openLog: l, more: true})
	}
	a.later = a.later[n:]
	a.cursors = append(a.cursors, wanted...)
	return wanted
}

// due returns how many logs at the start of a.later may have a chunk older than the first chunk of oldest, at most
// maxReadAttempts. If oldest is nil, any log may.
func (a *arrival) due(oldest *cursor) int {
	n := 0
	for n < min(len(a.later), maxReadAttempts) && (oldest == nil || !a.later[n].from().After(oldest.at())) {
		n++
	}
	return n
}

// read reads the next chunks of the logs in wanted, which must be part of a.cursors. It reads so many that all cursors together
// hold about as many as one statement returns. It removes cursors without anything more from a.cursors.
func (a *arrival) read(ctx context.Context, wanted []*cursor) error {
	logs := make([]*openLog, len(wanted))
	for i, c := range wanted {
		logs[i] = c.openLog
	}
	each := max(1, maxReadChunks/len(a.cursors))
	page, err := a.reader.chunks(ctx, logs, each*len(logs), each)
	if err != nil {
		return err
	}
	for i := range page {
		c := wanted[page[i].place-1]
		c.chunks = append(c.chunks, page[i].Chunk)
	}
	for _, c := range wanted {
		c.more = len(c.chunks) == each && !c.chunks[each-1].Final
	}
	a.cursors = slices.DeleteFunc(a.cursors, func(c *cursor) bool { return len(c.chunks) == 0 && !c.more })
	return nil
}

// FollowLogs yields chunks of the selected logs as they come: first the stored ones in the order of their arrival, then new ones.
// It yields each chunk once, and the chunks of an attempt in order, even if connections break. It ends when the run is over and
// everything is read, or after the last chunk of the only attempt that the query selects. While the database is away it waits. If
// ctx ends, or waiting cannot mend an error, that error is its last value.
//
// While a log is followed, the run's worker flushes and announces it at once, which costs the worker time. A follower that
// crashes is forgotten within a minute.
func (s *Store) FollowLogs(ctx context.Context, q LogQuery) iter.Seq2[Chunk, error] {
	return s.OpenLogs(q).Follow(ctx, nil)
}

// following is a FollowLogs under way.
type following struct {
	reader *logReader
	yield  func(Chunk, error) bool
	idle   func() // called when the follower begins to wait; nil: nothing is called
	left   bool   // the caller has ended its range loop
}

// run yields chunks until no more can come or the caller leaves its range loop; it returns nil then.
func (f *following) run(ctx context.Context) error {
	q := f.reader.query
	follower := f.reader.store.newFollower(q.Run, true)
	defer follower.close(ctx)
	for {
		err := f.look(ctx)
		switch {
		case f.left, err == nil && !f.reader.more && f.isDone():
			return nil
		case err != nil && !passes(ctx, err):
			return err
		case err == nil && f.reader.more:
			continue
		}
		if f.idle != nil {
			f.idle()
		}
		if err := follower.wait(ctx); err != nil {
			return err
		}
	}
}

// isDone reports whether no more chunks can come, of the run or of the only attempt that the query selects.
func (f *following) isDone() bool {
	q := f.reader.query
	return f.reader.over || f.reader.task != nil && q.Attempt > 0 && f.reader.ended > 0
}

// look looks for new attempts, and yields the chunks that are stored now. It checks whether the run is over before it reads the
// logs, so that the look that finds the run over also finds its last chunks.
func (f *following) look(ctx context.Context) error {
	if err := f.reader.begin(ctx); err != nil {
		return err
	}
	if err := f.reader.discover(ctx); err != nil {
		return err
	}
	return f.pass(ctx)
}

func (f *following) pass(ctx context.Context) error {
	return f.reader.newArrival().each(ctx, func(c Chunk) bool {
		f.left = !f.yield(c, nil)
		return !f.left
	})
}
