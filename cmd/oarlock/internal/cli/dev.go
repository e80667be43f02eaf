package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
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
		Usage:     "start all that is needed, and keep the DAG files of a folder applied",
		ArgsUsage: "[FOLDER]",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "workers", Usage: "start `N` workers", DefaultText: "1"},
			&cli.IntFlag{Name: "slots", Usage: "run `N` tasks at once on each worker", DefaultText: "8"},
			&cli.StringFlag{Name: "listen", Usage: "serve pages at `HOST:PORT`, a loopback address, or none", Value: webListen},
		},
		Description: manual{
			about: `Starts a private PostgreSQL, brings it to the schema of this program, starts workers, and says how an application
connects; other commands find this database by themselves. The .yaml, .yml and .json files of the folder (this one if
none is named) are applied at once and whenever they change; a file with problems is reported, and the version before
it stays. Schedules fire as on a server, and it is said when each does next. Ends of runs are told. A browser
sees runs at the address that is printed: where that port is taken, it is another one. A database in the
settings is used in place of the private one, and not migrated.

The workers are called dev-1, dev-2 and so on, and their lines begin with these names. Kill one to see what happens: its
runs go on, and after ` + devRestart.String() + ` it starts again under its name. With a lease_ttl below that, another worker finds it
lost before: OARLOCK_LEASE_TTL=1s. One that was drained stays away. Other settings of workers
hold too, see docs/worker.md.

Ctrl-C ends all of it and lets running tasks finish for ` + devDrain + `, once more at once. What happened is kept for the next time:
to begin with nothing, name an empty folder in XDG_STATE_HOME. Each user has one private PostgreSQL, which all its
folders of DAGs share, and @latest with them: that of root is in /var/lib/oarlock, whatever HOME says.
"oarlock config show --origin" says where it is.`,
			examples: []string{"oarlock dev", "oarlock dev dags/ --slots 2", "oarlock dev dags/ --workers 3"},
			exits: []exitNote{
				{exitOK, "Ctrl-C or TERM ended it"},
				{exitError, "a worker cannot work, this user may not do that, or an error"},
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
		return &failure{kind: notFound, err: fmt.Errorf("%s is no folder", folder), hint: "for one file there is `oarlock run FILE`"}
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

// run works until ctx ends, which is how the user leaves, or until a worker cannot work.
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
	e.remark("stopping: running tasks may finish for %s; once more to stop at once", devDrain)
	if err := d.drainWorkers(); err != nil {
		return e.settle(context.WithoutCancel(ctx), err)
	}
	if e.server != nil {
		e.remark("what happened is kept in %s: `%s dev` goes on with it", e.server.Dir(), program)
	}
	return statusError(exitOK)
}

// begin prints where everything is, serves the pages, and looks at the folder for the first time.
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
		e.remark("          no DAG file yet: the first is applied as soon as it is there")
	}
	return pages, nil
}

// watch returns nil once ctx ends, or the reason why a worker cannot work.
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

// tellEnds prints how runs ended. While the database is away it prints nothing.
func (d *dev) tellEnds(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, devChecks)
	defer cancel()
	_ = d.latestEnds(ctx, func(run *queue.Run) {
		p := d.env.stderrPaint()
		text := fmt.Sprintf("run %d  %s  %s after %s", run.ID, run.DAG, p.runState(run.State), runview.Span(run.FinishedAt.Sub(later(run.StartedAt, run.CreatedAt))))
		if run.State != "succeeded" && run.Reason != "" {
			text += ": " + runview.Printable(run.Reason)
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
