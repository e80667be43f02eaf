package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

func newRetryCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "retry",
		Usage:     "repeat the failed steps of a run, or more steps of the run",
		ArgsUsage: "RUN…",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "repeat `STEP`, and all steps that depend on it"},
			&cli.StringFlag{Name: "step", Usage: "repeat `STEP` alone (while the run is under way, see below), or an item of it as STEP/ITEM"},
			&cli.BoolFlag{Name: "all", Usage: "repeat all steps"},
			&cli.BoolFlag{Name: "latest", Usage: "make a new run, in the current version of the DAG"},
			&cli.StringSliceFlag{Name: "param", Aliases: []string{"p"}, Usage: "make a new run, with this param as `NAME=VALUE`; may be repeated"},
			&cli.BoolFlag{Name: "wait", Usage: "wait until the runs have ended, and exit with their status"},
		}, slices.Concat(waitFlags(), selectionFlags("failed"))...),
		Description: manual{
			about: `Without flags the command repeats the steps that failed or were canceled, and the steps that depend on them. The run
keeps its number, version and params, and begins its next generation. In a run that has ended, --step repeats no other
step. A run that has not ended takes only --step and --from, and stays in its generation while its other steps go on.
There --step repeats a step, or an item of it, that failed or was canceled, and the steps behind it that could not start
because of it. --from also repeats a step that succeeded. A foreach step runs all its items again, those too that
succeeded: name one as STEP/ITEM to repeat it alone. A run refuses a retry that would repeat nothing, and stays as it
is. With --latest or -p Oarlock makes a new run instead, with the number of the old run in retry_of.
` + plainAbout + askAbout,
			examples: []string{
				"oarlock retry 41",
				"oarlock retry 41 --from load --wait",
				"oarlock retry 41 --step resize/eu",
				"oarlock retry 41 --latest -p day=2026-11-21",
				"oarlock retry --state failed --dag etl --since 2h --dry-run",
			},
			exits: append(slices.Clip(askExits), runFailedNote, runCanceledNote, lateNote),
		}.String(),
		Action: func(c *cli.Context) error { return runRetry(c, e) },
	}
}

func runRetry(c *cli.Context, e *env) error {
	a, err := newAsking(c, e, dagrun.VerbRetry, []string{"failed"})
	if err != nil {
		return err
	}
	if step := a.target.step; step != "" {
		return &usageError{
			msg:  fmt.Sprintf("retry does not take the step %s as an argument", step),
			hint: fmt.Sprintf("give --from %s to repeat this step and all steps that depend on it, or --step %s to repeat only this step", step, step),
		}
	}
	ask, err := retryAsk(c)
	if err != nil {
		return err
	}
	params, err := pairs("-p", c.StringSlice("param"))
	if err != nil {
		return err
	}
	if err := a.readWait(c); err != nil {
		return err
	}
	a.send = sending(ask)
	if latest := c.Bool("latest"); latest || params != nil {
		if ask.Mode != dagrun.RetryFailed {
			return &usageError{msg: "--latest and -p make a new run, which runs all steps", hint: "leave out --from, --step and --all, or leave out --latest and -p"}
		}
		a.send = rerunning(params, latest)
	}
	return a.run(c.Context)
}

// retryAsk returns the retry that --from, --step or --all describes: which part of a run is to run again. Without these flags it is
// the failed steps. It returns a usageError for more than one flag, and for a value that is no step.
func retryAsk(c *cli.Context) (queue.Ask, error) {
	ask := queue.Ask{Verb: dagrun.VerbRetry}
	given := 0
	for flag, mode := range map[string]dagrun.RetryMode{"from": dagrun.RetryFrom, "step": dagrun.RetryStep, "all": dagrun.RetryAll} {
		if !c.IsSet(flag) {
			continue
		}
		given++
		ask.Mode = mode
		if flag != "all" {
			t, err := parseTarget("retry", []string{"1", c.String(flag)})
			if err != nil || t.step == "" {
				return ask, &usageError{msg: fmt.Sprintf("--%s wants a step, not %q", flag, c.String(flag))}
			}
			ask.Step, ask.Item = t.step, t.item
		}
	}
	if given > 1 {
		return ask, &usageError{msg: "--from, --step and --all exclude each other", hint: "give only one of the three flags"}
	}
	return ask, nil
}

// rerunning returns a function that makes a new run from a run that has ended, with params in place of the old values. If latest is
// set, the new run has the current version of the DAG, otherwise the version of the old run.
func rerunning(params map[string]string, latest bool) func(context.Context, *queue.Store, queue.RunID) (controlResult, error) {
	return func(ctx context.Context, store *queue.Store, run queue.RunID) (controlResult, error) {
		typed, err := rerunParams(ctx, store, run, params, latest)
		if err != nil {
			return controlResult{}, err
		}
		id, err := store.Rerun(ctx, run, typed, latest)
		if err != nil {
			return controlResult{}, err
		}
		made, err := store.Get(ctx, id)
		if err != nil {
			return controlResult{}, fmt.Errorf("run %d was made from run %d, but cannot be read: %w", id, run, err)
		}
		return controlResult{retryOf: run, Control: runview.MadeControl(made)}, nil
	}
}

// rerunParams parses params by the types that the DAG declares: in its current version if latest is set, otherwise in the version
// of the run. If the login is not allowed to read DAGs, it returns the texts as they are.
func rerunParams(ctx context.Context, store *queue.Store, id queue.RunID, given map[string]string, latest bool) (map[string]any, error) {
	params := runview.LooseParams(given)
	if len(given) == 0 {
		return params, nil
	}
	run, err := store.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	version := run.Version
	if latest {
		version = 0
	}
	_, spec, err := getDAG(ctx, store, run.DAG, version)
	if err != nil && diagnose(ctx, err).kind == denied {
		return params, nil
	}
	if err != nil {
		return nil, err
	}
	if params, err = runview.TypedParams(spec, given, true); err != nil {
		return nil, badParams(spec, err, "`oarlock dag show "+run.DAG+"` lists the params")
	}
	return params, nil
}
