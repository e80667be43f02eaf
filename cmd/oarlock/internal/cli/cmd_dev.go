package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	devEvery  = 500 * time.Millisecond // pause between two looks at the folder and at runs
	devDrain  = "10s"
	devRuns   = 100 // newest runs in which dev looks for ends to report
	devChecks = 5 * time.Second
)

func newDevCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "dev",
		Usage:     "start workers and, if needed, PostgreSQL; apply the DAG files of a folder whenever they change",
		ArgsUsage: "[FOLDER]",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "workers", Usage: "start `N` workers", DefaultText: "1"},
			&cli.IntFlag{Name: "slots", Usage: "run `N` tasks at once on each worker", DefaultText: "8"},
			&cli.StringFlag{Name: "listen", Usage: "serve pages at `HOST:PORT`, a loopback address; none serves no pages", Value: webListen},
		},
		Description: manual{
			about: `Starts a private PostgreSQL, brings it to the schema of this program, starts workers, and prints how an application
connects. Other commands find this database by themselves. If the settings name a database, dev uses that database and
does not migrate it.
dev applies the .yaml, .yml and .json files of FOLDER at once, and again whenever they change. Without FOLDER it takes
the current folder. If a file has problems, dev prints them and keeps the version before. Schedules fire as on a
server: dev prints when each fires next, and how each run ended. Open the printed address in a browser to see the
runs. If another program has the port of the pages, dev takes another port.

The workers are called dev-1, dev-2 and so on, and their lines begin with these names. Kill a worker to see what
happens: its runs go on, and dev starts the worker again after ` + devRestart.String() + ` under its name. If lease_ttl is shorter, as
with OARLOCK_LEASE_TTL=1s, another worker takes its runs over before that. dev does not start a drained worker again.
Other settings of workers hold too: see docs/worker.md.

Ctrl-C stops everything and lets running tasks finish for ` + devDrain + `; a second Ctrl-C stops at once. dev keeps
the data for the next time. To begin with an empty database, name an empty folder in XDG_STATE_HOME. Each user has one
private PostgreSQL. All folders of DAGs share this server, so @latest is the newest run of any folder. The private
PostgreSQL of root is in /var/lib/oarlock, whatever HOME says. "oarlock config show --origin" says where your server is.`,
			examples: []string{"oarlock dev", "oarlock dev dags/ --slots 2", "oarlock dev dags/ --workers 3"},
			exits: []exitNote{
				{exitOK, "Ctrl-C or TERM ended the command"},
				{exitError, "a worker cannot work, this user lacks a right that the command needs, or another error happened"},
				usageNote,
				{exitNotFound, "the folder cannot be read"},
				unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error {
			for _, name := range []string{"workers", "slots"} {
				if c.IsSet(name) && c.Int(name) < 1 {
					return &usageError{msg: "--" + name + " must be a whole number, at least 1"}
				}
			}
			if n := c.Int("workers"); n > maxDevWorkers {
				return &usageError{msg: fmt.Sprintf("--workers must be at most %d", maxDevWorkers)}
			}
			address := c.String("listen")
			if address != noListen {
				var err error
				if address, err = loopbackAddress(address); err != nil {
					return err
				}
			}
			return runDev(c.Context, e, c.Args().Slice(), devOptions{max(1, c.Int("workers")), cmp.Or(c.Int("slots"), e.number("slots")), address})
		},
	}
}

type devOptions struct {
	workers, slots int
	listen         string // address of the pages, or none
}

func runDev(ctx context.Context, e *env, args []string, o devOptions) error {
	if len(args) > 1 {
		return &usageError{msg: fmt.Sprintf("dev watches one folder, got %d", len(args))}
	}
	folder := "."
	if len(args) == 1 {
		folder = args[0]
	}
	if info, err := os.Stat(e.absolute(folder)); err != nil {
		return unreadable(folder, err)
	} else if !info.IsDir() {
		return &failure{kind: notFound, err: fmt.Errorf("%s is no folder", folder), hint: "type `oarlock run FILE` to run one file"}
	}
	e.makesPrivate = true
	if err := e.migratePrivate(ctx); err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		d := &dev{env: e, store: store, folder: folder, seen: map[string]fileState{}, applied: map[string]string{}, told: map[queue.RunID]bool{}}
		return d.run(ctx, o)
	})
}

// run starts the pages and the workers, and watches the folder until ctx ends, which is how the user leaves, or until a worker
// cannot work. Then it stops the workers. After the user has left it returns statusError(exitOK), so that Main does not report the
// signal as an error.
func (d *dev) run(ctx context.Context, o devOptions) error {
	e := d.env
	pages, err := d.begin(ctx, o.listen)
	if err != nil {
		return err
	}
	defer e.endPages(pages)
	err = d.startWorkers(o.workers, o.slots)
	if err == nil {
		e.remark("try       oarlock enqueue DAG --wait    oarlock list    oarlock top")
		err = d.watch(ctx)
	}
	if err != nil {
		return errors.Join(err, d.stopWorkers())
	}
	e.remark("stopping: running tasks may finish for %s; press Ctrl-C once more to stop at once", devDrain)
	if err := d.drainWorkers(); err != nil {
		return e.settle(context.WithoutCancel(ctx), err)
	}
	if e.server != nil {
		e.remark("the data stays in %s: `%s dev` goes on with this data", e.server.Dir(), program)
	}
	return statusError(exitOK)
}

// begin prints where everything is, serves the pages, and looks at the folder for the first time. pages is nil if listen is none.
// The caller must end the pages.
func (d *dev) begin(ctx context.Context, listen string) (pages *pageServer, err error) {
	e := d.env
	if err := d.latestEnds(ctx, func(*queue.Run) {}); err != nil {
		return nil, err
	}
	if e.server != nil {
		url, err := e.server.PublicURL("")
		if err != nil {
			return nil, err
		}
		e.remark("database  DATABASE_URL='%s'", url)
	}
	if listen != noListen {
		listener, err := listenNear(listen)
		if err != nil {
			return nil, err
		}
		if pages, err = e.startPages(ctx, d.store, listener, &webPlan{}); err != nil {
			listener.Close()
			return nil, err
		}
	}
	e.remark("folder    %s", e.absolute(d.folder))
	d.look(ctx)
	if len(d.seen) == 0 {
		e.remark("          there is no DAG file yet: put a DAG file into the folder, and dev applies the file at once")
	}
	return pages, nil
}

// watch looks at the workers, the folder and the ends of runs every devEvery. It returns nil once ctx ends, or the reason why a
// worker cannot work.
func (d *dev) watch(ctx context.Context) error {
	tick := time.NewTicker(devEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := d.restartWorkers(); err != nil {
			return err
		}
		d.look(ctx)
		d.tellEnds(ctx)
	}
}

// tellEnds prints how runs ended since the last call. While the database is away it prints nothing.
func (d *dev) tellEnds(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, devChecks)
	defer cancel()
	_ = d.latestEnds(ctx, func(run *queue.Run) {
		p := d.env.stderrPaint()
		text := fmt.Sprintf("run %d  %s  %s after %s", run.ID, run.DAG, p.runState(run.State), runview.Span(run.FinishedAt.Sub(later(run.StartedAt, run.CreatedAt))))
		if run.State != "succeeded" && run.Reason != "" {
			text += ": " + runview.Printable(runview.RunReason(run, nil))
		}
		d.env.remark("%s  %s", time.Now().Format(time.TimeOnly), text)
	})
}

func (d *dev) latestEnds(ctx context.Context, tell func(*queue.Run)) error {
	page, err := d.store.List(ctx, queue.Filter{Limit: devRuns})
	if err != nil {
		return err
	}
	told := map[queue.RunID]bool{}
	for i := len(page.Runs) - 1; i >= 0; i-- {
		run := &page.Runs[i]
		if !run.Over() {
			continue
		}
		if told[run.ID] = true; !d.told[run.ID] {
			tell(run)
		}
	}
	d.told = told
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// dev is the state of `oarlock dev` from its start to Ctrl-C.
type dev struct {
	env     *env
	store   *queue.Store
	folder  string
	workers []*devWorker
	seen    map[string]fileState // files of the folder at the last look
	applied map[string]string    // the DAG that a file holds, by file
	told    map[queue.RunID]bool // runs that are known to have ended
	away    string               // why the folder or the database cannot be used; "": both can
}

// fileState identifies the content of a file: it differs after each change.
type fileState struct {
	modified time.Time
	size     int64
}

// look applies the files that changed since the last look, remembers their state in d.seen, and forgets files that are gone. If the
// folder or the database cannot be used, it reports that by trouble. The next look then applies a file that could not be applied.
func (d *dev) look(ctx context.Context) {
	now, err := d.files()
	if err != nil {
		d.trouble(err)
		return
	}
	var changed []string
	for name, state := range now {
		if d.seen[name] != state {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	for _, name := range changed {
		if err := d.apply(ctx, name); err != nil {
			d.trouble(err)
			return
		}
		d.seen[name] = now[name]
	}
	for name := range d.seen {
		if _, there := now[name]; !there {
			d.gone(name)
		}
	}
	d.away = ""
}

func (d *dev) files() (map[string]fileState, error) {
	entries, err := os.ReadDir(d.env.absolute(d.folder))
	if err != nil {
		return nil, unreadable(d.folder, err)
	}
	found := map[string]fileState{}
	for _, entry := range entries {
		if entry.Name()[0] == '.' || !hasDAGExtension(entry.Name()) {
			continue
		}
		info, err := os.Stat(filepath.Join(d.env.absolute(d.folder), entry.Name()))
		if err == nil && info.Mode().IsRegular() { // otherwise the file has been removed since the folder was listed
			found[entry.Name()] = fileState{info.ModTime(), info.Size()}
		}
	}
	return found, nil
}

// apply registers the DAG of a file and prints what changed, or prints the problems of the file. It returns an error only for
// reasons outside the file; the caller then tries again.
func (d *dev) apply(ctx context.Context, name string) error {
	e := d.env
	file, err := e.readDAG(filepath.Join(d.folder, name))
	if err != nil {
		return err
	}
	if len(file.problems) > 0 {
		_, err := io.WriteString(e.Stderr, e.stderrPaint().problems([]*dagFile{file}, e.StderrColumns))
		return err
	}
	for other, dag := range d.applied {
		if dag == file.spec.Name && other != name {
			e.remark("%s: %s defines dag %q already: give the DAG in one of the two files another name", file.name, runview.Printable(other), dag)
			return nil
		}
	}
	before, err := schedulesOfFile(ctx, d.store, file)
	if err != nil {
		return err
	}
	put, err := d.store.PutDAG(ctx, file.spec, file.source, file.path)
	if err != nil {
		if p := diagnose(ctx, err); p.kind == invalid {
			e.remark("%s: %s", file.name, p.message)
			return nil
		}
		return err
	}
	d.applied[name] = file.spec.Name
	if paint := e.stderrPaint(); put.IsNew {
		e.remark("%s %s version %d from %s", paint.Good("applied"), file.spec.Name, put.Version, file.name)
	} else {
		e.remark("%s", paint.Dim(fmt.Sprintf("unchanged %s version %d", file.spec.Name, put.Version)))
	}
	after, err := schedulesOfFile(ctx, d.store, file)
	if err != nil {
		return err
	}
	for _, s := range nextOf(after) {
		e.remark("  %s", s.says)
	}
	for _, name := range goneFrom(before, after) {
		e.remark("  %s is gone", runview.InlineText(name))
	}
	return nil
}

func (d *dev) gone(name string) {
	delete(d.seen, name)
	if dag := d.applied[name]; dag != "" {
		d.env.remark("%s is gone; its DAG stays until `%s dag rm %s`", runview.Printable(name), program, dag)
		delete(d.applied, name)
	}
}

// trouble prints an error and keeps its text in d.away. It prints nothing if d.away has that text already.
func (d *dev) trouble(err error) {
	p := diagnose(context.Background(), err)
	if p.message != d.away {
		d.env.report(p, nil)
	}
	d.away = p.message
}

const (
	maxDevWorkers = 64
	devRestart    = 5 * time.Second // from the end of a worker to its next start: longer than a lease of 1 s
)

// workerColors tell workers apart on a terminal.
var workerColors = []string{"36", "33", "35", "34", "32"}

// devWorker is a worker of `oarlock dev`. It belongs to dev's main loop.
type devWorker struct {
	*ownWorker

	endedAt time.Time // zero: the worker was running at the loop's last look
	drained bool      // it ended because dev stopped it, and is not started again
}

func (d *dev) startWorkers(n, slots int) error {
	e := d.env
	prefix := func(name string) string {
		return e.stderrPaint().Paint(workerColors[len(d.workers)%len(workerColors)], name) + " | "
	}
	for range n {
		w, err := e.startWorker("dev", prefix, []string{"--drain-timeout", devDrain, "--slots", decimal(int64(slots))})
		if err != nil {
			return err
		}
		d.workers = append(d.workers, &devWorker{ownWorker: w})
		e.remark("worker    %s  pid %d", w.name, w.pid())
	}
	return nil
}

// restartWorkers starts each ended worker again, devRestart after it noticed the end, but no drained worker. It returns an error if
// a worker ended with an exit status that another start would not change.
func (d *dev) restartWorkers() error {
	for _, w := range d.workers {
		if !w.hasEnded() || w.drained {
			continue
		}
		if w.endedAt.IsZero() {
			w.endedAt = time.Now()
			if err := d.explainEnd(w); err != nil {
				return err
			}
			continue
		}
		if time.Since(w.endedAt) < devRestart {
			continue
		}
		if err := w.start(d.env); err != nil {
			return err
		}
		w.endedAt = time.Time{}
		d.env.remark("worker    %s  pid %d, started again", w.name, w.pid())
	}
	return nil
}

// explainEnd prints how a worker ended, and marks a drained one, which does not start again. If no worker can work for that
// reason, it returns the reason as an error.
func (d *dev) explainEnd(w *devWorker) error {
	code := w.command.ProcessState.ExitCode()
	switch {
	case w.failed == nil:
		w.drained = true
		d.env.remark("%s (pid %d) was drained: other workers take its runs, and dev does not start the worker again", w.name, w.pid())
	case code == int(exitUsage) || slices.Contains(finalExits, code):
		return fmt.Errorf("worker %s ended: %w", w.name, w.failed)
	default:
		d.env.remark("%s (pid %d) ended: %v; its runs go on, and dev starts the worker again in %s", w.name, w.pid(), w.failed, devRestart)
	}
	return nil
}

// drainWorkers asks all workers to stop, and waits for their end. Running tasks may finish for devDrain.
func (d *dev) drainWorkers() error {
	var err error
	for _, w := range d.workers {
		err = errors.Join(err, w.drain())
	}
	for _, w := range d.workers {
		<-w.ended
		w.leave()
	}
	return err
}

// stopWorkers ends all workers, one after the other, and waits for the end of each.
func (d *dev) stopWorkers() error {
	var err error
	for _, w := range d.workers {
		err = errors.Join(err, w.stop())
	}
	return err
}
