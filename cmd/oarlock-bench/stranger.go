package main

import (
	"context"
	"strings"
)

// stranger is a way to be no help: one worker is busy, and an idle one stands beside it that may take none of its runs.
type stranger struct {
	name           string
	dag            string   // keys of the DAG, besides its steps
	busy, stranger []string // settings of both workers
}

var strangers = []stranger{
	{"its queue", "queue: fast\n", []string{"queues=fast"}, []string{"queues=other"}},
	{"all queues", "worker_selector: {kind: fast}\n", []string{"labels=kind=fast"}, []string{"labels=kind=other"}},
}

func (v stranger) without() string { return v.name + ", no stranger" }
func (v stranger) with() string    { return v.name + ", an idle stranger" }

func strangerCase() Case {
	c := Case{
		Name: "stranger", About: "2,000 runs of ten steps that do nothing, queued at once for one busy worker: by itself, and beside an idle worker that may take none of them.",
		Bound: "processor time: the workers and the server share the machine",
		Settings: []string{
			"`oarlock worker` processes with slots 512; one database per side",
			"its queue: the busy worker serves `fast`, the stranger `other`; all queues: both serve all, and the runs have a selector that the stranger does not meet",
		},
		Prepare: prepareStranger,
	}
	for _, v := range strangers {
		c.Goals = append(c.Goals, Goal{Side: v.with(), Metric: stepsPerSecond, Of: v.without(), AtLeast: 0.95})
	}
	return c
}

func prepareStranger(ctx context.Context, s *Stage) (sides []Side, err error) {
	for _, v := range strangers {
		for _, beside := range []bool{false, true} {
			side, err := v.side(ctx, s, beside)
			if err != nil {
				return nil, err
			}
			sides = append(sides, side)
		}
	}
	return sides, nil
}

func (v stranger) side(ctx context.Context, s *Stage, beside bool) (Side, error) {
	side, runs := Side{Name: v.without()}, s.count(chainRuns, 40)
	source := strings.ReplaceAll(chainOf("chain", chainSteps), "action: nothing", "action: noop")
	d, err := s.database(ctx, v.dag+source)
	if err != nil {
		return side, err
	}
	workers := [][]string{v.busy}
	if beside {
		side.Name, workers = v.with(), append(workers, v.stranger)
	}
	var processes []*process
	for i, settings := range workers {
		p, err := s.startWorker(d, []string{"busy", "stranger"}[i], append([]string{"slots=512"}, settings...)...)
		if err != nil {
			return side, err
		}
		processes = append(processes, p)
	}
	if err := d.workersLive(ctx, len(workers), processes...); err != nil {
		return side, err
	}
	side.Count, side.Round = d, func(ctx context.Context) (Sample, error) { return d.shared(ctx, runs, 1) }
	return side, d.warm(ctx, "chain", runs/10+1)
}
