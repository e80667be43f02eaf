package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of one statement that reads logs: up to 16 MiB, of so many attempts.
const (
	maxReadChunks   = 256
	maxReadAttempts = 64
)

var (
	logStepsSQL    = sql.Named("queue/log_steps")
	logAttemptsSQL = sql.Named("queue/log_attempts")
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
	task  *dagrun.TaskID // the only one; nil: all
	epoch int            // of the newest task record seen
	seq   int64
	known map[attemptKey]bool
	open  []openLog // with more to come, perhaps
	ended int       // logs whose last chunk was read
	begun bool      // discover was there
	first int       // earlier attempts are not wanted
	over  bool      // the run was, when discover was there last
	more  bool      // the last sweep left something for the next
}

// openLog is an attempt's log, and where to go on in it.
type openLog struct {
	attemptKey

	day  time.Time
	next int
	end  bool // the final chunk was read
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
	if r.query.Step != "" {
		if r.task = r.find(steps); r.task == nil {
			return fmt.Errorf("run %d has no step %s: %w", r.query.Run, r.query.Step, ErrNotFound)
		}
	}
	r.known, r.names = map[attemptKey]bool{}, map[int]string{}
	for _, s := range steps {
		r.names[s.Step] = s.Name
	}
	return nil
}

type logStep struct {
	Step int
	Name string
}

func (r *logReader) find(steps []logStep) *dagrun.TaskID {
	name, alt := r.query.Step, r.query.Alt
	if base, number, replaced := strings.Cut(name, "~"); replaced {
		if n, err := strconv.Atoi(number); err == nil {
			name, alt = base, n
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
	for _, f := range found {
		r.epoch, r.seq = f.newer(r.epoch, r.seq)
	}
	for _, f := range r.wanted(found) {
		key := attemptKey{r.query.Run, dagrun.TaskID{Step: f.Step, Item: f.Item, Alt: f.Alt}, f.Attempt}
		if !r.known[key] {
			r.known[key] = true
			r.open = append(r.open, r.from(openLog{attemptKey: key, day: f.Day}))
		}
	}
	return nil
}

type foundLog struct {
	Over         bool
	Epoch        int
	Seq          int64
	Step         int
	Item         string
	Alt, Attempt int
	Day          time.Time
}

func (f *foundLog) newer(epoch int, seq int64) (int, int64) {
	if f.Epoch > epoch || f.Epoch == epoch && f.Seq > seq {
		return f.Epoch, f.Seq
	}
	return epoch, seq
}

// wanted leaves out what the query does not ask for: other attempts, or those before the one that was the latest at first.
func (r *logReader) wanted(found []foundLog) []foundLog {
	if !r.begun && r.task != nil {
		r.first = cmp.Or(r.query.Attempt, found[len(found)-1].Attempt)
	}
	r.begun = true
	return slices.DeleteFunc(found, func(f foundLog) bool {
		return f.Attempt == 0 || f.Attempt < r.first || r.query.Attempt > 0 && f.Attempt > r.first
	})
}

// from is where the query wants a log to begin.
func (r *logReader) from(l openLog) openLog {
	last := r.query.Last
	switch {
	case r.task != nil:
		l.next = r.query.After
		r.query.After = 0 // of later attempts, all
	case last != nil:
		if order := l.compare(last.attempt()); order < 0 {
			l.end = true
		} else if order == 0 {
			l.next, l.end = last.Seq+1, last.Final
		}
	}
	return l
}

func (k attemptKey) compare(other attemptKey) int {
	return cmp.Or(cmp.Compare(k.task.Step, other.task.Step), cmp.Compare(k.task.Item, other.task.Item),
		cmp.Compare(k.task.Alt, other.task.Alt), cmp.Compare(k.attempt, other.attempt))
}

// sweep reads on in all open logs and hands over what it finds, in pages, until take says that this is enough. A log that
// grows as fast as it is read does not hold up the others for long.
func (r *logReader) sweep(ctx context.Context, limit int, take func([]Chunk) bool) error {
	r.open = slices.DeleteFunc(r.open, func(l openLog) bool { return l.end })
	r.more = false
	for logs := range slices.Chunk(r.open, maxReadAttempts) {
		full := true
		for pages := 0; full && (r.over || pages < maxPagesInTurn); pages++ {
			page, err := r.page(ctx, logs, limit)
			if err != nil {
				return err
			}
			if len(page) > 0 && !take(page) {
				return nil
			}
			full = len(page) == limit
		}
		r.more = r.more || full
	}
	return nil
}

const maxPagesInTurn = 4

// page reads chunks of some logs, and moves these on.
func (r *logReader) page(ctx context.Context, logs []openLog, limit int) ([]Chunk, error) {
	chunks, err := list(ctx, r.store, chunksSQL, pgx.StrictNamedArgs{
		"run": r.query.Run, "max_rows": limit,
		"steps":    column(logs, func(l *openLog) int { return l.task.Step }),
		"items":    column(logs, func(l *openLog) string { return l.task.Item }),
		"alts":     column(logs, func(l *openLog) int { return l.task.Alt }),
		"attempts": column(logs, func(l *openLog) int { return l.attempt }),
		"days":     column(logs, func(l *openLog) time.Time { return l.day }),
		"afters":   column(logs, (*openLog).after),
	}, func(row pgx.CollectableRow) (c Chunk, err error) {
		var place int
		err = row.Scan(&place, &c.Seq, &c.Stream, &c.At, &c.Data, &c.Final, &c.Reason, &c.Dropped)
		if err == nil {
			l := logs[place-1]
			c.Run, c.Task, c.Attempt, c.Day, c.Step = r.query.Run, l.task, l.attempt, l.day, r.name(l.task)
		}
		return c, err
	})
	if err != nil {
		return nil, err
	}
	r.moveOn(logs, chunks)
	return chunks, nil
}

func (l *openLog) after() int { return l.next }

func (r *logReader) name(task dagrun.TaskID) string {
	switch {
	case r.task != nil:
		return ""
	case task.Alt > 0:
		return fmt.Sprintf("%s~%d", r.names[task.Step], task.Alt)
	}
	return r.names[task.Step]
}

func (r *logReader) moveOn(logs []openLog, chunks []Chunk) {
	next := map[attemptKey]*Chunk{}
	for i := range chunks {
		next[chunks[i].attempt()] = &chunks[i]
	}
	for i := range logs {
		if last := next[logs[i].attemptKey]; last != nil {
			logs[i].next, logs[i].end = last.Seq+1, last.Final
			if last.Final {
				r.ended++
			}
		}
	}
}
