package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/sql"
)

var spreadSQL = sql.Named("bench/ask_spread")

const unevenness = "farthest from even"

var workerCounts = []int{1, 2, 4, 8}

func workersCase() Case {
	c := Case{
		Name: "workers", About: "2,000 runs of ten steps that do nothing, queued at once while 1, 2, 4 or 8 worker processes have nothing to do.",
		Bound:    "processor time: the workers and the server share the machine",
		Settings: []string{"`oarlock worker` processes with slots 512; one database per number of them"},
		Prepare:  prepareWorkers,
	}
	for _, n := range workerCounts[1:] {
		c.Goals = append(c.Goals,
			Goal{Side: workersName(n), Metric: stepsPerSecond, Of: workersName(1), AtLeast: 0.9},
			Goal{Side: workersName(n), Metric: unevenness, AtMost: 0.2})
	}
	return c
}

func workersName(n int) string { return fmt.Sprintf("%d workers", n) }

func prepareWorkers(ctx context.Context, s *Stage) (sides []Side, err error) {
	runs := s.count(chainRuns, 40)
	source := strings.ReplaceAll(chainOf("chain", chainSteps), "action: nothing", "action: noop")
	for _, n := range workerCounts {
		d, err := s.database(ctx, source)
		if err != nil {
			return nil, err
		}
		var processes []*process
		for i := range n {
			p, err := s.startWorker(d, fmt.Sprintf("w%d", i), "slots=512")
			if err != nil {
				return nil, err
			}
			processes = append(processes, p)
		}
		if err := d.workersLive(ctx, n, processes...); err != nil {
			return nil, err
		}
		if err := d.warm(ctx, "chain", runs/10+1); err != nil {
			return nil, err
		}
		sides = append(sides, Side{Name: workersName(n), Count: d, Round: func(ctx context.Context) (Sample, error) { return d.shared(ctx, runs, n) }})
	}
	return sides, nil
}

// shared has the workers share runs.
func (d *Database) shared(ctx context.Context, runs, workers int) (Sample, error) {
	ids, err := d.enqueue(ctx, "chain", runs)
	if err != nil {
		return Sample{}, err
	}
	begun := time.Now()
	if err := d.settled(ctx); err != nil {
		return Sample{}, err
	}
	sample := chains{runs, chainSteps, stepsPerSecond}.sample(time.Since(begun))
	rows, err := d.asker.Query(ctx, spreadSQL, ids[0])
	if err != nil {
		return Sample{}, err
	}
	driven, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n int, err error) {
		var name string
		return n, row.Scan(&name, &n)
	})
	sample.Values[unevenness] = uneven(driven, runs, workers)
	return sample, err
}

// uneven is how far the share of a worker is from an even one at most, as a part of that. Those without any are not listed.
func uneven(driven []int, runs, workers int) float64 {
	even, most := float64(runs)/float64(workers), 0.0
	for _, n := range driven {
		most = max(most, math.Abs(float64(n)-even)/even)
	}
	if len(driven) < workers {
		most = max(most, 1)
	}
	return most
}
