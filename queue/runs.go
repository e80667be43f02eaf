package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype/zeronull"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/sql"
)

var (
	runSQL    = sql.Named("queue/run")
	pickSQL   = sql.Named("queue/run_pick")
	tasksSQL  = sql.Named("queue/tasks")
	resultSQL = sql.Named("queue/result")
)

// Get reads one run. It returns ErrNotFound if there is none, or if the user is not allowed to see it.
func (s *Store) Get(ctx context.Context, run RunID) (*Run, error) {
	var quiet bool
	r, err := one(ctx, s, runSQL, pgx.StrictNamedArgs{"run": run}, func(row pgx.CollectableRow) (Run, error) { return scanRunAnd(row, &quiet) })
	if err != nil {
		return nil, wrapError("get a run", noSuchRun(run, err))
	}
	r.Quiet = quiet
	return &r, nil
}

// Pick reads the runs with the given numbers, newest first. It leaves out numbers of runs that do not exist or that the user is
// not allowed to see.
func (s *Store) Pick(ctx context.Context, ids []RunID) ([]Run, error) {
	runs, err := list(ctx, s, pickSQL, pgx.StrictNamedArgs{"runs": ids}, scanRun)
	return runs, wrapError("read runs", err)
}

// Tasks reads the tasks of a run in the order of its DAG: steps, items, replacements, and handlers that ran. A task that has not
// begun is pending. It returns ErrNotFound if there is no such run, or if the user is not allowed to see it.
func (s *Store) Tasks(ctx context.Context, run RunID) ([]Task, error) {
	tasks, err := list(ctx, s, tasksSQL, pgx.StrictNamedArgs{"run": run}, scanTask)
	if err == nil && len(tasks) == 0 { // no task means no run, because every DAG has a step
		err = noSuchRun(run, pgx.ErrNoRows)
	}
	return tasks, wrapError("read tasks", err)
}

// Result reads how a run ended, with the outputs of its steps. It does not wait: for a run that has not ended, FinishedAt is zero
// and there are no outputs. It returns ErrNotFound if there is no such run, or if the user is not allowed to see it.
func (s *Store) Result(ctx context.Context, run RunID) (*Result, error) {
	r, err := one(ctx, s, resultSQL, pgx.StrictNamedArgs{"run": run}, scanResult)
	if err != nil {
		return nil, wrapError("read a result", noSuchRun(run, err))
	}
	return &r, nil
}

// noSuchRun returns err, but an ErrNotFound that names the run if err is pgx.ErrNoRows. The error is the same for a run that does
// not exist and for a run of another submitter.
func noSuchRun(run RunID, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("there is no run %d, or it is not yours: %w", run, ErrNotFound)
	}
	return err
}

// one reads the only row of a query, and tries again if the connection breaks. It returns pgx.ErrNoRows if there is no row, and
// an error if there are several.
func one[T any](ctx context.Context, s *Store, query string, args pgx.StrictNamedArgs, scan pgx.RowToFunc[T]) (v T, err error) {
	err = s.read(ctx, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		rows, _ := conn.Query(ctx, query, args) // rows returns the error too
		v, err = pgx.CollectExactlyOneRow(rows, scan)
		return err
	})
	return v, err
}

// list reads all rows of a query, and tries again if the connection breaks. No rows are no error.
func list[T any](ctx context.Context, s *Store, query string, args pgx.StrictNamedArgs, scan pgx.RowToFunc[T]) (all []T, err error) {
	err = s.read(ctx, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		rows, _ := conn.Query(ctx, query, args)
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	return all, err
}

func scanRun(row pgx.CollectableRow) (Run, error) { return scanRunAnd(row) }

// scanRunAnd scans the columns of a run, and then into more the columns that follow them in the row.
func scanRunAnd(row pgx.CollectableRow, more ...any) (r Run, err error) {
	var counts []byte
	columns := []any{
		&r.ID, &r.UID, &r.DAG, &r.Version, &r.Generation, &r.State, &r.Reason, &r.Tolerated, &r.Queue, &r.Priority, &r.Params,
		&r.Labels, (*zeronull.Text)(&r.Key), &r.Trigger, &r.Epoch, (*zeronull.Text)(&r.Worker), &r.SubmittedBy,
		(*zeronull.Int8)(&r.Parent), (*zeronull.Int8)(&r.Root), (*zeronull.Int8)(&r.RetryOf), &counts,
		&r.RunAt, &r.LogicalAt, &r.CreatedAt, (*zeronull.Timestamptz)(&r.StartedAt), (*zeronull.Timestamptz)(&r.FinishedAt),
		(*zeronull.Text)(&r.Schedule), (*zeronull.Timestamptz)(&r.PreviousLogicalAt), (*zeronull.Text)(&r.Actor),
	}
	if err = row.Scan(append(columns, more...)...); err == nil {
		r.Counts, err = decodeCounts(counts)
	}
	return r, err
}

func scanTask(row pgx.CollectableRow) (Task, error) {
	items := 0
	t, err := scanTaskAnd(row, &items)
	t.Items = items
	return t, err
}

// scanTaskAnd scans the columns of a task, and then into more the columns that follow them in the row.
func scanTaskAnd(row pgx.CollectableRow, more ...any) (t Task, err error) {
	var approval []byte
	columns := []any{
		&t.Step, (*zeronull.Text)(&t.Item), &t.Kind, &t.State, &t.Reason, (*zeronull.Text)(&t.FailureKind), &t.ExitCode,
		&t.Attempt, &t.Outputs, (*zeronull.Text)(&t.Worker), (*zeronull.Text)(&t.Replaces),
		(*zeronull.Timestamptz)(&t.NextAttemptAt), (*zeronull.Timestamptz)(&t.StartedAt), (*zeronull.Timestamptz)(&t.FinishedAt), &approval,
		(*zeronull.Timestamptz)(&t.AttemptAt),
	}
	if err = row.Scan(append(columns, more...)...); err == nil {
		t.Approval, err = decodeQuestion(approval)
	}
	return t, err
}

func scanResult(row pgx.CollectableRow) (r Result, err error) {
	var outputs map[string]json.RawMessage
	var isOver bool
	err = row.Scan(&r.State, &r.Reason, &r.Tolerated, &outputs,
		(*zeronull.Timestamptz)(&r.StartedAt), (*zeronull.Timestamptz)(&r.FinishedAt), &isOver)
	r.Outputs = outputs
	return r, err
}

// Bounds of a Page.
const (
	DefaultPage = 50
	MaxPage     = 1000
)

var (
	listSQL       = sql.Named("queue/list")
	listLookedSQL = sql.Named("queue/list_looked")
)

// List reads a page of the runs that f selects and that the user is allowed to see, newest first. f.Limit must be from 0 to
// MaxPage.
func (s *Store) List(ctx context.Context, f Filter) (Page, error) {
	const op = "list runs"
	args, err := f.args()
	if err != nil {
		return Page{}, wrapError(op, err)
	}
	var page Page
	if f.Look > 0 {
		page, err = s.lookForRuns(ctx, args, f.Look)
	} else {
		page.Runs, err = list(ctx, s, listSQL, args, scanRun)
	}
	if err != nil {
		return Page{}, wrapError(op, err)
	}
	if n := len(page.Runs); n == f.limit() {
		page.Next = page.Runs[n-1].ID
	}
	return page, nil
}

// lookForRuns reads a page, but looks at only look runs for conditions that no index has. So the page may be short or empty. Its
// Next is then the run at which the search stopped, or 0 if no runs are left.
func (s *Store) lookForRuns(ctx context.Context, args pgx.StrictNamedArgs, look int) (Page, error) {
	args["look"] = look
	found, err := list(ctx, s, listLookedSQL, args, scanFoundRun)
	var page Page
	for i := range found {
		page.Next = found[i].stop
		if found[i].run.ID != 0 {
			page.Runs = append(page.Runs, found[i].run)
		}
	}
	return page, err
}

// foundRun is a row of queue/list_looked. It has no run if none was found.
type foundRun struct {
	run  Run
	stop RunID
}

// scanFoundRun scans a row of queue/list_looked. If its first column is null, the row has no run, and only its last column
// counts.
func scanFoundRun(row pgx.CollectableRow) (f foundRun, err error) {
	stop := (*zeronull.Int8)(&f.stop)
	values := row.RawValues()
	if values[0] != nil {
		f.run, err = scanRunAnd(row, stop)
		return f, err
	}
	columns := make([]any, len(values)) // Scan skips a nil column
	columns[len(columns)-1] = stop
	return f, row.Scan(columns...)
}

func (f *Filter) limit() int {
	if f.Limit == 0 {
		return DefaultPage
	}
	return f.Limit
}

func (f *Filter) args() (pgx.StrictNamedArgs, error) {
	if limit := f.limit(); limit < 1 || limit > MaxPage {
		return nil, fmt.Errorf("a page has 1 to %d runs, not %d", MaxPage, limit)
	}
	var labels *string
	if len(f.Labels) > 0 {
		text, err := jsonText("labels", f.Labels)
		if err != nil {
			return nil, err
		}
		labels = text
	}
	return pgx.StrictNamedArgs{
		"states": f.states(), "dag": given(f.DAG), "queue": given(f.Queue), "labels": labels, "parent": given(f.Parent),
		"since": moment(f.Since), "before": given(f.Before), "rows": f.limit(),
	}, nil
}

// states returns each of f.States once. If f.States is empty, it returns a single null, which selects all states.
func (f *Filter) states() []*string {
	if len(f.States) == 0 {
		return []*string{nil}
	}
	seen := map[string]bool{}
	var states []*string
	for _, state := range f.States {
		if !seen[state] {
			seen[state] = true
			states = append(states, &state)
		}
	}
	return states
}

// MaxEvents bounds one call of Events.
const MaxEvents = 1000

var (
	controlsSQL = sql.Named("queue/controls")
	attemptsSQL = sql.Named("queue/attempts")
	eventsSQL   = sql.Named("queue/events")
)

// Controls reads the newest 1,000 requests to a run, oldest first. Of another submitter's run a submitter sees only its own
// requests.
func (s *Store) Controls(ctx context.Context, run RunID) ([]Control, error) {
	controls, err := list(ctx, s, controlsSQL, pgx.StrictNamedArgs{"run": run}, scanControl)
	return controls, wrapError("read controls", err)
}

// Attempts reads the attempts of a run that later attempts superseded. The last attempt of each task is not among them: Tasks
// shows it. It returns none for a run that does not exist or that the user is not allowed to see.
func (s *Store) Attempts(ctx context.Context, run RunID) ([]Attempt, error) {
	attempts, err := list(ctx, s, attemptsSQL, pgx.StrictNamedArgs{"run": run}, scanAttempt)
	return attempts, wrapError("read attempts", err)
}

// Events reads the events of a run with an ID above after, oldest first, at most MaxEvents; 0 reads from the first event. It
// returns none for a run that does not exist or that the user is not allowed to see.
func (s *Store) Events(ctx context.Context, run RunID, after int64) ([]Event, error) {
	events, err := list(ctx, s, eventsSQL, pgx.StrictNamedArgs{"run": run, "after": after, "rows": MaxEvents}, scanEvent)
	return events, wrapError("read events", err)
}

func scanAttempt(row pgx.CollectableRow) (a Attempt, err error) {
	var signal *int
	err = row.Scan(&a.Step, &a.Item, &a.Attempt, &a.Generation, &a.State, (*zeronull.Text)(&a.FailureKind), &a.ExitCode, &signal,
		&a.Reason, (*zeronull.Text)(&a.Worker), (*zeronull.Timestamptz)(&a.StartedAt), (*zeronull.Timestamptz)(&a.FinishedAt))
	a.Signal = orZero(signal)
	return a, err
}

func scanEvent(row pgx.CollectableRow) (e Event, err error) {
	var epoch *int
	err = row.Scan(&e.ID, &e.At, &e.Kind, (*zeronull.Text)(&e.By), (*zeronull.Text)(&e.Worker), &epoch, (*zeronull.Text)(&e.Step),
		(*zeronull.Text)(&e.Item), &e.Message)
	e.Epoch = orZero(epoch)
	return e, err
}

func orZero[T any](v *T) T {
	if v == nil {
		return *new(T)
	}
	return *v
}

// Watch yields the run at once, and again whenever it has changed, until it is over. Several changes may show as one. Watch goes
// on while the database is away. If ctx ends, or waiting cannot mend an error, that error is its last value, with a nil run.
func (s *Store) Watch(ctx context.Context, run RunID) iter.Seq2[*Run, error] {
	return func(yield func(*Run, error) bool) {
		var last *Run
		err := s.look(ctx, run, func(ctx context.Context) (bool, error) {
			r, err := s.Get(ctx, run)
			if err != nil || reflect.DeepEqual(r, last) {
				return false, err
			}
			last = r
			return !yield(r, nil) || r.Over(), nil
		})
		if err != nil {
			yield(nil, wrapError("watch a run", err))
		}
	}
}

// Listen calls news at once, and then whenever something may have changed in a run or in its tasks, or with logs also in their
// logs. It reads nothing itself. It blocks, even after the run is over, until ctx ends or the store is closed. It returns the
// error of ctx, or ErrClosed.
func (s *Store) Listen(ctx context.Context, run RunID, logs bool, news func()) error {
	news()
	f := s.newFollower(run, logs)
	defer f.close(ctx)
	for {
		heard, err := f.hear(ctx)
		if err != nil {
			return err
		}
		if heard {
			news()
		}
	}
}

// Await waits for the end of a run, and returns how it ended. It goes on while the database is away. It returns an error if ctx
// ends, or if waiting cannot mend an error, such as ErrNotFound.
func (s *Store) Await(ctx context.Context, run RunID) (*Result, error) {
	var result *Result
	err := s.look(ctx, run, func(ctx context.Context) (over bool, err error) {
		result, err = s.Result(ctx, run)
		return err == nil && !result.FinishedAt.IsZero(), err
	})
	if err != nil {
		return nil, wrapError("await a run", err)
	}
	return result, nil
}

// look calls at until it returns done: at once, whenever there is news of the run, and at intervals. It goes on after an error of
// at that waiting may mend, and returns any other. It returns nil once at is done.
func (s *Store) look(ctx context.Context, run RunID, at func(context.Context) (done bool, err error)) error {
	var f *follower // made only after the first call, because most runs that callers ask for are over
	for {
		done, err := s.glance(ctx, at)
		if done || err != nil && !passes(ctx, err) {
			return err
		}
		if f == nil {
			f = s.newFollower(run, false)
			defer f.close(ctx)
		}
		if err := f.wait(ctx); err != nil {
			return err
		}
	}
}

// glance calls at once, with a context that ends after followTimeout, so that a connection that hangs does not hold up the next
// look.
func (s *Store) glance(ctx context.Context, at func(context.Context) (bool, error)) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, followTimeout)
	defer cancel()
	return at(ctx)
}
