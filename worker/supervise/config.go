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

// Environ returns the variable with the worker's id, as NAME=VALUE. Every process of the worker's tasks must carry it.
func Environ(workerID string) string { return WorkerEnv + "=" + workerID }

// Config is the configuration of a guard.
type Config struct {
	Command  []string // path and arguments of the driver process; empty: this program with Args
	Args     []string // of this program, its name first; nil: the arguments of this process
	Env      []string // environment of the driver process; nil: the guard's
	StateDir string   // folder of the lock file; made if missing, accessible to this user only
	Name     string   // of the worker; one guard at a time per name and folder
	Limits   Limits
	Final    []int       // exit codes, besides 0, after which no driver process is started
	Say      func(Event) // gets the events, in the goroutine of Run; must not block

	processes func() ([]process, error) // tests add processes to the list
	ungrouped bool                      // no cgroup is available, or a test wants none
}

// Limits are the timeouts of a guard. Zero is the default.
type Limits struct {
	Attach   time.Duration // a driver process that has not called Attach by then is killed; 30 s
	Margin   time.Duration // killing begins this long before a deadline, or a quarter of the time to it if that is less; 250 ms
	Healthy  time.Duration // after a driver process that lived this long, the next starts at once; 5 s
	MaxDelay time.Duration // longest pause before the next driver process; 15 s
	Survive  time.Duration // processes alive this long after SIGKILL are reported; 5 s
	Handover time.Duration // a driver process still alive this long after its guard died is killed; 30 s
}

var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckName returns an error if the name of a worker is malformed. The caller must put the name before the message, which begins
// with "must be".
func CheckName(name string) error {
	if !validName.MatchString(name) {
		return errors.New("must be up to 64 letters, digits, dots, dashes and underscores")
	}
	return nil
}

// complete returns the configuration with its defaults filled in, or an error if something is wrong or missing.
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
