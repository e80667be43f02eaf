package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/queue"
)

// dagChange has the differences between dag pause, dag resume and dag rm, which are otherwise alike.
type dagChange struct {
	name, done, usage, about string
	paused, removed          *bool
}

func newDAGPauseCommand(e *env) *cli.Command {
	return newDAGChangeCommand(e, dagChange{
		name: "pause", done: "paused", usage: "start no more runs of DAGs",
		about:  `A paused DAG takes requests and starts none of them; what has begun goes on. "oarlock dag resume" ends it.`,
		paused: new(true),
	})
}

func newDAGResumeCommand(e *env) *cli.Command {
	return newDAGChangeCommand(e, dagChange{
		name: "resume", done: "resumed", usage: "start runs of paused DAGs again",
		about: `What was asked for meanwhile starts, in its order.`, paused: new(false),
	})
}

func newDAGRemoveCommand(e *env) *cli.Command {
	return newDAGChangeCommand(e, dagChange{
		name: "rm", done: "removed", usage: "take DAGs out of service",
		about:   `A removed DAG refuses requests. Its runs stay, also those that wait or run. "oarlock dag apply" brings it back.`,
		removed: new(true),
	})
}

func newDAGChangeCommand(e *env, change dagChange) *cli.Command {
	return &cli.Command{
		Name:      change.name,
		Usage:     change.usage,
		ArgsUsage: "DAG…",
		Description: manual{
			about:    change.about + "\nFor administrators (role oarlock_admin).",
			examples: []string{"oarlock dag " + change.name + " etl", "oarlock dag " + change.name + " etl nightly -o json"},
			exits: []exitNote{
				{exitOK, "it is so now, whatever it was before"},
				deniedNote, usageNote,
				{exitNotFound, "there is no such DAG; those named before it were changed"},
				unreachableNote, settingsNote,
			},
		}.String(),
		Action: func(c *cli.Context) error { return runDAGChange(c.Context, e, change, c.Args().Slice()) },
	}
}

func runDAGChange(ctx context.Context, e *env, change dagChange, names []string) error {
	if len(names) == 0 {
		return &usageError{msg: "dag " + change.name + " needs a DAG"}
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		for _, name := range names {
			err := store.SetDAG(ctx, queue.DAGChange{Name: name, Paused: change.paused, Removed: change.removed})
			if err != nil {
				return orNoDAG(ctx, store, name, err)
			}
		}
		dags, err := store.DAGs(ctx)
		if err != nil {
			return err
		}
		dags = slices.DeleteFunc(dags, func(d queue.DAG) bool { return !slices.Contains(names, d.Name) })
		a := e.dagsAnswer(dags)
		a.text = ""
		for _, name := range a.ids {
			a.text += fmt.Sprintf("%s %s\n", e.stdoutPaint().good(change.done), name)
		}
		return e.say(a)
	})
}

func newDAGRetireCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "retire",
		Usage:     "let nobody start old versions of a DAG",
		ArgsUsage: "DAG",
		Flags:     []cli.Flag{&cli.IntFlag{Name: "before", Usage: "the oldest version that may be started; 1 allows all again"}},
		Description: manual{
			about: `Versions before the one named are retired: no run of them is enqueued or made anew, and submitters do not retry the runs
that there are. Runs that have not ended go on. Without --before only the current version stays.
For administrators (role oarlock_admin).`,
			examples: []string{"oarlock dag retire etl", "oarlock dag retire etl --before 7"},
			exits: []exitNote{
				{exitOK, "it is so now, whatever it was before"},
				deniedNote, usageNote,
				{exitNotFound, "there is no such DAG"},
				unreachableNote,
				{exitInvalid, "there is no such version, or a setting is wrong"},
			},
		}.String(),
		Action: func(c *cli.Context) error { return runDAGRetire(c.Context, e, c.Int("before"), c.Args().Slice()) },
	}
}

func runDAGRetire(ctx context.Context, e *env, oldest int, args []string) error {
	name, err := oneDAG("dag retire", args)
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		if oldest == 0 {
			current, err := store.GetDAG(ctx, name, 0)
			if err != nil {
				return orNoDAG(ctx, store, name, err)
			}
			oldest = current.Current
		}
		if err := store.SetDAG(ctx, queue.DAGChange{Name: name, Oldest: &oldest}); err != nil {
			return orNoDAG(ctx, store, name, err)
		}
		text := fmt.Sprintf("versions of %s before %d are %s\n", name, oldest, e.stdoutPaint().good("retired"))
		if oldest == 1 {
			text = fmt.Sprintf("all versions of %s may be started\n", name)
		}
		object := jsonRetired{Name: name, Oldest: oldest}
		return e.say(answer{object: object, lines: []any{object}, ids: []string{name}, text: text})
	})
}

type jsonRetired struct {
	Name   string `json:"name"`
	Oldest int    `json:"oldest"`
}
