package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const backfillMaxAtOnce = 1000

func newBackfillCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "backfill",
		Usage:     "make runs for past times of a schedule",
		ArgsUsage: scheduleUsage,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "fire only times of the schedule from this `TIME` on; a duration like 30d means 30 days ago"},
			&cli.StringFlag{Name: "until", Usage: "fire only times of the schedule before this `TIME`"},
			&cli.IntFlag{Name: "at-once", Usage: "keep at most `N` runs of the backfill unfinished", Value: 1},
			&cli.StringFlag{Name: "reprocess", Usage: "fire the times that this `WORD` selects: missing, failed or all", Value: runview.ReprocessWords[0]},
			&cli.BoolFlag{Name: "newest-first", Usage: "fire the newest time first"},
			&cli.StringSliceFlag{Name: "param", Aliases: []string{"p"}, Usage: "a param of the runs, in place of the schedule's value, as `NAME=VALUE`; may be repeated"},
			&cli.BoolFlag{Name: "dry-run", Usage: "only print the times and their outcomes, and make no backfill"},
			&cli.BoolFlag{Name: "wait", Usage: "wait until the backfill is over, and exit with the status of its runs"},
			ownerFlag(),
		}, waitFlags()...),
		Description: manual{
			about: `Looks at the times from --from on and before --until, at most 100,000 of them. "missing" fires a time if none of its
runs is unfinished or has succeeded. "failed" fires a time if its newest run failed or was canceled. "all" fires each
time. A time in the future fires once the schedule has decided it. Live runs start before runs of backfills:
the priority of a backfill is the priority of the DAG minus 10. A pause of the schedule makes no difference.

A backfill is a schedule called NAME#N until its last run is over, and all commands of "oarlock schedules" take it.
Submitters backfill their own schedules, administrators (role oarlock_admin) all schedules. If a DAG is called like one
of the commands above, write "--" before the DAG.
` + timeAbout + plainAbout + scheduleAbout,
			examples: []string{
				"oarlock backfill etl nightly --from 2026-10-01 --until 2026-11-01 --dry-run",
				"oarlock backfill etl nightly --from 2026-10-01 --until 2026-11-01 --at-once 4",
				"oarlock backfill etl nightly --from 7d --until 0s --reprocess failed --wait && echo fine",
				"oarlock backfill list etl",
			},
			exits: []exitNote{
				{exitOK, "the backfill is made; with --wait: each of its runs succeeded"},
				deniedNote, usageNote,
				{exitNotFound, "the DAG or the schedule does not exist, the schedule is not yours, or the DAG was removed"},
				{exitUnreachable, "the database cannot be reached; or the connection broke, and it is unknown whether the backfill was made"},
				{exitInvalid, "no time or too many times lie between --from and --until, or the DAG does not take a param; or a setting is wrong"},
				{exitRunFailed, "--wait: a run failed, a time was refused, or the backfill paused itself after failed runs"},
				{exitRunCanceled, "--wait: a run, or the backfill, was canceled, or the DAG was removed"},
				{exitTimeout, "--wait: the backfill was not over in time; it goes on"},
			},
		}.String(),
		Action: func(c *cli.Context) error { return runBackfill(c, e) },
		Subcommands: []*cli.Command{
			newBackfillListCommand(e),
			newBackfillPauseCommand(e),
			newBackfillResumeCommand(e),
			newBackfillCancelCommand(e),
		},
	}
}

func runBackfill(c *cli.Context, e *env) error {
	if err := e.checkBackfill(c); err != nil {
		return err
	}
	how, err := e.readWaiting(c, "wait", false)
	if err != nil {
		return err
	}
	params, err := pairs("-p", c.StringSlice("param"))
	if err != nil {
		return &failure{kind: invalid, err: err, hint: "`oarlock dag show " + c.Args().First() + "` lists the params"}
	}
	return e.withSchedule(c, func(ctx context.Context, store *queue.Store, s *queue.Schedule) error {
		b, err := backfillOf(c, s)
		if err != nil {
			return err
		}
		if b.Params, err = typedParams(ctx, store, s.DAG, 0, params, true); err != nil {
			return err
		}
		if c.Bool("dry-run") {
			return e.rehearseBackfill(ctx, store, s, b)
		}
		made, err := makeBackfill(ctx, store, s, &b)
		if err != nil {
			return orNoTime(s, &b, orNotYours(s, err))
		}
		if c.Bool("wait") {
			return e.awaitBackfill(ctx, store, made, how)
		}
		return e.say(e.madeAnswer(made))
	})
}

// checkBackfill returns a usageError if --from or --until is missing, if --reprocess or --at-once has a value that is not allowed,
// or if --dry-run and --wait are both given.
func (e *env) checkBackfill(c *cli.Context) error {
	reprocess, atOnce := c.String("reprocess"), c.Int("at-once")
	switch {
	case c.String("from") == "" || c.String("until") == "":
		hint := config.DidYouMean(c.Args().First(), commandNames(newBackfillCommand(e).Subcommands))
		return &usageError{msg: "backfill needs --from and --until", hint: cmp.Or(hint, "give both flags, like --from 2026-10-01 --until 2026-11-01")}
	case !slices.Contains(runview.ReprocessWords, reprocess):
		hint := cmp.Or(config.DidYouMean(reprocess, runview.ReprocessWords), "the values of --reprocess are "+config.OrList(runview.ReprocessWords))
		return &usageError{msg: fmt.Sprintf("--reprocess: there is no %q", reprocess), hint: hint}
	case atOnce < 1 || atOnce > backfillMaxAtOnce:
		return &usageError{msg: fmt.Sprintf("--at-once is from 1 to %d, not %d", backfillMaxAtOnce, atOnce)}
	case c.Bool("dry-run") && c.Bool("wait"):
		return &usageError{msg: "--dry-run and --wait exclude each other", hint: "give --dry-run or --wait"}
	}
	return nil
}

// backfillOf returns the backfill of s that the flags describe, without params: only the database knows their types. It reads dates
// in the schedule's time zone. It returns a usageError if a date cannot be read, or if --until is not after --from.
func backfillOf(c *cli.Context, s *queue.Schedule) (b queue.Backfill, err error) {
	zone := runview.KnownZone(s.Timezone)
	b = queue.Backfill{Of: s.Key(), AtOnce: c.Int("at-once"), Reprocess: c.String("reprocess"), NewestFirst: c.Bool("newest-first")}
	now := time.Now()
	if b.From, err = momentIn("--from", c.String("from"), now, zone); err == nil {
		b.Until, err = momentIn("--until", c.String("until"), now, zone)
	}
	if err == nil && !b.Until.After(b.From) {
		err = &usageError{
			msg:  fmt.Sprintf("--until, %s, is not after --from, %s", runview.WallTime(b.Until, s.Timezone), runview.WallTime(b.From, s.Timezone)),
			hint: "a backfill fires times from --from on and before --until: give a later --until",
		}
	}
	return b, err
}

// orNoTime replaces the database's refusal of a span in which the schedule has no time: the new error writes the span in the
// schedule's time zone. It returns any other error unchanged.
func orNoTime(s *queue.Schedule, b *queue.Backfill, err error) error {
	refusal, ok := errors.AsType[*queue.Error](err)
	if !ok || !strings.HasPrefix(refusal.Message, "backfill: schedule "+s.Name+" has no time ") {
		return err
	}
	return &failure{
		kind: invalid, hint: "`" + program + " schedules show " + scheduleID(s) + "` tells when the schedule fires",
		err: fmt.Errorf("schedule %s has no time from %s to %s %s", runview.InlineText(s.Name), runview.WallTime(b.From, s.Timezone), runview.WallTime(b.Until, s.Timezone), s.Timezone),
	}
}

// madeBackfill is a backfill that this command has made.
type madeBackfill struct {
	of    *queue.Schedule
	id    int64
	name  string
	times []queue.BackfillTime // what each time would have done before the backfill was made; at most timesMax
	last  time.Time            // the time that the backfill decides last
}

// makeBackfill makes the backfill b of s. It first reads the times and what each would do, since the backfill may be over before a
// later read.
func makeBackfill(ctx context.Context, store *queue.Store, s *queue.Schedule, b *queue.Backfill) (*madeBackfill, error) {
	times, err := store.BackfillTimes(ctx, b, timesMax)
	if err != nil {
		return nil, err
	}
	reversed := *b
	reversed.NewestFirst = !b.NewestFirst
	ends, err := store.BackfillTimes(ctx, &reversed, 1)
	if err != nil {
		return nil, err
	}
	id, err := store.Backfill(ctx, b)
	if err != nil {
		return nil, err
	}
	return &madeBackfill{of: s, id: id, name: s.Name + "#" + decimal(id), times: times, last: ends[0].LogicalAt}, nil
}

// words returns the DAG and the name of the backfill, quoted for a shell, as commands take them.
func (m *madeBackfill) words() string {
	return runview.ShellWord(m.of.DAG) + " " + runview.ShellWord(m.name)
}

type jsonMade struct {
	ID    int64    `json:"id"`
	DAG   string   `json:"dag"`
	Name  string   `json:"name"`
	Times *int     `json:"times"` // null: 1,000 or more
	Fires *int     `json:"fires"` // times that would have fired when they were read; null: 1,000 times or more
	Ended *jsonEnd `json:"ended"` // null: the command did not wait
}

func (m *madeBackfill) json() jsonMade {
	j := jsonMade{ID: m.id, DAG: m.of.DAG, Name: m.name}
	if len(m.times) < timesMax {
		j.Times, j.Fires = new(len(m.times)), new(countFires(m.times))
	}
	return j
}

func (e *env) madeAnswer(m *madeBackfill) answer {
	paint, times := e.stdoutPaint(), fmt.Sprintf("%d times or more", timesMax)
	if n, fires := len(m.times), countFires(m.times); n < timesMax {
		times = fmt.Sprintf("%s at most, of which %d would fire now", runview.Count(n, "time"), fires)
	}
	text := fmt.Sprintf("%s %s of %s: %s\n", paint.Good("made"), runview.InlineText(m.name), m.of.DAG, times)
	for _, command := range []string{"schedules fires", "backfill pause", "backfill cancel"} {
		text += paint.Dim(program+" "+command+" "+m.words()) + "\n"
	}
	return answer{object: m.json(), ids: []string{m.words()}, text: text}
}

func countFires(times []queue.BackfillTime) (n int) {
	for i := range times {
		if times[i].Outcome == "fires" {
			n++
		}
	}
	return n
}

type jsonBackfillTime struct {
	LogicalAt *time.Time `json:"logical_at"`
	Outcome   string     `json:"outcome"`
	Run       *int64     `json:"run"`
	Reason    *string    `json:"reason"`
}

// rehearseBackfill prints the times of the backfill and whether each would fire. It makes no backfill.
func (e *env) rehearseBackfill(ctx context.Context, store *queue.Store, s *queue.Schedule, b queue.Backfill) error {
	times, err := allBackfillTimes(ctx, store, b, timesMax)
	if err != nil {
		return orNoTime(s, &b, orNotYours(s, err))
	}
	paint := e.stdoutPaint()
	object := []jsonBackfillTime{}
	a := answer{lines: []any{}, ids: []string{}}
	t := term.Table{Head: paint.head("TIME IN "+s.Timezone, "OUTCOME", "RUN", "WHY")}
	for i := range times {
		at := &times[i]
		j := jsonBackfillTime{runview.TimeOrNull(at.LogicalAt), at.Outcome, runview.RunOrNull(at.Run), runview.TextOrNull(at.Reason)}
		outcome, run := paint.Warn(at.Outcome), paint.Dim("–")
		if at.Outcome == "fires" {
			outcome = paint.Good(at.Outcome)
			a.ids = append(a.ids, j.LogicalAt.Format(time.RFC3339Nano))
		}
		if at.Run != 0 {
			run = decimal(int64(at.Run))
		}
		object = append(object, j)
		a.lines = append(a.lines, j)
		t.Rows = append(t.Rows, []string{runview.WallTime(at.LogicalAt, s.Timezone), outcome, run, paint.Dim(runview.InlineText(at.Reason))})
	}
	a.object, a.text = object, e.fitted(t.String())
	if err := e.say(a); err != nil {
		return err
	}
	fires := countFires(times)
	e.remark("of %s %d would fire, and %d would be skipped; no backfill was made", runview.Count(len(times), "time"), fires, len(times)-fires)
	return nil
}

// allBackfillTimes returns all times of a backfill. It reads pages of most times, which must be at least 2. A page begins with the
// last time of the page before, because the database refuses a span without a time.
func allBackfillTimes(ctx context.Context, store *queue.Store, b queue.Backfill, most int) (all []queue.BackfillTime, err error) {
	for {
		page, err := store.BackfillTimes(ctx, &b, most)
		if err != nil {
			return nil, err
		}
		if len(all) > 0 {
			all = all[:len(all)-1]
		}
		all = append(all, page...)
		if len(page) < most {
			return all, nil
		}
		last := page[len(page)-1].LogicalAt
		if b.NewestFirst {
			b.Until = last.Add(time.Microsecond)
		} else {
			b.From = last
		}
	}
}

// backfillUsage is how a user names a backfill in a command.
const backfillUsage = "DAG [NAME#N]"

const backfillAbout = `Submitters steer backfills of their own schedules, administrators (role oarlock_admin) steer all backfills. You may
leave out NAME#N if the DAG has one backfill.`

var backfillSteerExits = []exitNote{
	inForceNote,
	deniedNote, usageNote,
	{exitNotFound, "the DAG or the backfill does not exist, the backfill is over, or it is not yours"},
	unreachableNote, settingsNote,
}

func newBackfillListCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "list",
		Usage:     "list backfills that are not over",
		ArgsUsage: "[DAG]",
		Flags:     []cli.Flag{&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Usage: "list at most `N` backfills", Value: schedulesDefault}},
		Description: manual{
			about: `Lists backfills with their span, their progress and their unfinished runs. Times are in the schedule's zone. A
backfill that is over is not listed: "oarlock schedules fires DAG NAME#N" shows the outcomes of its times.`,
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
					e.remark("%s", cmp.Or(noDAG(c.Context, store, arg.dag), "there is no backfill under way that you may see"))
				}
				return e.say(e.backfillsAnswer(listed))
			})
		},
	}
}

func (e *env) backfillsAnswer(listed []queue.Schedule) answer {
	paint := e.stdoutPaint()
	a := e.schedulesAnswer(listed)
	t := term.Table{Head: paint.head("DAG", "BACKFILL", "ZONE", "FROM", "UNTIL", "DECIDED", "UNFINISHED", "STATE")}
	for i := range listed {
		s := &listed[i]
		b := s.Backfill
		t.Rows = append(t.Rows, []string{
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
		Flags:     []cli.Flag{&cli.StringFlag{Name: "note", Usage: "give this `TEXT` as the reason of the pause; lists show it"}, ownerFlag()},
		Description: manual{
			about:    "The backfill makes no run until you resume it. The runs that it has made go on.\n" + backfillAbout,
			examples: []string{"oarlock backfill pause etl nightly#12 --note 'until tonight'"},
			exits:    backfillSteerExits,
		}.String(),
		Action: func(c *cli.Context) error { return e.withBackfill(c, e.pauseSchedule(c.String("note"))) },
	}
}

func newBackfillResumeCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "resume",
		Usage:     "let a paused backfill go on",
		ArgsUsage: backfillUsage,
		Flags:     []cli.Flag{ownerFlag()},
		Description: manual{
			about:    "The backfill goes on at the fire time where it stopped.\n" + backfillAbout,
			examples: []string{"oarlock backfill resume etl nightly#12"},
			exits:    backfillSteerExits,
		}.String(),
		Action: func(c *cli.Context) error { return e.withBackfill(c, e.resumeSchedule(false)) },
	}
}

func newBackfillCancelCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "cancel",
		Usage:     "end a backfill early",
		ArgsUsage: backfillUsage,
		Flags:     []cli.Flag{ownerFlag()},
		Description: manual{
			about: `The backfill makes no further run. The runs that it has made go on: "oarlock cancel" cancels runs. The record of the
backfill's times stays.
` + backfillAbout,
			examples: []string{"oarlock backfill cancel etl nightly#12"},
			exits:    backfillSteerExits,
		}.String(),
		Action: func(c *cli.Context) error { return e.withBackfill(c, e.dropSchedule("canceled")) },
	}
}

// withBackfill finds the only backfill that the arguments name, and calls use with it.
func (e *env) withBackfill(c *cli.Context, use func(context.Context, *queue.Store, *queue.Schedule) error) error {
	arg, err := e.oneSchedule(c)
	if err != nil {
		return err
	}
	arg.backfill = true
	return e.withFound(c.Context, arg.find, use)
}

// backfillTimesMax is the most times that a backfill can have.
const backfillTimesMax = 100_000

// backfillWatch follows a backfill to its end.
type backfillWatch struct {
	env      *env
	store    *queue.Store
	made     *madeBackfill
	progress progress
	told     string
}

// awaitBackfill follows a backfill to its end and prints the outcome. It returns an error if a run failed or was canceled, if a
// time was refused, or if the backfill was ended early, stands still, or does not end within the timeout.
func (e *env) awaitBackfill(ctx context.Context, store *queue.Store, m *madeBackfill, how waiting) error {
	format := e.settings.Text("output")
	if !isJSON(format) {
		if err := e.say(e.madeAnswer(m)); err != nil {
			return err
		}
	}
	bounded, stop := how.bounded(ctx)
	defer stop()
	w := backfillWatch{env: e, store: store, made: m, progress: how.progress}
	if err := w.follow(bounded); err != nil {
		if ctx.Err() != nil || bounded.Err() == nil {
			return err
		}
		return &failure{
			kind: timedOut, err: fmt.Errorf("backfill %s is not over after %s", runview.InlineText(m.name), dagspec.Duration(how.timeout.Milliseconds())),
			hint: "the backfill goes on: `" + program + " backfill list " + runview.ShellWord(m.of.DAG) + "`",
		}
	}
	key := m.of.Key()
	key.Name = m.name
	fires, err := store.Fires(ctx, key, time.Time{}, backfillTimesMax)
	if err != nil {
		return fmt.Errorf("backfill %s is over, but its times cannot be read: %w", runview.InlineText(m.name), err)
	}
	end := m.end(fires)
	if format != "id" {
		j := m.json()
		j.Ended = &end
		if err := e.say(answer{object: j, text: fmt.Sprintf("%s of %s is over: %s\n", runview.InlineText(m.name), m.of.DAG, end.text())}); err != nil {
			return err
		}
	}
	return m.failure(&end)
}

// follow polls until the backfill is no longer listed, because it is over or was canceled, and returns nil then. While the database
// is away it goes on. It returns an error if ctx ends, or if the backfill stands still until a person acts: its DAG was removed, or
// pause_on_failure paused it and no run is open.
func (w *backfillWatch) follow(ctx context.Context) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		found, err := w.store.Schedules(ctx, queue.ScheduleFilter{DAG: w.made.of.DAG, Name: w.made.name})
		i := slices.IndexFunc(found, func(s queue.Schedule) bool { return s.ID == w.made.id })
		switch {
		case err != nil && (ctx.Err() != nil || diagnose(ctx, err).kind != unreachable):
			return err
		case err == nil && i < 0:
			return nil
		case err == nil && found[i].Removed:
			return &failure{
				kind: runCanceled, err: fmt.Errorf("backfill %s stands still: dag %s was removed", runview.InlineText(w.made.name), w.made.of.DAG),
				hint: "the backfill goes on once the DAG is applied again: `" + program + " dag apply FILE`",
			}
		case err == nil && pausedItself(&found[i]) && found[i].Unfinished == 0:
			return w.stopped(&found[i])
		case err == nil && w.progress == progressPlain:
			if err := w.tell(&found[i]); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// pausedItself reports whether pause_on_failure paused a schedule. A person that pauses it afterwards takes the pause over.
func pausedItself(s *queue.Schedule) bool { return s.PauseOnFailure > 0 && s.PausedBy == program }

// stopped returns the error that ends the wait if the backfill paused itself.
func (w *backfillWatch) stopped(s *queue.Schedule) error {
	command := "`" + program + " backfill "
	return &failure{
		kind: runFailed, err: fmt.Errorf("backfill %s is paused by %s: %s", runview.InlineText(s.Name), program, runview.InlineText(s.PauseNote)),
		hint: command + "resume " + w.made.words() + "` lets the backfill go on, " + command + "cancel " + w.made.words() + "` ends the backfill",
	}
}

// tell writes a line to standard error for each tenth of the span, and when the backfill is paused or resumed. It writes nothing if
// neither has changed since the last line.
func (w *backfillWatch) tell(s *queue.Schedule) error {
	text := runview.GoesOnFrom(s)
	if s.PausedBy != "" {
		text = "is paused by " + runview.InlineText(s.PausedBy)
		if s.PauseNote != "" {
			text += ": " + runview.InlineText(s.PauseNote)
		}
		text += "; `" + program + " backfill resume " + w.made.words() + "` resumes it"
	}
	now := fmt.Sprint(int(toldParts*runview.DecidedShare(s.Backfill)), s.PausedBy)
	if now == w.told {
		return nil
	}
	w.told = now
	_, err := fmt.Fprintf(w.env.Stderr, "%s  %s %s, %s unfinished\n", time.Now().Format(time.TimeOnly), runview.InlineText(s.Name), text, runview.Count(s.Unfinished, "run"))
	if err != nil {
		return fmt.Errorf("write to standard error: %w", err)
	}
	return nil
}

// jsonEnd counts the outcomes of a backfill's times.
type jsonEnd struct {
	Complete   bool `json:"complete"` // false: it was canceled before its last time
	Succeeded  int  `json:"succeeded"`
	Failed     int  `json:"failed"`
	Canceled   int  `json:"canceled"`
	Unfinished int  `json:"unfinished"` // runs that go on after the backfill was canceled
	Skipped    int  `json:"skipped"`
	Refused    int  `json:"refused"`
}

func (m *madeBackfill) end(fires []queue.Fire) (end jsonEnd) {
	for i := range fires {
		f := &fires[i]
		end.Complete = end.Complete || f.LogicalAt.Equal(m.last)
		became := f.Outcome
		if became == "fired" {
			became = f.RunState // "": the run is deleted
		}
		switch became {
		case "":
		case "succeeded":
			end.Succeeded++
		case "failed":
			end.Failed++
		case "canceled":
			end.Canceled++
		case "skipped":
			end.Skipped++
		case "refused":
			end.Refused++
		default:
			end.Unfinished++
		}
	}
	return end
}

// text lists the counts that are not zero: 28 succeeded, 2 failed.
func (j *jsonEnd) text() string {
	var parts []string
	for _, part := range []struct {
		n    int
		word string
	}{
		{j.Succeeded, "succeeded"}, {j.Failed, "failed"}, {j.Canceled, "canceled"}, {j.Unfinished, "unfinished"}, {j.Skipped, "skipped"}, {j.Refused, "refused"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.n, part.word))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "no time was decided")
}

// failure returns the error with which the command fails because of the backfill's outcome. It returns nil if the backfill is
// complete, no run failed or was canceled, and no time was refused.
func (m *madeBackfill) failure(end *jsonEnd) error {
	f := failure{hint: "`" + program + " schedules fires " + m.words() + "` lists the times of the backfill"}
	switch {
	case end.Failed+end.Refused > 0:
		f.kind, f.err = runFailed, fmt.Errorf("backfill %s: %s failed, %s refused", runview.InlineText(m.name), runview.Count(end.Failed, "run"), runview.Count(end.Refused, "time"))
	case !end.Complete:
		f.kind, f.err = runCanceled, fmt.Errorf("backfill %s was canceled", runview.InlineText(m.name))
	case end.Canceled > 0:
		f.kind, f.err = runCanceled, fmt.Errorf("backfill %s: %s canceled", runview.InlineText(m.name), runview.Count(end.Canceled, "run"))
	default:
		return nil
	}
	return &f
}
