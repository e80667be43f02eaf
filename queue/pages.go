package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/sql"
)

// Bounds of reads for pages.
const (
	DefaultTasks = 100
	MaxTasks     = 1000
	maxBands     = 200
)

var (
	runHeadSQL       = sql.Named("queue/run_head")
	stepSummariesSQL = sql.Named("queue/step_summaries")
	taskPageSQL      = sql.Named("queue/task_page")
	taskDetailSQL    = sql.Named("queue/task_detail")
	itemBandsSQL     = sql.Named("queue/item_bands")
)

// RunHead is the content of the head of a run's page.
type RunHead struct {
	Run
	Current int           // the newest version of the run's DAG
	Usual   time.Duration // median duration of the newest 20 other runs of the DAG that succeeded, among its newest 200; 0: none did
	Drives  []Drive       // drives that ended before the run did, oldest first: the newest 20
}

// Drive is a drive that was lost with its worker.
type Drive struct {
	At      time.Time `json:"at"`
	Worker  string    `json:"worker"`
	Epoch   int       `json:"epoch"`
	Message string    `json:"message"`
}

// RunHead reads a run and the facts at the top of its page. It returns ErrNotFound if there is no such run, or if the user is not
// allowed to see it. For a submitter, Usual is about the submitter's own runs only.
func (s *Store) RunHead(ctx context.Context, run RunID) (*RunHead, error) {
	h, err := one(ctx, s, runHeadSQL, pgx.StrictNamedArgs{"run": run}, scanRunHead)
	if err != nil {
		return nil, wrapError("read the head of a run", noSuchRun(run, err))
	}
	return &h, nil
}

func scanRunHead(row pgx.CollectableRow) (h RunHead, err error) {
	var ms float64
	var drives []byte
	h.Run, err = scanRunAnd(row, &h.Current, &ms, &drives)
	h.Usual = milliseconds(ms)
	if err == nil {
		err = decodeList("drives", drives, &h.Drives)
	}
	return h, err
}

// StepSummary is a step of a run with counts of its items, or a replacement of a step.
type StepSummary struct {
	Task                       // without outputs
	States      map[string]int // of a foreach: number of items by state; a replaced item counts with the state of its replacement
	First, Last time.Time      // of a foreach: when its first item began and its last one ended; zero while some have not
	Failed      string         // of a foreach: the first item by key that failed; "": none did
	Retried     int            // attempts before the last one, of all its tasks
	Tries       []Attempt      // of a step that is no foreach: its earlier attempts, oldest first, at most the newest 20
}

// StepSummaries reads the steps of a run in the order of its DAG, each followed by its replacements, and the handlers that ran.
// It returns no items; TaskPage does. It returns ErrNotFound if there is no such run, or if the user is not allowed to see it.
func (s *Store) StepSummaries(ctx context.Context, run RunID) ([]StepSummary, error) {
	steps, err := list(ctx, s, stepSummariesSQL, pgx.StrictNamedArgs{"run": run}, scanStepSummary)
	if err == nil && len(steps) == 0 { // no step means no run, because every DAG has a step
		err = noSuchRun(run, pgx.ErrNoRows)
	}
	return steps, wrapError("read steps", err)
}

// CountItems returns the foreach steps of a run that have a known list of items, with the counts of their items; it leaves out
// empty lists. tasks are the run's tasks as Tasks reads them: if none of them has items, CountItems reads nothing. nil means that
// they were not read. It returns none for a run that the user is not allowed to see, and none to an approver, because approvers
// cannot see items.
func (s *Store) CountItems(ctx context.Context, run RunID, tasks []Task) ([]StepSummary, error) {
	if tasks != nil && !slices.ContainsFunc(tasks, func(t Task) bool { return t.Items > 0 }) {
		return nil, nil
	}
	steps, err := s.StepSummaries(ctx, run)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return slices.DeleteFunc(steps, func(s StepSummary) bool { return s.Items == 0 }), err
}

func scanStepSummary(row pgx.CollectableRow) (s StepSummary, err error) {
	var tries []byte
	items := 0
	s.Task, err = scanTaskAnd(row, &items, &s.States, (*zeronull.Timestamptz)(&s.First), (*zeronull.Timestamptz)(&s.Last),
		(*zeronull.Text)(&s.Failed), &s.Retried, &tries)
	s.Items = items
	if err != nil {
		return s, err
	}
	begun := 0
	for _, n := range s.States {
		begun += n
	}
	if rest := s.Items - begun; rest > 0 {
		if s.States == nil {
			s.States = map[string]int{}
		}
		s.States["pending"] += rest
	}
	s.Tries, err = decodeAttempts(&s.Task, tries)
	return s, err
}

// TaskQuery selects tasks of a run for TaskPage.
type TaskQuery struct {
	Run    RunID
	Step   string   // "load": the step with its items and replacements; "load~1": this replacement, of the step and each item; "": all
	States []string // empty: all
	Item   string   // part of the item's name, case-insensitive
	After  TaskKey  // last task of the page before; zero: begin at the first
	Limit  int      // 0: 100, at most 1000
}

// TaskKey is the position of a task among the tasks of its run.
type TaskKey struct {
	Step int // position in the DAG, counted from 1
	Item string
	Alt  int
}

// TaskPage is a page of the tasks of a run that have a row, without their outputs.
type TaskPage struct {
	Tasks []Task
	Next  *TaskKey // TaskQuery.After of the next page, which may be empty; nil: there is none
}

// TaskPage reads tasks of a run that have a row, by step, item and replacement. q.Limit must be from 0 to MaxTasks. It reads at
// most 20,000 rows, so a page may have few tasks or none although more follow: the next page begins at Next.
func (s *Store) TaskPage(ctx context.Context, q TaskQuery) (TaskPage, error) {
	const op = "read a page of tasks"
	limit := q.Limit
	if limit == 0 {
		limit = DefaultTasks
	}
	if limit < 1 || limit > MaxTasks {
		return TaskPage{}, wrapError(op, fmt.Errorf("a page has 1 to %d tasks, not %d", MaxTasks, limit))
	}
	var states []string // nil: all states
	if len(q.States) > 0 {
		states = q.States
	}
	rows, err := list(ctx, s, taskPageSQL, pgx.StrictNamedArgs{
		"run": q.Run, "step": given(q.Step), "states": states, "item": given(q.Item),
		"after_step": q.After.Step - 1, "after_item": q.After.Item, "after_alt": q.After.Alt, "rows": limit,
	}, scanPlacedTask)
	if err == nil && len(rows) == 0 {
		err = noSuchRun(q.Run, pgx.ErrNoRows)
	}
	if err != nil {
		return TaskPage{}, wrapError(op, err)
	}
	page := TaskPage{Tasks: make([]Task, len(rows)-1)}
	for i := range page.Tasks {
		page.Tasks[i] = rows[i].task
	}
	switch last := rows[len(rows)-1]; {
	case len(page.Tasks) == limit:
		page.Next = rows[limit-1].place()
	case last.item != nil:
		page.Next = last.place()
	}
	return page, nil
}

// placedTask is a row of queue/task_page. The last row has no task, and no item either if the page reached the end.
type placedTask struct {
	task      Task
	step, alt int
	item      *string
}

func (t *placedTask) place() *TaskKey { return &TaskKey{Step: t.step + 1, Item: *t.item, Alt: t.alt} }

func scanPlacedTask(row pgx.CollectableRow) (t placedTask, err error) {
	t.task, err = scanTaskAnd(row, &t.step, &t.item, &t.alt)
	return t, err
}

// TaskDetail is one task of a run.
type TaskDetail struct {
	Task
	Attempts []Attempt // oldest first, including the last one; at most the newest 100
	LastLine string    // last line of stderr
}

// TaskDetail reads one task of a run. step and item name it as Tasks does; item "" means the step itself. It returns ErrNotFound
// if there is no such task, or if the user is not allowed to see the run.
func (s *Store) TaskDetail(ctx context.Context, run RunID, step, item string) (*TaskDetail, error) {
	d, err := one(ctx, s, taskDetailSQL, pgx.StrictNamedArgs{"run": run, "step": step, "item": item}, scanTaskDetail)
	if err != nil {
		return nil, wrapError("read a task", noSuchTask(run, step, item, err))
	}
	return &d, nil
}

// noSuchTask returns err, but an ErrNotFound that names the task if err is pgx.ErrNoRows.
func noSuchTask(run RunID, step, item string, err error) error {
	if err = noSuchRun(run, err); !errors.Is(err, ErrNotFound) {
		return err
	}
	if item != "" {
		step += "/" + item
	}
	return fmt.Errorf("there is no task %s of a run %d that you may see: %w", step, run, ErrNotFound)
}

func scanTaskDetail(row pgx.CollectableRow) (d TaskDetail, err error) {
	var tries, latest []byte
	if d.Task, err = scanTaskAnd(row, &d.LastLine, &tries, &latest); err != nil {
		return d, err
	}
	if d.Attempts, err = decodeAttempts(&d.Task, tries); err != nil || latest == nil {
		return d, err
	}
	last, err := decodeAttempts(&d.Task, slices.Concat([]byte("["), latest, []byte("]")))
	if n := len(d.Attempts); err == nil && (n == 0 || d.Attempts[n-1].Attempt < last[0].Attempt) { // else a retry has closed it already
		d.Attempts = append(d.Attempts, last[0])
	}
	d.Attempts = d.Attempts[max(0, len(d.Attempts)-maxAttempts):]
	return d, err
}

const maxAttempts = 100

// decodeAttempts decodes attempts of a task, and sets their Step and Item to those of t. It returns nil for an empty text, a null
// of the database.
func decodeAttempts(t *Task, text []byte) ([]Attempt, error) {
	var stored []storedAttempt
	if err := decodeList("attempts", text, &stored); err != nil || stored == nil {
		return nil, err
	}
	attempts := make([]Attempt, len(stored))
	for i, a := range stored {
		attempts[i] = Attempt(a)
		attempts[i].Step, attempts[i].Item = t.Step, t.Item
	}
	return attempts, nil
}

// storedAttempt is an Attempt in the form that SQL functions return.
type storedAttempt struct {
	Step        string    `json:"-"`
	Item        string    `json:"-"`
	Attempt     int       `json:"attempt"`
	Generation  int       `json:"generation"`
	State       string    `json:"state"`
	FailureKind string    `json:"failure_kind"`
	ExitCode    *int      `json:"exit_code"`
	Signal      int       `json:"signal"`
	Reason      string    `json:"reason"`
	Worker      string    `json:"worker"`
	StartedAt   time.Time `json:"started_at"`
	FinishedAt  time.Time `json:"finished_at"`
}

// decodeList decodes the JSON in text into to. It leaves to as it is if text is empty. what names the list in an error.
func decodeList[T any](what string, text []byte, to *[]T) error {
	if len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, to); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// Band is a stretch of time in the life of a foreach step.
type Band struct {
	From, To time.Time
	States   map[string]int // at its end: unfinished items count as running, finished items by their state
}

// BandSpan asks Bands for a foreach step, between two times.
type BandSpan struct {
	Step     string
	From, To time.Time
}

// Bands reads how the items of foreach steps of a run progressed. It cuts each span into buckets stretches of equal length, from
// 1 to 200, and returns them by step. It leaves out a step if no item had begun by the end of its span. A step must come once,
// and its span must not be empty. It returns ErrNotFound if there is no such run.
func (s *Store) Bands(ctx context.Context, run RunID, spans []BandSpan, buckets int) (map[string][]Band, error) {
	const op = "read items over time"
	if buckets < 1 || buckets > maxBands {
		return nil, wrapError(op, fmt.Errorf("there are 1 to %d parts, not %d", maxBands, buckets))
	}
	bands := make(map[string][]Band, len(spans))
	steps, since, until := make([]string, len(spans)), make([]time.Time, len(spans)), make([]time.Time, len(spans))
	for i, span := range spans {
		if bands[span.Step] != nil || !span.From.Before(span.To) {
			return nil, wrapError(op, fmt.Errorf("step %s from %v to %v: a step is asked for once, and its time ends after it begins", span.Step, span.From, span.To))
		}
		steps[i], since[i], until[i] = span.Step, span.From, span.To
		bands[span.Step] = emptyBands(span.From, span.To, buckets)
	}
	changes, err := list(ctx, s, itemBandsSQL, pgx.StrictNamedArgs{"run": run, "steps": steps, "since": since, "until": until, "buckets": buckets},
		pgx.RowToStructByPos[bandChange])
	if err == nil && len(changes) == 0 {
		err = noSuchRun(run, pgx.ErrNoRows)
	}
	if err != nil {
		return nil, wrapError(op, err)
	}
	for _, c := range changes {
		if c.Step == "" { // no item began before the end of the span
			continue
		}
		for i := c.Bucket - 1; i < buckets; i++ {
			bands[c.Step][i].add(c.State, c.Change)
		}
	}
	maps.DeleteFunc(bands, func(_ string, all []Band) bool { return len(all[buckets-1].States) == 0 })
	return bands, nil
}

type bandChange struct {
	Step   string
	Bucket int // counted from 1
	State  string
	Change int
}

// emptyBands returns buckets bands of equal length between two times, without states.
func emptyBands(from, to time.Time, buckets int) []Band {
	bands := make([]Band, buckets)
	at := func(i int) time.Time { return from.Add(to.Sub(from) * time.Duration(i) / time.Duration(buckets)) }
	for i := range bands {
		bands[i] = Band{From: at(i), To: at(i + 1), States: map[string]int{}}
	}
	return bands
}

// add changes the count of a state by change, and removes a state with the count 0.
func (b *Band) add(state string, change int) {
	if b.States[state] += change; b.States[state] == 0 {
		delete(b.States, state)
	}
}

var (
	heldSQL = sql.Named("queue/held")
	dueSQL  = sql.Named("queue/due")
)

// HeldRuns lists at most rows runs that a worker holds, oldest first. For readers and workers.
func (s *Store) HeldRuns(ctx context.Context, worker uuid.UUID, rows int) ([]Run, error) {
	runs, err := list(ctx, s, heldSQL, pgx.StrictNamedArgs{"worker": worker, "rows": rows}, scanRun)
	return runs, wrapError("list the runs of a worker", err)
}

// DueRuns lists at most rows waiting runs of a queue; the run that has been due for longest comes first. For readers and workers.
func (s *Store) DueRuns(ctx context.Context, queue string, rows int) ([]Run, error) {
	runs, err := list(ctx, s, dueSQL, pgx.StrictNamedArgs{"queue": queue, "rows": rows}, scanRun)
	return runs, wrapError("list the runs that wait in a queue", err)
}

var journalSQL = sql.Named("queue/journal")

// JournalEntry is an entry of a run's history: either an event or a control. The other field is nil.
type JournalEntry struct {
	Event   *Event
	Control *Control
}

// At returns when the event happened, or when the control was requested.
func (e JournalEntry) At() time.Time {
	if e.Event != nil {
		return e.Event.At
	}
	return e.Control.At
}

// JournalPlace is where a page of a run's history ends: before this event and this control. The zero place is the newest end.
type JournalPlace struct {
	Event, Control int64
}

// JournalPage is a page of a run's history, newest first.
type JournalPage struct {
	Entries []JournalEntry
	Next    *JournalPlace // the argument before for the next page; nil: there is none
}

// Journal reads one page of a run's history: its events and controls from before a place, newest first. The zero place begins at
// the newest entry. limit is from 1 to 1000; 0 means 100. An event that was recorded later comes before an earlier event, whatever
// their times say, and so does a control. Between an event and a control the later time comes first, and the event if the times are
// equal. Journal returns ErrNotFound if there is no such run, or if the user is not allowed to see it.
func (s *Store) Journal(ctx context.Context, run RunID, before JournalPlace, limit int) (JournalPage, error) {
	const op = "read the history of a run"
	if limit == 0 {
		limit = DefaultTasks
	}
	if limit < 1 || limit > MaxEvents {
		return JournalPage{}, wrapError(op, fmt.Errorf("a page has 1 to %d entries, not %d", MaxEvents, limit))
	}
	rows, err := list(ctx, s, journalSQL, pgx.StrictNamedArgs{
		"run": run, "event": given(before.Event), "control": given(before.Control), "rows": limit + 1,
	}, scanJournalEntry)
	if err == nil && len(rows) == 0 {
		err = noSuchRun(run, pgx.ErrNoRows)
	}
	if err != nil {
		return JournalPage{}, wrapError(op, err)
	}
	return journalPage(run, rows, before, limit), nil
}

// journalPage merges the events and the controls in rows, each newest first, into one page of at most limit entries. The newer
// one comes first, and the event if both have the same time. It sets the Run of each control to run. before is the place where
// the page begins. Next is the place behind the last entry if rows has more, and else nil.
func journalPage(run RunID, rows []JournalEntry, before JournalPlace, limit int) (page JournalPage) {
	var events, controls []JournalEntry
	for _, row := range rows {
		switch {
		case row.Event != nil:
			events = append(events, row)
		case row.Control != nil:
			row.Control.Run = run
			controls = append(controls, row)
		}
	}
	for len(events)+len(controls) > 0 {
		if len(page.Entries) == limit {
			page.Next = &before
			return page
		}
		if len(controls) == 0 || len(events) > 0 && !events[0].Event.At.Before(controls[0].Control.At) {
			before.Event = events[0].Event.ID
			page.Entries, events = append(page.Entries, events[0]), events[1:]
			continue
		}
		before.Control = controls[0].Control.ID
		page.Entries, controls = append(page.Entries, controls[0]), controls[1:]
	}
	return page
}

func scanJournalEntry(row pgx.CollectableRow) (entry JournalEntry, err error) {
	var e Event
	var c Control
	var message string
	var args json.RawMessage
	err = row.Scan(&e.ID, &c.ID, (*zeronull.Timestamptz)(&e.At), &e.Kind, (*zeronull.Text)(&e.By), (*zeronull.Text)(&e.Worker), &e.Epoch,
		(*zeronull.Text)(&e.Step), (*zeronull.Text)(&e.Item), (*zeronull.Text)(&message), &args,
		(*zeronull.Timestamptz)(&c.DecidedAt), (*zeronull.Text)(&c.Outcome), (*zeronull.Text)(&c.State))
	switch {
	case err != nil:
	case e.ID > 0:
		e.Message = message
		entry.Event = &e
	case c.ID > 0:
		c.At, c.By, c.Step, c.Item, c.Message, c.Args = e.At, e.By, e.Step, e.Item, message, args
		c.Verb, err = dagrun.ParseVerb(e.Kind)
		entry.Control = &c
	}
	return entry, err
}

var stepCountsSQL = sql.Named("queue/step_counts")

// CountSteps fills in Counts.Total and Counts.Open of the runs that have no counts yet, because a run stores its counts only with
// its first change. All steps of such a run are open. CountSteps changes the elements of runs, and makes at most one query. For
// readers.
func (s *Store) CountSteps(ctx context.Context, runs []Run) error {
	at := map[RunID]*Run{}
	var ids []RunID
	for i := range runs {
		if r := &runs[i]; r.Counts.Total == 0 {
			at[r.ID] = r
			ids = append(ids, r.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	type counted struct {
		Run   RunID
		Steps int
	}
	all, err := list(ctx, s, stepCountsSQL, pgx.StrictNamedArgs{"runs": ids}, pgx.RowToStructByPos[counted])
	for _, c := range all {
		at[c.Run].Counts.Total, at[c.Run].Counts.Open = c.Steps, c.Steps
	}
	return wrapError("count steps", err)
}

var stripsSQL = sql.Named("queue/strips")

// StripRun is a run drawn as one bar among many.
type StripRun struct {
	DAG       string
	ID        RunID
	State     string
	StartedAt time.Time
	EndedAt   time.Time
	Waited    time.Duration // between the time when it was due and its start
}

// Strips reads the newest runs of some DAGs, at most rows of each DAG, and returns them by DAG, oldest first. A DAG without runs
// is not in the map. For readers and workers.
func (s *Store) Strips(ctx context.Context, dags []string, rows int) (map[string][]StripRun, error) {
	runs, err := list(ctx, s, stripsSQL, pgx.StrictNamedArgs{"dags": dags, "rows": rows}, func(row pgx.CollectableRow) (r StripRun, err error) {
		var waitedMS int64
		err = row.Scan(&r.DAG, &r.ID, &r.State, (*zeronull.Timestamptz)(&r.StartedAt), &waitedMS, (*zeronull.Timestamptz)(&r.EndedAt))
		r.Waited = time.Duration(waitedMS) * time.Millisecond
		return r, err
	})
	strips := map[string][]StripRun{}
	for i := range runs {
		strips[runs[i].DAG] = append(strips[runs[i].DAG], runs[i])
	}
	return strips, wrapError("read the newest runs of dags", err)
}

var failureHistorySQL = sql.Named("queue/failure_history")

// FailureHistory compares a run with the newest 50 ended runs of its DAG.
type FailureHistory struct {
	Ended         int   // runs compared: at most 50
	Alike         int   // how many of them ended in the same state and with exactly the same reason
	First         RunID // the oldest of these; 0: there is none
	FirstVersion  int   // version of the DAG in First; 0: there is no First
	VersionBefore int   // version of the DAG in the run that ended before First; 0: First is the oldest run compared
	LastGood      RunID // the newest run that succeeded before the run ended, among the 200 before it; 0: none did
}

// FailureHistory compares a run with the newest 50 ended runs of its DAG. For a submitter it compares only the submitter's own
// runs among the newest 200. It returns ErrNotFound if there is no such run, or if the user is not allowed to see it.
func (s *Store) FailureHistory(ctx context.Context, run RunID) (*FailureHistory, error) {
	h, err := one(ctx, s, failureHistorySQL, pgx.StrictNamedArgs{"run": run}, func(row pgx.CollectableRow) (h FailureHistory, err error) {
		err = row.Scan(&h.Ended, &h.Alike, (*zeronull.Int8)(&h.First), &h.FirstVersion, &h.VersionBefore, (*zeronull.Int8)(&h.LastGood))
		return h, err
	})
	if err != nil {
		return nil, wrapError("read how runs of a dag ended", noSuchRun(run, err))
	}
	return &h, nil
}
