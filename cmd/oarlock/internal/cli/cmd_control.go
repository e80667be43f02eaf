package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
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

func newPauseCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "pause",
		Usage:     "pause runs, or a step of a run",
		ArgsUsage: askUsage,
		Flags:     selectionFlags("scheduled, queued, running, waiting"),
		Description: manual{
			about: `Of a paused run nothing new starts and what runs finishes. A STEP that runs is stopped, and goes on as its next
attempt. A run that nobody drives is paused by its next driver.
` + askAbout,
			examples: []string{"oarlock pause 41", "oarlock pause 41 load", "oarlock pause --dag etl --state running"},
			exits:    askExits,
		}.String(),
		Action: func(c *cli.Context) error {
			return runAsk(c, e, dagrun.VerbPause, []string{"scheduled", "queued", "running", "waiting"})
		},
	}
}

func newResumeCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "resume",
		Usage:     "resume what was paused: runs, or a step of a run",
		ArgsUsage: askUsage,
		Flags:     selectionFlags("paused"),
		Description: manual{
			about:    "What was paused goes on where it was; timers kept their deadlines.\n" + askAbout,
			examples: []string{"oarlock resume 41", "oarlock resume 41 load", "oarlock resume --dag etl"},
			exits:    askExits,
		}.String(),
		Action: func(c *cli.Context) error { return runAsk(c, e, dagrun.VerbResume, []string{"paused"}) },
	}
}

// runAsk runs a verb with no arguments and flags but the ones that name or select runs.
func runAsk(c *cli.Context, e *env, verb dagrun.Verb, states []string) error {
	a, err := newAsking(c, e, verb, states)
	if err != nil {
		return err
	}
	a.send = sending(queue.Ask{Verb: verb, Step: a.target.step, Item: a.target.item})
	return a.run(c.Context)
}

// markable are the states that a user may give to a step.
var markable = []string{"succeeded", "skipped", "failed"}

func newMarkCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "mark",
		Usage:     "settle a step by hand, as succeeded, skipped or failed",
		ArgsUsage: stepUsage,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "as", Usage: "what it is to be: `STATE` is succeeded, skipped or failed"},
			&cli.StringSliceFlag{Name: "value", Usage: "give it an output, as the text `NAME=VALUE`; may be given again"},
			&cli.StringSliceFlag{Name: "value-json", Usage: "give it an output that is no text, as `NAME=JSON`; may be given again"},
			withinFlag(),
		},
		Description: manual{
			about: `The run goes on as if the step had ended so. One that runs is killed first; one that has ended refuses. To mark an
approval is to decide it: as succeeded it needs the inputs that it requires, as values. With several runs, there is one
line for each, and the highest exit status counts.`,
			examples: []string{
				"oarlock mark 41 load --as succeeded --value path=/data/41 --value-json rows=7",
				"oarlock mark 41 42 43 notify --as skipped",
			},
			exits: askExits,
		}.String(),
		Action: func(c *cli.Context) error { return runMark(c, e) },
	}
}

func runMark(c *cli.Context, e *env) error {
	as := c.String("as")
	switch {
	case as == "":
		return &usageError{msg: "mark needs --as", hint: "one of " + config.OrList(markable)}
	case !slices.Contains(markable, as):
		return &usageError{
			msg:  fmt.Sprintf("--as: a step cannot be marked %q", as),
			hint: cmp.Or(config.DidYouMean(as, markable), "one of "+config.OrList(markable)),
		}
	}
	state, err := dagrun.ParseState(as)
	if err != nil {
		return err
	}
	outputs, err := markOutputs(c.StringSlice("value"), c.StringSlice("value-json"))
	if err != nil {
		return err
	}
	ask := queue.Ask{Verb: dagrun.VerbMark, As: state}
	if len(outputs) > 0 {
		ask.Outputs = outputs
	}
	return runAskStep(c, e, ask)
}

// markOutputs merges outputs given as texts and outputs given as JSON.
func markOutputs(texts, others []string) (map[string]any, error) {
	const jsonFlag = "--value-json"
	outputs := map[string]any{}
	values, err := pairs("--value", texts)
	if err != nil {
		return nil, err
	}
	for name, value := range values {
		outputs[name] = value
	}
	if values, err = pairs(jsonFlag, others); err != nil {
		return nil, err
	}
	for name, value := range values {
		if _, twice := outputs[name]; twice {
			return nil, &usageError{msg: fmt.Sprintf("--value and %s give %s twice", jsonFlag, name), hint: "give one of them"}
		}
		if !json.Valid([]byte(value)) {
			return nil, &usageError{msg: fmt.Sprintf("%s: the value of %s is no JSON", jsonFlag, name), hint: "--value gives it as a text"}
		}
		outputs[name] = json.RawMessage(value)
	}
	return outputs, nil
}
