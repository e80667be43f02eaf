package postgres

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/worker"
)

// Action executes postgres.query steps.
type Action struct {
	databases map[string]*database
	keepOwn   bool
	budget    *budget
	life      atomic.Pointer[life]
}

// New returns an Action for the connections of c, or an error if c is wrong. It connects only when a task first needs a connection.
// The caller must close the Action.
func New(c Config) (*Action, error) {
	c = c.withDefaults()
	if err := c.check(); err != nil {
		return nil, err
	}
	a := &Action{databases: map[string]*database{}, keepOwn: c.KeepOwn}
	for _, name := range slices.Sorted(maps.Keys(c.Connections)) {
		d, err := open(name, c.Connections[name])
		if err != nil {
			return nil, err
		}
		a.databases[name] = d
	}
	a.budget = newBudget(c)
	return a, nil
}

// Use makes tasks on the run's own database settle through s, the session of one registration of the worker; worker is the id of
// that registration. Call it at each registration, before the worker claims runs. Until then tasks do not settle, and happen at
// least once.
func (a *Action) Use(s Settler, worker uuid.UUID) {
	a.life.Store(&life{settler: s, worker: worker, known: map[string]bool{}})
}

// Close closes all idle connections, and fails tasks that wait for one. It does not wait for tasks: a connection in use is closed
// at the end of its task.
func (a *Action) Close() { a.budget.close() }

// lend returns the database that a postgres.query step names. It returns a failure if the worker has no connection of that name, or
// if the name is Own and KeepOwn is set.
func (a *Action) lend(name string) (*database, error) {
	if a.keepOwn && name == Own {
		return nil, &failure{kind: dagrun.KindConfig, reason: "this worker keeps its own connection, " + Own + ", from postgres.query (own_sql: false): name another connection"}
	}
	return a.find(name)
}

// find returns the database of a connection by its name. If there is none, it returns a failure that names the connections of this
// worker.
func (a *Action) find(name string) (*database, error) {
	if d := a.databases[name]; d != nil {
		return d, nil
	}
	names := slices.Sorted(maps.Keys(a.databases))
	why := fmt.Sprintf("this worker has no connection %q", name)
	if hint := dagspec.DidYouMean(name, names); hint != "" {
		return nil, &failure{kind: dagrun.KindConfig, reason: why + ": " + hint}
	}
	if len(names) == 0 {
		return nil, &failure{kind: dagrun.KindConfig, reason: why + ": the worker has no connections"}
	}
	return nil, &failure{kind: dagrun.KindConfig, reason: why + ": it has " + strings.Join(names, ", ")}
}

// Execute implements worker.Executor: it runs the statements of a task in one transaction, and returns the rows of the last one as
// outputs. With with.format these rows go to the log instead, after the commit.
func (a *Action) Execute(ctx context.Context, task *worker.Task) dagrun.Result {
	q, err := parse(task.Resolved.With)
	if err != nil {
		return dagrun.Result{Kind: dagrun.KindConfig, Reason: err.Error()}
	}
	d, err := a.lend(q.connection)
	if err != nil {
		return result(ctx, task, err)
	}
	var collected *rows
	var outputs dagrun.JSON
	begun := time.Now()
	err = a.transact(ctx, task, d, q.options, func(ctx context.Context, t *transaction) (dagrun.JSON, error) {
		if collected, err = t.run(ctx, q); err != nil {
			return "", err
		}
		outputs, err = collected.outputs(declared(task))
		return outputs, err
	})
	took := time.Since(begun).Round(time.Millisecond)
	if err != nil {
		explain(task, err)
		return result(ctx, task, err)
	}
	if q.format != "" {
		_, _ = task.Stdout.Write(collected.finished()) // an error is ignored: the log takes what it can
	}
	fmt.Fprintf(task.Stderr, "%s: %d rows in %v\n", d.name, max(collected.affected, int64(collected.count)), took)
	return dagrun.Result{Outputs: outputs}
}

// declared returns the outputs that the step declares; nil if the task has no body.
func declared(task *worker.Task) []dagspec.Output {
	if task.Body == nil {
		return nil
	}
	return task.Body.Outputs
}
