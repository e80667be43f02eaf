package rig

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/action/http"
	"github.com/oarlock-dev/oarlock/worker/guard"
	"github.com/oarlock-dev/oarlock/worker/proc"
)

// Rig is a worker with all that belongs to it.
type Rig struct {
	config    Config
	executors map[string]worker.Executor
	web       *http.Action
	commands  *proc.Executor // nil: none
	store     *queue.Store
	session   atomic.Pointer[queue.Session] // of the present life
	dead      []uuid.UUID                   // workers that nothing is left of, and that hold runs still
	stopping  *stopping
}

// New checks the configuration and prepares what needs no database; Run does the rest.
func New(c Config) (*Rig, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	r := &Rig{
		config: c, executors: map[string]worker.Executor{}, web: http.New(c.HTTP), stopping: newStopping(),
	}
	r.dead = r.cleared()
	r.executors["action:http.request"] = r.web
	return r, nil
}

// Handle has a function of this program execute the steps whose action is name. It is to be called before Run.
func (r *Rig) Handle(name string, f worker.Func) { r.Execute(name, f) }

// Execute is Handle for what is more than a function.
func (r *Rig) Execute(name string, x worker.Executor) { r.executors["action:"+name] = x }

// Run works until Stop, or until ctx ends, which is as StopNow. It waits for a database that is not there yet. It can be
// called once.
func (r *Rig) Run(ctx context.Context) (err error) {
	switch err := r.open(ctx); {
	case errors.Is(err, errStopped):
		return nil
	case err != nil:
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	w, err := worker.New(r.workerConfig())
	if err != nil {
		return err
	}
	r.stopping.tell(w)
	watch, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { r.watchGuard(watch) })
	err = w.Run(ctx)
	cancel()
	watching.Wait()
	if errors.Is(err, errStopped) {
		err = nil
	}
	return errors.Join(err, r.guardGone())
}

// open makes what Run needs.
func (r *Rig) open(ctx context.Context) (err error) {
	if err := OwnFolder(r.config.Folder); err != nil {
		return err
	}
	open := func(ctx context.Context) (*queue.Store, error) { return queue.Open(ctx, r.config.Database) }
	if r.store, err = untilThere(ctx, r, open); err != nil {
		return err
	}
	if r.config.Commands == nil {
		return nil
	}
	commands := *r.config.Commands
	commands.Dir = orElse(commands.Dir, filepath.Join(r.config.Folder, "work"))
	commands.WorkerVariable = guard.WorkerEnv
	if r.commands, err = proc.New(commands); err != nil {
		r.store.Close()
		return err
	}
	r.executors["process"] = r.commands
	return nil
}

func (r *Rig) close() error {
	r.store.Close()
	if r.commands == nil {
		return nil
	}
	return r.commands.Close()
}

func (r *Rig) workerConfig() worker.Config {
	c := &r.config
	wc := worker.Config{
		Register: r.register, Cancel: r.cancelChild, Ended: r.ended, Logs: r.newLogs,
		Self: queue.Worker{
			Name: c.Name, Host: hostName(), BootID: boottime.ID(), PID: os.Getpid(), Version: c.Version,
			Labels: c.Labels, Queues: c.Queues, Containment: c.Link.Containment(), TTL: c.TTL,
		},
		Slots: c.Slots, High: c.High, Low: c.Low, Heartbeat: c.Heartbeat, DrainTimeout: c.DrainTimeout,
		Executors: r.executors, Prober: r.web, Overdue: r.overdue, Log: c.Log,
	}
	if r.commands != nil {
		wc.Env = r.commands.LookupEnv
	}
	if c.Link != nil {
		wc.Guard = sink{c.Link}
	}
	return wc
}

// cancelChild ends a run that a task of another one waits for.
func (r *Rig) cancelChild(ctx context.Context, run queue.RunID, now bool) error {
	_, err := r.store.Control(ctx, queue.Ask{Run: run, Verb: dagrun.VerbCancel, Now: now})
	if _, refused := errors.AsType[*queue.Error](err); refused {
		return nil // it is over, or gone
	}
	return err
}

// overdueCode is the exit code of a process whose lease is over while a function of it runs.
const overdueCode = 75

// overdue ends the process: the lease is over, others take over its runs, and a function does not end. Where there is a
// guard, that does the same.
func (r *Rig) overdue(bodies int) {
	if r.config.KeepProcess {
		r.config.Log.Error("the lease is over, and bodies still run: they may run twice", "bodies", bodies)
		return
	}
	r.config.Log.Error("the lease is over, and bodies still run: ending the process", "bodies", bodies)
	os.Exit(overdueCode)
}

func hostName() string {
	host, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return host
}
