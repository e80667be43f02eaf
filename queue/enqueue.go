package queue

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	statement "github.com/oarlock-dev/oarlock/sql"
)

var (
	enqueueSQL = statement.Named("queue/enqueue")
	rerunSQL   = statement.Named("queue/rerun")
)

const enqueueOp = "enqueue"

// Querier is the part of pgx.Tx, *pgx.Conn and *pgxpool.Pool that this package uses.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// SQLQuerier is the part of *sql.Tx, *sql.Conn and *sql.DB that this package uses.
type SQLQuerier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Enqueue requests a run, in a transaction of its own, and returns the run's number. With a Key it may be called again after any
// failure, and makes one run. If the reply is lost, Enqueue finds out whether the run exists, even if ctx has ended meanwhile.
// Without a Key, a lost reply is ErrUnknown.
func (s *Store) Enqueue(ctx context.Context, r Request) (RunID, error) {
	args, err := r.args()
	if err != nil {
		return 0, wrapError(enqueueOp, err)
	}
	var id RunID
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, enqueueSQL, args).Scan(&id)
	}
	again := do
	if r.Key == "" {
		again = unknown("give the request a Key: then you can repeat the request, and Oarlock makes only one run")
	}
	if err := s.write(ctx, askTimeout, do, again); err != nil {
		return 0, wrapError(enqueueOp, err)
	}
	return id, nil
}

// Rerun requests a new run like a run that has ended, and returns the new run's number. The new run has the params of the old
// one, overridden by the names in params; nil overrides none. With latest it gets the current version of the DAG, without latest
// the version of the old run. A lost reply is ErrUnknown.
func (s *Store) Rerun(ctx context.Context, run RunID, params map[string]any, latest bool) (RunID, error) {
	op := fmt.Sprintf("rerun run %d", run)
	if params == nil {
		params = map[string]any{}
	}
	text, err := jsonText("params", params)
	if err != nil {
		return 0, wrapError(op, err)
	}
	var id RunID
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, rerunSQL, pgx.StrictNamedArgs{"run": run, "params": text, "latest": latest}).Scan(&id)
	}
	return id, wrapError(op, s.write(ctx, askTimeout, do, unknown("look for the run among the newest runs before you repeat the request")))
}

// EnqueueTx requests a run in a transaction of the caller, and returns the run's number. The run exists once that transaction
// commits, and never did if it rolls back. The section Transactions of docs/sql-api.md describes how the request affects the
// transaction.
func EnqueueTx(ctx context.Context, tx Querier, r Request) (RunID, error) {
	args, err := r.args()
	if err != nil {
		return 0, wrapError(enqueueOp, err)
	}
	var id RunID
	err = tx.QueryRow(ctx, enqueueSQL, args).Scan(&id)
	return id, wrapError(enqueueOp, err)
}

// EnqueueSQL is EnqueueTx for database/sql, with any driver for Postgres that has the placeholders $1, $2, ….
func EnqueueSQL(ctx context.Context, tx SQLQuerier, r Request) (RunID, error) {
	args, err := r.args()
	if err != nil {
		return 0, wrapError(enqueueOp, err)
	}
	text, values, err := args.RewriteQuery(ctx, nil, enqueueSQL, nil)
	if err != nil {
		return 0, wrapError(enqueueOp, err)
	}
	var id RunID
	err = tx.QueryRowContext(ctx, text, values...).Scan(&id)
	return id, wrapError(enqueueOp, err)
}

// args returns the arguments of the enqueue statement, in types that every driver for Postgres can send. Fields of r that are not
// set become null. It returns an error if params, labels or selector cannot be written as JSON.
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

// overrides returns the labels and the selector of a request as JSON. nil leaves the DAG's own value in force. Labels without an
// entry give nil. Only a nil selector gives nil, because an empty selector selects every worker.
func overrides(labels, selector map[string]string) (o overridden, err error) {
	if len(labels) > 0 {
		if o.labels, err = jsonText("labels", labels); err != nil {
			return o, err
		}
	}
	if selector != nil { // an empty selector, unlike nil, selects every worker
		o.selector, err = jsonText("selector", selector)
	}
	return o, err
}

// given returns nil if v is the zero value of its type, and a pointer to a copy of v if not.
func given[T comparable](v T) *T {
	if v == *new(T) {
		return nil
	}
	return &v
}

// moment returns t in UTC, cut to microseconds, the precision of Postgres. It returns nil for the zero time. Drivers round
// differently, and a Key belongs to exactly one logical_at.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return given(t.UTC().Truncate(time.Microsecond))
}

// jsonText returns the JSON of v, or nil if v is nil. what names v in the error for a v that cannot be written as JSON.
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

var enqueueManySQL = statement.Named("queue/enqueue_many")

const enqueueManyOp = "enqueue many"

// MaxBulk bounds the runs of one EnqueueMany.
const MaxBulk = 100_000

// EnqueueMany requests many runs at once, all of them or none, and returns their numbers in the order of b.Params. More than
// MaxBulk runs are an error. With a Key for each run it may be called again after any failure, and it finds out the outcome of a
// lost reply as Enqueue does. If a key is missing, a lost reply is ErrUnknown.
func (s *Store) EnqueueMany(ctx context.Context, b Bulk) ([]RunID, error) {
	args, err := b.args()
	if err != nil {
		return nil, wrapError(enqueueManyOp, err)
	}
	var ids []RunID
	do := func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, enqueueManySQL, args)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[RunID])
		return err
	}
	again := do
	if !b.keyed() {
		again = unknown("give each request a key: then you can repeat the requests, and Oarlock makes only one run for each")
	}
	if err := s.write(ctx, bulkTimeout, do, again); err != nil {
		return nil, wrapError(enqueueManyOp, err)
	}
	return ids, nil
}

// keyed reports whether every run has a key, so that a repeat is harmless.
func (b *Bulk) keyed() bool {
	return len(b.Keys) == len(b.Params) && !slices.Contains(b.Keys, "")
}

func (b *Bulk) args() (pgx.StrictNamedArgs, error) {
	switch {
	case len(b.Params) > MaxBulk:
		return nil, fmt.Errorf("%d runs in one call, at most %d: call it several times", len(b.Params), MaxBulk)
	case b.Keys != nil && len(b.Keys) != len(b.Params):
		return nil, fmt.Errorf("%d keys for %d params: give one or \"\" for each", len(b.Keys), len(b.Params))
	}
	params := make([]*string, len(b.Params))
	var errs []error
	for i, p := range b.Params {
		var err error
		if params[i], err = jsonText("params", p); err != nil {
			errs = append(errs, fmt.Errorf("row %d: %w", i+1, err))
			break
		}
	}
	where, err := overrides(b.Labels, b.Selector)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	return pgx.StrictNamedArgs{
		"dag": b.DAG, "params": params, "keys": b.keys(), "run_at": moment(b.RunAt), "priority": b.Priority, "queue": given(b.Queue),
		"labels": where.labels, "selector": where.selector, "traceparent": given(b.Traceparent), "version": given(b.Version),
	}, nil
}

func (b *Bulk) keys() []*string {
	if b.Keys == nil {
		return nil
	}
	keys := make([]*string, len(b.Keys))
	for i, k := range b.Keys {
		keys[i] = given(k)
	}
	return keys
}

var enqueueChild = statement.Named("queue/enqueue_child")

// Pauses between tries to enqueue a child if its key is taken by a transaction that an application keeps open.
const (
	firstKeyPause   = 50 * time.Millisecond
	longestKeyPause = 2 * time.Second
)

// EnqueueChild requests a run on behalf of a task, and returns the number of the child run. A repeat for the same attempt, or any
// request with the same Key, returns the same run. If an application keeps a transaction open that has taken the key,
// EnqueueChild tries again until that transaction or ctx ends. It holds no connection between tries, so that other calls can use
// it. It returns ErrLeaseLost if the claim is gone.
func (s *Session) EnqueueChild(ctx context.Context, c Child) (RunID, error) {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = firstKeyPause, longestKeyPause
	id, err := backoff.Retry(ctx, func() (RunID, error) {
		id, err := s.enqueueChild(ctx, c)
		if err != nil && !isLockTimeout(err) {
			err = backoff.Permanent(err)
		}
		return id, err
	}, backoff.WithMaxElapsedTime(0), backoff.WithBackOff(pause))
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrLeaseLost
	}
	if err != nil {
		return 0, wrapError(fmt.Sprintf("enqueue a child of run %d", c.Claim.Run), err)
	}
	return id, nil
}

// enqueueChild makes the child, or returns the child that an earlier call for the same attempt or key has made. So it is also the
// way to read back a lost reply. If another transaction has taken the key, it returns the server's lock timeout, and the caller
// tries again later. It returns pgx.ErrNoRows if the claim is gone.
func (s *Session) enqueueChild(ctx context.Context, c Child) (id RunID, err error) {
	var taken error
	ask := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		err := s.call(ctx, func(ctx context.Context, db caller) error { return db.QueryRow(ctx, enqueueChild, c.row()).Scan(&id) })
		if taken = nil; isLockTimeout(err) {
			taken, err = err, nil
		}
		return err
	}
	err = pglink.Do(ctx, ask, func(context.Context) (bool, error) { return false, nil })
	return id, errors.Join(err, taken)
}

func (c *Child) row() pgx.StrictNamedArgs {
	args := pgx.StrictNamedArgs{
		"run": int64(c.Claim.Run), "claim": c.Claim.ID, "step": c.Task.Step, "item": c.Task.Item, "alt": c.Task.Alt,
		"attempt": c.Attempt, "dag": c.DAG, "params": nil, "priority": c.Priority, "queue": nil, "labels": c.Labels,
		"detached": c.Detached, "run_key": nil, "run_at": nil,
	}
	if c.Params != "" {
		args["params"] = string(c.Params)
	}
	if c.Queue != "" {
		args["queue"] = c.Queue
	}
	if c.Key != "" {
		args["run_key"] = c.Key
	}
	if !c.RunAt.IsZero() {
		args["run_at"] = c.RunAt
	}
	if c.Labels == nil {
		args["labels"] = map[string]string{}
	}
	return args
}

var settleTask = statement.Named("queue/settle")

// SettleTx stores the result of a task in tx, the transaction of the task's own SQL, so that both become durable together. Call
// it last before COMMIT, because from then on the transaction holds a lock that a takeover of the run waits for. After the COMMIT
// pass the result to the core and through Commit as usual. If that does not happen, Load passes it to the next driver. On
// ErrLeaseLost roll back, because the attempt no longer belongs to this worker.
func (s *Session) SettleTx(ctx context.Context, tx pgx.Tx, r Settlement) error {
	var outputs any
	if r.Outputs != "" {
		outputs = string(r.Outputs)
	}
	tag, err := tx.Exec(ctx, settleTask, pgx.StrictNamedArgs{
		"worker": s.worker.ID, "run": r.Claim.Run, "claim": r.Claim.ID, "attempt": r.Attempt, "outputs": outputs,
		"step": r.Task.Step, "item": r.Task.Item, "alt": r.Task.Alt,
	})
	if err != nil {
		return fmt.Errorf("settle a task of run %d: %w", r.Claim.Run, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("settle a task of run %d: %w", r.Claim.Run, ErrLeaseLost)
	}
	return nil
}
