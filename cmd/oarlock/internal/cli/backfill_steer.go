package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// backfillUsage is how a user names a backfill in a command.
const backfillUsage = "DAG [NAME#N]"

const backfillAbout = `Submitters steer backfills of their own schedules, administrators (role oarlock_admin) any. NAME#N may be left out where
the DAG has one backfill.`

var backfillSteerExits = []exitNote{
	{exitOK, "it is so now, whatever it was before"},
	deniedNote, usageNote,
	{exitNotFound, "there is no such DAG or backfill, it is over, or it is not yours"},
	unreachableNote, settingsNote,
}

func newBackfillListCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "list",
		Usage:     "list backfills that are not over",
		ArgsUsage: "[DAG]",
		Flags:     []cli.Flag{&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Usage: "at most `N` backfills", Value: schedulesDefault}},
		Description: manual{
			about: `Lists them with their span, how far each is, and its unfinished runs. Times are of the schedule's zone. One that is over
is not listed; "oarlock schedules fires DAG NAME#N" still says what became of its times.`,
			examples: []string{"oarlock backfill list", "oarlock backfill list etl -o json | jq '.[].backfill.decided_at'"},
			exits:    []exitNote{{exitOK, "the list was read; it may be empty"}, deniedNote, usageNote, unreachableNote, settingsNote},
		}.String(),
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return &usageError{msg: fmt.Sprintf("backfill list takes one DAG, got %d arguments", c.NArg())}
			}
			limit := c.Int("limit")
			if limit < 1 || limit > schedulesMax {
				return &usageError{msg: fmt.Sprintf("--limit is from 1 to %d, not %d", schedulesMax, limit)}
			}
			arg := scheduleArg{dag: c.Args().First(), backfill: true}
			return e.withStore(c.Context, func(store *queue.Store) error {
				listed, err := listSchedules(c.Context, store, arg.filter(), arg.means, limit)
				if err != nil {
					return err
				}
				if len(listed) == 0 {
					e.remark("%s", cmp.Or(noDAG(c.Context, store, arg.dag), "no backfill is under way, or none that you may see"))
				}
				return e.say(e.backfillsAnswer(listed))
			})
		},
	}
}

func (e *env) backfillsAnswer(listed []queue.Schedule) answer {
	paint := e.stdoutPaint()
	a := e.schedulesAnswer(listed)
	t := table{head: paint.head("DAG", "BACKFILL", "ZONE", "FROM", "UNTIL", "DECIDED", "UNFINISHED", "STATE")}
	for i := range listed {
		s := &listed[i]
		b := s.Backfill
		t.rows = append(t.rows, []string{
			s.DAG, runview.InlineText(s.Name), s.Timezone, runview.WallTime(b.From, s.Timezone), runview.WallTime(b.Until, s.Timezone),
			fmt.Sprintf("%d %%", int(100*runview.DecidedShare(b))), runview.Count(s.Unfinished, "run"), paint.scheduleState(s),
		})
	}
	if len(listed) > 0 {
		a.text = e.fitted(t.String())
	}
	return a
}

func newBackfillPauseCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "pause",
		Usage:     "keep a backfill from making runs",
		ArgsUsage: backfillUsage,
		Flags:     []cli.Flag{&cli.StringFlag{Name: "note", Usage: "why, as a `TEXT` that lists show"}, ownerFlag()},
		Description: manual{
			about:    "It makes no run until it is resumed. Its runs go on.\n" + backfillAbout,
			examples: []string{"oarlock backfill pause etl nightly#12 --note 'until tonight'"},
			exits:    backfillSteerExits,
		}.String(),
		Action: func(c *cli.Context) error { return e.withBackfill(c, e.pauseSchedule(c.String("note"))) },
	}
}

func newBackfillResumeCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "resume",
		Usage:     "let a paused backfill go on where it stood",
		ArgsUsage: backfillUsage,
		Flags:     []cli.Flag{ownerFlag()},
		Description: manual{
			about:    "It goes on with the time at which it stood.\n" + backfillAbout,
			examples: []string{"oarlock backfill resume etl nightly#12"},
			exits:    backfillSteerExits,
		}.String(),
		Action: func(c *cli.Context) error { return e.withBackfill(c, e.resumeSchedule(false)) },
	}
}

func newBackfillCancelCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "cancel",
		Usage:     "end a backfill before its end",
		ArgsUsage: backfillUsage,
		Flags:     []cli.Flag{ownerFlag()},
		Description: manual{
			about: `It makes no further run. Those that it made go on: "oarlock cancel" cancels them. The record of its times stays.
` + backfillAbout,
			examples: []string{"oarlock backfill cancel etl nightly#12"},
			exits:    backfillSteerExits,
		}.String(),
		Action: func(c *cli.Context) error { return e.withBackfill(c, e.dropSchedule("canceled")) },
	}
}

// withBackfill calls use with the backfill that the arguments name.
func (e *env) withBackfill(c *cli.Context, use func(context.Context, *queue.Store, *queue.Schedule) error) error {
	arg, err := e.oneSchedule(c)
	if err != nil {
		return err
	}
	arg.backfill = true
	return e.withFound(c.Context, arg.find, use)
}
