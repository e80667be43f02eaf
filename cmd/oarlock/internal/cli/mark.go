package cli

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

// markable are the states that a person may give a step.
var markable = []string{"succeeded", "skipped", "failed"}

func newMarkCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "mark",
		Usage:     "settle a step by hand, as succeeded, skipped or failed",
		ArgsUsage: stepUsage,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "as", Usage: "what it is to be: `STATE` is succeeded, skipped or failed"},
			&cli.StringSliceFlag{Name: "value", Usage: "give it an output, as `NAME=VALUE`; may be given again"},
			withinFlag(),
		},
		Description: manual{
			about: `The run goes on as if the step had ended so. One that runs is killed first; one that has ended refuses. To mark an
approval is to decide it. With several runs, there is one line for each, and the highest exit status counts.`,
			examples: []string{
				"oarlock mark 41 load --as succeeded --value rows=7",
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
	values, err := pairs("--value", c.StringSlice("value"))
	if err != nil {
		return err
	}
	return runAskStep(c, e, queue.Ask{Verb: dagrun.VerbMark, As: state, Outputs: orNothing(values)})
}
