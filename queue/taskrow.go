package queue

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun"
)

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
	lines                                                   int64
	final                                                   bool
}

func (t *taskRow) targets() []any {
	r := &t.rec
	return []any{
		&t.run, &r.ID.Step, &r.ID.Item, &r.ID.Alt, &r.Seq, &r.Generation, &t.state, &r.Attempt, &r.Reason, &t.kind, &t.exit, &t.signal,
		&t.outputs, &r.Tolerated, &r.Retries, &r.PublishTries, &r.Publishing, &t.request, &r.RequestBy, &t.marked, &t.nextAt, &t.deadline,
		&t.ref, &t.cacheKey, &t.grown, &t.startedAt, &t.attemptAt, &t.finishedAt, &t.settled, &t.day, &t.next, &t.lines, &t.final,
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
