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
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const backfillMaxAtOnce = 1000

func newBackfillCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "backfill",
		Usage:     "make runs for times of a schedule that are past",
		ArgsUsage: scheduleUsage,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "the first `TIME` that may fire, or a duration ago like 30d"},
			&cli.StringFlag{Name: "until", Usage: "the first `TIME` that may not"},
			&cli.IntFlag{Name: "at-once", Usage: "`N` of its runs may be unfinished at a time", Value: 1},
			&cli.StringFlag{Name: "reprocess", Usage: "which times fire, a `WORD`: missing, failed or all", Value: runview.ReprocessWords[0]},
			&cli.BoolFlag{Name: "newest-first", Usage: "the newest time first"},
			&cli.StringSliceFlag{Name: "param", Aliases: []string{"p"}, Usage: "a param, as `NAME=VALUE`, over the schedule's; may be repeated"},
			&cli.BoolFlag{Name: "dry-run", Usage: "only print the times, and what each would do"},
			&cli.BoolFlag{Name: "wait", Usage: "wait until it is over, and exit by its runs"},
			ownerFlag(),
		}, waitFlags()...),
		Description: manual{
			about: `Of the times from --from on and before --until, "missing" fires those of which no run is unfinished or has succeeded,
"failed" those whose newest run failed or was canceled. A time that is still to come fires once the schedule has decided
it. The runs stand below live ones: their priority is the DAG's less 10. A pause of the schedule makes no difference. At
most 100,000 times.

A backfill is a schedule called NAME#N, and is there until its last run is over; all commands of "oarlock schedules"
take it. Submitters backfill their own schedules, administrators (role oarlock_admin) any. A DAG called like one of the
commands stands behind "--".
` + timeAbout + plainAbout + scheduleAbout,
			examples: []string{
				"oarlock backfill etl nightly --from 2026-10-01 --until 2026-11-01 --dry-run",
				"oarlock backfill etl nightly --from 2026-10-01 --until 2026-11-01 --at-once 4",
				"oarlock backfill etl nightly --from 7d --until 0s --reprocess failed --wait && echo fine",
				"oarlock backfill list etl",
			},
			exits: []exitNote{
				{exitOK, "it is there; with --wait: it is over, and each of its runs succeeded"},
				deniedNote, usageNote,
				{exitNotFound, "there is no such DAG or schedule, it is not yours, or the DAG was removed"},
				{exitUnreachable, "the database cannot be reached, or the connection broke and nobody knows whether the backfill is there"},
				{exitInvalid, "no time lies between, there are too many, or the DAG does not take a param; or a setting is wrong"},
				{exitRunFailed, "--wait: a run failed, a time was refused, or so many runs failed that it paused itself"},
				{exitRunCanceled, "--wait: a run, or the backfill, was canceled, or the DAG was removed"},
				{exitTimeout, "--wait: it was not over in time; it goes on"},
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
		if b.Params, err = typedParams(ctx, store, s.DAG, 0, params); err != nil {
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

// checkBackfill refuses flags that contradict each other for any schedule.
func (e *env) checkBackfill(c *cli.Context) error {
	reprocess, atOnce := c.String("reprocess"), c.Int("at-once")
	switch {
	case c.String("from") == "" || c.String("until") == "":
		hint := config.DidYouMean(c.Args().First(), commandNames(newBackfillCommand(e).Subcommands))
		return &usageError{msg: "backfill needs --from and --until", hint: cmp.Or(hint, "like --from 2026-10-01 --until 2026-11-01")}
	case !slices.Contains(runview.ReprocessWords, reprocess):
		hint := cmp.Or(config.DidYouMean(reprocess, runview.ReprocessWords), "one of "+config.OrList(runview.ReprocessWords))
		return &usageError{msg: fmt.Sprintf("--reprocess: there is no %q", reprocess), hint: hint}
	case atOnce < 1 || atOnce > backfillMaxAtOnce:
		return &usageError{msg: fmt.Sprintf("--at-once is from 1 to %d, not %d", backfillMaxAtOnce, atOnce)}
	case c.Bool("dry-run") && c.Bool("wait"):
		return &usageError{msg: "--dry-run and --wait exclude each other", hint: "give one of them"}
	}
	return nil
}

// backfillOf reads the flags except for the params: only the database knows their types. Dates are in the schedule's time
// zone.
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
			hint: "--from is the first moment that may fire, --until the first that may not",
		}
	}
	return b, err
}

// orNoTime explains the refusal of a span without a time: it writes the span in the schedule's time zone. It returns any
// other error unchanged.
func orNoTime(s *queue.Schedule, b *queue.Backfill, err error) error {
	refusal, ok := errors.AsType[*queue.Error](err)
	if !ok || !strings.HasPrefix(refusal.Message, "backfill: schedule "+s.Name+" has no time ") {
		return err
	}
	return &failure{
		kind: invalid, hint: "`" + program + " schedules show " + scheduleID(s) + "` tells when it fires",
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

// makeBackfill reads the times before it makes the backfill, since the backfill may be over before a later read.
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

// words returns the backfill as the arguments of a command.
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
	text := fmt.Sprintf("%s %s of %s: %s\n", paint.good("made"), runview.InlineText(m.name), m.of.DAG, times)
	for _, command := range []string{"schedules fires", "backfill pause", "backfill cancel"} {
		text += paint.dim(program+" "+command+" "+m.words()) + "\n"
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

// rehearseBackfill prints the times and what the backfill would do with each.
func (e *env) rehearseBackfill(ctx context.Context, store *queue.Store, s *queue.Schedule, b queue.Backfill) error {
	times, err := allBackfillTimes(ctx, store, b, timesMax)
	if err != nil {
		return orNoTime(s, &b, orNotYours(s, err))
	}
	paint := e.stdoutPaint()
	object := []jsonBackfillTime{}
	a := answer{lines: []any{}, ids: []string{}}
	t := table{head: paint.head("TIME IN "+s.Timezone, "OUTCOME", "RUN", "WHY")}
	for i := range times {
		at := &times[i]
		j := jsonBackfillTime{runview.TimeOrNull(at.LogicalAt), at.Outcome, runview.RunOrNull(at.Run), runview.TextOrNull(at.Reason)}
		outcome, run := paint.warn(at.Outcome), paint.dim("–")
		if at.Outcome == "fires" {
			outcome = paint.good(at.Outcome)
			a.ids = append(a.ids, j.LogicalAt.Format(time.RFC3339Nano))
		}
		if at.Run != 0 {
			run = decimal(int64(at.Run))
		}
		object = append(object, j)
		a.lines = append(a.lines, j)
		t.rows = append(t.rows, []string{runview.WallTime(at.LogicalAt, s.Timezone), outcome, run, paint.dim(runview.InlineText(at.Reason))})
	}
	a.object, a.text = object, e.fitted(t.String())
	if err := e.say(a); err != nil {
		return err
	}
	fires := countFires(times)
	e.remark("of %s %d would fire, and %d would be skipped; nothing was made", runview.Count(len(times), "time"), fires, len(times)-fires)
	return nil
}

// allBackfillTimes reads page after page, each of at least 2 times. A page begins with the last time of the page before,
// because the database refuses a span without a time.
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
