package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
	"github.com/oarlock-dev/oarlock/worker/embed"
)

// lastWord bounds how long an ending command tries to cancel its run.
const lastWord = 5 * time.Second

// ownership limits a worker to one run, to the life of another process, or to both.
type ownership struct {
	run      queue.RunID // the only run that it serves; 0: any run that it may claim
	untilEOF bool        // the worker belongs to the process that holds its standard input open
}

func (o *ownership) apply(c *cli.Context, e *env, config *embed.Config) error {
	source := c.String("source")
	switch {
	case c.IsSet("only"):
		arg, err := parseRun(c.String("only"))
		if err != nil {
			return err
		}
		if o.run, err = e.findRun(c.Context, arg); err != nil {
			return err
		}
	case source != "":
		return &usageError{msg: "--source is about the one run of --only, and there is none", hint: "add --only RUN, or leave it out"}
	}
	if source != "" {
		config.Source = e.absolute(source)
	}
	config.Only = o.run
	if o.untilEOF {
		config.Listen = "" // another worker uses the address of the settings
	}
	return nil
}

// findRun returns the number of the run. It asks the database only for @latest.
func (e *env) findRun(ctx context.Context, arg runArg) (id queue.RunID, err error) {
	if !arg.latest {
		return arg.id, nil
	}
	err = e.withStore(ctx, func(store *queue.Store) (err error) {
		id, err = arg.find(ctx, store)
		return err
	})
	return id, err
}

// named returns the arguments of this program with @latest replaced by the number of the run, since @latest may name
// another run later.
func (o *ownership) named(args []string) []string {
	named := slices.Clone(args)
	for i, arg := range named {
		if head, ok := strings.CutSuffix(arg, latestWord); ok && (head == "" || strings.HasSuffix(head, "=")) {
			named[i] = head + decimal(int64(o.run))
		}
	}
	return named
}

// guarding returns the context of a guard. With --until-eof it ends when standard input ends; the goroutine that reads
// standard input ends then, or with the process.
func (o ownership) guarding(ctx context.Context, stdin io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if o.untilEOF {
		go func() {
			_, _ = io.Copy(io.Discard, stdin)
			cancel()
		}()
	}
	return ctx, cancel
}

// ownWatch watches the only run of a worker. Its methods do little on nil.
type ownWatch struct {
	ownership

	store    *queue.Store
	stop     context.CancelFunc
	watching sync.WaitGroup
	failed   error
	givenUp  atomic.Bool // the run was canceled because its owner ended
}

// watch stops the worker when its run is over. It returns nil for a worker of many runs.
func (o ownership) watch(ctx context.Context, config embed.Config, stop func()) (*ownWatch, error) {
	if o.run == 0 {
		return nil, nil //nolint:nilnil // there is nothing to watch
	}
	store, err := queue.Open(ctx, config.Database)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &ownWatch{ownership: o, store: store, stop: cancel}
	w.watching.Go(func() {
		defer stop()
		for run, err := range store.Watch(ctx, o.run) {
			if err != nil && ctx.Err() == nil {
				w.failed = err
			}
			if err != nil || run.Over() {
				return
			}
		}
	})
	return w, nil
}

// stopper returns what the first and the second signal do. At the first, running tasks may finish; if the worker belongs to
// another process, the run is canceled.
func (w *ownWatch) stopper(e *env, r *embed.Rig) []func() {
	if w == nil || !w.untilEOF {
		return []func(){
			func() { e.log.Info("stopping: running tasks may finish; once more to stop at once"); r.Stop() },
			r.StopNow,
		}
	}
	return []func(){
		func() { w.cancel(); r.Stop() },
		r.StopNow,
	}
}

// cancel cancels the run, so that no other worker goes on with it.
func (w *ownWatch) cancel() {
	w.givenUp.Store(true)
	w.cancelNow()
}

func (w *ownWatch) cancelNow() { _ = cancelOpen(context.Background(), w.store, w.run) }

// cancelOpen cancels a run at once unless it is over. A request to a run that is over would stay in its history.
func cancelOpen(ctx context.Context, store *queue.Store, id queue.RunID) error {
	ctx, cancel := context.WithTimeout(ctx, lastWord)
	defer cancel()
	if run, err := store.Get(ctx, id); err == nil && run.Over() {
		return nil
	}
	_, err := store.Control(ctx, queue.Ask{Run: id, Verb: dagrun.VerbCancel, Now: true})
	return err
}

func (w *ownWatch) end() error {
	if w == nil {
		return nil
	}
	w.stop()
	w.watching.Wait()
	if w.givenUp.Load() {
		w.cancelNow() // the worker may have handed the run on before it read the first cancel
	}
	w.store.Close()
	if w.failed != nil {
		return fmt.Errorf("watch run %d: %w", w.run, w.failed)
	}
	return nil
}
