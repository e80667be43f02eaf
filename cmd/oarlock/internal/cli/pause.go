package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/dagrun"
	"github.com/oarlock-dev/oarlock/queue"
)

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
