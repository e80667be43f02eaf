package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
)

const (
	growthHistory = 1_000_000

	littleQueued  = "1,000 runs of one step"
	moreQueued    = "10,000 runs of one step"
	muchQueued    = "100,000 runs of one step"
	afterAMillion = "10,000 runs of one step, after 1,000,000 others"
	smallRuns     = "1,000 runs of 10 items"
	largerRuns    = "10 runs of 1,000 items"
	largestRun    = "one run of 99,999 items"
)

func growthCase() Case {
	return Case{
		Name: "growth", About: "What a step costs as there is more: 1,000, 10,000 and 100,000 runs queued at once, the second also with 1,000,000 finished ones beside; runs of 10, 1,000 and 99,999 items.",
		Bound:    "as single and chain",
		Settings: busySettings,
		Prepare:  prepareGrowth,
		Goals: []Goal{
			{Side: moreQueued, Metric: microsPerStep, Of: littleQueued},
			{Side: muchQueued, Metric: microsPerStep, Of: littleQueued},
			{Side: afterAMillion, Metric: microsPerStep, Of: moreQueued},
			{Side: largerRuns, Metric: microsPerStep, Of: smallRuns},
			{Side: largestRun, Metric: microsPerStep, Of: smallRuns},
		},
	}
}

func prepareGrowth(ctx context.Context, s *Stage) (sides []Side, err error) {
	for _, g := range []growth{
		{littleQueued, s.count(1000, 10), 0, 0},
		{moreQueued, s.count(10_000, 20), 0, 0},
		{muchQueued, s.count(100_000, 40), 0, 0},
		{afterAMillion, s.count(10_000, 20), 0, s.count(growthHistory, 100)},
		{smallRuns, s.count(1000, 2), 10, 0},
		{largerRuns, s.count(10, 1), s.count(1000, 20), 0},
		{largestRun, 1, s.count(manyTasks-1, 40), 0}, // the foreach step is a task, too
	} {
		side, err := g.side(ctx, s)
		if err != nil {
			return nil, err
		}
		sides = append(sides, side)
	}
	return sides, nil
}

// growth is an amount of work: runs of so many items, 0 for a single step, with finished runs beside them.
type growth struct {
	name                 string
	runs, items, history int
}

func (g growth) side(ctx context.Context, s *Stage) (Side, error) {
	source := chainOf("grown", 1)
	if g.items > 0 {
		source = fmt.Sprintf("name: grown\nparams: [{name: items, type: json, required: true}]\n"+
			"steps: [{id: a, foreach: {items: '${params.items}', max_items: %d}, action: nothing}]\n", g.items)
	}
	d, err := s.database(ctx, source)
	if err != nil {
		return Side{}, err
	}
	for left := g.history; left > 0; left -= historyBatch {
		if _, err := d.conn.Exec(ctx, historySQL, "grown", min(left, historyBatch)); err != nil {
			return Side{}, err
		}
	}
	count := new(tally)
	if err := s.embed(ctx, d, busy, map[string]worker.Func{"nothing": count.body}); err != nil {
		return Side{}, err
	}
	return Side{Name: g.name, Count: d, Round: func(ctx context.Context) (Sample, error) { return g.round(ctx, d, count) }}, nil
}

func (g growth) round(ctx context.Context, d *Database, count *tally) (Sample, error) {
	steps := max(g.items, 1)
	over := count.expect(g.runs * steps)
	if _, err := d.EnqueueMany(ctx, queue.Bulk{DAG: "grown", Params: g.params()}); err != nil {
		return Sample{}, err
	}
	begun := time.Now()
	err := d.settled(ctx)
	select {
	case <-over:
	default:
		err = errors.Join(err, errors.New("not every body ran: a run has failed"))
	}
	return chains{g.runs, steps, stepsPerSecond}.sample(time.Since(begun)), err
}

func (g growth) params() []any {
	params := make([]any, g.runs)
	if g.items == 0 {
		return params
	}
	items := make([]int, g.items)
	for i := range items {
		items[i] = i
	}
	for i := range params {
		params[i] = map[string]any{"items": items}
	}
	return params
}
