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

// LogReader reads the logs that a query picks in the order in which they arrived, each chunk once, in bounded memory. It
// belongs to one goroutine.
type LogReader struct{ reader logReader }

// OpenLogs makes a reader of the logs that a query picks. Nothing is read yet, and nothing needs to be closed.
func (s *Store) OpenLogs(q LogQuery) *LogReader { return &LogReader{logReader{store: s, query: q}} }

// Stored yields what is there by now and was not yielded before. What goes wrong it yields as its last.
func (l *LogReader) Stored(ctx context.Context) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		f := following{reader: &l.reader, yield: yield}
		err := f.look(ctx)
		for err == nil && l.reader.more && !f.left {
			err = f.pass(ctx)
		}
		if err != nil {
			yield(Chunk{}, said("read logs", err))
		}
	}
}

// Follow goes on as FollowLogs does. It calls idle, which may be nil, whenever it begins to wait.
func (l *LogReader) Follow(ctx context.Context, idle func()) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		f := following{reader: &l.reader, yield: yield, idle: idle}
		if err := f.run(ctx); err != nil {
			yield(Chunk{}, said("follow logs", err))
		}
	}
}

// Run is the run whose logs are read.
func (l *LogReader) Run() RunID { return l.reader.query.Run }

// Over says whether the run had ended when the reader looked last: then all there will be was read.
func (l *LogReader) Over() bool { return l.reader.over }

// Steps are the names of the run's steps, handlers included, once something was asked for.
func (l *LogReader) Steps() []string { return l.reader.steps }

// Known are the names of tasks, step and item, that had a log to read so far.
func (l *LogReader) Known() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for key := range l.reader.known {
			if !yield(l.reader.name(key.task), key.task.Item) {
				return
			}
		}
	}
}

// Tasks counts the tasks that had a log to read so far.
func (l *LogReader) Tasks() int {
	tasks := map[dagrun.TaskID]bool{}
	for key := range l.reader.known {
		tasks[key.task] = true
	}
	return len(tasks)
}

// Bounds of one statement that reads logs: up to 16 MiB, of so many attempts.
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

// ReadLogs reads chunks of a log that the user may see, in their order: by attempt and number; of a whole run, task by
// task as the DAG has them. What is not stored yet is not waited for. A log goes with its run, or when its day is past
// what every DAG keeps.
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
		return nil, said("read logs", err)
	}
	return all[:min(limit, len(all))], nil
}

// logReader reads the logs of a run, each chunk once.
type logReader struct {
	store *Store
	query LogQuery

	names map[int]string // of the steps; nil: not begun
	steps []string       // the same in their order
	task  *dagrun.TaskID // the only one; nil: all, or those of one step
	step  int            // the only one, when the query wants all tasks of it; none: -1
	epoch int            // of the newest task record seen
	seq   int64
	known map[attemptKey]bool
	first map[dagrun.TaskID]int // earlier attempts are not wanted
	open  []*openLog            // with more to come, perhaps
	ended int                   // logs whose last chunk was read
	begun bool                  // discover was there
	over  bool                  // the run was, when discover was there last
	more  bool                  // the last pass left something for the next
}

// openLog is an attempt's log, and where to go on in it.
type openLog struct {
	attemptKey

	day   time.Time
	began time.Time // of the attempt; the epoch: not known
	next  int
	last  time.Time // when what was read last arrived
	end   bool      // the final chunk was read
}

// begin finds the run, and the step that the query names.
func (r *logReader) begin(ctx context.Context) error {
	if r.names != nil {
		return nil
	}
	steps, err := list(ctx, r.store, logStepsSQL, pgx.StrictNamedArgs{"run": r.query.Run}, pgx.RowToStructByPos[logStep])
	if err != nil {
		return err
	}
	if len(steps) == 0 { // every DAG has one
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

// noStepError is an ErrNotFound that says which steps there are.
type noStepError struct {
	run   RunID
	step  string
	steps []string
}

func (e *noStepError) Error() string {
	return fmt.Sprintf("run %d has no step %s: %v", e.run, e.step, ErrNotFound)
}

func (e *noStepError) Unwrap() error { return ErrNotFound }

// Hint says what to ask for instead.
func (e *noStepError) Hint() string {
	shown := e.steps[:min(len(e.steps), maxShownSteps)]
	return "it has " + strings.Join(shown, ", ")
}

// maxShownSteps bounds a hint.
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

func (r *logReader) find(steps []logStep) *dagrun.TaskID {
	name, alt := r.query.Step, r.query.Alt
	if base, number, replaced := strings.Cut(name, "~"); replaced {
		if n, err := strconv.ParseInt(number, 10, 16); err == nil { // no step has more
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

// discover looks for attempts of tasks that changed, and whether the run is over.
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
			delete(r.known, l.attemptKey) // another try finds them again
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

// wanted leaves out what the query does not ask for: other steps, other attempts, or those before the one that was the
// latest at first.
func (r *logReader) wanted(found []foundLog) []foundLog {
	if !r.begun && (r.task != nil || r.query.Latest) {
		for _, f := range found { // the latest of a task comes last
			r.first[f.task()] = cmp.Or(r.query.Attempt, f.Attempt)
		}
	}
	return slices.DeleteFunc(found, func(f foundLog) bool {
		return f.Attempt == 0 || r.step >= 0 && f.Step != r.step || f.Attempt < r.first[f.task()] ||
			r.query.Attempt > 0 && f.Attempt != r.query.Attempt
	})
}

// from is where the query wants a log to begin.
func (r *logReader) from(l *openLog) *openLog {
	last := r.query.Last
	switch {
	case r.task != nil:
		l.next = r.query.From
		r.query.From = 0 // of later attempts, all
	case last != nil:
		if order := l.compare(last.attempt()); order < 0 {
			l.end = true
		} else if order == 0 {
			l.next, l.end = last.Seq+1, last.Final
		}
	}
	return l
}

// start skips what the query does not want of the logs that are there at first.
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

// maxStarts bounds one statement that looks for the begin of what is wanted of logs.
const maxStarts = 1000

type logStart struct{ Place, Seq int }

// places are the arguments that name logs.
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

// sweep reads on in all open logs, one after the other, and hands over what it finds, in pages, until take says that this
// is enough.
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

// placed is a chunk of one of the logs that were asked for.
type placed struct {
	Chunk
	place int // counted from 1
}

func bare(page []placed) []Chunk { return column(page, func(p *placed) Chunk { return p.Chunk }) }

// chunks reads on in some logs, at most so many chunks of each.
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

// passed moves a log on past a chunk.
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
	maxReadAhead   = 16 // logs whose time has not come, read with those whose has
	maxReadsInPass = 64 // of a run that goes on: then it is time to look for new attempts
)

// arrival is one pass over the open logs of a run: what they have by now, in the order in which it arrived. It keeps a few
// chunks of each log that was under way at the time it has come to, so that memory does not grow with logs or their number.
type arrival struct {
	reader  *logReader
	later   []*openLog // not looked at yet, by when they began
	cursors []*cursor  // with chunks, or with more to read
	reads   int
}

// cursor is a log in a pass.
type cursor struct {
	*openLog

	chunks []Chunk // read, not handed over
	more   bool    // there may be others behind them
}

func (r *logReader) newArrival() *arrival {
	r.open = slices.DeleteFunc(r.open, func(l *openLog) bool { return l.end })
	r.more = false
	a := &arrival{reader: r, later: slices.Clone(r.open)}
	slices.SortStableFunc(a.later, func(l, other *openLog) int {
		return cmp.Or(l.from().Compare(other.from()), l.compare(other.attemptKey))
	})
	return a
}

// from is no later than what is next in a log.
func (l *openLog) from() time.Time { return later(l.began, l.last) }

// at is when the first of its chunks arrived. A clock that was set back does not put it before others of its log.
func (c *cursor) at() time.Time { return later(c.chunks[0].At, c.last) }

// each hands over chunks until take wants no more. What it read and did not hand over is read again by the next pass.
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

// pass hands over the first chunk of a log.
func (a *arrival) pass(c *cursor, take func(Chunk) bool) bool {
	chunk := c.chunks[0]
	c.chunks = c.chunks[1:]
	a.reader.passed(c.openLog, &chunk)
	if len(c.chunks) == 0 && !c.more {
		a.cursors = slices.DeleteFunc(a.cursors, func(other *cursor) bool { return other == c })
	}
	return take(chunk)
}

// first is the log with the oldest chunk.
func (a *arrival) first() *cursor {
	var oldest *cursor
	for _, c := range a.cursors {
		if oldest == nil || c.at().Before(oldest.at()) {
			oldest = c
		}
	}
	return oldest
}

// wanted are logs that have to be read before the oldest chunk is known.
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

// due is how many logs may have something older than the oldest chunk so far.
func (a *arrival) due(oldest *cursor) int {
	n := 0
	for n < min(len(a.later), maxReadAttempts) && (oldest == nil || !a.later[n].from().After(oldest.at())) {
		n++
	}
	return n
}

// read gets the next chunks of some logs: so many that all cursors together have about as many as one statement gives.
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

// FollowLogs yields chunks of the logs that the query picks as they come: what is there already, in the order in which it
// arrived, then what is appended, each chunk once and each attempt's in their order, whatever becomes of connections meanwhile. It ends when the run is over
// and all is read, or after the last chunk of the one attempt that the query names. While the database is away it waits;
// what it cannot wait out it yields as its last.
//
// A run whose log is followed has it flushed and announced at once, which costs its worker. Whoever crashes is forgotten
// within a minute.
func (s *Store) FollowLogs(ctx context.Context, q LogQuery) iter.Seq2[Chunk, error] {
	return s.OpenLogs(q).Follow(ctx, nil)
}

// following is a FollowLogs under way.
type following struct {
	reader *logReader
	yield  func(Chunk, error) bool
	idle   func() // nil: nobody wants to know
	left   bool   // whoever ranges over it
}

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

// isDone says that there will be nothing more: of the run, or of the one attempt that the query names.
func (f *following) isDone() bool {
	q := f.reader.query
	return f.reader.over || f.reader.task != nil && q.Attempt > 0 && f.reader.ended > 0
}

// look reads what there is. That the run is over it learns before it reads the last of its logs.
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
