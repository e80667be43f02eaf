package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

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

// Get reads one run: ErrNotFound if there is none, or it is not the user's to see.
func (s *Store) Get(ctx context.Context, run RunID) (*Run, error) {
	r, err := one(ctx, s, runSQL, pgx.StrictNamedArgs{"run": run}, scanRun)
	if err != nil {
		return nil, said("get a run", noSuchRun(run, err))
	}
	return &r, nil
}

// Pick reads the runs of a list of numbers, newest first. Those that are not there, or not the user's to see, are left out.
func (s *Store) Pick(ctx context.Context, ids []RunID) ([]Run, error) {
	runs, err := list(ctx, s, pickSQL, pgx.StrictNamedArgs{"runs": ids}, scanRun)
	return runs, said("read runs", err)
}

// Tasks reads the tasks of a run in the order of its DAG: steps, items, replacements, and handlers that ran. What has not
// begun is pending.
func (s *Store) Tasks(ctx context.Context, run RunID) ([]Task, error) {
	tasks, err := list(ctx, s, tasksSQL, pgx.StrictNamedArgs{"run": run}, scanTask)
	if err == nil && len(tasks) == 0 { // every DAG has a step
		err = noSuchRun(run, pgx.ErrNoRows)
	}
	return tasks, said("read tasks", err)
}

// Result reads how a run ended, and what its steps put out. Of a run that has not ended it has no FinishedAt and no outputs.
func (s *Store) Result(ctx context.Context, run RunID) (*Result, error) {
	r, err := one(ctx, s, resultSQL, pgx.StrictNamedArgs{"run": run}, scanResult)
	if err != nil {
		return nil, said("read a result", noSuchRun(run, err))
	}
	return &r, nil
}

// noSuchRun says the same of a run that is not there and of one that is somebody else's.
func noSuchRun(run RunID, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("there is no run %d, or it is not yours: %w", run, ErrNotFound)
	}
	return err
}

// one reads the one row of a query: pgx.ErrNoRows if there is none.
func one[T any](ctx context.Context, s *Store, query string, args pgx.StrictNamedArgs, scan pgx.RowToFunc[T]) (v T, err error) {
	err = s.read(ctx, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		rows, _ := conn.Query(ctx, query, args) // the error is the rows' too
		v, err = pgx.CollectExactlyOneRow(rows, scan)
		return err
	})
	return v, err
}

// list reads all rows of a query.
func list[T any](ctx context.Context, s *Store, query string, args pgx.StrictNamedArgs, scan pgx.RowToFunc[T]) (all []T, err error) {
	err = s.read(ctx, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		rows, _ := conn.Query(ctx, query, args)
		all, err = pgx.CollectRows(rows, scan)
		return err
	})
	return all, err
}

func scanRun(row pgx.CollectableRow) (Run, error) { return scanRunAnd(row) }

// scanRunAnd scans the columns of a run, and the further ones of its row.
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

// scanTaskAnd scans the columns of a task, and the further ones of its row.
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
