package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
	"github.com/oarlock-dev/oarlock/worker/embed"
)

var (
	waitsSQL   = sql.Named("bench/ask_waits")
	startedSQL = sql.Named("bench/ask_started")
	spreadSQL  = sql.Named("bench/ask_spread")
)

const (
	shareWorkers = 4
	shareSlots   = shareWorkers * embed.DefaultSlots
	freeTrials   = 10   // per round; each requests as many runs as there are slots
	urgentRuns   = 50   // per round
	evenRuns     = 2000 // per round
	backlogDepth = 4    // waiting runs per slot when the first urgent run comes
	plain        = 0
	urgent       = 100 // the highest priority

	fanTrials  = 4   // per round; each requests a fan-out per worker
	fanItems   = 160 // per fan-out: commands of 100 ms, which take two seconds on the slots of one worker
	smallRuns  = 20  // per trial
	smallEvery = 50 * time.Millisecond

	besideFree   = "beside a free slot"
	urgentStart  = "urgent, behind a backlog"
	besideFans   = "small, beside fan-outs"
	evenly       = "runs of ten steps"
	unevenness   = "farthest from even"
	shareSources = `
name: %s
priority: %d
steps: [{id: a, command: /bin/sleep, args: ["%v"]}]
`
	fanSource = `
name: fan
steps: [{id: a, foreach: {items: [%s], max_concurrent: 0}, command: /bin/sleep, args: ["0.1"]}]
`
)

func shareCase() Case {
	return Case{
		Name: "share", About: "Four worker processes share what is asked for: how long a run waits while there is a free slot for each, how long an urgent run waits behind a backlog, how long a small run waits while fan-outs go on, and how evenly 2,000 runs of ten steps are done.",
		Bound:    "beside a free slot: a notification, a claim, a record; urgent: the next command to end, of 100 ms on each of 32 slots, and the same; small: where it waits for all that a worker holds, the two seconds that a fan-out lasts",
		Settings: []string{fmt.Sprintf("%d × `oarlock worker` on defaults, %d slots together, one database; waits are from a request to the start of its first task", shareWorkers, shareSlots)},
		Prepare:  prepareShare,
		Goals: []Goal{
			{Side: besideFree, Metric: msMedian},
			{Side: besideFree, Metric: msP99, AtMost: milliseconds(queue.LookInterval)}, // the wait if no worker was notified
			{Side: urgentStart, Metric: msMedian},
			{Side: urgentStart, Metric: msP99, AtMost: milliseconds(queue.LookInterval)},
			{Side: besideFans, Metric: msMedian},
			{Side: besideFans, Metric: msP99},
			{Side: evenly, Metric: unevenness, AtMost: 0.2},
		},
	}
}

// prepareShare starts the workers that all sides use, since the sides take turns.
func prepareShare(ctx context.Context, s *Stage) ([]Side, error) {
	d, err := s.database(ctx,
		fmt.Sprintf(shareSources, "held", plain, 0.5), // longer than requesting a run for every slot takes
		fmt.Sprintf(shareSources, "load", plain, 0.1),
		fmt.Sprintf(shareSources, "urgent", urgent, 0),
		fmt.Sprintf(shareSources, "small", plain, 0),
		fmt.Sprintf(fanSource, strings.Repeat("0, ", fanItems)),
		strings.ReplaceAll(chainOf("chain", chainSteps), "action: nothing", "action: noop"))
	if err != nil {
		return nil, err
	}
	var processes []*process
	for i := range shareWorkers {
		p, err := s.startWorker(d, fmt.Sprintf("w%d", i))
		if err != nil {
			return nil, err
		}
		processes = append(processes, p)
	}
	if err := d.workersLive(ctx, shareWorkers, processes...); err != nil {
		return nil, err
	}
	free, rush, fans, even := s.count(freeTrials, 1), s.count(urgentRuns, 2), s.count(fanTrials, 1), s.count(evenRuns, 2*shareSlots)
	return []Side{
		{Name: besideFree, Round: func(ctx context.Context) (Sample, error) { return d.fillSlots(ctx, free) }},
		{Name: urgentStart, Round: func(ctx context.Context) (Sample, error) { return d.overtake(ctx, rush) }},
		{Name: besideFans, Round: func(ctx context.Context) (Sample, error) { return d.squeezeIn(ctx, fans) }},
		{Name: evenly, Count: d, Round: func(ctx context.Context) (Sample, error) { return d.shareOut(ctx, even) }},
	}, d.warm(ctx, "chain", shareSlots)
}

// fillSlots requests, one by one, as many runs as there are slots, and waits until all are over. It repeats that trials times, and
// returns how long the runs waited. Each run finds a free slot.
func (d *Database) fillSlots(ctx context.Context, trials int) (Sample, error) {
	var first queue.RunID
	for range trials {
		for range shareSlots {
			run, err := d.Enqueue(ctx, queue.Request{DAG: "held"})
			if err != nil {
				return Sample{}, err
			}
			first = orElse(first, run)
		}
		if err := d.settled(ctx); err != nil {
			return Sample{}, err
		}
	}
	return d.waits(ctx, first, "held")
}

// overtake requests urgent runs, one after the other, behind a backlog, and returns how long they waited. With each it requests a
// new run for every slot, so that the backlog lasts. Only an urgent run that waits as long as several others take would use up the
// backlog, and its figure shows that.
func (d *Database) overtake(ctx context.Context, runs int) (Sample, error) {
	backlog, err := d.enqueue(ctx, "load", backlogDepth*shareSlots)
	if err != nil {
		return Sample{}, err
	}
	for range runs {
		if _, err := d.enqueue(ctx, "load", shareSlots); err != nil {
			return Sample{}, err
		}
		run, err := d.Enqueue(ctx, queue.Request{DAG: "urgent"})
		if err != nil {
			return Sample{}, err
		}
		if _, err := d.Await(ctx, run); err != nil {
			return Sample{}, err
		}
	}
	if err := d.settled(ctx); err != nil {
		return Sample{}, err
	}
	return d.waits(ctx, backlog[0], "urgent")
}

// squeezeIn starts a fan-out for each worker, with tasks that take all slots and wait for more, and meanwhile requests small runs
// at fixed intervals. It repeats that trials times, and returns how long the small runs waited. The fan-outs last twice as long as
// it requests, so every small run meets them.
func (d *Database) squeezeIn(ctx context.Context, trials int) (Sample, error) {
	tick := time.NewTicker(smallEvery)
	defer tick.Stop()
	var first queue.RunID
	for range trials {
		fans, err := d.enqueue(ctx, "fan", shareWorkers)
		if err != nil {
			return Sample{}, err
		}
		first = orElse(first, fans[0])
		if err := d.until(ctx, startedSQL, fans[0], shareSlots); err != nil {
			return Sample{}, err
		}
		for range smallRuns {
			if _, err := d.Enqueue(ctx, queue.Request{DAG: "small"}); err != nil {
				return Sample{}, err
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return Sample{}, context.Cause(ctx)
			}
		}
		if err := d.settled(ctx); err != nil {
			return Sample{}, err
		}
	}
	return d.waits(ctx, first, "small")
}

// waits returns the median and the 99th percentile of how long the runs of a DAG waited, from their request to the start of their
// first task. It counts the run first and later runs.
func (d *Database) waits(ctx context.Context, first queue.RunID, dag string) (Sample, error) {
	rows, err := d.asker.Query(ctx, waitsSQL, first, dag)
	if err != nil {
		return Sample{}, err
	}
	waited, err := pgx.CollectRows(rows, pgx.RowTo[float64])
	return Sample{Values: Values{msMedian: quantile(waited, 0.5), msP99: quantile(waited, 0.99)}}, err
}

// shareOut requests all runs at once, while the workers are idle, and waits for their end. It returns the rate, and how far the
// workers were from even shares.
func (d *Database) shareOut(ctx context.Context, runs int) (Sample, error) {
	first, took, err := d.burst(ctx, "chain", runs)
	if err != nil {
		return Sample{}, err
	}
	sample := chains{runs, chainSteps, stepsPerSecond}.sample(took)
	rows, err := d.asker.Query(ctx, spreadSQL, first)
	if err != nil {
		return Sample{}, err
	}
	driven, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (n int, err error) {
		var name string
		return n, row.Scan(&name, &n)
	})
	sample.Values[unevenness] = uneven(driven, runs, shareWorkers)
	return sample, err
}

// uneven returns the largest distance of a worker's number of runs from an even share, as a part of that share: 0 is even, 1 means
// that a worker had no run, or twice its share. driven has one number for each worker that had a run.
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
