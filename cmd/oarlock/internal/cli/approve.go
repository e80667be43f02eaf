package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

const stepUsage = "RUN… STEP[/ITEM]"

func newApproveCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "approve",
		Usage:     "approve a step that waits for it",
		ArgsUsage: stepUsage,
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "input", Aliases: []string{"i"}, Usage: "answer an input that the step asks for, as `NAME=VALUE`; may be given again"},
			&cli.StringFlag{Name: "comment", Usage: "say why: `TEXT` becomes the output comment"},
			withinFlag(),
		},
		Description: manual{
			about: `The step succeeds, and what was given as inputs is its outputs. "oarlock approvals" lists what waits for you, and
which inputs each step asks for. Where a step names approvers, they decide, and nobody else. With several runs, there
is one line for each, and the highest exit status counts.`,
			examples: []string{
				"oarlock approve 41 confirm",
				"oarlock approve 41 confirm -i amount=700 --comment 'as agreed'",
			},
			exits: askExits,
		}.String(),
		Action: func(c *cli.Context) error {
			inputs, err := pairs("--input", c.StringSlice("input"))
			if err != nil {
				return err
			}
			if comment := c.String("comment"); comment != "" {
				if _, twice := inputs["comment"]; twice {
					return &usageError{msg: "--comment and --input comment=… are the same", hint: "give one of them"}
				}
				if inputs == nil {
					inputs = map[string]string{}
				}
				inputs["comment"] = comment
			}
			return runAskStep(c, e, queue.Ask{Verb: dagrun.VerbApprove, Outputs: orNothing(inputs)})
		},
	}
}

func newRejectCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "reject",
		Usage:     "reject a step that waits for approval",
		ArgsUsage: stepUsage,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "comment", Usage: "say why: `TEXT` becomes the reason"},
			withinFlag(),
		},
		Description: manual{
			about:    `The step fails, of kind rejected. Who may is as for "oarlock approve".`,
			examples: []string{"oarlock reject 41 confirm --comment 'wrong day'"},
			exits:    askExits,
		}.String(),
		Action: func(c *cli.Context) error {
			return runAskStep(c, e, queue.Ask{Verb: dagrun.VerbReject, Reason: c.String("comment")})
		},
	}
}

// orNothing returns nil for an empty map: an approval without inputs has no outputs.
func orNothing(m map[string]string) any {
	if len(m) == 0 {
		return nil
	}
	return m
}

// runAskStep asks for a control that needs a step, such as approve or mark.
func runAskStep(c *cli.Context, e *env, ask queue.Ask) error {
	a, err := newAsking(c, e, ask.Verb, nil)
	if err != nil {
		return err
	}
	if a.target.step == "" {
		return &usageError{msg: ask.Verb.String() + " needs a step", hint: "like `" + program + " " + ask.Verb.String() + " 41 confirm`"}
	}
	ask.Step, ask.Item = a.target.step, a.target.item
	a.send = sending(ask)
	return a.run(c.Context)
}
