package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// How many times and fires are shown, unless a flag says otherwise.
const (
	timesDefault = 5
	firesDefault = 100
	timesMax     = 1000 // bound of both: one request to the database
)

var scheduleReadExits = []exitNote{
	{exitOK, "the schedule was read"},
	deniedNote, usageNote,
	{exitNotFound, "the DAG or the schedule does not exist, or the schedule is not yours"},
	unreachableNote, settingsNote,
}

func newSchedulesShowCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show a schedule: its settings, its next times, its latest outcomes",
		ArgsUsage: scheduleUsage,
		Flags:     []cli.Flag{ownerFlag()},
		Description: manual{
			about:    scheduleAbout,
			examples: []string{"oarlock schedules show etl nightly", "oarlock schedules show etl -o json | jq .next_at"},
			exits:    scheduleReadExits,
		}.String(),
		Action: func(c *cli.Context) error {
			return e.withSchedule(c, func(ctx context.Context, store *queue.Store, s *queue.Schedule) error {
				times, err := store.FireTimes(ctx, s.Key(), timesDefault)
				if err != nil {
					return err
				}
				return e.say(answer{object: scheduleJSON(s), ids: []string{scheduleID(s)}, text: e.stdoutPaint().scheduleSheet(s, times, e.pageColumns())})
			})
		},
	}
}

func newSchedulesNextCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "next",
		Usage:     "list the next times of a schedule",
		ArgsUsage: scheduleUsage,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "number", Aliases: []string{"n"}, Usage: "list `N` times", Value: timesDefault},
			ownerFlag(),
		},
		Description: manual{
			about: `Lists times in the schedule's zone, without jitter. A pause does not change the times. -o id prints the times
in UTC, as --at of "schedules trigger" takes them.
` + scheduleAbout,
			examples: []string{"oarlock schedules next etl nightly", "oarlock schedules next etl nightly -n 20 -o json"},
			exits:    scheduleReadExits,
		}.String(),
		Action: func(c *cli.Context) error {
			n := c.Int("number")
			if n < 1 || n > timesMax {
				return &usageError{msg: fmt.Sprintf("--number is from 1 to %d, not %d", timesMax, n)}
			}
			return e.withSchedule(c, func(ctx context.Context, store *queue.Store, s *queue.Schedule) error {
				times, err := store.FireTimes(ctx, s.Key(), n)
				if err != nil {
					return err
				}
				if len(times) == 0 {
					e.remark("schedule %s %s", runview.InlineText(s.Name), runview.NeverFires)
				} else if s.PausedBy != "" {
					e.remark("schedule %s is paused by %s, and does not fire at these times", runview.InlineText(s.Name), runview.InlineText(s.PausedBy))
				}
				return e.say(e.timesAnswer(times, s.Timezone))
			})
		},
	}
}

func (e *env) timesAnswer(times []time.Time, zone string) answer {
	paint, now := e.stdoutPaint(), time.Now()
	object := []time.Time{}
	a := answer{lines: []any{}, ids: []string{}}
	var rows [][]string
	for _, t := range times {
		object = append(object, t.UTC())
		a.lines = append(a.lines, t.UTC())
		a.ids = append(a.ids, t.UTC().Format(time.RFC3339Nano))
		rows = append(rows, []string{runview.WallTime(t, zone) + " " + zone, paint.Dim(runview.FromNow(t, now))})
	}
	a.object, a.text = object, term.AlignRows(rows)
	return a
}

func newSchedulesFiresCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:      "fires",
		Usage:     "list the outcomes of the times of a schedule, newest first",
		ArgsUsage: scheduleUsage,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "since", Usage: "list only times since `TIME`: a time, or a duration like 7d"},
			&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Usage: "list at most `N` lines", Value: firesDefault},
			ownerFlag(),
		},
		Description: manual{
			about: `Each time of a schedule gets one outcome. "fired": the time made a run. "skipped": the time made no run, because an
earlier run was not over or the schedule was paused. "dropped": the time was decided too late. "refused": an error kept
the time from making a run, and the list names the error. Times in a row with the same
outcome share a line. Oarlock keeps outcomes as long as the DAG's runs.
` + scheduleAbout,
			examples: []string{
				"oarlock schedules fires etl nightly --since 7d",
				"oarlock schedules fires etl nightly -o json | jq '.[] | select(.outcome != \"fired\")'",
			},
			exits: scheduleReadExits,
		}.String(),
		Action: func(c *cli.Context) error {
			n := c.Int("limit")
			if n < 1 || n > timesMax {
				return &usageError{msg: fmt.Sprintf("--limit is from 1 to %d, not %d", timesMax, n)}
			}
			since, err := moment(c.String("since"), time.Now())
			if err != nil {
				return err
			}
			arg, err := e.oneSchedule(c)
			if err != nil {
				return err
			}
			return e.withFound(c.Context, arg.findPast, func(ctx context.Context, store *queue.Store, s *queue.Schedule) error {
				fires, err := store.Fires(ctx, s.Key(), since, n)
				if err != nil {
					return err
				}
				if len(fires) == 0 {
					e.remark("no time has an outcome yet; schedule %s %s", runview.InlineText(s.Name), runview.FiresNext(s, time.Now()))
				}
				return e.say(e.firesAnswer(s, fires))
			})
		},
	}
}

// withSchedule finds the only schedule that the arguments name, and calls use with it.
func (e *env) withSchedule(c *cli.Context, use func(context.Context, *queue.Store, *queue.Schedule) error) error {
	arg, err := e.oneSchedule(c)
	if err != nil {
		return err
	}
	return e.withFound(c.Context, arg.find, use)
}

// withFound opens the store, and calls use with the schedule that find returns.
func (e *env) withFound(
	ctx context.Context, find func(context.Context, *queue.Store) (*queue.Schedule, error), use func(context.Context, *queue.Store, *queue.Schedule) error,
) error {
	return e.withStore(ctx, func(store *queue.Store) error {
		s, err := find(ctx, store)
		if err != nil {
			return err
		}
		return use(ctx, store, s)
	})
}

type jsonFire struct {
	Schedule  int64      `json:"schedule"`
	LogicalAt *time.Time `json:"logical_at"`
	Until     *time.Time `json:"until"`
	Count     *int       `json:"count"` // null: more than 1,000
	Outcome   string     `json:"outcome"`
	Run       *int64     `json:"run"`
	RunState  *string    `json:"run_state"`
	Reason    *string    `json:"reason"`
	DecidedAt *time.Time `json:"decided_at"`
}

func (e *env) firesAnswer(s *queue.Schedule, fires []queue.Fire) answer {
	paint := e.stdoutPaint()
	object := []jsonFire{}
	a := answer{lines: []any{}}
	t := term.Table{Head: paint.head("TIME IN "+s.Timezone, "TIMES", "OUTCOME", "RUN", "DECIDED", "WHY")}
	for i := range fires {
		f := &fires[i]
		j := jsonFire{
			s.ID, runview.TimeOrNull(f.LogicalAt), runview.TimeOrNull(f.Until), nil, f.Outcome, runview.RunOrNull(f.Run), runview.TextOrNull(f.RunState), runview.TextOrNull(f.Reason), runview.TimeOrNull(f.DecidedAt),
		}
		times, when := "1000+", runview.WallTime(f.LogicalAt, s.Timezone)
		if f.Times > 0 {
			j.Count, times = &f.Times, strconv.Itoa(f.Times)
		}
		if !f.Until.IsZero() {
			when += " to " + runview.WallTime(f.Until, s.Timezone)
		}
		run := paint.Dim("–")
		if f.Run != 0 {
			run = fmt.Sprintf("%d %s", f.Run, cmp.Or(paint.runState(f.RunState), paint.Dim("deleted")))
		}
		object = append(object, j)
		a.lines = append(a.lines, j)
		t.Rows = append(t.Rows, []string{when, times, paint.outcome(f.Outcome), run, paint.Dim(runview.LocalTime(f.DecidedAt)), paint.Dim(runview.InlineText(f.Reason))})
	}
	a.object = object
	if len(fires) > 0 {
		a.text = e.fitted(t.String())
	}
	return a
}

// scheduleSheet describes a schedule on a page, with its next times. It leaves out settings that are not set, and folds the title
// to columns.
func (p painter) scheduleSheet(s *queue.Schedule, times []time.Time, columns int) string {
	now := time.Now()
	var rows [][]string
	fact := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{p.Dim(name), value})
		}
	}
	fact("fires", runview.TimingText(&s.Schedule)+" "+s.Timezone)
	fact("from", s.Start)
	fact("before", s.End)
	fact("except", runview.Printable(strings.Join(s.Except, ", ")))
	fact("jitter", durationText(s.Jitter))
	if len(s.Params) > 0 {
		fact("params", runview.ParamText([]byte(runview.CompactJSON(s.Params))))
	}
	fact("labels", runview.LabelText(s.Labels))
	fact("overlap", runview.OverlapText(s))
	fact("catchup", runview.CatchupText(s))
	if s.PauseOnFailure > 0 {
		fact("pauses", fmt.Sprintf("after %s in a row, %d so far", runview.Count(s.PauseOnFailure, "failed run"), s.Failures))
	}
	fact("owner", runview.OwnerWord(s))
	if s.PausedBy != "" {
		resume := "schedules resume "
		if s.Backfill != nil {
			resume = "backfill resume "
		}
		fact("paused", runview.LocalTime(s.PausedAt)+p.Dim(": `"+program+" "+resume+scheduleID(s)+"` resumes it"))
	}
	last := p.lastFire(&s.Last)
	if s.Last.Outcome != "" {
		last += p.Dim(" for " + runview.WallTime(s.Last.LogicalAt, s.Timezone))
	}
	if s.Last.Reason != "" {
		last += p.Dim(": " + runview.InlineText(s.Last.Reason))
	}
	fact("last", last)
	if !s.HeldFrom.IsZero() && !s.Removed {
		fact("now", runview.FiresNext(s, now))
	}
	if s.Unfinished > 0 {
		fact("unfinished", runview.Count(s.Unfinished, "run"))
	}
	text := term.Fold(fmt.Sprintf("%s %s  %s", p.Bold(runview.InlineText(s.Name)), p.Dim("of "+s.DAG), p.scheduleState(s)), columns, 0) + "\n\n" + term.AlignRows(rows)
	return text + "\n" + p.Dim("next") + "\n" + p.comingTimes(times, s.Timezone, now)
}

// comingTimes lists times on indented lines, or says on one line that the schedule never fires.
func (p painter) comingTimes(times []time.Time, zone string, now time.Time) (text string) {
	if len(times) == 0 {
		return "  " + runview.NeverFires + "\n"
	}
	for _, t := range times {
		text += fmt.Sprintf("  %s %s  %s\n", runview.WallTime(t, zone), zone, p.Dim(runview.FromNow(t, now)))
	}
	return text
}
