package cli

import (
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const askUsage = "RUN… [STEP[/ITEM]]"

// askExits are the exit statuses of commands that send a control to runs.
var askExits = []exitNote{
	{exitOK, "applied or accepted, or asked for and not decided yet; or no run was selected"},
	deniedNote,
	usageNote,
	{exitNotFound, "there is no such run or step, or it is not yours"},
	{exitConflict, "refused: the run or step is in a state in which this makes no sense; with several runs, of one of them"},
	unreachableNote,
	{exitInvalid, "a value is not as the step wants it, or a setting is wrong"},
}

const askAbout = `RUN is a number or @latest. With several, there is one line for each, and the highest exit status counts. Without
a RUN the flags select runs, newest first. Submitters reach their own runs, administrators all.`

func newCancelCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "cancel",
		Usage:     "cancel runs, or a step of a run",
		ArgsUsage: askUsage,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "now", Usage: "skip the handlers abort and exit; a second cancel does so, too"},
			&cli.BoolFlag{Name: "wait", Usage: "wait until the runs have ended"},
		}, slices.Concat(waitFlags(), selectionFlags("any that has not ended"))...),
		Description: manual{
			about: `A run that has not started, or that no worker holds, is canceled at once. What runs gets its kill signal and its
grace, then handlers run; an accepted cancel always wins. Where handlers are to run or a child run is open, it takes a
worker to end the run, and the answer says so. A STEP is canceled with all that depends on it and has not started.
` + plainAbout + askAbout,
			examples: []string{
				"oarlock cancel 41",
				"oarlock cancel 41 --now --wait",
				"oarlock cancel 41 load/eu",
				"oarlock cancel --dag etl --state queued --dry-run",
			},
			exits: append(slices.Clip(askExits), lateNote),
		}.String(),
		Action: func(c *cli.Context) error {
			a, err := newAsking(c, e, dagrun.VerbCancel, runview.UnfinishedStates)
			if err != nil {
				return err
			}
			if err := a.readWait(c); err != nil {
				return err
			}
			if a.wait && a.target.step != "" {
				return &usageError{msg: "--wait is for whole runs", hint: "leave out --wait, or the step"}
			}
			a.send = sending(queue.Ask{Verb: a.verb, Step: a.target.step, Item: a.target.item, Now: c.Bool("now")})
			return a.run(c.Context)
		},
	}
}
