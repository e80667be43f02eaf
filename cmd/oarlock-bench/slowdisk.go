package main

import (
	"context"

	"github.com/oarlock-dev/oarlock/sql"
)

var (
	slowCommitsSQL = sql.Named("bench/slow_commits")
	slowAlwaysSQL  = sql.Named("bench/slow_always")
)

const (
	slowOurs = "oarlock, slow disk"
	slowBare = "bare loop, slow disk"
)

func slowdiskCase() Case {
	return Case{
		Name: "slowdisk", About: "Chains as in chain, with and without a millisecond more for every commit.",
		Bound:    "as chain: a flush carries more records where a commit takes longer",
		Settings: append(busySettings, "slow disk: commit_delay 1000, commit_siblings 0 in the side's database"),
		Prepare:  prepareSlowdisk,
		Goals: []Goal{
			{Side: slowOurs, Metric: stepsPerSecond, Of: ours, AtLeast: 0.7, Guarded: true},
			{Side: slowBare, Metric: stepsPerSecond, Of: bare},
			{Side: slowOurs, Metric: stepsPerSecond, Of: slowBare},
		},
	}
}

func prepareSlowdisk(ctx context.Context, s *Stage) ([]Side, error) {
	c := chains{runs: s.count(chainRuns, 20), steps: chainSteps, metric: stepsPerSecond}
	fast, err := c.oarlock(ctx, s, ours)
	if err != nil {
		return nil, err
	}
	limit, err := c.bare(ctx, s, bare)
	if err != nil {
		return nil, err
	}
	own, err := s.slowDatabase(ctx)
	if err != nil {
		return nil, err
	}
	slow, err := c.oarlockIn(ctx, s, own, slowOurs, "chain")
	if err != nil {
		return nil, err
	}
	other, err := s.slowDatabase(ctx)
	if err != nil {
		return nil, err
	}
	slowLimit, err := c.bareIn(ctx, s, other, slowBare)
	return []Side{fast, slow, limit, slowLimit}, err
}

func (s *Stage) slowDatabase(ctx context.Context) (*Database, error) {
	d, err := s.database(ctx, chainOf("chain", chainSteps))
	if err != nil {
		return nil, err
	}
	for _, statement := range []string{slowCommitsSQL, slowAlwaysSQL} {
		if err := s.exec(ctx, statement, "{name}", d.name); err != nil {
			return nil, err
		}
	}
	return d, nil
}
