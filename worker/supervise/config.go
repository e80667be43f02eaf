package supervise

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// WorkerEnv is the variable by which a sweep finds the processes of a worker.
const WorkerEnv = "OARLOCK_WORKER_ID"

// Environ is the variable that every process of a worker's tasks must carry.
func Environ(workerID string) string { return WorkerEnv + "=" + workerID }

// Config says what to guard.
type Config struct {
	Command  []string // path and arguments of the driver process; empty: this program with Args
	Args     []string // of this program, its name first; nil: those that it was started with
	Env      []string // its environment; nil: that of the guard
	StateDir string   // folder of the lock file; made if missing, for this user alone
	Name     string   // of the worker: one at a time per name and folder
	Limits   Limits
	Final    []int       // exit codes, besides 0, after which no successor is started
	Say      func(Event) // told what happens, from the goroutine of Run; must not block

	processes func() ([]process, error) // tests list more than there is
	ungrouped bool                      // there is no cgroup, or tests want none
}

// Limits are times that end something. Zero is the default.
type Limits struct {
	Attach   time.Duration // a driver process that has not called Attach after this is killed; 30 s
	Margin   time.Duration // killing begins so long before a deadline, or a quarter of what is left if that is less; 250 ms
	Healthy  time.Duration // a driver process that lived so long is followed at once; 5 s
	MaxDelay time.Duration // longest pause before a successor; 15 s
	Survive  time.Duration // what is alive so long after SIGKILL is reported; 5 s
	Handover time.Duration // a driver process whose guard died and that is still there after this is killed; 30 s
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckName says what is wrong with the name of a worker.
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return errors.New("must be up to 64 letters, digits, dots, dashes and underscores")
	}
	return nil
}

// complete checks, and fills in defaults.
func (c Config) complete() (Config, error) {
	if err := CheckName(c.Name); err != nil {
		return c, fmt.Errorf("worker name %q %w", c.Name, err)
	}
	if c.StateDir == "" {
		return c, errors.New("no state folder: name one, the guard keeps its lock file there")
	}
	if len(c.Command) > 0 && !filepath.IsAbs(c.Command[0]) {
		return c, fmt.Errorf("command %q: give an absolute path", c.Command[0])
	}
	if c.Args == nil {
		c.Args = os.Args
	}
	if c.Env == nil {
		c.Env = os.Environ()
	}
	if c.Say == nil {
		c.Say = func(Event) {}
	}
	if c.processes == nil {
		c.processes = listProcesses
	}
	c.Limits = c.Limits.complete()
	return c, nil
}

func (l Limits) complete() Limits {
	for _, limit := range []struct {
		set   *time.Duration
		usual time.Duration
	}{
		{&l.Attach, 30 * time.Second},
		{&l.Margin, 250 * time.Millisecond},
		{&l.Healthy, 5 * time.Second},
		{&l.MaxDelay, 15 * time.Second},
		{&l.Survive, 5 * time.Second},
		{&l.Handover, 30 * time.Second},
	} {
		if *limit.set <= 0 {
			*limit.set = limit.usual
		}
	}
	return l
}
