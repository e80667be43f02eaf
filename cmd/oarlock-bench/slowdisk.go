package main

import (
	"context"
	"fmt"
	"time"

	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/sql"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/embed"
)

var (
	slowCommitsSQL  = sql.Named("bench/slow_commits")
	claimedAgainSQL = sql.Named("bench/ask_claimed_again")
)

const (
	slowRuns  = 2000
	givenBack = "given back per 1,000 runs"
)

// slowBodies are how long the steps of slow runs sleep.
var slowBodies = []time.Duration{0, 10 * time.Millisecond}

func slowdiskCase() Case {
	c := Case{
		Name: "slowdisk", About: "2,000 runs of one step, all queued at once for one worker with 8 slots, where every commit takes 5 ms more; a step is a Go function that does nothing, or sleeps for 10 ms.",
		Bound: "the commits that a slot waits for; with bodies of 10 ms no more than 800 runs/s",
		Settings: append(defaultSettings, fmt.Sprintf("slots %d", embed.DefaultSlots), "commit_delay 5000, commit_siblings 0 in each database",
			"bare loop: 8 runs at once, each until its end is durable, where a slot of the worker is free as soon as the body is over"),
		Prepare: prepareSlowdisk,
	}
	for _, body := range slowBodies {
		c.Goals = append(c.Goals,
			Goal{Side: slowSide(ours, body), Metric: runsPerSecond},
			Goal{Side: slowSide(ours, body), Metric: runsPerSecond, Of: slowSide(bare, body)},
			Goal{Side: slowSide(ours, body), Metric: givenBack})
	}
	return c
}

func slowSide(name string, body time.Duration) string {
	return fmt.Sprintf("%s, bodies of %s", name, body)
}

func prepareSlowdisk(ctx context.Context, s *Stage) (sides []Side, err error) {
	runs := s.count(slowRuns, 2*embed.DefaultSlots)
	for _, body := range slowBodies {
		for _, prepare := range []func(context.Context, *Stage, int, time.Duration) (Side, error){slowWorker, slowBare} {
			side, err := prepare(ctx, s, runs, body)
			if err != nil {
				return nil, err
			}
			sides = append(sides, side)
		}
	}
	return sides, nil
}

func slowWorker(ctx context.Context, s *Stage, runs int, body time.Duration) (Side, error) {
	d, err := s.slowDatabase(ctx)
	if err != nil {
		return Side{}, err
	}
	sleep := func(context.Context, *worker.Task) (worker.Outputs, error) {
		time.Sleep(body)
		return nil, nil
	}
	if err := s.embed(ctx, d, defaultConfig, map[string]worker.Func{"nothing": sleep}); err != nil {
		return Side{}, err
	}
	return Side{Name: slowSide(ours, body), Count: d, Round: func(ctx context.Context) (Sample, error) {
		first, took, err := d.burst(ctx, "chain", runs)
		if err != nil {
			return Sample{}, err
		}
		sample := chains{runs, 1, runsPerSecond}.sample(took)
		sample.Values[givenBack], err = d.givenBack(ctx, first, runs)
		return sample, err
	}}, d.warm(ctx, "chain", embed.DefaultSlots)
}

// givenBack returns how often workers gave back runs, from the first run on, per 1,000 runs. No worker is lost in this
// case, so each claim of a run but its first follows a give-back.
func (d *Database) givenBack(ctx context.Context, first queue.RunID, runs int) (float64, error) {
	var again float64
	err := d.asker.QueryRow(ctx, claimedAgainSQL, first).Scan(&again)
	return 1000 * again / float64(runs), err
}

func slowBare(ctx context.Context, s *Stage, runs int, body time.Duration) (Side, error) {
	d, err := s.slowDatabase(ctx)
	if err != nil {
		return Side{}, err
	}
	loop, err := s.claimingLoop(ctx, d)
	if err != nil {
		return Side{}, err
	}
	loop.AtOnce, loop.Body = embed.DefaultSlots, func() { time.Sleep(body) }
	return Side{Name: slowSide(bare, body), Count: d, Round: func(ctx context.Context) (Sample, error) {
		took, err := loop.Chains(ctx, runs, 1)
		return chains{runs, 1, runsPerSecond}.sample(took), err
	}}, nil
}

// slowDatabase makes a database with slow commits in all sessions that begin afterwards. Its own connections are open already, so
// they commit fast.
func (s *Stage) slowDatabase(ctx context.Context) (*Database, error) {
	d, err := s.database(ctx, chainOf("chain", 1))
	if err != nil {
		return nil, err
	}
	return d, s.exec(ctx, slowCommitsSQL, "{name}", d.name)
}
