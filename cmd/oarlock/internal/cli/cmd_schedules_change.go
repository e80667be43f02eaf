package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

var overlapPolicies = []string{"skip", "all", "latest", "cancel", "allow"}

func newSchedulesPutCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "put",
		Usage:     "make or change a schedule of your own",
		ArgsUsage: "DAG NAME",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "cron", Usage: "fire by this cron `EXPRESSION`: minute, hour, day, month, weekday"},
			&cli.StringFlag{Name: "every", Usage: "fire each `DURATION`, like 15m, counted from --start, or else from 1970"},
			&cli.StringFlag{Name: "at", Usage: "fire once, at this `TIME`, or after a duration like +10m"},
			&cli.StringFlag{Name: "timezone", Usage: "read --cron and --except in this `ZONE`, like Europe/Paris", DefaultText: "UTC"},
			&cli.StringFlag{Name: "start", Usage: "fire at no time before this `TIME`, or before a duration from now like +10m"},
			&cli.StringFlag{Name: "end", Usage: "fire only times of the schedule before this `TIME`"},
			&cli.StringSliceFlag{Name: "except", Usage: "leave out a `DATE`, or the times of a cron expression; may be repeated"},
			&cli.StringFlag{Name: "jitter", Usage: "fire each time up to this `DURATION` later, at random", DefaultText: "0"},
			&cli.StringSliceFlag{Name: "param", Aliases: []string{"p"}, Usage: "a param of the schedule's runs, as `NAME=VALUE`; may be repeated"},
			&cli.StringSliceFlag{Name: "label", Aliases: []string{"l"}, Usage: "a label of the schedule's runs, as `NAME=VALUE`; may be repeated"},
			&cli.StringFlag{Name: "overlap-policy", Usage: "`POLICY` for overlaps: skip, all, latest, cancel or allow", DefaultText: "skip, with --catchup all"},
			&cli.IntFlag{Name: "at-once", Usage: "follow the overlap policy from `N` unfinished runs on", DefaultText: "1"},
			&cli.BoolFlag{Name: "catchup", Usage: "fire missed times, too"},
			&cli.StringFlag{Name: "catchup-window", Usage: "with --catchup: fire no missed time that is older than this `DURATION`"},
			&cli.IntFlag{Name: "catchup-max", Usage: "with --catchup: fire only the newest `N` missed times", DefaultText: "100"},
			&cli.IntFlag{Name: "pause-on-failure", Usage: "pause the schedule after `N` failed runs in a row; 0: never pause the schedule"},
		},
		Description: manual{
			about: `Give exactly one of --cron, --every and --at. The flags are the keys of "schedule:" in a file. A key that you leave
out gets its default, also if the schedule had another value. The command itself fires nothing: a new schedule, or one
with new times, counts from now on. The runs are yours, as if you had enqueued them. The DAG must say "allow:
{schedules: true}", unless you are an administrator. The same command again changes nothing.
` + timeAbout,
			examples: []string{
				"oarlock schedules put report 'acme nightly' --cron '30 3 * * 1-5' --timezone Europe/Paris -p customer=acme",
				"oarlock schedules put report often --every 15m --overlap-policy latest",
				"oarlock schedules put report once --at +2h",
			},
			exits: []exitNote{
				{exitOK, "the schedule has these settings now"},
				deniedNote, usageNote,
				{exitNotFound, "the DAG does not exist"},
				unreachableNote,
				{exitInvalid, "a time, zone, param or policy is invalid, or the DAG does not allow schedules; or a setting is wrong"},
			},
		}.String(),
		Action: func(c *cli.Context) error { return runSchedulesPut(c, e) },
	}
}

func runSchedulesPut(c *cli.Context, e *env) error {
	if c.NArg() != 2 {
		return &usageError{msg: fmt.Sprintf("schedules put needs a DAG and a name, got %d arguments", c.NArg())}
	}
	name := c.Args().First()
	if own := c.Args().Get(1); own != strings.TrimSpace(own) {
		return &usageError{msg: fmt.Sprintf("the name of a schedule has no spaces around it, unlike %q", own), hint: "write " + runview.ShellWord(strings.TrimSpace(own))}
	}
	put, err := scheduleFlags(c, time.Now())
	if err != nil {
		return err
	}
	put.Name = c.Args().Get(1)
	params, err := pairs("-p", c.StringSlice("param"))
	if err != nil {
		return &failure{kind: invalid, err: err, hint: "`oarlock dag show " + name + "` lists the params"}
	}
	return e.withStore(c.Context, func(store *queue.Store) error {
		if put.Params, err = typedParams(c.Context, store, name, 0, params, false); err != nil {
			return err
		}
		id, _, err := store.PutSchedule(c.Context, name, put)
		if err != nil {
			return orNoDAG(c.Context, store, name, err)
		}
		return e.sayPut(c.Context, store, name, put.Name, id)
	})
}

// sayPut prints the schedule with the number id after it was put: the file and other users may have schedules of the same name. It
// remarks if the DAG's file has one, since both fire.
func (e *env) sayPut(ctx context.Context, store *queue.Store, dag, name string, id int64) error {
	all, err := store.Schedules(ctx, queue.ScheduleFilter{DAG: dag, Name: name, Limit: queue.MaxPage})
	if err != nil {
		return err
	}
	for i := range all {
		if s := &all[i]; s.Owner == "" {
			e.remark("the file of dag %s also has a schedule %s: both fire", dag, runview.InlineText(name))
		}
	}
	i := slices.IndexFunc(all, func(s queue.Schedule) bool { return s.ID == id })
	if i < 0 {
		return &failure{kind: conflict, err: fmt.Errorf("schedule %s of dag %s was made, but does not exist any more", runview.InlineText(name), dag), hint: "another user or program removed it: `oarlock schedules` lists the schedules"}
	}
	return e.sayScheduled(ctx, store, &all[i], "put", nil)
}

// scheduleFlags returns the schedule that the flags describe, without name and params. The flags are keys of the DAG language. It
// checks each flag alone, and that one flag gives the times; the database checks the rest.
func scheduleFlags(c *cli.Context, now time.Time) (s dagspec.Schedule, err error) {
	s = dagspec.Schedule{
		Cron: c.String("cron"), Timezone: c.String("timezone"), Except: c.StringSlice("except"), OverlapPolicy: c.String("overlap-policy"),
		AtOnce: c.Int("at-once"), Catchup: c.Bool("catchup"), CatchupMax: c.Int("catchup-max"), PauseOnFailure: c.Int("pause-on-failure"),
	}
	if policy := s.OverlapPolicy; policy != "" && !slices.Contains(overlapPolicies, policy) {
		hint := cmp.Or(config.DidYouMean(policy, overlapPolicies), "the policies are "+config.OrList(overlapPolicies))
		return s, &usageError{msg: fmt.Sprintf("--overlap-policy: there is no %q", policy), hint: hint}
	}
	for _, flag := range []string{"at-once", "catchup-max"} {
		if n := c.Int(flag); c.IsSet(flag) && n < 1 {
			return s, &usageError{msg: fmt.Sprintf("--%s is from 1 to 1000, not %d", flag, n)}
		}
	}
	timings := 0
	for _, flag := range []string{"cron", "every", "at"} {
		if c.String(flag) != "" {
			timings++
		}
	}
	if timings != 1 {
		return s, &usageError{msg: fmt.Sprintf("a schedule needs exactly one of --cron, --every and --at, got %d", timings), hint: "give one of the three flags, like --cron '30 3 * * 1-5'"}
	}
	var errs [7]error
	s.Every, errs[0] = durationFlag(c, "every")
	s.Jitter, errs[1] = durationFlag(c, "jitter")
	s.CatchupWindow, errs[2] = durationFlag(c, "catchup-window")
	s.At, errs[3] = timeFlag(c, "at", now)
	s.Start, errs[4] = timeFlag(c, "start", now)
	s.End, errs[5] = timeFlag(c, "end", now)
	s.Labels, errs[6] = pairs("--label", c.StringSlice("label"))
	for _, err := range errs {
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

func durationFlag(c *cli.Context, name string) (dagspec.Duration, error) {
	d, err := duration("--"+name, c.String(name))
	return dagspec.Duration(d.Milliseconds()), err
}

func timeFlag(c *cli.Context, name string, now time.Time) (string, error) {
	t, err := upcoming("--"+name, c.String(name), now, runview.KnownZone(c.String("timezone")))
	if err != nil || t.IsZero() {
		return "", err
	}
	return t.Format(time.RFC3339Nano), nil
}

var scheduleSteerExits = []exitNote{
	inForceNote,
	deniedNote, usageNote,
	{exitNotFound, "the DAG or the schedule does not exist, or the schedule is not yours"},
	unreachableNote, settingsNote,
}

const steerAbout = "Submitters steer their own schedules, administrators (role oarlock_admin) steer all schedules.\n" + scheduleAbout

func newSchedulesPauseCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "pause",
		Usage:     "pause a schedule: it fires nothing until you resume it",
		ArgsUsage: scheduleUsage,
		Flags:     []cli.Flag{&cli.StringFlag{Name: "note", Usage: "give this `TEXT` as the reason of the pause; lists show it"}, ownerFlag()},
		Description: manual{
			about:    "The schedule fires nothing until you resume it. Runs of the schedule go on.\n" + steerAbout,
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
			&cli.BoolFlag{Name: "catch-up", Usage: "treat times of the pause as missed, by the schedule's catchup settings"},
			ownerFlag(),
		},
		Description: manual{
			about: `The schedule goes on from now. Times of the pause are recorded as skipped, and nothing fires at once, unless you give
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
		Usage:     "remove a schedule that is in no file",
		ArgsUsage: scheduleUsage,
		Flags:     []cli.Flag{ownerFlag()},
		Description: manual{
			about:    "The schedule's runs and the record of its times stay. To remove a schedule of a DAG's file, delete the\nschedule in the file, and apply the file.\n" + steerAbout,
			examples: []string{"oarlock schedules rm report 'acme nightly'"},
			exits: []exitNote{
				{exitOK, "the schedule is removed"},
				deniedNote, usageNote,
				{exitNotFound, "the DAG or the schedule does not exist, or the schedule is not yours"},
				unreachableNote,
				{exitInvalid, "the schedule is in a DAG's file; or a setting is wrong"},
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
		text := fmt.Sprintf("%s %s of %s\n", e.stdoutPaint().Good(done), runview.InlineText(s.Name), s.DAG)
		return e.say(answer{object: scheduleJSON(s), ids: []string{scheduleID(s)}, text: text})
	}
}

func newSchedulesTriggerCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "trigger",
		Usage:     "start a run of a schedule now",
		ArgsUsage: scheduleUsage,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "at", Usage: "the logical `TIME` of the run", DefaultText: "now"},
			&cli.BoolFlag{Name: "wait", Usage: "wait until the run ends, show it, and exit with its status"},
			&cli.StringFlag{Name: timeoutFlag, Usage: "with --wait: stop waiting after this `DURATION`; the run goes on"},
			ownerFlag(),
		}, progressFlags("live, plain or none")...),
		Description: manual{
			about: `The run has the schedule's params and begins at once. Neither a pause nor an unfinished run holds the run back. If
the TIME has fired already, the command names the run of that TIME and makes no other run. -o id prints only the number
of the run.
` + timeAbout + steerAbout + "\n" + progressAbout,
			examples: []string{
				"oarlock schedules trigger etl nightly",
				"oarlock schedules trigger etl nightly --at 2026-11-20T02:30:00Z --wait",
			},
			exits: []exitNote{
				{exitOK, "the run exists; with --wait: the run succeeded"},
				deniedNote, usageNote,
				{exitNotFound, "the DAG or the schedule does not exist, the schedule is not yours, or the DAG was removed"},
				{exitConflict, "the queue is full"},
				{exitUnreachable, "the database cannot be reached; or the connection broke, and it is unknown whether the run was made"},
				{exitInvalid, "the DAG no longer takes the schedule's params; or a setting is wrong"},
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

// triggerTime parses the logical time of a run; a time without an offset is in zone. It returns the zero time for "" and "now",
// which stands for now by the clock of the database.
func triggerTime(text, zone string) (time.Time, error) {
	if text == "" || text == "now" {
		return time.Time{}, nil
	}
	at, ok, err := absolute("--at", text, time.Time{}, runview.KnownZone(zone))
	if err == nil && !ok {
		err = &usageError{msg: fmt.Sprintf("--at: %q is no time", text), hint: "write a time like 2026-11-20, '2026-11-20 06:00' or 2026-11-20T02:30:00Z"}
	}
	return at, err
}

// sayScheduled reads a schedule again and prints its current state behind the word done, such as paused. more returns a text to
// add; nil adds the next fire time.
func (e *env) sayScheduled(ctx context.Context, store *queue.Store, s *queue.Schedule, done string, more func(*queue.Schedule) string) error {
	arg := scheduleArg{dag: s.DAG, name: s.Name, owner: &s.Owner}
	now, err := arg.find(ctx, store)
	if err != nil {
		return err
	}
	if more == nil {
		more = func(s *queue.Schedule) string { return ": it " + runview.FiresNext(s, time.Now()) }
	}
	text := fmt.Sprintf("%s %s of %s%s\n", e.stdoutPaint().Good(done), runview.InlineText(now.Name), now.DAG, more(now))
	return e.say(answer{object: scheduleJSON(now), ids: []string{scheduleID(now)}, text: text})
}
