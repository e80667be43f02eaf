package cli

import (
	"context"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// lookEvery is how often the tasks of a followed run are read when no notification about it comes. If reading takes long,
// they are read less often: the pause is then lookShare times the time of a read.
const (
	lookEvery = 500 * time.Millisecond
	lookShare = 10

	frameEvery = 250 * time.Millisecond // pause between two drawings of a page on which only durations changed
)

// awaitRun follows a run to its end, shows it, and returns an error unless it succeeded.
func (e *env) awaitRun(ctx context.Context, store *queue.Store, id queue.RunID, how waiting) error {
	bounded, stop := how.bounded(ctx)
	defer stop()
	w := e.newWatcher(store, id, how.progress)
	if e.settings.Text("output") == "jsonl" {
		w.show = append(w.show, w.tellJSON)
	}
	return w.await(ctx, bounded, how)
}

// await shows the run until it is over, or until bounded ends. bounded is ctx with the timeout of the wait.
func (w *watcher) await(ctx, bounded context.Context, how waiting) error {
	if w.env.settings.Text("output") == "id" {
		if err := w.env.printLines([]string{decimal(int64(w.id))}); err != nil {
			return err
		}
	}
	followed := w.follow(bounded)
	if followed != nil && (ctx.Err() != nil || bounded.Err() == nil) {
		return followed // a signal, or an error that waiting does not cure
	}
	w.lines.settle()
	page, err := w.env.readPage(ctx, w.store, w.id, w.last)
	if err != nil {
		return how.lateAway(ctx, bounded, w.id, err)
	}
	page.all = how.all
	if err := w.finish(page); err != nil {
		return err
	}
	if !page.run.Over() {
		return how.late(page.run)
	}
	return w.env.ended(page.run)
}

// watcher shows a run while it goes on: as a page that is drawn again on a terminal, else as a line for each change.
type watcher struct {
	env      *env
	store    *queue.Store
	id       queue.RunID
	progress progress
	brief    bool                   // nothing is shown about tasks
	show     []func(*runPage) error // called for each look; empty: only the end counts

	last  *runPage          // the page that was read last
	lines *liveLines        // output of tasks; nil: not collected
	drawn []int             // widths of the lines on the terminal
	seen  map[string]string // the last state that was printed of the run and of each task
}

func (e *env) newWatcher(store *queue.Store, id queue.RunID, how progress) *watcher {
	w := &watcher{env: e, store: store, id: id, progress: how, seen: map[string]string{}, lines: e.lines}
	switch how {
	case progressLive:
		w.show = append(w.show, w.redraw)
	case progressPlain:
		w.show = append(w.show, w.tell)
	case progressNone:
	}
	return w
}

// follow looks at the run until it is over: at each notification about it, and at intervals, since a task may change
// without a notification about the run.
func (w *watcher) follow(ctx context.Context) error {
	changes, stop := w.changes(ctx)
	defer stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	frame := time.NewTicker(frameEvery)
	defer frame.Stop()
	for {
		select {
		case <-w.lines.news():
			if err := w.refresh(); err != nil {
				return err
			}
			continue
		case <-frame.C:
			if err := w.refresh(); err != nil {
				return err
			}
			continue
		case c, ok := <-changes:
			if !ok {
				return ctx.Err()
			}
			if c.err != nil || c.run.Over() {
				return c.err
			}
		case <-tick.C:
		}
		began := time.Now()
		if err := w.look(ctx); err != nil {
			return err
		}
		tick.Reset(max(lookEvery, lookShare*time.Since(began)))
	}
}

type change struct {
	run *queue.Run
	err error
}

// changes returns a channel of the run's changes. stop ends the goroutine that sends them.
func (w *watcher) changes(ctx context.Context) (_ <-chan change, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	changes := make(chan change)
	go func() {
		defer close(changes)
		for run, err := range w.store.Watch(ctx, w.id) {
			select {
			case changes <- change{run, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return changes, func() {
		cancel()
		for range changes { // until the goroutine closes it
		}
	}
}

// look reads the run and shows its current state. While the database is away it shows nothing and returns no error.
func (w *watcher) look(ctx context.Context) error {
	if len(w.show) == 0 {
		return nil
	}
	page, err := w.env.readPage(ctx, w.store, w.id, w.last)
	if err != nil {
		if diagnose(ctx, err).kind == unreachable && ctx.Err() == nil {
			return nil
		}
		return err
	}
	w.last = page
	if page.run.Over() {
		return nil // finish shows the end
	}
	page.watched = true
	for _, show := range w.show {
		if err := show(page); err != nil {
			return err
		}
	}
	return nil
}

// finish shows the end of the run, in full.
func (w *watcher) finish(page *runPage) error {
	switch format := w.env.settings.Text("output"); {
	case format == "id":
		return nil // the id was printed at the start
	case w.progress == progressLive:
		return w.env.print(w.over(w.lines.take() + page.String()))
	case w.progress == progressPlain:
		if err := w.tell(page); err != nil {
			return err
		}
	}
	return w.env.say(w.env.pageAnswer(page))
}

// tellJSON prints the run if its JSON has changed.
func (w *watcher) tellJSON(page *runPage) error {
	line := runview.CompactJSON(runview.NewStatusJSON(page.run, page.tasks, page.counted))
	if w.seen[""] == line {
		return nil
	}
	w.seen[""] = line
	return w.env.print(line + "\n")
}
