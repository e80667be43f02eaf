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

// Config of an Executor.
type Config struct {
	// Dir is where the folders of attempts are made; it is created if need be. What executors that were killed left in it
	// is removed by New.
	Dir         string
	KeepWorkDir bool // the folders of attempts stay, to look at

	// RunDir is where the small files go by which bodies hear and tell things; best one in memory, such as /dev/shm or
	// $XDG_RUNTIME_DIR: beside a database that syncs, a file on disk costs more than a process. "": Dir.
	RunDir string

	// WorkerVariable holds the id of the worker in every body's environment and wins over all else: by it whoever sweeps
	// finds the processes of a worker. "": none does.
	WorkerVariable string

	Env        map[string]string // the worker's own, above what is inherited
	EnvInherit bool              // whether Environ reaches bodies at all
	EnvDeny    []string          // globs of what is not inherited; nil: StandardDenyList; empty: all is
	EnvSecrets []string          // globs of variables that DAGs may name as secrets: not inherited either, unless EnvDeny is empty
	Environ    []string          // what there is to inherit; nil: this process's environment

	Shell     []string  // of run: where neither step nor DAG names one; nil: /bin/sh -eu
	Allow     []string  // globs of programs that may be started; empty: all
	Deny      []string  // globs of those that may not, allowed or not
	Resources Resources // of each body

	// Cgroup is the folder of a writable cgroup v2 (see OwnCgroup) in which each attempt gets a group; "": none.
	Cgroup string
}

// Resources bound each body; 0 = no bound.
type Resources struct {
	Memory int64 // bytes: of the whole body in a cgroup with that controller, else of each of its processes
	PIDs   int   // as Memory; without a controller it bounds what the worker's user runs in all, by that many more
	Nice   int   // 0..19
}

// Executor runs commands.
type Executor struct {
	config   Config
	base     environment // the layers that are the same for every body
	listed   []string    // as a process gets them
	programs programs
	work     *session // for working folders
	workdirs *workdirs
	files    *session // for small files
	census   *census
	null     *os.File // what most bodies read
	prefix   string
	count    atomic.Int64
	kept     kept
	suspects suspects
}

var _ worker.Executor = (*Executor)(nil)

// New makes an executor; Close ends it.
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
	x.census = newCensus(prefix)
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
		return fmt.Errorf("mount /proc: without it nobody can tell what a body left behind: %w", err)
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

// LookupEnv finds a variable that every body gets: inherited, past the deny list, or the worker's own.
func (x *Executor) LookupEnv(name string) (string, bool) {
	value, ok := x.base[name]
	return value, ok
}

// EndKept kills what bodies were allowed to leave behind. No Execute may be under way.
func (x *Executor) EndKept() error { return x.kept.kill() }

// Close kills what bodies were allowed to leave behind, and removes the executor's folder. No Execute may be under way.
func (x *Executor) Close() error {
	err := x.kept.kill()
	x.census.close()
	x.null.Close()
	if x.files != x.work {
		err = firstError(err, x.files.close())
	}
	return firstError(err, x.work.close())
}

// Execute runs one body. See the package comment.
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

// attempt is what is prepared for a body before it starts.
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

// prepare makes all a body needs. The attempt must be closed also where there is an error.
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

// files writes what a body gets by file.
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

// group makes the attempt's cgroup.
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

// close removes what prepare made. A cgroup that something of the body still is in stays, and is removed with its worker's.
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
