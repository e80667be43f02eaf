package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/sql"
)

// loadBatch bounds the claims that one round trip loads.
const loadBatch = 200

var loadTasks = sql.Named("queue/load_tasks")

// Load reads what former drives left of claimed runs, in the order given; nil stands for a claim that is gone.
func (s *Session) Load(ctx context.Context, claims []*Claim) ([]*Loaded, error) {
	loaded := make([]*Loaded, 0, len(claims))
	for len(loaded) < len(claims) {
		part, err := s.load(ctx, claims[len(loaded):min(len(loaded)+loadBatch, len(claims))])
		if err != nil {
			return nil, fmt.Errorf("load runs: %w", err)
		}
		loaded = append(loaded, part...)
	}
	return loaded, nil
}

func (s *Session) load(ctx context.Context, claims []*Claim) (loaded []*Loaded, err error) {
	err = s.reads.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		loaded, err = loadOn(ctx, conn, claims)
		return err
	})
	return loaded, err
}

// loadOn is one round trip. The mail is read first and is all that may change meanwhile: tasks are written under the
// claim, and nobody has it but the caller.
func loadOn(ctx context.Context, conn *pgx.Conn, claims []*Claim) (loaded []*Loaded, err error) {
	var batch pgx.Batch
	names := namesOf(claims)
	batch.Queue(readMail, names)
	batch.Queue(loadTasks, names)
	results := conn.SendBatch(ctx, &batch)
	defer func() { err = errors.Join(err, results.Close()) }()
	rows, err := results.Query()
	if err != nil {
		return nil, err
	}
	mail, err := collectMail(rows, claims)
	if err != nil {
		return nil, err
	}
	loaded, byRun := toLoad(claims, mail)
	rows, err = results.Query()
	if err != nil {
		return nil, err
	}
	_, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (struct{}, error) { return struct{}{}, addTask(row, byRun) })
	return loaded, err
}

func toLoad(claims []*Claim, mail []*Mailbox) ([]*Loaded, map[RunID]*Loaded) {
	loaded, byRun := make([]*Loaded, len(claims)), make(map[RunID]*Loaded, len(claims))
	for i, c := range claims {
		if mail[i] != nil {
			loaded[i] = &Loaded{Saved: dagrun.Saved{Run: c.Row}, Mailbox: *mail[i]}
			byRun[c.Run] = loaded[i]
		}
	}
	return loaded, byRun
}

func addTask(row pgx.CollectableRow, byRun map[RunID]*Loaded) error {
	var t taskRow
	if err := row.Scan(t.targets()...); err != nil {
		return err
	}
	l := byRun[t.run]
	if l == nil {
		return nil // claimed away between the two statements
	}
	record, err := t.record()
	if err != nil {
		return fmt.Errorf("run %d step %d: %w", t.run, record.ID.Step, err)
	}
	l.Saved.Tasks = append(l.Saved.Tasks, record)
	if t.day != nil && (record.State == dagrun.TaskRunning || record.State == dagrun.TaskFinishing) {
		l.Logs = append(l.Logs, LogEnd{Task: record.ID, Attempt: record.Attempt, Day: *t.day, Next: t.next, Final: t.final})
	}
	return t.settle(&record, l)
}

// taskRow is a stored task.
type taskRow struct {
	run                                                     RunID
	rec                                                     dagrun.TaskRecord
	state, request, marked                                  string
	kind, ref, cacheKey                                     *string
	exit, signal                                            *int
	outputs, grown, settled                                 []byte
	nextAt, deadline, startedAt, attemptAt, finishedAt, day *time.Time
	next                                                    int
	final                                                   bool
}

func (t *taskRow) targets() []any {
	r := &t.rec
	return []any{
		&t.run, &r.ID.Step, &r.ID.Item, &r.ID.Alt, &r.Seq, &r.Generation, &t.state, &r.Attempt, &r.Reason, &t.kind, &t.exit, &t.signal,
		&t.outputs, &r.Tolerated, &r.Retries, &r.PublishTries, &r.Publishing, &t.request, &r.RequestBy, &t.marked, &t.nextAt, &t.deadline,
		&t.ref, &t.cacheKey, &t.grown, &t.startedAt, &t.attemptAt, &t.finishedAt, &t.settled, &t.day, &t.next, &t.final,
	}
}

func (t *taskRow) record() (dagrun.TaskRecord, error) {
	r := t.rec
	r.Kind, r.Ref, r.CacheKey = dagrun.FailureKind(or(t.kind)), or(t.ref), or(t.cacheKey)
	r.ExitCode, r.HasExit, r.Signal = or(t.exit), t.exit != nil, or(t.signal)
	r.NextAt, r.Deadline = instant(t.nextAt), instant(t.deadline)
	r.StartedAt, r.AttemptAt, r.FinishedAt = instant(t.startedAt), instant(t.attemptAt), instant(t.finishedAt)
	return r, t.words(&r)
}

// words reads what is stored as words.
func (t *taskRow) words(r *dagrun.TaskRecord) (err error) {
	if r.State, err = dagrun.ParseState(t.state); err != nil {
		return err
	}
	if r.Request, err = decodeRequest(t.request); err != nil {
		return err
	}
	if r.Marked, err = decodeMarked(t.marked); err != nil {
		return err
	}
	if r.Growth, err = decodeGrowth(string(t.grown)); err != nil {
		return err
	}
	r.Outputs, err = compact(t.outputs)
	return err
}

// compact takes out the spaces that jsonb is printed with.
func compact(stored []byte) (dagrun.JSON, error) {
	var text bytes.Buffer
	if err := json.Compact(&text, stored); err != nil && len(stored) > 0 {
		return "", fmt.Errorf("outputs: %w", err)
	}
	return dagrun.JSON(text.String()), nil
}

// settle takes in a result that committed together with the attempt's own SQL, but was not recorded.
func (t *taskRow) settle(r *dagrun.TaskRecord, l *Loaded) error {
	if len(t.settled) == 0 || r.State.Terminal() {
		return nil
	}
	var s struct {
		Attempt int             `json:"attempt"`
		Outputs json.RawMessage `json:"outputs"`
	}
	if err := json.Unmarshal(t.settled, &s); err != nil {
		return fmt.Errorf("run %d step %d: what it settled: %w", t.run, r.ID.Step, err)
	}
	if s.Attempt != r.Attempt {
		return nil
	}
	outputs, err := compact(s.Outputs)
	l.Settled = append(l.Settled, Settled{Task: r.ID, Attempt: s.Attempt, Outputs: outputs})
	return err
}
