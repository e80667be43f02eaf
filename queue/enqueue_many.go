package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	statement "github.com/oarlock-dev/oarlock/sql"
)

var enqueueManySQL = statement.Named("queue/enqueue_many")

const enqueueManyOp = "enqueue many"

// MaxBulk bounds the runs of one EnqueueMany.
const MaxBulk = 100_000

// EnqueueMany asks for many runs at once, and returns their numbers in the order of Params: all of them or none. With a Key
// for each it may be called again after any failure, and a lost reply is looked after as in Enqueue.
func (s *Store) EnqueueMany(ctx context.Context, b Bulk) ([]RunID, error) {
	args, err := b.args()
	if err != nil {
		return nil, said(enqueueManyOp, err)
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
		again = unknown("give each request a key: then they can be repeated, and are one run each")
	}
	if err := s.write(ctx, bulkTimeout, do, again); err != nil {
		return nil, said(enqueueManyOp, err)
	}
	return ids, nil
}

// keyed says whether a repeat is harmless.
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
