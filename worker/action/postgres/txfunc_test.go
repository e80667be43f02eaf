package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/integration/kit/netfault"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/action/postgres"
)

const call1 = "{id: a, action: my.func, outputs: [n], retry_policy: {limit: 1, interval: 1ms, kinds: [exit, panic, sql]}}"

func add(ctx context.Context, tx pgx.Tx, key string) error {
	_, err := tx.Exec(ctx, "INSERT INTO ledger (key) VALUES ($1)", key)
	return err
}

func TestFunc_CommitsWithItsOutcome(t *testing.T) {
	t.Parallel()
	y := setup(t)
	proxy, url := netfault.Through(t, y.tasks)
	a := y.action(through(url))
	cut := proxy.Inject(netfault.Fault{When: netfault.Completed("COMMIT"), Do: netfault.Cut})
	y.work(a, a.Func(func(ctx context.Context, tx pgx.Tx, task *worker.Task) (worker.Outputs, error) {
		worker.Logger(ctx).Info("hello", "step", task.Step)
		return worker.Outputs{"n": "7"}, add(ctx, tx, "a")
	}))
	id := y.run(call1)
	if got := y.await(id); got != "succeeded" {
		t.Errorf("the run is %s", got)
	}
	cut.MustFire(t)
	y.wantRows(1)
	if !get[bool](y, "SELECT outputs = '{\"n\": \"7\"}' AND settled -> 'outputs' = outputs AND attempt = 1 FROM oarlock.tasks") {
		t.Error("it was not settled")
	}
	if !strings.Contains(y.log.String(), "msg=hello step=a") {
		t.Errorf("logged %q", y.log.String())
	}
}

func TestFunc_ABrokenTransactionIsLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		returns func(error) error
		want    string
		calls   int32
	}{
		"its error":       {func(err error) error { return fmt.Errorf("add: %w", err) }, "succeeded", 2},
		"another error":   {func(error) error { return errors.New("oh") }, "failed step a failed: oh", 1},
		"a permanent one": {worker.Permanent, "failed step a failed: FATAL: terminating connection", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := setup(t)
			a := y.action()
			var calls atomic.Int32
			y.work(a, a.Func(func(ctx context.Context, tx pgx.Tx, _ *worker.Task) (worker.Outputs, error) {
				if err := add(ctx, tx, "a"); err != nil || calls.Add(1) > 1 {
					return nil, err
				}
				_, err := tx.Exec(ctx, killsItself)
				return nil, c.returns(err)
			}))
			id := y.run("{id: a, action: my.func}")
			if got := y.await(id); !strings.HasPrefix(got, c.want) {
				t.Errorf("the run is %s", got)
			}
			if calls.Load() != c.calls {
				t.Errorf("%d calls, want %d", calls.Load(), c.calls)
			}
		})
	}
}

func TestFunc_WhatDoesNotSucceedIsRolledBack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end   func(context.Context, pgx.Tx) (worker.Outputs, error)
		want  string
		calls int32
	}{
		"an error": {func(context.Context, pgx.Tx) (worker.Outputs, error) { return nil, errors.New("oh") }, "failed step a failed: oh", 2},
		"a permanent one": {func(context.Context, pgx.Tx) (worker.Outputs, error) {
			return nil, worker.Permanent(errors.New("never"))
		}, "failed step a failed: never", 1},
		"a panic":          {func(context.Context, pgx.Tx) (worker.Outputs, error) { panic("ouch") }, "failed step a failed: panic: ouch", 2},
		"no JSON":          {func(context.Context, pgx.Tx) (worker.Outputs, error) { return worker.Outputs{"n": make(chan int)}, nil }, "failed step a failed: outputs:", 1},
		"no output":        {func(context.Context, pgx.Tx) (worker.Outputs, error) { return nil, nil }, "failed step a failed: output n was not written", 1},
		"an error dropped": {func(ctx context.Context, tx pgx.Tx) (worker.Outputs, error) { _ = add(ctx, tx, "a"); return nil, nil }, "failed step a failed: a statement failed, and its error was not returned", 2},
		"rows left open": {func(ctx context.Context, tx pgx.Tx) (worker.Outputs, error) {
			_, err := tx.Query(ctx, "SELECT generate_series(1, 1000)") //nolint:sqlclosecheck // left open on purpose
			return nil, err
		}, "failed step a failed: the rows of a query were not read", 2},
		"its own commit": {func(ctx context.Context, tx pgx.Tx) (worker.Outputs, error) { return nil, tx.Commit(ctx) }, "failed step a failed: the transaction commits together", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			y := setup(t)
			a := y.action()
			var calls atomic.Int32
			y.work(a, a.Func(func(ctx context.Context, tx pgx.Tx, _ *worker.Task) (worker.Outputs, error) {
				calls.Add(1)
				if err := add(ctx, tx, "a"); err != nil {
					return nil, err
				}
				return c.end(ctx, tx)
			}))
			if got := y.await(y.run(call1)); !strings.HasPrefix(got, c.want) || calls.Load() != c.calls {
				t.Errorf("the run is %s after %d calls: %s", got, calls.Load(), y.log.String())
			}
			y.wantRows(0)
		})
	}
}

func TestFunc_SnoozesWithoutATrace(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action()
	var calls atomic.Int32
	y.work(a, a.Func(func(ctx context.Context, tx pgx.Tx, _ *worker.Task) (worker.Outputs, error) {
		if err := add(ctx, tx, "a"); err != nil {
			return nil, err
		}
		if calls.Add(1) < 4 {
			return nil, worker.Snooze(time.Millisecond)
		}
		return worker.Outputs{"n": 1}, nil
	}))
	if got := y.await(y.run(call1)); got != "succeeded" || calls.Load() != 4 {
		t.Errorf("the run is %s after %d calls", got, calls.Load())
	}
	y.wantRows(1)
}

func TestFunc_WantsTheRunsOwnDatabase(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action(through(y.login("app")))
	y.work(a, a.Func(func(context.Context, pgx.Tx, *worker.Task) (worker.Outputs, error) {
		t.Error("it was called")
		return nil, nil
	}))
	if got := y.await(y.run(call1)); !strings.HasPrefix(got, "failed step a failed: connection "+postgres.Own+" does not lead to the run's own database") {
		t.Errorf("the run is %s", got)
	}
}

// Outputs that are too large are found before they are settled, so that a committed task never fails.
func TestFunc_OutputsPastALimitCommitNothing(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action()
	var calls atomic.Int32
	y.work(a, a.Func(func(ctx context.Context, tx pgx.Tx, _ *worker.Task) (worker.Outputs, error) {
		calls.Add(1)
		return worker.Outputs{"n": strings.Repeat("x", worker.MaxTextBytes+1)}, add(ctx, tx, "a")
	}))
	if got := y.await(y.run(call1)); !strings.HasPrefix(got, "failed step a failed: output n has 65537 bytes") || calls.Load() != 1 {
		t.Errorf("the run is %s after %d calls", got, calls.Load())
	}
	y.wantRows(0)
	if !get[bool](y, "SELECT settled IS NULL AND failure_kind = 'output' FROM oarlock.tasks") {
		t.Error("it was settled, or failed otherwise")
	}
}

// The bound of a run is checked before anything is settled, too, and never afterwards.
func TestFunc_OutputsPastTheRunsLimitCommitNothing(t *testing.T) {
	t.Parallel()
	y := setup(t)
	a := y.action()
	y.work(a, a.Func(func(ctx context.Context, tx pgx.Tx, task *worker.Task) (worker.Outputs, error) {
		return worker.Outputs{"n": []string{strings.Repeat("x", worker.MaxJSONBytes-100)}}, add(ctx, tx, task.Step)
	}))
	var steps []string
	for i, step := range []string{"a", "b", "c", "d", "e"} {
		entry := "{id: " + step + ", action: my.func, outputs: [n]"
		if i > 0 {
			entry += ", depends: [" + string(rune('a'+i-1)) + "]"
		}
		steps = append(steps, entry+"}")
	}
	if got := y.await(y.run(strings.Join(steps, ", "))); !strings.HasPrefix(got, "failed step e failed: the outputs of the run have more than 4194304 bytes") {
		t.Errorf("the run is %s", got)
	}
	y.wantRows(4)
}
