package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

var scheduleSteerExits = []exitNote{
	{exitOK, "it is so now, whatever it was before"},
	deniedNote, usageNote,
	{exitNotFound, "there is no such DAG or schedule, or it is not yours"},
	unreachableNote, settingsNote,
}

const steerAbout = "Submitters steer their own schedules, administrators (role oarlock_admin) any.\n" + scheduleAbout

func newSchedulesPauseCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "pause",
		Usage:     "keep a schedule from firing",
		ArgsUsage: scheduleUsage,
		Flags:     []cli.Flag{&cli.StringFlag{Name: "note", Usage: "why, as a `TEXT` that lists show"}, ownerFlag()},
		Description: manual{
			about:    "It fires nothing until it is resumed. Its runs go on.\n" + steerAbout,
			examples: []string{"oarlock schedules pause etl nightly --note 'until the new disks are in'"},
			exits:    scheduleSteerExits,
		}.String(),
		Action: func(c *cli.Context) error { return e.withSchedule(c, e.pauseSchedule(c.String("note"))) },
	}
}

func (e *env) pauseSchedule(note string) func(context.Context, *queue.Store, *queue.Schedule) error {
	return func(ctx context.Context, store *queue.Store, s *queue.Schedule) error {
		if err := store.PauseSchedule(ctx, s.Key(), note); err != nil {
			return orNotYours(s, err)
		}
		return e.sayScheduled(ctx, store, s, "paused", func(*queue.Schedule) string { return "" })
	}
}

func newSchedulesResumeCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "resume",
		Usage:     "let a paused schedule fire again",
		ArgsUsage: scheduleUsage,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "catch-up", Usage: "decide the times of the pause as if they had been missed, by the schedule's catchup settings"},
			ownerFlag(),
		},
		Description: manual{
			about: `It goes on from now: times of the pause are skipped, and a record says so. Nothing fires by this, unless with
--catch-up. ` + steerAbout,
			examples: []string{"oarlock schedules resume etl nightly", "oarlock schedules resume etl nightly --catch-up"},
			exits:    scheduleSteerExits,
		}.String(),
		Action: func(c *cli.Context) error { return e.withSchedule(c, e.resumeSchedule(c.Bool("catch-up"))) },
	}
}

func (e *env) resumeSchedule(catchUp bool) func(context.Context, *queue.Store, *queue.Schedule) error {
	return func(ctx context.Context, store *queue.Store, s *queue.Schedule) error {
		if _, err := store.ResumeSchedule(ctx, s.Key(), catchUp); err != nil {
			return orNotYours(s, err)
		}
		return e.sayScheduled(ctx, store, s, "resumed", nil)
	}
}

func newSchedulesRemoveCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "rm",
		Usage:     "take a schedule away that is in no file",
		ArgsUsage: scheduleUsage,
		Flags:     []cli.Flag{ownerFlag()},
		Description: manual{
			about:    "Its runs, and the record of its times, stay. A schedule of a DAG's file goes with its lines in the file.\n" + steerAbout,
			examples: []string{"oarlock schedules rm report 'acme nightly'"},
			exits: []exitNote{
				{exitOK, "it is gone"},
				deniedNote, usageNote,
				{exitNotFound, "there is no such DAG or schedule, or it is not yours"},
				unreachableNote,
				{exitInvalid, "a DAG's file has it; or a setting is wrong"},
			},
		}.String(),
		Action: func(c *cli.Context) error { return e.withSchedule(c, e.dropSchedule("removed")) },
	}
}

func (e *env) dropSchedule(done string) func(context.Context, *queue.Store, *queue.Schedule) error {
	return func(ctx context.Context, store *queue.Store, s *queue.Schedule) error {
		if err := store.DropSchedule(ctx, s.Key()); err != nil {
			return orNotYours(s, err)
		}
		text := fmt.Sprintf("%s %s of %s\n", e.stdoutPaint().good(done), runview.InlineText(s.Name), s.DAG)
		return e.say(answer{object: scheduleJSON(s), ids: []string{scheduleID(s)}, text: text})
	}
}

func newSchedulesTriggerCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "trigger",
		Usage:     "start a run of a schedule now",
		ArgsUsage: scheduleUsage,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "at", Usage: "the `TIME` that the run is about", DefaultText: "now"},
			&cli.BoolFlag{Name: "wait", Usage: "wait for the end of the run, show it, and exit by it"},
			&cli.StringFlag{Name: timeoutFlag, Usage: "with --wait: for at most this `DURATION`; the run goes on"},
			ownerFlag(),
		}, progressFlags("live, plain or none")...),
		Description: manual{
			about: `The run has the schedule's params, and begins at once: neither a pause nor a run before it holds it back. Of a time that
fired already, its run is named and no other is made. -o id prints the number of the run alone.
` + timeAbout + steerAbout + "\n" + progressAbout,
			examples: []string{
				"oarlock schedules trigger etl nightly",
				"oarlock schedules trigger etl nightly --at 2026-11-20T02:30:00Z --wait",
			},
			exits: []exitNote{
				{exitOK, "the run is there; with --wait: it succeeded"},
				deniedNote, usageNote,
				{exitNotFound, "there is no such DAG or schedule, it is not yours, or the DAG was removed"},
				{exitConflict, "the queue is full"},
				{exitUnreachable, "the database cannot be reached, or the connection broke and nobody knows whether the run is there"},
				{exitInvalid, "the DAG does not take the schedule's params any longer; or a setting is wrong"},
				{exitRunFailed, "--wait: the run failed"},
				{exitRunCanceled, "--wait: the run was canceled"},
				{exitTimeout, "--wait: the run did not end in time; it goes on"},
			},
		}.String(),
		Action: func(c *cli.Context) error {
			how, err := e.readWaiting(c, "wait", true)
			if err != nil {
				return err
			}
			return e.withSchedule(c, func(ctx context.Context, store *queue.Store, s *queue.Schedule) error {
				at, err := triggerTime(c.String("at"), s.Timezone)
				if err != nil {
					return err
				}
				id, err := store.TriggerSchedule(ctx, s.Key(), at)
				if err != nil {
					return orNotYours(s, err)
				}
				if c.Bool("wait") {
					return e.awaitRun(ctx, store, id, how)
				}
				return e.sayEnqueued(ctx, store, id)
			})
		},
	}
}

// triggerTime reads the logical time of a run. The zero time stands for now, by the clock of the database.
func triggerTime(text, zone string) (time.Time, error) {
	if text == "" || text == "now" {
		return time.Time{}, nil
	}
	at, ok, err := absolute("--at", text, time.Time{}, runview.KnownZone(zone))
	if err == nil && !ok {
		err = &usageError{msg: fmt.Sprintf("--at: %q is no time", text), hint: "like 2026-11-20, '2026-11-20 06:00' or 2026-11-20T02:30:00Z"}
	}
	return at, err
}

// sayScheduled prints the current state of a schedule. more adds a text about it; nil: its next fire time.
func (e *env) sayScheduled(ctx context.Context, store *queue.Store, s *queue.Schedule, done string, more func(*queue.Schedule) string) error {
	arg := scheduleArg{dag: s.DAG, name: s.Name, owner: &s.Owner}
	now, err := arg.find(ctx, store)
	if err != nil {
		return err
	}
	if more == nil {
		more = func(s *queue.Schedule) string { return ": it " + runview.FiresNext(s, time.Now()) }
	}
	text := fmt.Sprintf("%s %s of %s%s\n", e.stdoutPaint().good(done), runview.InlineText(now.Name), now.DAG, more(now))
	return e.say(answer{object: scheduleJSON(now), ids: []string{scheduleID(now)}, text: text})
}
