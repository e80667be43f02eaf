package cli

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func newStatusCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "show a run: its steps, what failed and why, what it waits for, what to do next",
		ArgsUsage: "RUN",
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "follow the run to its end, and exit by it"},
			&cli.BoolFlag{Name: "all", Usage: "of a step with many items, a line for each: what failed first, then what goes on"},
			&cli.StringFlag{Name: timeoutFlag, Usage: "with -w: for at most this `DURATION`; the run goes on"},
		}, progressFlags("live, plain or none")...),
		Description: manual{
			about: `RUN is a number or @latest. Steps come in the order of the graph, with items, replacements and handlers.
With -w, -o json prints one object at the end, and -o jsonl one for each change. Submitters see their own runs.
` + progressAbout,
			examples: []string{
				"oarlock status 41",
				"oarlock status @latest -w",
				"oarlock status 41 --all | less",
				"oarlock status 41 -o json | jq -r '.tasks[] | select(.state == \"failed\") | .step'",
			},
			exits: []exitNote{
				{exitOK, "the run was shown, whatever its state; with -w: it succeeded"},
				usageNote,
				{exitNotFound, "there is no such run, or it is not yours"},
				unreachableNote,
				settingsNote,
				{exitRunFailed, "-w: the run failed"},
				{exitRunCanceled, "-w: the run was canceled"},
				{exitTimeout, "-w: the run did not end in time; it goes on"},
			},
		}.String(),
		Action: func(c *cli.Context) error {
			how, err := e.readWaiting(c, "watch", true)
			if err != nil {
				return err
			}
			how.all = c.Bool("all")
			return runStatus(c.Context, e, c.Args().Slice(), c.Bool("watch"), how)
		},
	}
}

func runStatus(ctx context.Context, e *env, args []string, watch bool, how waiting) error {
	arg, err := oneRun("status", args)
	if err != nil {
		return err
	}
	return e.withStore(ctx, func(store *queue.Store) error {
		id, err := arg.find(ctx, store)
		if err != nil {
			return err
		}
		if watch {
			return e.awaitRun(ctx, store, id, how)
		}
		page, err := e.readPage(ctx, store, id, nil)
		if err != nil {
			return err
		}
		page.all = how.all
		return e.say(e.pageAnswer(page))
	})
}

func (e *env) pageAnswer(page *runPage) answer {
	object := runview.NewStatusJSON(page.run, page.tasks, page.counted)
	a := answer{object: object, ids: []string{decimal(object.ID)}}
	if e.settings.Text("output") == "table" {
		a.text = page.String()
	}
	return a
}

// ended returns the error of a command that waited for a run and showed it. For people it is short: the page has shown why
// the run ended so, and what to type next.
func (e *env) ended(run *queue.Run) error {
	failed := runEnd(run.ID, run.State, run.Reason)
	if failed == nil {
		return nil
	}
	if e.settings.Text("output") == "table" {
		failed.err, failed.hint = fmt.Errorf("run %d %s", run.ID, run.State), ""
		return failed
	}
	again := fmt.Sprintf("%s retry %d", program, run.ID)
	if runview.IsHere(run) {
		again += fmt.Sprintf(" && %s worker --only %d", program, run.ID)
	}
	failed.hint = "`" + again + "` runs again what did not succeed"
	return failed
}
