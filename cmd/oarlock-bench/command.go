package main

import (
	"context"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oarlock-dev/oarlock/cmd/oarlock-bench/baseline"
	"github.com/oarlock-dev/oarlock/worker/embed"
)

const (
	commandRuns  = 2000
	spawnsAtOnce = 16 // number of parallel spawns at which spawning is fastest
	commandsPerS = "commands/s"
	plainSpawn   = "plain spawn"
)

func commandCase() Case {
	return Case{
		Name: "command", About: "2,000 runs with one step, the command true.",
		Bound: "the kernel: fork, exec, two pipes, two folders and the small files by which a body hears and tells things",
		Settings: []string{
			"oarlock: `oarlock worker` on defaults, 8 slots, a process of its own",
			"bare loop: the same rows, and the same system calls in this process, 8 at once",
			"River: 16 workers, each starts the command",
		},
		Prepare: prepareCommand,
		Goals: []Goal{
			{Side: ours, Metric: commandsPerS, Of: bare, AtLeast: 0.85, Guarded: true},
			{Side: ours, Metric: commandsPerS, Of: rival},
			{Side: ours, Metric: commandsPerS, Of: plainSpawn},
		},
	}
}

func prepareCommand(ctx context.Context, s *Stage) ([]Side, error) {
	n := s.count(commandRuns, 20)
	own, err := commandWorker(ctx, s, n)
	if err != nil {
		return nil, err
	}
	limit, err := commandBare(ctx, s, n)
	if err != nil {
		return nil, err
	}
	other, err := commandRiver(ctx, s, n)
	return []Side{own, limit, other, {Name: plainSpawn, Round: func(context.Context) (Sample, error) { return spawn(n) }}}, err
}

func commandSample(n int, begun time.Time) Sample {
	return Sample{Units: float64(n), Values: Values{commandsPerS: rate(n, time.Since(begun))}}
}

func commandWorker(ctx context.Context, s *Stage, n int) (Side, error) {
	d, err := s.database(ctx, "name: command\nsteps: [{id: a, command: "+baseline.TruePath+"}]\n")
	if err != nil {
		return Side{}, err
	}
	p, err := s.startWorker(d, "command")
	if err != nil {
		return Side{}, err
	}
	if err := d.workersLive(ctx, 1, p); err != nil {
		return Side{}, err
	}
	if err := d.warm(ctx, "command", embed.DefaultSlots); err != nil {
		return Side{}, err
	}
	return Side{Name: ours, Count: d, Round: func(ctx context.Context) (Sample, error) {
		if _, err := d.enqueue(ctx, "command", n); err != nil {
			return Sample{}, err
		}
		begun := time.Now()
		err := d.settled(ctx)
		return commandSample(n, begun), err
	}}, nil
}

func commandBare(ctx context.Context, s *Stage, n int) (Side, error) {
	d, err := s.database(ctx, chainOf("command", 1))
	if err != nil {
		return Side{}, err
	}
	loop, err := s.baseline(ctx, d)
	if err != nil {
		return Side{}, err
	}
	work, err := s.folder("")
	if err != nil {
		return Side{}, err
	}
	memory, err := s.folder(inMemory())
	if err != nil {
		return Side{}, err
	}
	failed := make(chan error, 1)
	loop.AtOnce, loop.Body = embed.DefaultSlots, func() {
		if err := baseline.Command(work, memory); err != nil {
			select {
			case failed <- err:
			default:
			}
		}
	}
	return Side{Name: bare, Count: d, Round: func(ctx context.Context) (Sample, error) {
		took, err := loop.Chains(ctx, n, 1)
		select {
		case failure := <-failed:
			return Sample{}, failure
		default:
		}
		return Sample{Units: float64(n), Values: Values{commandsPerS: rate(n, took)}}, err
	}}, nil
}

// inMemory returns a folder in memory, where files are cheap, or "" if there is none.
func inMemory() string {
	const shared = "/dev/shm"
	if info, err := os.Stat(shared); err == nil && info.IsDir() {
		return shared
	}
	return ""
}

// spawn starts n commands, spawnsAtOnce at a time, and does nothing else. It returns the rate, or an error if any command failed.
func spawn(n int) (Sample, error) {
	todo, failed := make(chan struct{}, n), make(chan error, n)
	for range n {
		todo <- struct{}{}
	}
	close(todo)
	begun := time.Now()
	var all sync.WaitGroup
	for range spawnsAtOnce {
		all.Go(func() {
			for range todo {
				if err := baseline.Spawn(""); err != nil {
					failed <- err
				}
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		return Sample{}, err
	default:
		return commandSample(n, begun), nil
	}
}

func commandRiver(ctx context.Context, s *Stage, n int) (Side, error) {
	o := riverTuned
	o.workers, o.pollOnly = spawnsAtOnce, true
	r, err := s.river(ctx, o)
	if err != nil {
		return Side{}, err
	}
	count := new(tally)
	r.work = func(context.Context, *river.Client[pgx.Tx], *river.Job[riverArgs]) error {
		defer count.add()
		return baseline.Spawn("")
	}
	return Side{Name: rival, Count: r.Database, Round: func(ctx context.Context) (sample Sample, err error) {
		err = r.during(ctx, func(client *river.Client[pgx.Tx]) error {
			took, err := r.burst(ctx, client, count, n, 1)
			sample = Sample{Units: float64(n), Values: Values{commandsPerS: rate(n, took)}}
			return err
		})
		return sample, err
	}}, nil
}
