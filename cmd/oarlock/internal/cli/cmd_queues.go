package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func newQueuesCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "queues",
		Usage: "list, pause and resume queues, and set their limits",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "list idle queues one by one"},
		},
		Description: manual{
			about: fmt.Sprintf(`Lists queues: the runs that are due and wait, the age of the oldest of them, and the runs that workers drive. Queues
with waiting or running runs come first, with paused queues. More than %d idle queues share one line; JSON and -o id
list all queues, by name. STATE says why waiting runs do not start: the queue is paused, no worker serves it, or it has
reached its limit of runs under way. For readers (role oarlock_read).`, runview.IdleQueuesMax),
			examples: []string{
				"oarlock queues",
				"oarlock queues --all",
				"oarlock queues set heavy --max-running 4",
				"oarlock queues pause heavy",
			},
			exits: []exitNote{{exitOK, "the list was read"}, deniedNote, usageNote, unreachableNote, settingsNote},
		}.String(),
		Action: func(c *cli.Context) error { return runQueues(c.Context, e, c.Bool("all")) },
		Subcommands: []*cli.Command{
			newQueuesPauseCommand(e, "pause", "start no more runs of queues", true),
			newQueuesPauseCommand(e, "resume", "start runs of paused queues again", false),
			newQueuesSetCommand(e),
		},
	}
}

func newQueuesPauseCommand(e *env, name, usage string, paused bool) *cli.Command {
	return &cli.Command{
		Name:      name,
		Usage:     usage,
		ArgsUsage: "QUEUE…",
		Description: manual{
			about: `You can ask for runs in a paused queue, but these runs do not start. Runs that have begun go on.
For administrators (role oarlock_admin).`,
			examples: []string{"oarlock queues " + name + " heavy"},
			exits: []exitNote{
				inForceNote,
				deniedNote, usageNote,
				{exitNotFound, "a queue does not exist; no queue was changed"},
				unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error { return runQueuesPause(c.Context, e, name, paused, c.Args().Slice()) },
	}
}

func newQueuesSetCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "set",
		Usage:     "make a queue, or set its limits",
		ArgsUsage: "QUEUE",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "max-running", Usage: "let at most `N` runs of this queue be under way at once; 0: no limit", DefaultText: "unchanged"},
			&cli.IntFlag{Name: "max-queued", Usage: "refuse new runs while `N` runs of this queue wait; 0: no limit", DefaultText: "unchanged"},
		},
		Description: manual{
			about:    `Makes the queue if no queue has this name. For administrators (role oarlock_admin).`,
			examples: []string{"oarlock queues set heavy --max-running 4 --max-queued 10000", "oarlock queues set reports"},
			exits:    []exitNote{{exitOK, "the queue exists with these limits"}, deniedNote, usageNote, unreachableNote, {exitInvalid, "the name or a limit is invalid; or a setting is wrong"}},
		}.String(),
		Action: func(c *cli.Context) error {
			change := queue.QueueChange{}
			if c.IsSet("max-running") {
				change.MaxRunning = new(c.Int("max-running"))
			}
			if c.IsSet("max-queued") {
				change.MaxQueued = new(c.Int("max-queued"))
			}
			return runQueuesSet(c.Context, e, change, c.Args().Slice())
		},
	}
}

func runQueues(ctx context.Context, e *env, all bool) error {
	return e.withStore(ctx, func(store *queue.Store) error {
		queues, err := store.Queues(ctx)
		if err != nil {
			return err
		}
		a := queuesData(queues)
		if e.settings.Text("output") == "table" {
			workers, err := store.Workers(ctx)
			if err != nil {
				return err
			}
			a.text = e.stdoutPaint().queuesText(queues, workers, all)
		}
		return e.say(a)
	})
}

// queuesData returns the queues as an answer without a text for people.
func queuesData(queues []queue.Queue) answer {
	object := []runview.QueueJSON{}
	a := answer{lines: []any{}, ids: []string{}}
	for i := range queues {
		j := runview.NewQueueJSON(&queues[i])
		object = append(object, j)
		a.lines = append(a.lines, j)
		a.ids = append(a.ids, queues[i].Name)
	}
	a.object = object
	return a
}

// queuesText returns a table of the queues for people. More than runview.IdleQueuesMax idle queues share one line, unless all is
// set.
func (p painter) queuesText(queues []queue.Queue, workers []queue.WorkerInfo, all bool) string {
	shown, idle, fold := runview.SplitQueues(queues)
	fold = fold && !all
	if !fold {
		shown = slices.Concat(shown, idle)
	}
	t := term.Table{Head: p.head("NAME", "STATE", "QUEUED", "OLDEST", "RUNNING", "MAX RUNNING", "MAX QUEUED")}
	for i := range shown {
		q := &shown[i]
		state, oldest := cmp.Or(p.queueNote(q, workers), p.Good("active")), p.Dim("–")
		if q.Queued > 0 {
			oldest = runview.Span(q.Oldest)
		}
		t.Rows = append(t.Rows, []string{
			q.Name, state, decimal(q.Queued), oldest, decimal(q.Running), p.limit(q.MaxRunning), p.limit(q.MaxQueued),
		})
	}
	text := ""
	if len(t.Rows) > 0 || !fold {
		text = t.String()
	}
	if fold {
		text += p.Dim(idleLine(idle)) + "\n"
	}
	return text
}

// queueNote returns a few words about why no waiting run of a queue starts, such as "paused by ann". It returns "" if nothing keeps
// runs from starting.
func (p painter) queueNote(q *queue.Queue, workers []queue.WorkerInfo) string {
	if q.PausedBy != "" {
		return p.Warn("paused") + p.Dim(" by "+runview.Printable(q.PausedBy))
	}
	if note := runview.QueueNote(q, workers); note != "" {
		return p.Warn(note)
	}
	return ""
}

func idleLine(idle []queue.Queue) string {
	return fmt.Sprintf("… %s (all: oarlock queues --all)", runview.Count(len(idle), "idle queue"))
}

// runQueuesPause pauses queues, or resumes them if paused is false, and prints their state. It checks all names before it changes
// any queue, because the database would make a new queue for a misspelled name.
func runQueuesPause(ctx context.Context, e *env, command string, paused bool, names []string) error {
	if len(names) == 0 {
		return &usageError{msg: "queues " + command + " needs a queue", hint: "`oarlock queues` lists the queues"}
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		queues, err := store.Queues(ctx)
		if err != nil {
			return err
		}
		var known []string
		for i := range queues {
			known = append(known, queues[i].Name)
		}
		for _, name := range names {
			if !slices.Contains(known, name) {
				hint := cmp.Or(didYouMean(name, known), "`oarlock queues` lists the queues")
				return &failure{kind: notFound, err: fmt.Errorf("there is no queue %q", name), hint: hint}
			}
		}
		for _, name := range names {
			if err := store.SetQueue(ctx, queue.QueueChange{Name: name, Paused: &paused}); err != nil {
				return err
			}
		}
		return e.sayQueues(ctx, store, command+"d", names)
	})
}

func runQueuesSet(ctx context.Context, e *env, change queue.QueueChange, args []string) error {
	if len(args) != 1 {
		return &usageError{msg: "queues set needs one queue, got " + strconv.Itoa(len(args)) + " arguments"}
	}
	change.Name = args[0]
	return e.withStore(ctx, func(store *queue.Store) error {
		if err := store.SetQueue(ctx, change); err != nil {
			return err
		}
		return e.sayQueues(ctx, store, "set", args)
	})
}

// sayQueues prints the current state of the named queues, each behind the word done: paused, resumed or set. Only set shows the
// limits.
func (e *env) sayQueues(ctx context.Context, store *queue.Store, done string, names []string) error {
	queues, err := store.Queues(ctx)
	if err != nil {
		return err
	}
	queues = slices.DeleteFunc(queues, func(q queue.Queue) bool { return !slices.Contains(names, q.Name) })
	a := queuesData(queues)
	for i := range queues {
		q := &queues[i]
		a.text += e.stdoutPaint().Good(done) + " " + q.Name
		if done == "set" {
			a.text += e.stdoutPaint().Dim(fmt.Sprintf("  max running %s, max queued %s", limitWord(q.MaxRunning), limitWord(q.MaxQueued)))
		}
		a.text += "\n"
	}
	return e.say(a)
}

func limitWord(n int) string {
	if n == 0 {
		return "unlimited"
	}
	return strconv.Itoa(n)
}
