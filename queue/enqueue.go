package queue

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	statement "github.com/oarlock-dev/oarlock/sql"
)

var (
	enqueueSQL = statement.Named("queue/enqueue")
	rerunSQL   = statement.Named("queue/rerun")
)

const enqueueOp = "enqueue"

// Querier is what pgx.Tx, *pgx.Conn and *pgxpool.Pool have in common here.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// SQLQuerier is what *sql.Tx, *sql.Conn and *sql.DB have in common here.
type SQLQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Enqueue asks for a run, in a transaction of its own. With a Key it may be called again after any failure, and a lost
// reply is looked after: once the request was sent, the answer says whether the run is there, even when ctx has ended
// meanwhile. Without one, a lost reply is ErrUnknown.
func (s *Store) Enqueue(ctx context.Context, r Request) (RunID, error) {
	args, err := r.args()
	if err != nil {
		return 0, said(enqueueOp, err)
	}
	var id RunID
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, enqueueSQL, args).Scan(&id)
	}
	again := do
	if r.Key == "" {
		again = unknown("give the request a Key: then it can be repeated, and is one run")
	}
	if err := s.write(ctx, askTimeout, do, again); err != nil {
		return 0, said(enqueueOp, err)
	}
	return id, nil
}

// Rerun asks for a new run of one that has ended, with its params but for those given (nil: none), in the DAG's current
// version if latest is set, else in the same. A lost reply is ErrUnknown.
func (s *Store) Rerun(ctx context.Context, run RunID, params map[string]any, latest bool) (RunID, error) {
	op := fmt.Sprintf("rerun run %d", run)
	if params == nil {
		params = map[string]any{}
	}
	text, err := jsonText("params", params)
	if err != nil {
		return 0, said(op, err)
	}
	var id RunID
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, rerunSQL, pgx.StrictNamedArgs{"run": run, "params": text, "latest": latest}).Scan(&id)
	}
	return id, said(op, s.write(ctx, askTimeout, do, unknown("look among the newest runs before you ask again")))
}

// EnqueueTx asks for a run in a transaction of the caller's: the run exists once that commits, and never did if it rolls
// back. What an enqueue does to a transaction is described in docs/sql-api.md, Transactions.
func EnqueueTx(ctx context.Context, tx Querier, r Request) (RunID, error) {
	args, err := r.args()
	if err != nil {
		return 0, said(enqueueOp, err)
	}
	var id RunID
	err = tx.QueryRow(ctx, enqueueSQL, args).Scan(&id)
	return id, said(enqueueOp, err)
}

// EnqueueSQL is EnqueueTx for database/sql, with any driver for Postgres whose placeholders are $1, $2, ….
func EnqueueSQL(ctx context.Context, tx SQLQuerier, r Request) (RunID, error) {
	args, err := r.args()
	if err != nil {
		return 0, said(enqueueOp, err)
	}
	text, values, err := args.RewriteQuery(ctx, nil, enqueueSQL, nil)
	if err != nil {
		return 0, said(enqueueOp, err)
	}
	var id RunID
	err = tx.QueryRowContext(ctx, text, values...).Scan(&id)
	return id, said(enqueueOp, err)
}

// args are of types that every driver can send. What was not given is null.
func (r *Request) args() (pgx.StrictNamedArgs, error) {
	params, err := jsonText("params", r.Params)
	if err != nil {
		return nil, err
	}
	where, err := overrides(r.Labels, r.Selector)
	if err != nil {
		return nil, err
	}
	trigger := "sql"
	if r.Manual {
		trigger = "manual"
	}
	return pgx.StrictNamedArgs{
		"dag": r.DAG, "params": params, "key": given(r.Key), "run_at": moment(r.RunAt), "priority": r.Priority,
		"queue": given(r.Queue), "labels": where.labels, "selector": where.selector, "logical_at": moment(r.LogicalAt),
		"traceparent": given(r.Traceparent), "precomputed": given(string(r.Precomputed)), "version": given(r.Version),
		"trigger": trigger,
	}, nil
}

type overridden struct{ labels, selector *string }

func overrides(labels, selector map[string]string) (o overridden, err error) {
	if len(labels) > 0 {
		if o.labels, err = jsonText("labels", labels); err != nil {
			return o, err
		}
	}
	if selector != nil { // an empty one asks for any worker
		o.selector, err = jsonText("selector", selector)
	}
	return o, err
}

// given is nil for a zero value.
func given[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// moment is as exact as Postgres, whatever a driver makes of the rest: a Key belongs to one logical_at.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return given(t.UTC().Truncate(time.Microsecond))
}

// jsonText is nil for nil.
func jsonText(what string, v any) (*string, error) {
	if v == nil {
		return nil, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be written as JSON: %w", what, err)
	}
	return given(string(text)), nil
}
