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
	{exitOK, "the request was applied or accepted, or is not decided yet; or the flags selected no run"},
	deniedNote,
	usageNote,
	{exitNotFound, "the run or the step does not exist, or the run is not yours"},
	{exitConflict, "the state of the run or step does not allow the request; with several runs: the state of at least one run"},
	unreachableNote,
	{exitInvalid, "the step does not take a value, or a setting is wrong"},
}

const askAbout = `RUN is a number or @latest. With several runs, the command prints one line for each, and exits with the highest
status. Without RUN the flags select runs, newest first. Submitters reach their own runs, administrators reach
all runs.`

func newCancelCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "cancel",
		Usage:     "cancel runs, or a step of a run",
		ArgsUsage: askUsage,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "now", Usage: "skip the handlers abort and exit, as a second cancel does"},
			&cli.BoolFlag{Name: "wait", Usage: "wait until the runs have ended"},
		}, slices.Concat(waitFlags(), selectionFlags("all states of runs that have not ended"))...),
		Description: manual{
			about: `A run that has not started, or that no worker holds, is canceled at once. Otherwise running tasks get their kill
signal and their grace, and then handlers run. An accepted cancel always wins. If handlers must run or a child run is
open, a worker has to end the run, and the command says that the run still runs. A STEP is canceled together with the
steps that depend on the STEP and have not started.
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
				return &usageError{msg: "--wait works only for whole runs", hint: "leave out --wait, or the step"}
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
			about: `A paused run starts nothing new, and its running tasks finish. A STEP that runs is stopped; after its resume it goes on
with its next attempt. If no worker drives the run, the next worker that takes the run pauses it.
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
		Usage:     "resume paused runs, or a paused step of a run",
		ArgsUsage: askUsage,
		Flags:     selectionFlags("paused"),
		Description: manual{
			about:    "Runs and steps go on where they were paused. Timers have kept their deadlines.\n" + askAbout,
			examples: []string{"oarlock resume 41", "oarlock resume 41 load", "oarlock resume --dag etl"},
			exits:    askExits,
		}.String(),
		Action: func(c *cli.Context) error { return runAsk(c, e, dagrun.VerbResume, []string{"paused"}) },
	}
}

// runAsk sends a control to the runs, or to the step, that the command line names. If flags select the runs, states are the states
// that they select without --state.
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
		Usage:     "set the result of a step by hand: succeeded, skipped or failed",
		ArgsUsage: stepUsage,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "as", Usage: "give the step this `STATE`: succeeded, skipped or failed"},
			&cli.StringSliceFlag{Name: "value", Usage: "set an output of the step to a text, as `NAME=VALUE`; may be repeated"},
			&cli.StringSliceFlag{Name: "value-json", Usage: "set an output of the step to any JSON value, as `NAME=JSON`; may be repeated"},
			withinFlag(),
		},
		Description: manual{
			about: `The run goes on as if the step had ended with this STATE. A running step is killed first. While the run is under
way, a step that failed or was canceled can be marked as succeeded or skipped: then the steps behind it go on that could
not start because of it. The run refuses to mark a step that succeeded or was skipped.

If the step declares outputs, a mark as succeeded must give all of them that are not optional. The worker converts the
text of a --value to the type that the output declares. An output that only references need, such as
${steps.load.stdout}, is given as --value stdout=…

If you mark an approval, you decide it. To mark an approval as succeeded, give its required inputs with --value. With
several runs, the command prints one line for each run, and exits with the highest status.`,
			examples: []string{
				"oarlock mark 41 load --as succeeded --value path=/data/41 --value rows=7",
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
		return &usageError{msg: "mark needs --as", hint: "a step can be marked " + config.OrList(markable)}
	case !slices.Contains(markable, as):
		return &usageError{
			msg:  fmt.Sprintf("--as: a step cannot be marked %q", as),
			hint: cmp.Or(config.DidYouMean(as, markable), "a step can be marked "+config.OrList(markable)),
		}
	}
	state, err := dagrun.ParseState(as)
	if err != nil {
		return err
	}
	outputs, err := outputPairs("--value", c.StringSlice("value"), "--value-json", c.StringSlice("value-json"))
	if err != nil {
		return err
	}
	ask := queue.Ask{Verb: dagrun.VerbMark, As: state}
	if len(outputs) > 0 {
		ask.Outputs = outputs
	}
	return runAskStep(c, e, ask, nil)
}

// outputPairs returns the outputs that two flags give to a step: one has values that are texts as NAME=VALUE, and jsonFlag has
// NAME=JSON. It returns a usageError if a name comes twice or a value is no JSON.
func outputPairs(textFlag string, texts []string, jsonFlag string, others []string) (map[string]any, error) {
	outputs := map[string]any{}
	values, err := pairs(textFlag, texts)
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
			return nil, &usageError{msg: fmt.Sprintf("%s and %s give %s twice", textFlag, jsonFlag, name), hint: "give each output once"}
		}
		if !json.Valid([]byte(value)) {
			return nil, &usageError{msg: fmt.Sprintf("%s: the value of %s is no JSON", jsonFlag, name), hint: "to give the value as a text, use " + textFlag}
		}
		outputs[name] = json.RawMessage(value)
	}
	return outputs, nil
}
