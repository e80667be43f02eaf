package embed

import (
	"context"
	"errors"
	"fmt"
	nethttp "net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/boottime"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker"
	"github.com/oarlock-dev/oarlock/worker/action/http"
	"github.com/oarlock-dev/oarlock/worker/action/postgres"
	"github.com/oarlock-dev/oarlock/worker/exec"
	"github.com/oarlock-dev/oarlock/worker/metrics"
	"github.com/oarlock-dev/oarlock/worker/supervise"
)

// Rig is a worker with everything that it needs.
type Rig struct {
	config    Config
	executors map[string]worker.Executor
	web       *http.Action
	sql       *postgres.Action
	commands  *exec.Executor // nil: the worker runs no commands
	metrics   *metrics.Set
	store     *queue.Store                  // nil until the database is reached
	session   atomic.Pointer[queue.Session] // of the present registration
	dead      []uuid.UUID                   // dead workers that may still hold runs: their processes are gone
	stopping  *stopping
	losses    *losses
	status    func() worker.Status // nil until the worker is made
	await     func(what string)    // tells the worker what its registration waits for; nil until the worker is made
}

// New checks the configuration and prepares everything that needs no database. Run does the rest.
func New(c Config) (*Rig, error) {
	c, err := c.complete()
	if err != nil {
		return nil, err
	}
	r := &Rig{config: c, web: http.New(c.HTTP), stopping: newStopping(), losses: newLosses(c.Link)}
	if r.sql, err = postgres.New(c.SQL); err != nil {
		return nil, err
	}
	if r.metrics, err = metrics.New(c.Metrics); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	r.metrics.Carry(r.losses.carried())
	r.executors = map[string]worker.Executor{"action:http.request": r.web, "action:postgres.query": r.sql}
	r.dead = r.cleared()
	return r, nil
}

// Handle sets the function that executes the steps with action name, in place of an earlier function or executor of that name. Call
// it before Run.
func (r *Rig) Handle(name string, f worker.Func) { r.Execute(name, f) }

// HandleTx is like Handle, for a function that gets a transaction on the run's database. The transaction commits together with
// the outcome of the task, exactly once.
func (r *Rig) HandleTx(name string, f postgres.TxFunc) { r.Execute(name, r.sql.Func(f)) }

// Execute is like Handle, for an executor. Call it before Run.
func (r *Rig) Execute(name string, x worker.Executor) { r.executors["action:"+name] = x }

// Metrics returns a handler that serves the worker's metrics, for a server of the program.
func (r *Rig) Metrics() nethttp.Handler { return r.metrics.Handler() }

// Run works until Stop or StopNow is called or ctx ends, which is like StopNow. It waits for a database that is not reachable
// yet. It returns nil after a stop, even if the database was never reached, and supervise.ErrGone if the guard died. It may be
// called once.
func (r *Rig) Run(ctx context.Context) (err error) {
	if err := r.prepare(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	w, err := worker.New(r.workerConfig())
	if err != nil {
		return err
	}
	r.status, r.await = w.Status, w.Await
	r.stopping.tell(w)
	leave, err := r.attend(w)
	if err != nil {
		return err
	}
	err = w.Run(ctx)
	if errors.Is(err, errStopped) {
		err = nil // the worker was stopped before the database was reached
	}
	return errors.Join(err, leave(), r.guardGone())
}

// prepare makes the worker's folder, and the executor of commands if Config.Commands is set. Before that it may lower Config.Slots
// by heedShortages. It logs which limits of a step do not hold for commands here. An error means that the worker cannot run.
func (r *Rig) prepare() (err error) {
	if err := OwnFolder(r.config.Folder); err != nil {
		return err
	}
	if r.config.Commands == nil {
		return nil
	}
	if err := r.heedShortages(r.config.Shortages()); err != nil {
		return err
	}
	commands := *r.config.Commands
	commands.Dir = orElse(commands.Dir, filepath.Join(r.config.Folder, "work"))
	commands.WorkerVariable = supervise.WorkerEnv
	if commands.Adopts = commands.Adopts && r.config.Link != nil; commands.Adopts {
		if err := r.config.Link.Adopt(); err != nil {
			return err
		}
	}
	if r.commands, err = exec.New(commands); err != nil {
		return err
	}
	r.executors["process"] = r.commands
	if why := r.commands.Unbound(); why != "" {
		r.config.Log.Warn("resources: pids does not bound the commands of this worker", "why", why,
			"hint", "let the worker run as another user, or where a cgroup v2 with the pids controller is delegated to it")
	}
	if why := r.commands.Late(); why != "" {
		r.config.Log.Warn("resources: memory and pids bound a command of this worker only from the moment after its start", "why", why,
			"hint", "let the worker run where a cgroup v2 with the controllers memory and pids is delegated to it")
	}
	return nil
}

func (r *Rig) close() error {
	r.sql.Close()
	if r.store != nil {
		r.store.Close()
	}
	if r.commands == nil {
		return nil
	}
	return r.commands.Close()
}

func (r *Rig) workerConfig() worker.Config {
	c := &r.config
	c.Secrets.WorkerVariable = supervise.WorkerEnv
	wc := worker.Config{
		Register: r.register, Try: r.try, Cancel: r.cancelChild, Ended: r.ended, Logs: r.newLogs,
		Self: queue.Worker{
			Name: c.Name, Host: hostName(), BootID: boottime.ID(), PID: os.Getpid(), Version: c.Version,
			Labels: c.Labels, Queues: c.Queues, Containment: c.Link.Containment(), TTL: c.TTL, Only: c.Only,
		},
		Slots: c.Slots, DrainTimeout: c.DrainTimeout,
		Executors: r.executors, Prober: r.web, Secrets: c.Secrets, LocalFiles: c.LocalFiles, Source: c.Source, Overdue: r.overdue, Log: c.Log, Meter: r.metrics,
	}
	if r.commands != nil {
		wc.Env, wc.Trial = r.commands.LookupEnv, r.commands.Try
	}
	if c.Link != nil {
		wc.Guard = sink{c.Link}
	}
	return wc
}

// cancelChild cancels a run that a task of another run waits for; with now, without the handlers of that run. It returns nil if the
// run is over, gone or canceled already.
//
// Every driver of the parent run asks for the cancel, and a second cancel would skip the handlers. So without now, cancelChild
// sends a cancel only if the run has none.
func (r *Rig) cancelChild(ctx context.Context, run queue.RunID, now bool) error {
	if !now {
		if asked, err := r.isCanceled(ctx, run); err != nil || asked {
			return err
		}
	}
	_, err := r.store.Control(ctx, queue.Ask{Run: run, Verb: dagrun.VerbCancel, Now: now})
	if _, refused := errors.AsType[*queue.Error](err); refused {
		return nil // the run is over, or gone
	}
	return err
}

// isCanceled reports whether the whole run has a cancel that was not refused, or is gone. A cancel of a single step does not count.
func (r *Rig) isCanceled(ctx context.Context, run queue.RunID) (bool, error) {
	controls, err := r.store.Controls(ctx, run)
	if errors.Is(err, queue.ErrNotFound) {
		return true, nil
	}
	return slices.ContainsFunc(controls, func(c queue.Control) bool {
		return c.Verb == dagrun.VerbCancel && c.Step == "" && c.Outcome != dagrun.Refused
	}), err
}

// overdueCode is the exit code of a process in which a function outlives the lease.
const overdueCode = 75

// overdue is called when the lease has ended and bodies still run, for example a Go function that does not return. It ends the
// process, because other workers take over the runs. The guard kills the process too, if there is one. With
// Config.KeepProcess, overdue only logs the number of bodies, and the process goes on.
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
		return "localhost" // the name is only shown to users
	}
	return host
}
