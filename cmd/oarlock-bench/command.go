package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"github.com/oarlock-dev/oarlock/worker/rig"
)

const (
	commandRuns  = 2000
	spawnsAtOnce = 16 // where spawning is fastest
	commandsPerS = "commands/s"
	plainSpawn   = "plain spawn"
	truePath     = "/bin/true"
)

func commandCase() Case {
	return Case{
		Name: "command", About: "2,000 runs whose only step is the command true.",
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
	return Sample{Units: float64(n), Values: perSecond(commandsPerS, n, time.Since(begun))}
}

func commandWorker(ctx context.Context, s *Stage, n int) (Side, error) {
	d, err := s.database(ctx, "name: command\nsteps: [{id: a, command: "+truePath+"}]\n")
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
	if err := d.warm(ctx, "command", rig.DefaultSlots); err != nil {
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
	loop, err := s.bareLoop(ctx, d)
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
	loop.AtOnce, loop.Body = rig.DefaultSlots, func() {
		if err := bareCommand(work, memory); err != nil {
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
		return Sample{Units: float64(n), Values: perSecond(commandsPerS, n, took)}, err
	}}, nil
}

// inMemory is where files are cheap; "" where there is no such place.
func inMemory() string {
	const shared = "/dev/shm"
	if info, err := os.Stat(shared); err == nil && info.IsDir() {
		return shared
	}
	return ""
}

// bareCommand is a command with all that belongs to it, and nothing that looks after it.
func bareCommand(dir, memory string) error {
	work, err := os.MkdirTemp(dir, "work-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	files, err := os.MkdirTemp(memory, "files-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(files)
	for _, name := range []string{"output", "upstream.json"} {
		if err := os.WriteFile(filepath.Join(files, name), []byte("{}"), 0o600); err != nil { //nolint:gosec // a folder of our own
			return err
		}
	}
	if err := runTrue(work); err != nil {
		return err
	}
	_, err = os.ReadFile(filepath.Join(files, "output")) //nolint:gosec // a folder of our own
	return err
}

// runTrue starts the command in a group of its own, with two pipes.
func runTrue(dir string) error {
	cmd := exec.Command(truePath)
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Setpgid: true}
	var out, errs bytes.Buffer // not files, so os/exec makes pipes
	cmd.Stdout, cmd.Stderr = &out, &errs
	return cmd.Run()
}

// spawn starts commands and does nothing else.
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
				if err := runTrue(""); err != nil {
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
		return runTrue("")
	}
	return Side{Name: rival, Count: r.Database, Round: func(ctx context.Context) (sample Sample, err error) {
		err = r.during(ctx, func(client *river.Client[pgx.Tx]) error {
			took, err := r.burst(ctx, client, count, n, 1)
			sample = Sample{Units: float64(n), Values: perSecond(commandsPerS, n, took)}
			return err
		})
		return sample, err
	}}, nil
}
