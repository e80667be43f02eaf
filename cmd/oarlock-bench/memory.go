package main

import (
	"context"
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
)

var heldSQL = sql.Named("bench/ask_held")

const (
	heldRuns     = 10_000
	manyTasks    = 100_000
	mostMB       = "MB resident at most"
	tenThousand  = "10,000 runs at once"
	hundredTasks = "a run of 100,000 tasks"
)

// inMB is a number of bytes, for people.
const inMB = 1 << 20

func memoryCase() Case {
	return Case{
		Name: "memory", About: "What a worker takes, guard and driver process together: 10,000 runs that it holds at once, of which 512 execute a command; then one run of 100,000 tasks, to its end.",
		Bound:    "what the core keeps of each task, and the buffers of logs that are open",
		Settings: []string{"`oarlock worker --slots 512`, claim_high 32; a new worker each round"},
		Prepare:  prepareMemory,
		Goals: []Goal{
			{Side: tenThousand, Metric: mostMB, AtMost: 300}, {Side: hundredTasks, Metric: mostMB, AtMost: 500},
		},
	}
}

func prepareMemory(_ context.Context, s *Stage) ([]Side, error) {
	return []Side{
		{Name: tenThousand, Round: s.holdMany},
		{Name: hundredTasks, Round: s.runMany},
	}, nil
}

// within runs a worker of its own on a stage of its own.
func (s *Stage) withWorker(ctx context.Context, source string, do func(d *Database, p *process) error) (err error) {
	inner := s.stage(s.name)
	defer func() {
		if ended := inner.close(); err == nil {
			err = ended
		}
	}()
	d, err := inner.database(ctx, source)
	if err != nil {
		return err
	}
	p, err := inner.startWorker(d, "memory", "slots=512", "claim_high=32")
	if err != nil {
		return err
	}
	if err := d.workersLive(ctx, 1, p); err != nil {
		return err
	}
	return do(d, p)
}

func (s *Stage) holdMany(ctx context.Context) (sample Sample, err error) {
	n := s.count(heldRuns, 20)
	err = s.withWorker(ctx, "name: hold\nsteps: [{id: a, command: /bin/sleep, args: [\"600\"]}]\n", func(d *Database, p *process) error {
		runs, err := d.enqueue(ctx, "hold", n)
		if err != nil {
			return err
		}
		if err := d.untilHeld(ctx, len(runs)); err != nil {
			return err
		}
		sample, err = residentSample(p)
		return err
	})
	return sample, err
}

// untilHeld waits until workers hold that many runs.
func (d *Database) untilHeld(ctx context.Context, want int) error {
	for tick := time.NewTicker(50 * time.Millisecond); ; {
		var held int
		if err := d.asker.QueryRow(ctx, heldSQL).Scan(&held); err != nil || held >= want {
			tick.Stop()
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func residentSample(p *process) (Sample, error) {
	now, most, err := p.resident()
	return Sample{Values: Values{mostMB: most / inMB, "MB resident": now / inMB}}, err
}

func (s *Stage) runMany(ctx context.Context) (sample Sample, err error) {
	items := make([]int, s.count(manyTasks-1, 50)) // the foreach step is a task, too
	for i := range items {
		items[i] = i
	}
	const source = "name: many\nparams: [{name: items, type: json, required: true}]\nsteps: [{id: a, foreach: {items: '${params.items}', max_items: %d}, action: noop}]\n"
	err = s.withWorker(ctx, fmt.Sprintf(source, len(items)), func(d *Database, p *process) error {
		begun := time.Now()
		run, err := d.Enqueue(ctx, queue.Request{DAG: "many", Params: map[string]any{"items": items}})
		if err != nil {
			return err
		}
		result, err := d.Await(ctx, run)
		if err != nil {
			return err
		}
		if result.State != "succeeded" {
			return fmt.Errorf("the run is %s: %s", result.State, result.Reason)
		}
		if sample, err = residentSample(p); err != nil {
			return err
		}
		sample.Values["seconds"] = time.Since(begun).Seconds()
		return nil
	})
	return sample, err
}
