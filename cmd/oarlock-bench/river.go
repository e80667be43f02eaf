package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/oarlock-dev/oarlock/migrations"
	"github.com/oarlock-dev/oarlock/sql"
)

var riverUnfinishedSQL = sql.Named("bench/ask_river_unfinished")

const (
	riverWorkers  = 2000 // as in River's own benchmark
	riverConns    = 16   // group commit works best with 8 to 16
	riverCooldown = 2 * time.Millisecond
	riverPoll     = 20 * time.Millisecond
)

// riverOptions are the settings of a River client.
type riverOptions struct {
	workers  int
	pollOnly bool
	cooldown time.Duration
	poll     time.Duration
}

// riverTuned are the settings of River's own benchmark.
var riverTuned = riverOptions{workers: riverWorkers, cooldown: riverCooldown, poll: riverPoll}

var riverSettings = fmt.Sprintf("river: %d workers, fetch cooldown %s, poll interval %s (its own benchmark's), %d connections; a chain's next job is inserted in the completing transaction",
	riverWorkers, riverCooldown, riverPoll, riverConns)

// riverSide is River in a database of its own, with the tables of River's own migrations.
type riverSide struct {
	*Database

	options riverOptions
	pool    *pgxpool.Pool
	work    func(ctx context.Context, client *river.Client[pgx.Tx], job *river.Job[riverArgs]) error
}

// riverArgs are the arguments of all jobs: the place of the job in its chain.
type riverArgs struct {
	Step  int `json:"step"`
	Steps int `json:"steps"`
}

// Kind implements river.JobArgs: all jobs have the same kind.
func (riverArgs) Kind() string { return "bench" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]

	side *riverSide
}

// Work implements river.Worker with the work of the side.
func (w *riverWorker) Work(ctx context.Context, job *river.Job[riverArgs]) error {
	return w.side.work(ctx, river.ClientFromContext[pgx.Tx](ctx), job)
}

// river returns a River side with a database and a pool of its own; the stage closes both. The caller must set work. Each round
// starts a client by during, so that River costs the other sides nothing.
func (s *Stage) river(ctx context.Context, o riverOptions) (*riverSide, error) {
	d, err := s.database(ctx)
	if err != nil {
		return nil, err
	}
	config, err := pgxpool.ParseConfig(d.url)
	if err != nil {
		return nil, err
	}
	config.MaxConns, config.MinConns = riverConns, riverConns
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	s.later(func() error { pool.Close(); return nil })
	return &riverSide{Database: d, options: o, pool: pool}, nil
}

func (r *riverSide) newClient() (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{side: r})
	return river.NewClient(riverpgxv5.New(r.pool), &river.Config{
		Schema: migrations.RiverSchema, Workers: workers, PollOnly: r.options.pollOnly,
		FetchCooldown: r.options.cooldown, FetchPollInterval: r.options.poll,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: r.options.workers}},
		Logger: slog.New(slog.DiscardHandler),
	})
}

// during starts a client, calls do with it, and stops the client afterwards, which cancels jobs that still run.
func (r *riverSide) during(ctx context.Context, do func(*river.Client[pgx.Tx]) error) (err error) {
	client, err := r.newClient()
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		err = errors.Join(err, client.StopAndCancel(stopping))
	}()
	return do(client)
}

// insert inserts n jobs with the same args, in one transaction.
func (r *riverSide) insert(ctx context.Context, client *river.Client[pgx.Tx], n int, args riverArgs) error {
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i].Args = args
	}
	_, err := client.InsertManyFast(ctx, jobs)
	return err
}

// settled waits until River has no job that runs or that may run now.
func (r *riverSide) settled(ctx context.Context) error {
	return r.until(ctx, riverUnfinishedSQL)
}

// goOn completes a job and inserts the next job of its chain, in one transaction. It does nothing for the last job of a chain,
// which River completes by itself in a batch.
func goOn(ctx context.Context, client *river.Client[pgx.Tx], pool *pgxpool.Pool, job *river.Job[riverArgs]) error {
	next := job.Args
	if next.Step++; next.Step >= next.Steps {
		return nil
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := client.InsertTx(ctx, tx, next, nil); err != nil {
			return err
		}
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}
