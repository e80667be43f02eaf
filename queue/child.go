package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/internal/pglink"
	"github.com/oarlock-dev/oarlock/sql"
)

var enqueueChild = sql.Named("queue/enqueue_child")

// Pauses between tries of a child whose key is in a transaction that an application keeps open.
const (
	firstKeyPause   = 50 * time.Millisecond
	longestKeyPause = 2 * time.Second
)

// EnqueueChild asks for a run on behalf of a task. Asked again for the same attempt, or with the same Key, by whomever, it
// answers with the same run. Where an application keeps a transaction open that took the key, it asks again and again, and has no
// connection in between: those are for who need not wait.
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
		return 0, said(fmt.Sprintf("enqueue a child of run %d", c.Claim.Run), err)
	}
	return id, nil
}

// enqueueChild does not wait for a key. That finds the child which an earlier try made: asking again is how to read back.
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
