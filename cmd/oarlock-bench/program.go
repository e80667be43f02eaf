package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopPatience is how long a worker may take to stop before it is killed.
const stopPatience = 20 * time.Second

// process is an `oarlock worker` of its own: its guard, and the process that works.
type process struct {
	cmd   *exec.Cmd
	said  bytes.Buffer
	ended chan struct{}
}

// startWorker starts one, with settings as NAME=value, until the stage ends.
func (s *Stage) startWorker(d *Database, name string, settings ...string) (*process, error) {
	state, err := s.folder("")
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(s.program, "worker"), ended: make(chan struct{})}
	p.cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + state, "OARLOCK_NAME=" + name, "OARLOCK_STATE_DIR=" + state, "OARLOCK_DATABASE_URL=" + d.worker,
	}
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		p.cmd.Env = append(p.cmd.Env, "OARLOCK_"+strings.ToUpper(key)+"="+value)
	}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = &p.said, &p.said, state
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.program, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
	}()
	s.later(p.stop)
	return p, nil
}

// stop asks twice: what runs is handed on at once.
func (p *process) stop() error {
	for range 2 {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.ended:
		case <-time.After(100 * time.Millisecond):
		}
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopPatience):
		_ = p.cmd.Process.Kill()
		<-p.ended
		return fmt.Errorf("oarlock worker did not stop within %s", stopPatience)
	}
}

// workersLive waits until as many workers are registered.
func (d *Database) workersLive(ctx context.Context, n int, processes ...*process) error {
	for tick := time.NewTicker(10 * time.Millisecond); ; {
		workers, err := d.Workers(ctx)
		if err != nil || len(workers) >= n {
			tick.Stop()
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		for _, p := range processes {
			select {
			case <-p.ended:
				return fmt.Errorf("oarlock worker ended: %s", p.said.String())
			default:
			}
		}
	}
}

// family are a worker's guard and its driver process, which is of the same program; bodies that the guard adopted are not.
func (p *process) family() ([]int, error) {
	guard := p.cmd.Process.Pid
	for _, child := range childrenOf(guard) {
		if sameProgram(guard, child) {
			return []int{guard, child}, nil
		}
	}
	return nil, fmt.Errorf("the driver process of worker %d: %w", guard, errNotHere)
}

func sameProgram(a, b int) bool {
	one, err1 := os.Readlink(fmt.Sprintf("/proc/%d/exe", a))
	other, err2 := os.Readlink(fmt.Sprintf("/proc/%d/exe", b))
	return err1 == nil && err2 == nil && one == other
}

// resident is what the worker takes, in bytes, now and at most.
func (p *process) resident() (now, most float64, err error) {
	pids, err := p.family()
	if err != nil {
		return 0, 0, err
	}
	for _, pid := range pids {
		status := fmt.Sprintf("/proc/%d/status", pid)
		n, err1 := kibibytes(after(status, "VmRSS"))
		m, err2 := kibibytes(after(status, "VmHWM"))
		if err := errors.Join(err1, err2); err != nil {
			return 0, 0, err
		}
		now, most = now+n, most+m
	}
	return now, most, nil
}

func kibibytes(text string) (float64, error) {
	digits, _, _ := strings.Cut(text, " ")
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return 0, errNotHere
	}
	return n * 1024, nil
}

// processor is the processor time that the worker has used, in its own code and in the kernel.
func (p *process) processor() (used time.Duration, err error) {
	pids, err := p.family()
	if err != nil {
		return 0, err
	}
	for _, pid := range pids {
		stat, err := procStatOf(pid)
		if err != nil {
			return 0, err
		}
		used += stat.own
	}
	return used, nil
}
