package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
)

var (
	putTimesSQL  = sql.Named("bench/put_times")
	undecidedSQL = sql.Named("bench/undecided")
	latenessSQL  = sql.Named("bench/ask_lateness")
)

const (
	schedulesOfRound = 10_000
	scheduleWorkers  = 4
	scheduleLead     = 30 * time.Second // time to put all schedules before the first one fires
	scheduleSpan     = time.Minute
	besideEvery      = 50 * time.Millisecond // pause between requests for other runs

	spreadFires  = "over a minute"
	instantFires = "at one instant"
	msLateMedian = "ms late, median"
	msLateP99    = "ms late, 99 %"
	sAllDecided  = "s until all are decided"
	msBesideP99  = "ms that other runs wait, 99 %"
)

func schedulesCase() Case {
	return Case{
		Name: "schedules", About: "Four worker processes fire 10,000 schedules: one after the other over a minute, and all at one instant, while other runs are asked for.",
		Bound:    "over a minute: a look a second; at one instant: a run, its record in fires and two updates for each",
		Settings: []string{fmt.Sprintf("%d × `oarlock worker` on defaults, one database; schedules that fire once, of a DAG with one step that does nothing", scheduleWorkers)},
		Once:     true,
		Prepare:  prepareSchedules,
		Goals: []Goal{
			{Side: spreadFires, Metric: msLateMedian},
			{Side: spreadFires, Metric: msLateP99, AtMost: 2000},
			{Side: instantFires, Metric: sAllDecided, AtMost: 20},
			{Side: instantFires, Metric: msBesideP99, AtMost: 150},
		},
	}
}

func prepareSchedules(ctx context.Context, s *Stage) ([]Side, error) {
	d, err := s.database(ctx, "name: tick\nsteps: [{id: a, action: noop}]\n", "name: other\npriority: 10\nsteps: [{id: a, action: noop}]\n")
	if err != nil {
		return nil, err
	}
	var processes []*process
	for i := range scheduleWorkers {
		p, err := s.startWorker(d, fmt.Sprintf("w%d", i))
		if err != nil {
			return nil, err
		}
		processes = append(processes, p)
	}
	if err := d.workersLive(ctx, scheduleWorkers, processes...); err != nil {
		return nil, err
	}
	n, lead, span := s.count(schedulesOfRound, 100), s.span(scheduleLead, leastIdle), s.span(scheduleSpan, leastIdle)
	return []Side{
		{Name: spreadFires, Round: func(ctx context.Context) (Sample, error) { return d.fireAll(ctx, spreadFires, n, lead, span) }},
		{Name: instantFires, Round: func(ctx context.Context) (Sample, error) { return d.fireAll(ctx, instantFires, n, lead, 0) }},
	}, d.warm(ctx, "tick", scheduleWorkers)
}

// fireAll makes n schedules with names that begin with name. The first fires after lead, and the others within span; 0 means all at
// one instant. It requests other runs meanwhile, and returns how late the fires were and how long the other runs waited. It fails
// unless each schedule fired exactly once.
func (d *Database) fireAll(ctx context.Context, name string, n int, lead, span time.Duration) (Sample, error) {
	first := time.Now().Add(lead)
	if _, err := d.asker.Exec(ctx, putTimesSQL, pgx.StrictNamedArgs{"name": name, "n": n, "first": first, "span": span.Seconds()}); err != nil {
		return Sample{}, err
	}
	var other queue.RunID
	tick := time.NewTicker(besideEvery)
	defer tick.Stop()
	for left := true; left; {
		run, err := d.Enqueue(ctx, queue.Request{DAG: "other"})
		if err != nil {
			return Sample{}, err
		}
		if time.Now().Before(first) { // nothing fires yet
			run = 0
		}
		other = orElse(other, run)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return Sample{}, context.Cause(ctx)
		}
		if err := d.asker.QueryRow(ctx, undecidedSQL, name).Scan(&left); err != nil {
			return Sample{}, err
		}
	}
	if err := d.settled(ctx); err != nil {
		return Sample{}, err
	}
	beside, err := d.waits(ctx, other, "other")
	if err != nil {
		return Sample{}, err
	}
	rows, err := d.asker.Query(ctx, latenessSQL, name)
	if err != nil {
		return Sample{}, err
	}
	late, err := pgx.CollectRows(rows, pgx.RowTo[float64])
	if err == nil && len(late) != n {
		err = fmt.Errorf("%d of %d schedules fired", len(late), n)
	}
	return Sample{Values: Values{
		msLateMedian: quantile(late, 0.5), msLateP99: quantile(late, 0.99), sAllDecided: quantile(late, 1) / 1000, msBesideP99: beside.Values[msP99],
	}}, err
}
