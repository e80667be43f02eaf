package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oarlock-dev/oarlock/worker"
)

const aloneRuns = 100

func aloneCase() Case {
	return Case{
		Name: "alone", About: "Chains of ten steps, one at a time: the time from the start of a step to the start of the next.",
		Bound:    "one commit a step: a round trip, the statement, and the disk",
		Settings: append(defaultSettings, riverSettings+"; poll interval 1 ms, the least it takes"),
		Prepare:  prepareAlone,
		Goals: []Goal{
			{Side: ours, Metric: msMedian, AtMost: 0.35},
			{Side: ours, Metric: msMedian, Of: bare, AtMost: 1.75, Guarded: true},
			{Side: ours, Metric: msMedian, Of: rival},
			{Side: ours, Metric: msP99, Of: bare},
		},
	}
}

func prepareAlone(ctx context.Context, s *Stage) ([]Side, error) {
	a := alone{runs: s.count(aloneRuns, 5), steps: chainSteps}
	own, err := a.oarlock(ctx, s, ours)
	if err != nil {
		return nil, err
	}
	limit, err := a.bare(ctx, s)
	if err != nil {
		return nil, err
	}
	other, err := a.river(ctx, s)
	return []Side{own, limit, other}, err
}

// alone are chains of which one is there at a time.
type alone struct{ runs, steps int }

// sample of a round: what lies between the starts of steps.
func (a alone) sample(marks *stamps) Sample {
	return Sample{Units: float64(a.runs * a.steps), Values: spread(marks.gaps())}
}

func (a alone) oarlock(ctx context.Context, s *Stage, name string) (Side, error) {
	d, err := s.database(ctx, chainOf("chain", a.steps))
	if err != nil {
		return Side{}, err
	}
	marks, count := &stamps{steps: a.steps}, new(tally)
	body := func(context.Context, *worker.Task) (worker.Outputs, error) {
		marks.add()
		count.add()
		return nil, nil
	}
	if err := s.embed(ctx, d, defaultConfig, map[string]worker.Func{"nothing": body}); err != nil {
		return Side{}, err
	}
	return Side{Name: name, Count: d, Round: func(ctx context.Context) (Sample, error) {
		for range a.runs {
			over := count.expect(a.steps)
			if _, err := d.enqueue(ctx, "chain", 1); err != nil {
				return Sample{}, err
			}
			if err := await(ctx, over); err != nil { // nobody asks the server meanwhile
				return Sample{}, err
			}
			if err := d.settled(ctx); err != nil {
				return Sample{}, err
			}
		}
		return a.sample(marks), nil
	}}, nil
}

func (a alone) bare(ctx context.Context, s *Stage) (Side, error) {
	d, err := s.database(ctx, chainOf("chain", a.steps))
	if err != nil {
		return Side{}, err
	}
	loop, err := s.bareLoop(ctx, d)
	if err != nil {
		return Side{}, err
	}
	marks := &stamps{steps: a.steps}
	loop.Body = marks.add
	return Side{Name: bare, Count: d, Round: func(ctx context.Context) (Sample, error) {
		for range a.runs {
			if _, err := loop.Chains(ctx, 1, a.steps); err != nil {
				return Sample{}, err
			}
		}
		return a.sample(marks), nil
	}}, nil
}

func (a alone) river(ctx context.Context, s *Stage) (Side, error) {
	o := riverTuned
	o.pollOnly, o.cooldown, o.poll = true, time.Millisecond, time.Millisecond
	r, err := s.river(ctx, o)
	if err != nil {
		return Side{}, err
	}
	marks, count := &stamps{steps: a.steps}, new(tally)
	r.work = func(ctx context.Context, client *river.Client[pgx.Tx], job *river.Job[riverArgs]) error {
		marks.add()
		count.add()
		return goOn(ctx, client, r.pool, job)
	}
	return Side{Name: rival, Count: r.Database, Round: func(ctx context.Context) (Sample, error) {
		err := r.during(ctx, func(client *river.Client[pgx.Tx]) error {
			for range a.runs {
				if _, err := r.burst(ctx, client, count, 1, a.steps); err != nil {
					return err
				}
			}
			return nil
		})
		return a.sample(marks), err
	}}, nil
}
