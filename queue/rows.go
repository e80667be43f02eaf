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
	kind, ref, cacheKey, resetFrom                          *string
	resetBy                                                 *int64
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
		&t.ref, &t.cacheKey, &t.grown, &t.resetBy, &t.resetFrom, &t.startedAt, &t.attemptAt, &t.finishedAt, &t.settled, &t.day, &t.next, &t.lines, &t.final,
	}
}

// record returns the scanned row as a record of the core. It returns an error if the row has a word or JSON that this version
// does not know; the record then still has its ID.
func (t *taskRow) record() (dagrun.TaskRecord, error) {
	r := t.rec
	r.Kind, r.Ref, r.CacheKey = dagrun.FailureKind(or(t.kind)), or(t.ref), or(t.cacheKey)
	r.ExitCode, r.HasExit, r.Signal = or(t.exit), t.exit != nil, or(t.signal)
	r.ResetBy = or(t.resetBy)
	r.NextAt, r.Deadline = instant(t.nextAt), instant(t.deadline)
	r.StartedAt, r.AttemptAt, r.FinishedAt = instant(t.startedAt), instant(t.attemptAt), instant(t.finishedAt)
	return r, t.words(&r)
}

// words decodes the columns that are stored as words or JSON into r: State, ResetFrom, Request, Marked, Growth and Outputs. It
// returns an error for a word or JSON that this version does not know.
func (t *taskRow) words(r *dagrun.TaskRecord) (err error) {
	if r.State, err = dagrun.ParseState(t.state); err != nil {
		return err
	}
	if r.ResetFrom, err = decodeMarked(or(t.resetFrom)); err != nil {
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

// compact returns stored JSON without the spaces that Postgres prints in jsonb; "" for a null.
func compact(stored []byte) (dagrun.JSON, error) {
	var text bytes.Buffer
	if err := json.Compact(&text, stored); err != nil && len(stored) > 0 {
		return "", fmt.Errorf("outputs: %w", err)
	}
	return dagrun.JSON(text.String()), nil
}

// settle adds to l.Settled the result of the task that was committed together with the attempt's own SQL but not recorded. It
// adds nothing if there is no such result, if the task r has finished, or if the result is of another attempt.
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

// Conversions of values that rows store in another form than the core has. "" stands for a missing value in both directions.

// storedGrowth is the form of tasks.grown.
type storedGrowth struct {
	Generation int          `json:"generation"`
	ResetBy    int64        `json:"reset_by,omitempty"`
	Items      []storedItem `json:"items,omitempty"`
	Rule       int          `json:"rule,omitempty"`
	FirstAlt   int          `json:"first_alt,omitempty"`
	Count      int          `json:"count,omitempty"`
	Stderr     string       `json:"stderr,omitempty"`

	Choices []storedChoice `json:"choices,omitempty"`
}

// storedChoice holds its value as text, for the same reason as storedItem.
type storedChoice struct {
	With  int    `json:"with,omitempty"`
	Value string `json:"value,omitempty"`
}

// storedItem holds its value as text. As jsonb it would come back with other spaces and another order of keys, and a later drive
// must compute exactly what the first one did.
type storedItem struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func encodeGrowth(g *dagrun.Growth) string {
	if g == nil {
		return ""
	}
	stored := storedGrowth{Generation: g.Generation, ResetBy: g.ResetBy, Rule: g.Rule, FirstAlt: g.FirstAlt, Count: g.Count, Stderr: g.Stderr}
	for _, item := range g.Items {
		stored.Items = append(stored.Items, storedItem{Key: item.Key, Value: string(item.Value)})
	}
	for _, c := range g.Choices {
		stored.Choices = append(stored.Choices, storedChoice{c.With, string(c.Value)})
	}
	return encodePlain(stored)
}

func decodeGrowth(text string) (*dagrun.Growth, error) {
	if text == "" {
		return nil, nil
	}
	var stored storedGrowth
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return nil, fmt.Errorf("growth: %w", err)
	}
	g := &dagrun.Growth{Generation: stored.Generation, ResetBy: stored.ResetBy, Rule: stored.Rule, FirstAlt: stored.FirstAlt, Count: stored.Count, Stderr: stored.Stderr}
	for _, item := range stored.Items {
		g.Items = append(g.Items, dagrun.Item{Key: item.Key, Value: dagrun.JSON(item.Value)})
	}
	for _, c := range stored.Choices {
		g.Choices = append(g.Choices, dagrun.Choice{With: c.With, Value: dagrun.JSON(c.Value)})
	}
	return g, nil
}

func encodeNames(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return encodePlain(names)
}

// encodePlain returns the JSON of a value made of texts, numbers and booleans only. It panics for a value that JSON does not
// have.
func encodePlain(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("queue: %+v: %v", v, err))
	}
	return string(text)
}

func encodeRequest(r dagrun.Request) string {
	if r == dagrun.RequestNone {
		return ""
	}
	return r.String()
}

func decodeRequest(word string) (dagrun.Request, error) {
	if word == "" {
		return dagrun.RequestNone, nil
	}
	return dagrun.ParseRequest(word)
}

// encodeMarked returns the word for a mark; "" for pending, the state of a task without a mark.
func encodeMarked(s dagrun.State) string {
	if s == dagrun.TaskPending {
		return ""
	}
	return s.String()
}

func decodeMarked(word string) (dagrun.State, error) {
	if word == "" {
		return dagrun.TaskPending, nil
	}
	return dagrun.ParseState(word)
}

func encodeEnding(e dagrun.Ending) string {
	if e == dagrun.EndingNone {
		return ""
	}
	return e.String()
}

func decodeEnding(word string) (dagrun.Ending, error) {
	if word == "" {
		return dagrun.EndingNone, nil
	}
	return dagrun.ParseEnding(word)
}

// storedCounts is the form of dagrun.Counts in runs.counts. It has the words that states have elsewhere.
type storedCounts struct {
	Total          int `json:"total"`
	Open           int `json:"open"`
	Succeeded      int `json:"succeeded"`
	Failed         int `json:"failed"`
	Skipped        int `json:"skipped"`
	UpstreamFailed int `json:"upstream_failed"`
	Canceled       int `json:"canceled"`
	Replaced       int `json:"replaced"`
}

func encodeCounts(c dagrun.Counts) string {
	text, err := json.Marshal(storedCounts(c))
	if err != nil {
		panic(fmt.Sprintf("queue: counts that cannot be written as JSON: %v: %v", c, err))
	}
	return string(text)
}

// decodeCounts decodes the counts of a run. A null means zeros, because a run that never started has no counts.
func decodeCounts(text []byte) (dagrun.Counts, error) {
	var c storedCounts
	if len(text) == 0 {
		return dagrun.Counts{}, nil
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return dagrun.Counts{}, fmt.Errorf("counts %q: %w", text, err)
	}
	return dagrun.Counts(c), nil
}
