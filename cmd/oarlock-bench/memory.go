package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
)

var heldSQL = sql.Named("bench/ask_held")

const (
	heldRuns     = 10_000
	executedRuns = 512 // of these, where there are as many
	heldWaits    = 3   // steps of a run that waits: more than a minute
	manyTasks    = 100_000
	mostMB       = "MB resident at most"
	tenThousand  = "10,000 runs at once"
	hundredTasks = "a run of 100,000 tasks"
)

// inMB is a number of bytes, for people.
const inMB = 1 << 20

func memoryCase() Case {
	return Case{
		Name: "memory", About: "What a worker takes, guard and driver process together: 10,000 runs that it holds at once, of which 512 execute a command and the others wait in steps too short to be parked; then one run of 100,000 tasks, to its end.",
		Bound:    "what the core keeps of each task, and the buffers of logs that are open",
		Settings: []string{"`oarlock worker --slots 10000` for the runs, `--slots 512` for the tasks; a new worker each round"},
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
func (s *Stage) withWorker(ctx context.Context, slots int, do func(d *Database, p *process) error, sources ...string) (err error) {
	inner := s.stage(s.name)
	defer func() {
		if ended := inner.close(); err == nil {
			err = ended
		}
	}()
	d, err := inner.database(ctx, sources...)
	if err != nil {
		return err
	}
	p, err := inner.startWorker(d, "memory", fmt.Sprint("slots=", slots))
	if err != nil {
		return err
	}
	if err := d.workersLive(ctx, 1, p); err != nil {
		return err
	}
	return do(d, p)
}

// idleOf is a DAG that a worker holds: each of its waits is shorter than one that gives a run back, and takes no slot.
func idleOf(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: %s\nsteps:\n  - {id: w0, action: wait, with: {duration: 25s}}\n", name)
	for i := range heldWaits - 1 {
		fmt.Fprintf(&b, "  - {id: w%d, action: wait, with: {duration: 25s}, depends: [w%d]}\n", i+1, i)
	}
	return b.String()
}

func (s *Stage) holdMany(ctx context.Context) (sample Sample, err error) {
	n := s.count(heldRuns, 20)
	executed := min(executedRuns, n/2)
	err = s.withWorker(ctx, n, func(d *Database, p *process) error {
		if _, err := d.enqueue(ctx, "idle", n-executed); err != nil {
			return err
		}
		if _, err := d.enqueue(ctx, "hold", executed); err != nil {
			return err
		}
		if err := d.untilHeld(ctx, n); err != nil {
			return err
		}
		sample, err = residentSample(p)
		return err
	}, idleOf("idle"), "name: hold\nsteps: [{id: a, command: /bin/sleep, args: [\"600\"]}]\n")
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
	err = s.withWorker(ctx, 512, func(d *Database, p *process) error {
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
	}, fmt.Sprintf(source, len(items)))
	return sample, err
}
