package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oarlock-dev/oarlock/internal/bareloop"
	"github.com/oarlock-dev/oarlock/worker"
)

const (
	chainRuns  = 2000
	chainSteps = 10
	singleRuns = 50_000
	warmRuns   = 50
)

// Names of sides.
const (
	ours  = "oarlock"
	bare  = "bare loop"
	rival = "River"
)

func chainCase() Case {
	return Case{
		Name: "chain", About: "2,000 runs of ten steps one after the other, all queued at once; a step is a Go function that does nothing.",
		Bound:    "the server's processor time for two records a step, which all runs of a worker share a statement for",
		Settings: append(busySettings, riverSettings),
		Prepare: func(ctx context.Context, s *Stage) ([]Side, error) {
			return chains{runs: s.count(chainRuns, 20), steps: chainSteps, metric: stepsPerSecond}.sides(ctx, s)
		},
		Goals: []Goal{
			{Side: ours, Metric: stepsPerSecond, Of: bare, AtLeast: 0.6, Guarded: true},
			{Side: ours, Metric: stepsPerSecond, Of: rival, AtLeast: 25},
		},
	}
}

func singleCase() Case {
	return Case{
		Name: "single", About: "50,000 runs of one step, all queued at once.",
		Bound:    "claiming and the rows of runs: each is written by its request, its claim and its end",
		Settings: append(busySettings, riverSettings),
		Prepare: func(ctx context.Context, s *Stage) ([]Side, error) {
			return chains{runs: s.count(singleRuns, 100), steps: 1, metric: runsPerSecond}.sides(ctx, s)
		},
		Goals: []Goal{
			{Side: ours, Metric: runsPerSecond, Of: rival, AtLeast: 1.8, Guarded: true},
			{Side: ours, Metric: runsPerSecond, Of: bare, AtLeast: 0.5, Guarded: true},
		},
	}
}

// chains are runs whose steps follow each other, driven by each side.
type chains struct {
	runs, steps int
	metric      string // of the rate: of steps or of runs
}

func (c chains) sides(ctx context.Context, s *Stage) ([]Side, error) {
	own, err := c.oarlock(ctx, s, ours)
	if err != nil {
		return nil, err
	}
	limit, err := c.bare(ctx, s, bare)
	if err != nil {
		return nil, err
	}
	other, err := c.river(ctx, s)
	return []Side{own, limit, other}, err
}

// sample of a round; a step is the unit.
func (c chains) sample(took time.Duration) Sample {
	values := Values{microsPerStep: float64(took.Microseconds()) / float64(c.runs*c.steps)}
	if c.metric == runsPerSecond {
		values[runsPerSecond] = rate(c.runs, took)
	} else {
		values[stepsPerSecond] = rate(c.runs*c.steps, took)
	}
	return Sample{Units: float64(c.runs * c.steps), Values: values}
}

// oarlock drives them with one embedded worker. The clock runs from the commit of the request to the end of the last run.
func (c chains) oarlock(ctx context.Context, s *Stage, name string) (Side, error) {
	d, err := s.database(ctx, chainOf("chain", c.steps))
	if err != nil {
		return Side{}, err
	}
	return c.oarlockIn(ctx, s, d, name, "chain")
}

// oarlockIn is oarlock in a database that has a DAG with as many steps, whatever its graph.
func (c chains) oarlockIn(ctx context.Context, s *Stage, d *Database, name, dag string) (Side, error) {
	count := new(tally)
	if err := s.embed(ctx, d, busy, map[string]worker.Func{"nothing": count.body}); err != nil {
		return Side{}, err
	}
	if err := d.warm(ctx, dag, min(warmRuns, c.runs)); err != nil {
		return Side{}, err
	}
	return Side{Name: name, Count: d, Round: func(ctx context.Context) (Sample, error) {
		over := count.expect(c.runs * c.steps)
		if _, err := d.enqueue(ctx, dag, c.runs); err != nil {
			return Sample{}, err
		}
		begun := time.Now()
		if err := await(ctx, over); err != nil {
			return Sample{}, err
		}
		err := d.settled(ctx)
		return c.sample(time.Since(begun)), err
	}}, nil
}

// bare drives them with the bare loop, which claims them on another connection, as a worker does.
func (c chains) bare(ctx context.Context, s *Stage, name string) (Side, error) {
	d, err := s.database(ctx, chainOf("chain", c.steps))
	if err != nil {
		return Side{}, err
	}
	return c.bareIn(ctx, s, d, name)
}

func (c chains) bareIn(ctx context.Context, s *Stage, d *Database, name string) (Side, error) {
	loop, err := s.bareLoop(ctx, d)
	if err != nil {
		return Side{}, err
	}
	if loop.Claims, err = s.connect(ctx, d, plainPlans); err != nil {
		return Side{}, err
	}
	return Side{Name: name, Count: d, Round: func(ctx context.Context) (Sample, error) {
		took, err := loop.Chains(ctx, c.runs, c.steps)
		return c.sample(took), err
	}}, nil
}

// plainPlans keep the server from other plans than by key, whatever it knows of tables that are filled this very moment.
var plainPlans = map[string]string{"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off"}

func (s *Stage) bareLoop(ctx context.Context, d *Database) (*bareloop.Loop, error) {
	conn, err := s.connect(ctx, d, nil)
	if err != nil {
		return nil, err
	}
	return bareloop.New(ctx, conn)
}

// river has each step be a job, which inserts the next one.
func (c chains) river(ctx context.Context, s *Stage) (Side, error) {
	o := riverTuned
	o.pollOnly = true // its NOTIFY in every commit would cost more than it brings
	return c.riverWith(ctx, s, o)
}

func (c chains) riverWith(ctx context.Context, s *Stage, o riverOptions) (Side, error) {
	r, err := s.river(ctx, o)
	if err != nil {
		return Side{}, err
	}
	count := new(tally)
	r.work = func(ctx context.Context, client *river.Client[pgx.Tx], job *river.Job[riverArgs]) error {
		count.add()
		return goOn(ctx, client, r.pool, job)
	}
	return Side{Name: rival, Count: r.Database, Round: func(ctx context.Context) (sample Sample, err error) {
		err = r.during(ctx, func(client *river.Client[pgx.Tx]) error {
			if _, err := r.burst(ctx, client, count, min(warmRuns, c.runs), c.steps); err != nil {
				return err
			}
			took, err := r.burst(ctx, client, count, c.runs, c.steps)
			sample = c.sample(took)
			sample.Units += float64(min(warmRuns, c.runs) * c.steps)
			return err
		})
		return sample, err
	}}, nil
}

// burst inserts chains, and tells how long the last one took from then on.
func (r *riverSide) burst(ctx context.Context, client *river.Client[pgx.Tx], count *tally, runs, steps int) (time.Duration, error) {
	over := count.expect(runs * steps)
	if err := r.insert(ctx, client, runs, riverArgs{Steps: steps}); err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := await(ctx, over); err != nil {
		return 0, err
	}
	err := r.settled(ctx)
	return time.Since(begun), err
}

// chainOf is a DAG of steps one after the other.
func chainOf(name string, steps int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\nsteps:\n", name)
	for i := range steps {
		fmt.Fprintf(&b, "  - {id: s%d, action: nothing", i)
		if i > 0 {
			fmt.Fprintf(&b, ", depends: [s%d]", i-1)
		}
		b.WriteString("}\n")
	}
	return b.String()
}
