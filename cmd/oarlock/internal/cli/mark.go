package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

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
