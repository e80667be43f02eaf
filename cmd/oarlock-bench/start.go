package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oarlock-dev/oarlock/cmd/oarlock-bench/baseline"
	"github.com/oarlock-dev/oarlock/sql"
	"github.com/oarlock-dev/oarlock/worker"
)

var (
	insertSQL  = sql.Named("bench/insert")
	arriveSQL  = sql.Named("bench/arrive_and_tell")
	listenSQL  = sql.Named("bench/listen")
	takeSQL    = sql.Named("bench/take")
	bareWorker = sql.Named("bare/worker")
)

const (
	startRuns = 200
	restLeast = 5 * time.Millisecond // pause between two requests, so that the worker is idle when the next one comes
	restMost  = 30 * time.Millisecond

	startCommand  = "oarlock, a shell command"
	riverDefaults = "River, its defaults"
)

func startCase() Case {
	return Case{
		Name: "start", About: "A plain INSERT into oarlock.inbox from another session, while the worker has nothing to do: from before it is sent until the body runs.",
		Bound:    "three commits: the request, the claim, and the record that the step runs; a notification between the first two",
		Settings: append(defaultSettings, riverSettings, "the bare loop: one row and a NOTIFY, one claim, one record", startCommand+": a worker process of its own, until the shell has written to a pipe"),
		Prepare:  prepareStart,
		Goals: []Goal{
			{Side: ours, Metric: msMedian, AtMost: 2},
			{Side: ours, Metric: msP99, AtMost: 10},
			{Side: ours, Metric: msMedian, Of: bare, Guarded: true, AtMost: 3},
			{Side: ours, Metric: msMedian, Of: rival},
			{Side: ours, Metric: msMedian, Of: riverDefaults},
		},
	}
}

func prepareStart(ctx context.Context, s *Stage) (sides []Side, err error) {
	a := arrivals{n: s.count(startRuns, 5)}
	defaults := riverOptions{workers: riverWorkers, cooldown: river.FetchCooldownDefault, poll: river.FetchPollIntervalDefault}
	for _, prepare := range []func() (Side, error){
		func() (Side, error) { return a.oarlock(ctx, s) },
		func() (Side, error) { return a.bare(ctx, s) },
		func() (Side, error) { return a.river(ctx, s, rival, riverTuned) },
		func() (Side, error) { return a.river(ctx, s, riverDefaults, defaults) },
		func() (Side, error) { return a.command(ctx, s) },
	} {
		side, err := prepare()
		if err != nil {
			return nil, err
		}
		sides = append(sides, side)
	}
	return sides, nil
}

// arrivals are requests that come one by one.
type arrivals struct{ n int }

// each requests bodies one after the other: it calls ask, and waits for the time that comes from begun. It returns the median and
// the 99th percentile of the times from the call to that moment.
func (a arrivals) each(ctx context.Context, ask func() error, begun <-chan time.Time) (Sample, error) {
	var took []time.Duration
	for range a.n {
		select {
		case <-time.After(restLeast + rand.N(restMost-restLeast)):
		case <-ctx.Done():
			return Sample{}, context.Cause(ctx)
		}
		asked := time.Now()
		if err := ask(); err != nil {
			return Sample{}, err
		}
		select {
		case at := <-begun:
			took = append(took, at.Sub(asked))
		case <-ctx.Done():
			return Sample{}, context.Cause(ctx)
		}
	}
	return Sample{Units: float64(a.n), Values: spread(took)}, nil
}

// insertion returns a side called name. Each request is a plain INSERT, and begun brings the times at which bodies begin.
func (a arrivals) insertion(d *Database, name string, begun <-chan time.Time) Side {
	return Side{Name: name, Count: d, Round: func(ctx context.Context) (Sample, error) {
		sample, err := a.each(ctx, func() error {
			_, err := d.conn.Exec(ctx, insertSQL, "start", map[string]any{})
			return err
		}, begun)
		if err != nil {
			return sample, err
		}
		return sample, d.settled(ctx)
	}}
}

func (a arrivals) oarlock(ctx context.Context, s *Stage) (Side, error) {
	d, err := s.database(ctx, "name: start\nsteps: [{id: a, action: mark}]\n")
	if err != nil {
		return Side{}, err
	}
	begun := make(chan time.Time, 1)
	err = s.embed(ctx, d, defaultConfig, map[string]worker.Func{"mark": func(context.Context, *worker.Task) (worker.Outputs, error) {
		begun <- time.Now()
		return nil, nil
	}})
	if err != nil {
		return Side{}, err
	}
	if err := d.workersLive(ctx, 1); err != nil {
		return Side{}, err
	}
	return a.insertion(d, ours, begun), nil
}

// command returns the side on which a worker process runs a shell, which reports its start through a named pipe.
func (a arrivals) command(ctx context.Context, s *Stage) (Side, error) {
	folder, err := s.folder("")
	if err != nil {
		return Side{}, err
	}
	pipe := filepath.Join(folder, "begun")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		return Side{}, fmt.Errorf("make a named pipe: %w", err)
	}
	d, err := s.database(ctx, fmt.Sprintf("name: start\nsteps: [{id: a, run: 'echo > %s'}]\n", pipe))
	if err != nil {
		return Side{}, err
	}
	p, err := s.startWorker(d, "start")
	if err != nil {
		return Side{}, err
	}
	if err := d.workersLive(ctx, 1, p); err != nil {
		return Side{}, err
	}
	begun, err := s.readPipe(pipe)
	return a.insertion(d, startCommand, begun), err
}

// readPipe returns a channel with the times at which lines come out of the named pipe at path. It reads until the stage ends.
func (s *Stage) readPipe(path string) (<-chan time.Time, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // a pipe that the stage made; opened for writing too, so that it never ends
	if err != nil {
		return nil, err
	}
	begun, over := make(chan time.Time, 1), make(chan struct{})
	go func() {
		defer close(over)
		for lines := bufio.NewScanner(file); lines.Scan(); {
			begun <- time.Now()
		}
	}()
	s.later(func() error {
		err := file.Close()
		<-over
		return err
	})
	return begun, nil
}

func (a arrivals) river(ctx context.Context, s *Stage, name string, o riverOptions) (Side, error) {
	r, err := s.river(ctx, o)
	if err != nil {
		return Side{}, err
	}
	begun := make(chan time.Time, 1)
	r.work = func(context.Context, *river.Client[pgx.Tx], *river.Job[riverArgs]) error {
		begun <- time.Now()
		return nil
	}
	return Side{Name: name, Count: r.Database, Round: func(ctx context.Context) (sample Sample, err error) {
		err = r.during(ctx, func(client *river.Client[pgx.Tx]) error {
			sample, err = a.each(ctx, func() error {
				_, err := client.Insert(ctx, riverArgs{Steps: 1}, nil)
				return err
			}, begun)
			return err
		})
		return sample, err
	}}, nil
}

// bare returns the side of the bare loop, a taker: one connection listens, claims and records.
func (a arrivals) bare(ctx context.Context, s *Stage) (Side, error) {
	d, err := s.database(ctx, chainOf("start", 1))
	if err != nil {
		return Side{}, err
	}
	taker, err := newTaker(ctx, s, d)
	if err != nil {
		return Side{}, err
	}
	return Side{Name: bare, Count: d, Round: func(ctx context.Context) (Sample, error) {
		begun, taken := make(chan time.Time, 1), make(chan error, 1)
		working, cancel := context.WithCancelCause(ctx) // the first failure ends the other goroutine
		defer cancel(nil)
		go func() {
			err := taker.take(working, a.n, begun)
			if err != nil {
				cancel(err)
			}
			taken <- err
		}()
		sample, err := a.each(working, func() error {
			_, err := d.conn.Exec(working, arriveSQL)
			return err
		}, begun)
		if err != nil {
			cancel(err)
		}
		return sample, errors.Join(err, <-taken)
	}}, nil
}

// taker is a worker of only three statements.
type taker struct {
	conn   *pgx.Conn
	worker uuid.UUID
	loop   *baseline.Loop
}

func newTaker(ctx context.Context, s *Stage, d *Database) (*taker, error) {
	conn, err := s.connect(ctx, d, nil)
	if err != nil {
		return nil, err
	}
	t := &taker{conn: conn, worker: uuid.New()}
	t.loop = baseline.For(conn, t.worker)
	if _, err := conn.Exec(ctx, bareWorker, t.worker); err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, listenSQL)
	return t, err
}

func (t *taker) take(ctx context.Context, n int, begun chan<- time.Time) error {
	for range n {
		if _, err := t.conn.WaitForNotification(ctx); err != nil {
			return err
		}
		row := baseline.Row{State: "running", Seq: 1}
		if err := t.conn.QueryRow(ctx, takeSQL, t.worker).Scan(&row.Run, &row.Claim); err != nil {
			return err
		}
		if err := t.loop.Flush(ctx, []baseline.Row{row}); err != nil {
			return err
		}
		begun <- time.Now()
		row.State, row.Seq, row.Over = "succeeded", 2, true
		if err := t.loop.Flush(ctx, []baseline.Row{row}); err != nil {
			return err
		}
	}
	return nil
}
