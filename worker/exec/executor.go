package exec

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/worker"
)

// Config is the configuration of an Executor.
type Config struct {
	// Dir is the folder for the folders of attempts; New makes it if it is missing. Unless KeepWorkDir is set, New also removes
	// the folders that killed executors left in it.
	Dir         string
	KeepWorkDir bool // keep the folders of attempts, to look at

	// RunDir is the folder for the small files by which bodies get and return values. It should be in memory, such as /dev/shm or
	// $XDG_RUNTIME_DIR: beside a database that syncs, a file on disk costs more than a process. "": Dir.
	RunDir string

	// WorkerVariable is the variable with the worker's id in the environment of every body, which nothing overrides. The guard
	// finds the processes of a worker by it. "": no such variable.
	WorkerVariable string

	Env        map[string]string // the worker's own variables; they override inherited ones
	EnvInherit bool              // bodies inherit Environ
	EnvDeny    []string          // globs of variables that are not inherited; nil: StandardDenyList; empty: all are inherited
	EnvSecrets []string          // globs of variables that DAGs may name as secrets; not inherited either, unless EnvDeny is empty
	Environ    []string          // variables to inherit; nil: the environment of this process

	Shell     []string  // of `run:` if neither step nor DAG names one; nil: /bin/sh -eu
	Allow     []string  // globs of programs that may be started; empty: all
	Deny      []string  // globs of programs that tasks must not start, even if Allow has them
	Resources Resources // of each body

	// Adopts says that this process adopts what bodies orphan, as after offspring.Adopt, and starts no process of its own. Each
	// child that was not started by package offspring is then taken for an orphan of a body, and ended, unless it was there before
	// New. A program that embeds a worker and starts processes must leave it false.
	Adopts bool

	// Cgroup is the folder of a writable cgroup v2 (see OwnCgroup) in which each attempt gets a group; "": none.
	Cgroup string
}

// Resources are the limits of each body; 0: no limit.
type Resources struct {
	Memory int64 // bytes; of the whole body if its cgroup has the controller, else of each process
	PIDs   int   // as Memory; without the controller, the limit is this many more than the worker's user runs already
	Nice   int   // 0..19
}

// Executor runs commands.
type Executor struct {
	config   Config
	base     environment // layers that are the same for every body
	listed   []string    // base as NAME=VALUE entries
	programs programs
	work     *session // for working folders
	workdirs *workdirs
	files    *session // for small files
	tracker  *procTracker
	null     *os.File // stdin of most bodies
	prefix   string
	count    atomic.Int64
	kept     kept
	suspects suspects
}

var _ worker.Executor = (*Executor)(nil)

// New returns an executor with folders of its own in c.Dir and c.RunDir, which it makes if they are missing. It removes the folders
// that killed executors left there, but none in c.Dir if c.KeepWorkDir is set. The caller must close the executor. An error means
// that the configuration is wrong, or that this host lacks something.
func New(c Config) (*Executor, error) {
	if c.Environ == nil {
		c.Environ = os.Environ()
	}
	base, err := inherit(c)
	if err != nil {
		return nil, err
	}
	programs, err := parsePrograms(c.Allow, c.Deny)
	if err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	prefix := rand.Text()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, fmt.Errorf("stdin of bodies: %w", err)
	}
	x := &Executor{config: c, base: base, listed: base.list(nil, nil), programs: programs, prefix: prefix, null: null}
	if err := x.openSessions(); err != nil {
		return nil, errors.Join(err, null.Close())
	}
	x.tracker = newProcTracker(prefix, c)
	return x, nil
}

func (x *Executor) openSessions() error {
	var err error
	if x.work, err = openSession(x.config.Dir, x.config.KeepWorkDir); err != nil {
		return err
	}
	x.workdirs = &workdirs{session: x.work}
	if x.config.RunDir == "" {
		x.files = x.work
		return nil
	}
	if x.files, err = openSession(x.config.RunDir, false); err != nil {
		return errors.Join(err, x.work.close())
	}
	return nil
}

func (c Config) check() error {
	if _, err := listProcesses(); err != nil {
		return fmt.Errorf("mount /proc: without it the worker cannot find processes that a body left behind: %w", err)
	}
	r := c.Resources
	if r.Memory < 0 || r.PIDs < 0 || r.Nice < 0 || r.Nice > 19 {
		return fmt.Errorf("resources: memory %d, pids %d and nice %d must not be negative, and nice at most 19", r.Memory, r.PIDs, r.Nice)
	}
	if c.WorkerVariable != "" {
		if err := (environment{c.WorkerVariable: ""}).check(); err != nil {
			return err
		}
	}
	if err := environment(c.Env).check(); err != nil {
		return err
	}
	if c.Cgroup == "" {
		return nil
	}
	sweepCgroups(c.Cgroup)
	return checkCgroup(c.Cgroup)
}

// LookupEnv returns the value of a variable that bodies get from this worker: an inherited one that is not denied, or the worker's
// own. It returns false if there is none. The environment of a DAG or a step does not count.
func (x *Executor) LookupEnv(name string) (string, bool) {
	value, ok := x.base[name]
	return value, ok
}

// EndKept kills the processes that bodies were allowed to leave behind, and waits until they are gone. The error names processes
// that survive SIGKILL. The executor can be used afterwards. The caller must not let an Execute run meanwhile.
func (x *Executor) EndKept() error { return x.kept.kill() }

// Close kills the processes that bodies were allowed to leave behind, waits until they are gone, and removes the executor's
// folders. With Config.KeepWorkDir, the folders of attempts stay. It returns the first error, but goes on after it. The caller must
// not let an Execute run meanwhile, or call one later.
func (x *Executor) Close() error {
	err := x.kept.kill()
	x.tracker.close()
	x.null.Close()
	if x.files != x.work {
		err = firstError(err, x.files.close())
	}
	return firstError(err, x.work.close())
}

// Execute implements worker.Executor: it runs one body, as the package comment describes, and returns once nothing of it is left,
// except processes that it may leave behind or that survive SIGKILL.
func (x *Executor) Execute(ctx context.Context, task *worker.Task) dagrun.Result {
	a, err := x.prepare(task)
	defer a.close()
	if err != nil {
		return refused(err)
	}
	if ctx.Err() != nil {
		return refused(errStopped)
	}
	b, err := a.start()
	if err != nil {
		return refused(err)
	}
	if task.Started != nil {
		task.Started()
	}
	survivors := b.supervise(ctx)
	a.folder.shared = b.lives || survivors != nil
	return a.result(b, survivors)
}

// attempt holds all that is prepared for a body before its start.
type attempt struct {
	x      *Executor
	task   *worker.Task
	owner  string
	folder *folder
	cmd    command
	cgroup *cgroup
	stdin  *os.File
	env    []string
}

// prepare makes the files, folder, stdin, command line, environment and cgroup of a body, and starts nothing. The attempt is never
// nil: the caller must close it even after an error.
func (x *Executor) prepare(task *worker.Task) (*attempt, error) {
	number := strconv.FormatInt(x.count.Add(1), 10)
	a := &attempt{x: x, task: task, owner: x.prefix + number + "-" + task.UID}
	added, err := x.layered(task)
	if err != nil {
		return a, configError{err}
	}
	a.folder = x.folder(task, number)
	if err := a.files(added); err != nil {
		return a, err
	}
	if a.cmd, err = x.command(task, a.folder, added.path(x.base)); err != nil {
		return a, err
	}
	if a.stdin, err = openStdin(task, a.cmd.dir); err != nil {
		return a, err
	}
	added["PWD"] = a.cmd.dir
	if x.config.WorkerVariable != "" {
		added[x.config.WorkerVariable] = task.Worker
	}
	added[ownerVariable] = a.owner
	a.env = added.list(x.listed, withheld(task))
	return a, a.group(number)
}

// files writes the files $OARLOCK_OUTPUT, which is empty, and $OARLOCK_UPSTREAM, and sets these variables in env. It also moves
// each value in env that is longer than maxValueBytes to a file: it deletes the variable NAME, and sets NAME_FILE to the path of
// the file.
func (a *attempt) files(env environment) error {
	var err error
	if a.folder.output, err = a.folder.write("output", nil); err != nil {
		return err
	}
	env["OARLOCK_OUTPUT"] = a.folder.output
	upstream := []byte("{}")
	if a.task.Upstream != nil {
		if upstream, err = a.task.Upstream(); err != nil {
			return spawnError{err}
		}
	}
	if env["OARLOCK_UPSTREAM"], err = a.folder.write("upstream.json", upstream); err != nil {
		return err
	}
	for name, value := range maps.Clone(env) {
		if len(value) <= maxValueBytes {
			continue
		}
		delete(env, name)
		if env[name+fileSuffix], err = a.folder.write("env."+name, []byte(value)); err != nil {
			return err
		}
	}
	return nil
}

// group makes a cgroup for the attempt with this number, and sets a.cgroup. It does nothing if the executor uses no cgroups.
func (a *attempt) group(number string) error {
	if a.x.config.Cgroup == "" {
		return nil
	}
	var err error
	if a.cgroup, err = makeCgroup(filepath.Join(a.x.config.Cgroup, cgroupName(a.x.prefix, number))); err != nil {
		return hostFault(err, "cgroup "+a.x.config.Cgroup)
	}
	return nil
}

// close closes stdin, and removes the files, the folder and the cgroup that prepare made. A cgroup with living processes stays. It
// is removed when the executor ends the kept processes, or together with the worker's own cgroup.
func (a *attempt) close() {
	if a.stdin != nil {
		a.stdin.Close()
	}
	if a.cgroup != nil {
		_ = a.cgroup.remove()
	}
	if a.folder != nil {
		a.folder.remove()
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
