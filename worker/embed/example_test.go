package embed_test //nolint:testableexamples // the file is one example, and would want a database

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/embed"
)

// A worker in a program of yours, on its own pool and with its own logger, that executes steps with `action: charge`.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	pool, err := pgxpool.New(ctx, os.Getenv("DATABASE_URL"))
	if err != nil {
		slog.Error("no pool", "err", err)
		return
	}
	defer pool.Close()
	w, err := embed.New(embed.Config{Database: queue.Config{Pool: pool}, Slots: 16, Log: slog.Default()})
	if err != nil {
		slog.Error("no worker", "err", err)
		return
	}
	w.Handle("charge", charge)
	if err := w.Run(ctx); err != nil {
		slog.Error("the worker stopped", "err", err)
	}
}

// charge is a body: its parameters are the step's `with`, what it returns are the step's outputs.
func charge(ctx context.Context, task *worker.Task) (worker.Outputs, error) {
	amount, ok := task.Resolved.With["amount"]
	if !ok {
		return nil, worker.Permanent(errors.New("with.amount is missing"))
	}
	worker.Logger(ctx).Info("charging", "amount", amount, "idempotency_key", task.Key)
	return worker.Outputs{"receipt": fmt.Sprintf("r-%d", task.Run)}, nil
}
