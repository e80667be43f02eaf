package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func newWorkersCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "workers",
		Usage: "list workers, or ask a worker to drain",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "all", Usage: "list also workers that stopped or were lost lately"}},
		Description: manual{
			about: `Lists workers at work. --all adds workers that stopped, and lost workers, which were silent until other workers took
over their runs. A quiet worker gave no sign of life for longer than two renewals, a silent worker for longer than its
lease. A line below the table names a quiet or
silent worker, and says what happens to its runs. SLOTS are the slots in use and all slots. WAITING counts tasks that
wait for a slot, RUNS the runs that the worker holds. BEAT is the age of the last sign of life, by the database's
clock. An unfit worker claims nothing, and a line below says why and since when. For readers (role oarlock_read).`,
			examples: []string{
				"oarlock workers",
				"oarlock workers -o json | jq -r '.[] | select(.state == \"live\") | .name'",
				"oarlock workers drain w1",
			},
			exits: []exitNote{{exitOK, "the list was read"}, deniedNote, usageNote, unreachableNote, settingsNote},
		}.String(),
		Action:      func(c *cli.Context) error { return runWorkers(c.Context, e, c.Bool("all")) },
		Subcommands: []*cli.Command{newWorkersDrainCommand(e)},
	}
}

func newWorkersDrainCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "drain",
		Usage:     "ask workers to claim nothing more, finish their tasks, and stop",
		ArgsUsage: "WORKER…",
		Description: manual{
			about: `WORKER is a name or an id. If several workers have this name, all these workers are asked. The command does not wait:
"oarlock workers" shows which workers are draining. For administrators (role oarlock_admin).`,
			examples: []string{"oarlock workers drain w1"},
			exits: []exitNote{
				{exitOK, "the workers were asked to drain"},
				deniedNote, usageNote,
				{exitNotFound, "no worker at work has the name or id; the workers named before it were asked"},
				unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error { return runWorkersDrain(c.Context, e, c.Args().Slice()) },
	}
}

func runWorkers(ctx context.Context, e *env, all bool) error {
	return e.withStore(ctx, func(store *queue.Store) error {
		workers, err := store.Workers(ctx)
		if err != nil {
			return err
		}
		var listed []queue.WorkerInfo
		lost := 0
		for i := range workers {
			switch w := &workers[i]; {
			case all || w.EndedAt.IsZero():
				listed = append(listed, *w)
			case w.State == queue.WorkerLost:
				lost++
			}
		}
		if err := e.remarkWorkers(ctx, store, listed); err != nil {
			return err
		}
		if lost > 0 {
			e.remark("lost lately: %s, listed by `%s workers --all`", runview.Count(lost, "worker"), program)
		}
		return e.say(e.workersAnswer(listed))
	})
}

// remarkWorkers warns of listed workers that are quiet or unfit, or that none is at work. If the database may be a copy, it says
// that instead of warnings about quiet workers: they are the original's, and a new worker would refuse to start.
func (e *env) remarkWorkers(ctx context.Context, store *queue.Store, listed []queue.WorkerInfo) error {
	isCopy := false
	if len(listed) == 0 || slices.ContainsFunc(listed, func(w queue.WorkerInfo) bool { return w.Quiet != nil }) {
		why, err := store.MayBeCopy(ctx)
		if err != nil {
			return err
		}
		if isCopy = why != ""; isCopy {
			e.remark("%s", why)
		}
	}
	if len(listed) == 0 && !isCopy {
		e.remark("no worker is at work: start a worker with `oarlock worker`")
	}
	for i := range listed {
		switch w := &listed[i]; {
		case w.Quiet != nil && !isCopy:
			e.remark("worker %s has given %s", runview.Printable(w.Name), runview.QuietNote(w))
		case w.Quiet == nil && w.Unfit != "":
			e.remark("worker %s has claimed nothing since %s: %s", runview.Printable(w.Name), runview.LocalTime(w.UnfitSince), runview.Printable(w.Unfit))
		}
	}
	return nil
}

func (e *env) workersAnswer(workers []queue.WorkerInfo) answer {
	paint := e.stdoutPaint()
	object := []runview.WorkerJSON{}
	a := answer{lines: []any{}, ids: []string{}}
	t := term.Table{Head: paint.head("NAME", "HOST", "STATE", "SLOTS", "WAITING", "RUNS", "BEAT", "UP SINCE", "QUEUES", "LABELS")}
	for i := range workers {
		w := &workers[i]
		j := runview.NewWorkerJSON(w)
		object = append(object, j)
		a.lines = append(a.lines, j)
		a.ids = append(a.ids, j.ID)
		t.Rows = append(t.Rows, []string{
			runview.Printable(w.Name), runview.Printable(w.Host), paint.workerState(w), paint.ofLiving(w, w.Busy) + fmt.Sprintf("/%d", w.Slots), paint.ofLiving(w, w.Waiting),
			paint.ofLiving(w, w.Runs), paint.beat(w), paint.Dim(runview.LocalTime(w.StartedAt)), cmp.Or(runview.Printable(strings.Join(w.Queues, ", ")), paint.Dim("all")),
			runview.LabelText(w.Labels),
		})
	}
	a.object = object
	if len(workers) > 0 {
		a.text = t.String()
	}
	return a
}

// ofLiving returns n, a number about worker w, as text, or a dash if the worker has ended.
func (p painter) ofLiving(w *queue.WorkerInfo, n int) string {
	if !w.EndedAt.IsZero() {
		return p.Dim("–")
	}
	return decimal(int64(n))
}

func (p painter) workerState(w *queue.WorkerInfo) string {
	word := runview.WorkerWord(w)
	switch {
	case w.Silent(), w.Quiet == nil && w.Unfit != "", w.State == queue.WorkerLost:
		return p.Bad(word)
	case w.State == queue.WorkerGone:
		return p.Dim(word)
	case word == string(queue.WorkerLive):
		return p.Good(word)
	}
	return p.Warn(word)
}

// beat returns how long ago a worker gave its last sign of life, in red if the worker is quiet, or a dash if it has ended.
func (p painter) beat(w *queue.WorkerInfo) string {
	if !w.EndedAt.IsZero() {
		return p.Dim("–")
	}
	if w.Quiet != nil {
		return p.Bad(runview.Span(w.BeatAge))
	}
	return runview.Span(w.BeatAge)
}

type jsonDrained struct {
	Worker string `json:"worker"`
	Asked  int    `json:"asked"` // how many workers have this name
}

func runWorkersDrain(ctx context.Context, e *env, names []string) error {
	if len(names) == 0 {
		return &usageError{msg: "workers drain needs a worker", hint: "`oarlock workers` lists the workers"}
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		object := []jsonDrained{}
		a := answer{lines: []any{}, ids: []string{}}
		for _, name := range names {
			asked, err := store.DrainWorker(ctx, name)
			if err != nil {
				return orNoWorker(ctx, store, name, err)
			}
			object = append(object, jsonDrained{name, asked})
			a.lines = append(a.lines, jsonDrained{name, asked})
			a.ids = append(a.ids, name)
			a.text += fmt.Sprintf("%s %s to drain", e.stdoutPaint().Good("asked"), runview.Printable(name))
			if asked > 1 {
				a.text += fmt.Sprintf(" (%d workers)", asked)
			}
			a.text += "\n"
		}
		a.object = object
		return e.say(a)
	})
}

func orNoWorker(ctx context.Context, store *queue.Store, name string, err error) error {
	if !errors.Is(err, queue.ErrNotFound) {
		return err
	}
	var names []string
	if workers, err := store.Workers(ctx); err == nil {
		for i := range workers {
			names = append(names, workers[i].Name)
		}
	}
	hint := cmp.Or(didYouMean(name, names), "`oarlock workers` lists the workers")
	return &failure{kind: notFound, err: errors.New(diagnose(ctx, err).message), hint: hint}
}
