package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func newRunCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "apply a DAG file and run it here and now",
		ArgsUsage: "FILE",
		Flags: append([]cli.Flag{
			&cli.StringSliceFlag{Name: "param", Aliases: []string{"p"}, Usage: "a param of the run, as `NAME=VALUE`; may be repeated"},
			&cli.BoolFlag{Name: "logs", Aliases: []string{"l"}, Usage: "print the output of the tasks while the tasks run"},
			&cli.StringSliceFlag{Name: "label", Usage: "a label of the run, as `NAME=VALUE`; may be repeated"},
			&cli.IntFlag{Name: "slots", Usage: "run `N` tasks at once", DefaultText: "8, or the slots of the widest step"},
		}, progressFlags("live, plain or none")...),
		Description: manual{
			about: `Needs only PostgreSQL's programs. If the settings name no database, the command starts a private server. The server
ends with the last command that uses it, and keeps its data: "oarlock status @latest" shows the run afterwards. If the
settings name a database, the command uses it and never migrates it; your login needs oarlock_admin and
oarlock_worker.
The run has a worker of its own. That worker serves no other run and ends with this command, even if you kill the
command. Other workers leave the run alone. -o json prints one object at the end.
Ctrl-C cancels the run and waits for its handlers; a second Ctrl-C ends the command at once. Tasks find the file's
folder in $OARLOCK_SOURCE_DIR. If the file starts other DAGs with dag.run or dag.enqueue, the command applies their
files too, from the same folder. It does not apply schedules: the DAG keeps the schedules that it has. "-" reads
standard input.
` + progressAbout,
			examples: []string{
				"oarlock run etl.yaml",
				"oarlock run etl.yaml -p day=2026-11-20 --logs",
				"oarlock run etl.yaml -o json | jq -r .state",
				"DATABASE_URL=postgres://… oarlock run etl.yaml",
			},
			exits: []exitNote{
				{exitOK, "the run succeeded"},
				deniedNote, usageNote,
				{exitNotFound, "the file cannot be read"},
				unreachableNote,
				{exitInvalid, "the file, a param or a setting is wrong"},
				runFailedNote, runCanceledNote,
				{exitInterrupt, "the second Ctrl-C, or the first before the run began"},
				{exitTerminate, "the second SIGTERM, or the first before the run began"},
			},
		}.String(),
		Action: func(c *cli.Context) error {
			o := runOptions{params: c.StringSlice("param"), labels: c.StringSlice("label"), logs: c.Bool("logs"), slots: c.Int("slots")}
			if c.IsSet("slots") && o.slots < 1 {
				return &usageError{msg: "--slots must be a whole number, at least 1"}
			}
			var err error
			if o.progress, err = e.readProgress(c, true); err != nil {
				return err
			}
			return runRun(c.Context, e, c.Args().Slice(), o)
		},
	}
}

type runOptions struct {
	params, labels []string
	logs           bool
	progress       progress
	slots          int // 0: as many as fit
}

func runRun(ctx context.Context, e *env, args []string, o runOptions) error {
	if len(args) != 1 {
		return &usageError{msg: fmt.Sprintf("run needs one file, got %d arguments", len(args))}
	}
	file, err := e.readDAG(args[0])
	if errors.Is(err, syscall.EISDIR) {
		return &failure{
			kind: notFound, err: fmt.Errorf("%s is a folder", runview.Printable(args[0])),
			hint: "name one file of the folder; `oarlock dev FOLDER` applies all files of the folder",
		}
	}
	if err != nil {
		return err
	}
	if failed := invalidFiles([]*dagFile{file}); failed != nil {
		return e.reportInvalid([]*dagFile{file}, failed)
	}
	if widest := file.spec.WidestStep(); o.slots > 0 && o.slots < widest {
		return &usageError{
			msg:  fmt.Sprintf("--slots %d: a step of %s takes %d slots", o.slots, file.spec.Name, widest),
			hint: fmt.Sprintf("give --slots %d or more, or leave out --slots", widest),
		}
	}
	request, given, err := o.request(file)
	if err != nil {
		return err
	}
	children, missing, err := e.startedBeside(file)
	if err != nil {
		return err
	}
	return e.runHere(ctx, here{
		file: file, request: request, given: given, slots: o.slots, children: children, missing: missing,
		show: func(ctx context.Context, store *queue.Store, id queue.RunID) error {
			return e.awaitLive(ctx, store, id, o.logs, o.progress)
		},
	})
}

// request returns the request that the flags describe, and the params as the user typed them. It checks the flags, so that nothing
// is started for a bad one.
func (o *runOptions) request(f *dagFile) (r queue.Request, given map[string]string, err error) {
	r = queue.Request{DAG: f.spec.Name, Selector: map[string]string{runview.HereLabel: runview.HereValue}, Manual: true}
	if r.Labels, err = pairs("--label", append(o.labels, runview.HereLabel+"="+runview.HereValue)); err != nil {
		return r, nil, err
	}
	given, err = pairs("-p", o.params)
	if err != nil {
		return r, nil, &failure{kind: invalid, err: err, hint: "write each param as NAME=VALUE"}
	}
	all, err := f.spec.ParamsFromText(given)
	if err != nil {
		return r, nil, badParams(f.spec, err, paramsOf(f))
	}
	params := make(map[string]any, len(given))
	for name := range given {
		params[name] = all[name]
	}
	r.Params = params
	return r, given, nil
}

// here is a run that this command makes and drives itself.
type here struct {
	file     *dagFile
	children []*dagFile // DAG files in the same folder, for the DAGs that the file starts
	missing  []string   // DAGs that the file starts and that have no file in the folder
	request  queue.Request
	given    map[string]string                                                   // params as the user typed them
	slots    int                                                                 // 0: as many as fit
	show     func(ctx context.Context, store *queue.Store, id queue.RunID) error // shows the run until its end, and returns an error if it failed
}

// runHere registers the DAG, makes the run, and starts a worker that drives this run only. It returns when the run has ended. It
// starts and migrates the private server if that is the database.
func (e *env) runHere(ctx context.Context, h here) error {
	e.makesPrivate = true
	if err := e.migratePrivate(ctx); err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		if err := h.refuseIdle(ctx, store); err != nil {
			return err
		}
		if err := e.putStarted(ctx, store, &h); err != nil {
			return err
		}
		put, err := store.PutDAGUnscheduled(ctx, h.file.spec, h.file.source, h.file.path)
		if err != nil {
			return err
		}
		h.request.Version = put.Version
		id, err := store.Enqueue(ctx, h.request)
		if err != nil {
			return err
		}
		return e.driveHere(ctx, store, id, h)
	})
}

// refuseIdle returns a failure if the user's login cannot drive the run. runHere calls it before it makes the run. A login that can
// drive the run but not register the DAG is refused later, when runHere registers it.
func (h *here) refuseIdle(ctx context.Context, store *queue.Store) error {
	rights, err := store.Rights(ctx)
	if err != nil || rights.Work {
		return err
	}
	if !rights.Admin {
		both := toAdmin + " and " + toWork
		return &failure{kind: denied, err: fmt.Errorf("user %s lacks the roles %s and can neither register the DAG nor drive the run", rights.Login, both), hint: grantHint(both)}
	}
	hint := grantHint(toWork)
	if h.file.path != "" {
		elsewhere := queue.Request{DAG: h.file.spec.Name, Labels: maps.Clone(h.request.Labels)}
		delete(elsewhere.Labels, runview.HereLabel) // only the worker of `oarlock run` takes runs with this label
		hint += fmt.Sprintf(", or leave the run to other workers: `oarlock dag apply %s && %s`", runview.ShellWord(h.file.name), runview.EnqueueCommand(&elsewhere, h.given))
	}
	return &failure{kind: denied, err: fmt.Errorf("user %s lacks the role %s and cannot drive the run", rights.Login, toWork), hint: hint}
}

// width returns how many slots the worker gets: the number of --slots, or else the number in the settings, but at least as many as
// the widest step of h.file and h.children needs.
func (h *here) width(e *env) int {
	widest := h.file.spec.WidestStep()
	for _, child := range h.children {
		widest = max(widest, child.spec.WidestStep())
	}
	return cmp.Or(h.slots, max(e.number("slots"), widest))
}

// driveHere starts a worker for the run, shows the run until it has ended, and stops the worker. A signal cancels the run, and the
// end of the run then ends driveHere. If the worker ends before the run, it cancels the run and fails.
func (e *env) driveHere(ctx context.Context, store *queue.Store, id queue.RunID, h here) error {
	waiting, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	defer stop(nil)
	args := []string{"--only", decimal(int64(id)), "--slots", decimal(int64(h.width(e)))}
	if h.file.path != "" {
		args = append(args, "--source", h.file.path)
	}
	worker, err := e.startWorker("run", func(string) string { return "worker: " }, args)
	if err != nil {
		return err
	}
	defer worker.watch(func(err error) {
		if run, unread := store.Get(waiting, id); unread == nil && run.Over() {
			return // the worker ended because the run had; show prints that
		}
		stop(err)
	})()
	defer context.AfterFunc(ctx, func() { e.cancelHere(waiting, store, id) })()
	err = h.show(waiting, store, id)
	if why := context.Cause(waiting); why != nil {
		err = why
		e.leaveNone(context.WithoutCancel(ctx), store, id)
	}
	return e.settle(waiting, errors.Join(err, worker.stop()))
}

// cancelHere tells the user that the first Ctrl-C cancels the run, and asks for the cancel. It only logs an error, since the run is
// then usually over already.
func (e *env) cancelHere(ctx context.Context, store *queue.Store, id queue.RunID) {
	e.remark("canceling run %d: its handlers run; press Ctrl-C once more to end at once", id)
	if _, err := store.Control(ctx, queue.Ask{Run: id, Verb: dagrun.VerbCancel}); err != nil {
		e.log.Debug("cancel", "err", err) // the run is over, which show prints
	}
}

// leaveNone cancels a run that its worker has left, because no other worker takes the run. It does nothing if the run is over.
func (e *env) leaveNone(ctx context.Context, store *queue.Store, id queue.RunID) {
	if err := cancelOpen(ctx, store, id); err != nil {
		e.remark("run %d is not canceled, and no worker takes it: %v", id, err)
	}
}

// settle prints an error, and returns its exit status as an error that Main does not print again. Main would report an arrived
// signal as the reason. It returns nil and a statusError unchanged.
func (e *env) settle(ctx context.Context, err error) error {
	if _, reported := errors.AsType[statusError](err); err == nil || reported {
		return err
	}
	p := diagnose(ctx, err)
	e.report(p, nil)
	return statusError(p.exit)
}

// paramsOf returns a hint that lists the params that -p can set, or says that the DAG has none.
func paramsOf(f *dagFile) string {
	if len(f.spec.ParamDefs) == 0 {
		return f.name + " has no params"
	}
	var names []string
	for i := range f.spec.ParamDefs {
		names = append(names, f.spec.ParamDefs[i].Name)
	}
	return "the params of " + f.name + " are " + strings.Join(names, ", ")
}

// startedBeside finds the files for the DAGs that a file starts, directly or through each other, in the folder of the file. missing
// are the names of DAGs without a file there. Two files for one DAG are an error.
func (e *env) startedBeside(file *dagFile) (files []*dagFile, missing []string, err error) {
	wanted := file.spec.Starts()
	if len(wanted) == 0 {
		return nil, nil, nil
	}
	byName, err := e.dagsBeside(file)
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i < len(wanted); i++ {
		name := wanted[i]
		switch found := byName[name]; {
		case name == file.spec.Name:
		case len(found) == 0:
			missing = append(missing, name)
		case len(found) > 1:
			return nil, nil, &failure{
				kind: invalid, err: fmt.Errorf("%s starts the DAG %s, and both %s and %s define it", file.name, name, found[0].name, found[1].name),
				hint: "leave one of the two files out, or give its DAG another name",
			}
		default:
			files = append(files, found[0])
			for _, next := range found[0].spec.Starts() {
				if !slices.Contains(wanted, next) {
					wanted = append(wanted, next)
				}
			}
		}
	}
	return files, missing, nil
}

// dagsBeside reads the other DAG files in the folder of a file, and returns them by the name of their DAG. It ignores files with
// problems. Standard input has no folder, so nothing is beside it.
func (e *env) dagsBeside(file *dagFile) (map[string][]*dagFile, error) {
	byName := map[string][]*dagFile{}
	if file.path == "" {
		return byName, nil
	}
	names, err := e.dagsIn(filepath.Dir(file.path))
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		f, err := e.readDAG(name)
		if err == nil && f.spec != nil && f.path != file.path {
			f.name = runview.Printable(filepath.Base(name))
			byName[f.spec.Name] = append(byName[f.spec.Name], f)
		}
	}
	return byName, nil
}

// putStarted registers the DAGs of h.children, which the file starts. It returns an error if one of h.missing is not registered
// already: otherwise each step that starts that DAG would fail.
func (e *env) putStarted(ctx context.Context, store *queue.Store, h *here) error {
	for _, name := range h.missing {
		_, err := store.GetDAG(ctx, name, 0)
		if errors.Is(err, queue.ErrNotFound) {
			return &failure{
				kind: invalid, err: fmt.Errorf("%s starts the DAG %s, which is not registered and has no file in this folder", h.file.name, name),
				hint: "put the file of this DAG into the same folder, or register the DAG: `oarlock dag apply FILE`",
			}
		}
		if err != nil {
			return err
		}
	}
	for _, child := range h.children {
		put, err := store.PutDAGUnscheduled(ctx, child.spec, child.source, child.path)
		if err != nil {
			return fmt.Errorf("%s: %w", child.name, err)
		}
		if put.IsNew {
			e.remark("applied %s version %d from %s: %s starts it", child.spec.Name, put.Version, child.name, h.file.spec.Name)
		}
	}
	return nil
}
