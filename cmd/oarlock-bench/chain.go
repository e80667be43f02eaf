package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oarlock-dev/oarlock/cmd/oarlock-bench/baseline"
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

// chains are runs with a chain of steps, which each side drives.
type chains struct {
	runs, steps int
	metric      string // name of the rate: steps or runs per second
}

func (c chains) sides(ctx context.Context, s *Stage) ([]Side, error) {
	own, err := c.oarlock(ctx, s)
	if err != nil {
		return nil, err
	}
	limit, err := c.bare(ctx, s)
	if err != nil {
		return nil, err
	}
	other, err := c.river(ctx, s)
	return []Side{own, limit, other}, err
}

// sample returns the figures of a round that lasted took: the rate that c.metric names, and the time per step. The unit of work is
// a step.
func (c chains) sample(took time.Duration) Sample {
	values := Values{microsPerStep: float64(took.Microseconds()) / float64(c.runs*c.steps)}
	if c.metric == runsPerSecond {
		values[runsPerSecond] = rate(c.runs, took)
	} else {
		values[stepsPerSecond] = rate(c.runs*c.steps, took)
	}
	return Sample{Units: float64(c.runs * c.steps), Values: values}
}

// oarlock returns the side on which one embedded worker drives the chains. The clock runs from the commit of the request to the end
// of the last run.
func (c chains) oarlock(ctx context.Context, s *Stage) (Side, error) {
	d, err := s.database(ctx, chainOf("chain", c.steps))
	if err != nil {
		return Side{}, err
	}
	count := new(tally)
	if err := s.embed(ctx, d, busy, map[string]worker.Func{"nothing": count.body}); err != nil {
		return Side{}, err
	}
	if err := d.warm(ctx, "chain", min(warmRuns, c.runs)); err != nil {
		return Side{}, err
	}
	return Side{Name: ours, Count: d, Round: func(ctx context.Context) (Sample, error) {
		over := count.expect(c.runs * c.steps)
		if _, err := d.enqueue(ctx, "chain", c.runs); err != nil {
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

// bare returns the side on which the bare loop drives the chains. It claims them on another connection, as a worker does.
func (c chains) bare(ctx context.Context, s *Stage) (Side, error) {
	d, err := s.database(ctx, chainOf("chain", c.steps))
	if err != nil {
		return Side{}, err
	}
	loop, err := s.claimingLoop(ctx, d)
	if err != nil {
		return Side{}, err
	}
	return Side{Name: bare, Count: d, Round: func(ctx context.Context) (Sample, error) {
		took, err := loop.Chains(ctx, c.runs, c.steps)
		return c.sample(took), err
	}}, nil
}

// plainPlans make the server plan by key, whatever its statistics say about tables that are filled at this moment.
var plainPlans = map[string]string{"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off"}

func (s *Stage) baseline(ctx context.Context, d *Database) (*baseline.Loop, error) {
	conn, err := s.connect(ctx, d, nil)
	if err != nil {
		return nil, err
	}
	return baseline.New(ctx, conn)
}

// claimingLoop returns a bare loop that claims its runs on a connection of its own, as a worker does.
func (s *Stage) claimingLoop(ctx context.Context, d *Database) (*baseline.Loop, error) {
	loop, err := s.baseline(ctx, d)
	if err == nil {
		loop.Claims, err = s.connect(ctx, d, plainPlans)
	}
	return loop, err
}

// river returns the side on which River does the chains: each step is a job, which inserts the next job.
func (c chains) river(ctx context.Context, s *Stage) (Side, error) {
	o := riverTuned
	o.pollOnly = true // River's NOTIFY in every commit costs more than it brings
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

// burst inserts a number of chains, runs, of this number of steps, and waits until River has completed all of them. It returns the
// time from the end of the insert to that moment.
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

// chainOf returns the source of a DAG with steps one after the other. Each step has the action nothing, which a worker must handle.
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
	own, err := a.oarlock(ctx, s)
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

// alone are chains that run one at a time.
type alone struct{ runs, steps int }

// sample returns the figures of a round, which are the times between the starts of steps, and forgets the stamps.
func (a alone) sample(marks *stamps) Sample {
	return Sample{Units: float64(a.runs * a.steps), Values: spread(marks.gaps())}
}

func (a alone) oarlock(ctx context.Context, s *Stage) (Side, error) {
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
	return Side{Name: ours, Count: d, Round: func(ctx context.Context) (Sample, error) {
		for range a.runs {
			over := count.expect(a.steps)
			if _, err := d.enqueue(ctx, "chain", 1); err != nil {
				return Sample{}, err
			}
			if err := await(ctx, over); err != nil { // without a query, which would disturb the chain
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
	loop, err := s.baseline(ctx, d)
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

// tally counts the bodies that ran, and signals when the expected number has run.
type tally struct {
	mu      sync.Mutex
	left    int
	reached chan struct{}
}

// expect returns a channel that is closed once n more bodies have run. It replaces the channel of an earlier call, so the caller
// must have awaited that one.
func (t *tally) expect(n int) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.left, t.reached = n, make(chan struct{})
	return t.reached
}

func (t *tally) add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.left--; t.left == 0 {
		close(t.reached)
	}
}

// body is the function of a step: it counts the call and does nothing else.
func (t *tally) body(context.Context, *worker.Task) (worker.Outputs, error) {
	t.add()
	return nil, nil
}

// await waits until reached is closed. It returns the cause if ctx ends first.
func await(ctx context.Context, reached <-chan struct{}) error {
	select {
	case <-reached:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stamps are the moments at which bodies of chains began, chain after chain.
type stamps struct {
	mu    sync.Mutex
	steps int
	at    []time.Time
}

func (s *stamps) add() {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, now)
}

// gaps returns the times between the starts of neighbouring steps of a chain, and forgets the stamps.
func (s *stamps) gaps() (gaps []time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := 1; i < len(s.at); i++ {
		if i%s.steps != 0 {
			gaps = append(gaps, s.at[i].Sub(s.at[i-1]))
		}
	}
	s.at = nil
	return gaps
}
