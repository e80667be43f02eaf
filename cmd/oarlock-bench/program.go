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

// family are a process and the children of it that are of the same program: a guard and its driver process.
func (p *process) family() []int {
	pids := []int{p.cmd.Process.Pid}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", pids[0])) //nolint:gosec // a number
	if err != nil {
		return pids
	}
	for _, word := range strings.Fields(string(text)) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

var errNotHere = errors.New("this system does not tell")

// resident is what the processes take, in bytes, now and at most.
func resident(pids []int) (now, most float64, err error) {
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

// ticksPerSecond is the unit of /proc/PID/stat, the same on every Linux that Go runs on.
const ticksPerSecond = 100

// processor is the processor time that processes have used, in their own code and in the kernel.
func processor(pids []int) (used time.Duration, err error) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) //nolint:gosec // a number
		if err != nil {
			return 0, errNotHere
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest) // from the third on
		if len(fields) < 13 {
			return 0, errNotHere
		}
		for _, field := range fields[11:13] {
			ticks, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, errNotHere
			}
			used += time.Duration(ticks) * time.Second / ticksPerSecond
		}
	}
	return used, nil
}
