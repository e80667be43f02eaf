package main

import (
	"context"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
)

const (
	idleSpan      = 30 * time.Second
	leastIdle     = 2 * time.Second // long enough for both sides to send something
	perSecondSent = "statements/s"
	percentOfCore = "% of a core"
)

func idleCase() Case {
	return Case{
		Name: "idle", About: "A worker with nothing to do, for 30 seconds.",
		Bound:    "a poll a second, a sign of life every five",
		Settings: []string{"oarlock: `oarlock worker` on defaults, guard and driver process together", "River: its defaults, in this process, which does nothing else meanwhile"},
		Prepare:  prepareIdle,
		Goals: []Goal{
			{Side: ours, Metric: perSecondSent, AtMost: 2},
			{Side: ours, Metric: percentOfCore, AtMost: 0.5},
			{Side: ours, Metric: perSecondSent, Of: rival},
		},
	}
}

func prepareIdle(ctx context.Context, s *Stage) ([]Side, error) {
	d, err := s.database(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.startWorker(d, "idle")
	if err != nil {
		return nil, err
	}
	if err := d.workersLive(ctx, 1, p); err != nil {
		return nil, err
	}
	r, err := s.river(ctx, riverOptions{workers: 100, cooldown: river.FetchCooldownDefault, poll: river.FetchPollIntervalDefault})
	if err != nil {
		return nil, err
	}
	r.work = func(context.Context, *river.Client[pgx.Tx], *river.Job[riverArgs]) error { return nil }
	span := s.span(idleSpan, leastIdle)
	return []Side{
		{Name: ours, Round: func(ctx context.Context) (Sample, error) {
			return d.watched(ctx, span, p.processor)
		}},
		{Name: rival, Round: func(ctx context.Context) (sample Sample, err error) {
			err = r.during(ctx, func(*river.Client[pgx.Tx]) error {
				sample, err = r.watched(ctx, span, ownProcessor)
				return err
			})
			return sample, err
		}},
	}, nil
}

// watched waits for a span, and returns which share of a core was used meanwhile, and how many statements a second reached the
// database if the server counts them. used returns the processor time so far of the process that is measured.
func (d *Database) watched(ctx context.Context, span time.Duration, used func() (time.Duration, error)) (Sample, error) {
	before, err := d.counters(ctx)
	if err != nil {
		return Sample{}, err
	}
	usedBefore, err := used()
	if err != nil {
		return Sample{}, err
	}
	begun := time.Now()
	select {
	case <-time.After(span):
	case <-ctx.Done():
		return Sample{}, context.Cause(ctx)
	}
	took := time.Since(begun)
	usedNow, err := used()
	if err != nil {
		return Sample{}, err
	}
	now, err := d.counters(ctx)
	values := Values{percentOfCore: 100 * (usedNow - usedBefore).Seconds() / took.Seconds()}
	if now != nil {
		values[perSecondSent] = (now.Statements - before.Statements) / took.Seconds()
	}
	return Sample{Values: values}, err
}

// ownProcessor returns the processor time that this process has used so far.
func ownProcessor() (time.Duration, error) {
	var u syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
