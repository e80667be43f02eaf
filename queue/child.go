package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

var enqueueChild = sql.Named("queue/enqueue_child")

// EnqueueChild asks for a run on behalf of a task. Asked again for the same attempt, or with the same Key, by whomever, it
// answers with the same run. Where an application keeps a transaction open that took the key, it waits for the end of that, with all
// others that do behind one connection: the rest is for those who need not wait.
func (s *Session) EnqueueChild(ctx context.Context, c Child) (RunID, error) {
	var id RunID
	var waits bool
	ask := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		err := s.store.pool.QueryRow(ctx, enqueueChild, c.row()).Scan(&id)
		if waits = isLockTimeout(err); waits {
			return nil
		}
		return err
	}
	// its key finds the child that an earlier try made: asking again is how to read back
	again := func(context.Context) (bool, error) { return false, nil }
	err := pglink.Do(ctx, ask, again)
	for err == nil && waits {
		if err = take(ctx, s.store.keyTurn); err == nil {
			err = pglink.Do(ctx, ask, again)
			s.store.keyTurn <- struct{}{}
		}
	}
	if errors.Is(err, pgx.ErrNoRows) {
		err = ErrLeaseLost
	}
	if err != nil {
		return 0, said(fmt.Sprintf("enqueue a child of run %d", c.Claim.Run), err)
	}
	return id, nil
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
