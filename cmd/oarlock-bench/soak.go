package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
	"github.com/oarlock-dev/oarlock/worker"
)

var (
	snapshotSQL = sql.Named("bench/snapshot")
	latencySQL  = sql.Named("bench/ask_latency")
	sizesSQL    = sql.Named("bench/ask_sizes")
)

const (
	soakSlices  = 10
	soakLoad    = 0.7
	soakEvery   = 50 * time.Millisecond // pause between two requests
	soakProbes  = 3                     // bursts that measure the worker's capacity
	bytesPerRun = "bytes of tables per run"
	smallTables = "bytes of the tables that runs do not fill"
)

func soakCase() Case {
	return Case{
		Name: "soak", About: "Ten minutes of runs of ten steps at 70 % of what the worker can do, while a transaction holds a snapshot open from the start: latency from request to end, and table sizes, minute by minute.",
		Bound:    "nothing that vacuum would remove may be in the way of a claim or a flush",
		Settings: append(busySettings, "a batch of requests every 50 ms; nothing is pruned, so the sizes of what runs fill are compared per run"),
		Once:     true,
		Prepare:  prepareSoak,
		Goals: []Goal{
			{Side: slice(soakSlices), Metric: msP99, Of: slice(2), AtMost: 1.2},
			{Side: slice(soakSlices), Metric: bytesPerRun, Of: slice(2), AtMost: 1.2},
			{Side: slice(soakSlices), Metric: smallTables, Of: slice(2), AtMost: 1.2},
			{Side: slice(soakSlices), Metric: msMedian, Of: slice(2)},
		},
	}
}

func slice(n int) string { return fmt.Sprintf("part %d of %d", n, soakSlices) }

// soak is a steady load, measured part by part.
type soak struct {
	*Database

	batch int // runs of one request
	span  time.Duration
	size  float64 // bytes of the tables that runs fill, at the end of the last part
}

func prepareSoak(ctx context.Context, s *Stage) (sides []Side, err error) {
	d, err := s.database(ctx, chainOf("chain", chainSteps))
	if err != nil {
		return nil, err
	}
	count := new(tally)
	if err := s.embed(ctx, d, busy, map[string]worker.Func{"nothing": count.body}); err != nil {
		return nil, err
	}
	could, err := d.capacity(ctx, s.count(chainRuns, 20))
	if err != nil {
		return nil, err
	}
	if err := s.holdSnapshot(ctx, d); err != nil {
		return nil, err
	}
	load := &soak{Database: d, batch: max(int(could*soakLoad*soakEvery.Seconds()), 1), span: s.options.soak / soakSlices}
	s.say("    %s runs/s at most; %d runs every %s", short(could), load.batch, soakEvery)
	for i := range soakSlices {
		sides = append(sides, Side{Name: slice(i + 1), Round: load.part})
	}
	return sides, nil
}

// capacity returns how many runs a second the worker completes. It measures soakProbes bursts of this many runs, and takes the last
// one: the others warm up.
func (d *Database) capacity(ctx context.Context, runs int) (perSecond float64, err error) {
	for range soakProbes {
		begun := time.Now()
		if err := d.warm(ctx, "chain", runs); err != nil {
			return 0, err
		}
		perSecond = rate(runs, time.Since(begun))
	}
	return perSecond, nil
}

// holdSnapshot opens a transaction that keeps the current snapshot until the stage ends.
func (s *Stage) holdSnapshot(ctx context.Context, d *Database) error {
	conn, err := s.connect(ctx, d, nil)
	if err != nil {
		return err
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		return err
	}
	s.later(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		return tx.Rollback(ctx)
	})
	_, err = tx.Exec(ctx, snapshotSQL)
	return err
}

// part requests runs at a steady pace for l.span, waits until all are over, and returns the figures of these runs. It compares the
// table sizes with l.size, and sets that to the new size.
func (l *soak) part(ctx context.Context) (Sample, error) {
	from, err := l.pour(ctx)
	if err != nil {
		return Sample{}, err
	}
	if err := l.settled(ctx); err != nil {
		return Sample{}, err
	}
	var p50, p99, runs, open, size, small float64
	if err := l.asker.QueryRow(ctx, latencySQL, from, int64(1<<62)).Scan(&p50, &p99, &runs, &open); err != nil {
		return Sample{}, err
	}
	if open > 0 {
		return Sample{}, fmt.Errorf("%v runs are not over", open)
	}
	if err := l.asker.QueryRow(ctx, sizesSQL).Scan(&size, &small); err != nil {
		return Sample{}, err
	}
	grown := size - l.size
	l.size = size
	return Sample{Values: Values{msMedian: p50, msP99: p99, runsPerSecond: runs / l.span.Seconds(), bytesPerRun: grown / runs, smallTables: small}}, nil
}

// pour requests runs every soakEvery, for l.span, and returns the id of the first run. It does not wait for the end of runs.
func (l *soak) pour(ctx context.Context) (first queue.RunID, err error) {
	tick := time.NewTicker(soakEvery)
	defer tick.Stop()
	for end := time.Now().Add(l.span); time.Now().Before(end); {
		runs, err := l.enqueue(ctx, "chain", l.batch)
		if err != nil {
			return 0, err
		}
		first = orElse(first, runs[0])
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	return first, nil
}
