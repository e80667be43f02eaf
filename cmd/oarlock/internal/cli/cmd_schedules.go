package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/term"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// Bounds of a list of schedules.
const (
	schedulesDefault = 100
	schedulesMax     = 100_000
)

func newSchedulesCommand(e *env) *cli.Command {
	return &cli.Command{
		Name:  "schedules",
		Usage: "list, pause and trigger schedules, and make your own schedules",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "dag", Usage: "list only schedules of this `DAG`"},
			&cli.StringFlag{Name: "owner", Usage: "list only schedules of this `USER`; '' for schedules of DAG files"},
			&cli.BoolFlag{Name: "paused", Usage: "list only paused schedules"},
			&cli.IntFlag{Name: "limit", Aliases: []string{"n"}, Usage: "list at most `N` schedules", Value: schedulesDefault},
		},
		Description: manual{
			about: `Lists schedules, each with its next time and the outcome of its latest time: fired, skipped (a run before it was not
over, or a pause), dropped (too late) or refused. Times are in the schedule's zone. DAG files have schedules. You may
have your own schedules if the DAG says "allow: {schedules: true}". Submitters see their own schedules, readers see
all schedules. A terminal shows one line for each schedule, cut to the width of the terminal.`,
			examples: []string{
				"oarlock schedules",
				"oarlock schedules --dag etl --paused",
				"oarlock schedules fires etl nightly --since 7d",
				"oarlock schedules pause etl nightly --note 'until the new disks are in'",
				"oarlock schedules -o id | xargs -n2 oarlock schedules show",
			},
			exits: []exitNote{{exitOK, "the list was read; it may be empty"}, deniedNote, usageNote, unreachableNote, settingsNote},
		}.String(),
		Action: func(c *cli.Context) error { return runSchedules(c, e) },
		Subcommands: []*cli.Command{
			newSchedulesShowCommand(e),
			newSchedulesNextCommand(e),
			newSchedulesFiresCommand(e),
			newSchedulesPauseCommand(e),
			newSchedulesResumeCommand(e),
			newSchedulesTriggerCommand(e),
			newSchedulesPutCommand(e),
			newSchedulesRemoveCommand(e),
		},
	}
}

func runSchedules(c *cli.Context, e *env) error {
	limit := c.Int("limit")
	if limit < 1 || limit > schedulesMax {
		return &usageError{msg: fmt.Sprintf("--limit is from 1 to %d, not %d", schedulesMax, limit)}
	}
	arg := scheduleArg{dag: c.String("dag"), owner: ownerGiven(c)}
	return e.withStore(c.Context, func(store *queue.Store) error {
		listed, err := listSchedules(c.Context, store, arg.filter(), func(s *queue.Schedule) bool { return !c.Bool("paused") || s.PausedBy != "" }, limit+1)
		if err != nil {
			return err
		}
		more := len(listed) > limit
		listed = listed[:min(limit, len(listed))]
		if err := e.say(e.schedulesAnswer(listed)); err != nil {
			return err
		}
		switch {
		case len(listed) == 0:
			e.remark("%s", noSchedules(c, store))
		case more:
			e.remark("%s", e.stderrPaint().Dim(fmt.Sprintf("there are more schedules: add --dag DAG, or -n %d", 10*limit)))
		}
		return nil
	})
}

// listSchedules reads pages of f.Limit schedules until it has enough of them for which fits is true, or until there are no more. It
// returns at most enough.
func listSchedules(
	ctx context.Context, store *queue.Store, f queue.ScheduleFilter, fits func(*queue.Schedule) bool, enough int,
) (listed []queue.Schedule, err error) {
	for {
		page, err := store.Schedules(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if fits(&page[i]) && len(listed) < enough {
				listed = append(listed, page[i])
			}
		}
		if len(page) < f.Limit || len(listed) == enough {
			return listed, nil
		}
		f.After = page[len(page)-1].ID
	}
}

func noSchedules(c *cli.Context, store *queue.Store) string {
	if text := noDAG(c.Context, store, c.String("dag")); text != "" {
		return text
	}
	if c.IsSet("dag") || c.IsSet("owner") || c.Bool("paused") {
		return "there is no schedule for these flags that you may see"
	}
	return "there is no schedule that you may see: write `schedule:` in a DAG file, or type `oarlock schedules put DAG NAME --cron …`"
}

// noDAG returns a sentence that the named DAG does not exist, with a hint. It returns "" if the DAG exists, if it cannot be read,
// or if name is "".
func noDAG(ctx context.Context, store *queue.Store, name string) string {
	if name == "" {
		return ""
	}
	_, err := store.GetDAG(ctx, name, 0)
	if p := problemOf(ctx, orNoDAG(ctx, store, name, err)); p.kind == notFound {
		return p.message + ": " + p.hint
	}
	return ""
}

type jsonSchedule struct {
	ID              int64             `json:"id"`
	DAG             string            `json:"dag"`
	Name            string            `json:"name"`
	Owner           *string           `json:"owner"`  // null: the schedule belongs to the DAG's file
	Timing          string            `json:"timing"` // cron …, every … or at …
	Timezone        string            `json:"timezone"`
	Start           *string           `json:"start"`
	End             *string           `json:"end"`
	Except          []string          `json:"except"`
	Params          json.RawMessage   `json:"params"`
	Labels          map[string]string `json:"labels"`
	OverlapPolicy   string            `json:"overlap_policy"`
	AtOnce          int               `json:"at_once"`
	Catchup         bool              `json:"catchup"`
	CatchupWindowMs *int64            `json:"catchup_window_ms"` // null: no bound
	CatchupMax      int               `json:"catchup_max"`
	JitterMs        int64             `json:"jitter_ms"`
	PauseOnFailure  int               `json:"pause_on_failure"` // 0: never
	PausedBy        *string           `json:"paused_by"`
	PausedAt        *time.Time        `json:"paused_at"`
	PauseNote       *string           `json:"pause_note"`
	NextAt          *time.Time        `json:"next_at"`   // null: never, it is paused, or it is held back
	HeldFrom        *time.Time        `json:"held_from"` // null: nothing holds it back
	DAGRemoved      bool              `json:"dag_removed"`
	Last            *jsonLast         `json:"last"`
	Unfinished      int               `json:"unfinished"`
	Failures        int               `json:"failures"`
	Errors          int               `json:"errors"`
	Error           *string           `json:"error"`
	Backfill        *jsonBackfill     `json:"backfill"` // null: the schedule is no backfill
}

type jsonBackfill struct {
	Of          int64      `json:"of"` // number of the schedule that it backfills
	From        *time.Time `json:"from"`
	Until       *time.Time `json:"until"`
	Reprocess   string     `json:"reprocess"`
	NewestFirst bool       `json:"newest_first"`
	DecidedAt   *time.Time `json:"decided_at"`
}

type jsonLast struct {
	LogicalAt *time.Time `json:"logical_at"`
	Outcome   string     `json:"outcome"`
	Run       *int64     `json:"run"`
	Reason    *string    `json:"reason"`
}

func scheduleJSON(s *queue.Schedule) jsonSchedule {
	j := jsonSchedule{
		ID: s.ID, DAG: s.DAG, Name: s.Name, Owner: runview.TextOrNull(s.Owner), Timing: runview.TimingText(&s.Schedule), Timezone: s.Timezone, Start: runview.TextOrNull(s.Start),
		End: runview.TextOrNull(s.End), Except: append([]string{}, s.Except...), Params: json.RawMessage(runview.CompactJSON(s.Params)), Labels: s.Labels,
		OverlapPolicy: s.OverlapPolicy, AtOnce: s.AtOnce, Catchup: s.Catchup, CatchupMax: s.CatchupMax, JitterMs: int64(s.Jitter),
		PauseOnFailure: s.PauseOnFailure, PausedBy: runview.TextOrNull(s.PausedBy), PausedAt: runview.TimeOrNull(s.PausedAt), PauseNote: runview.TextOrNull(s.PauseNote),
		NextAt: runview.TimeOrNull(s.NextAt), HeldFrom: runview.TimeOrNull(s.HeldFrom), DAGRemoved: s.Removed, Unfinished: s.Unfinished, Failures: s.Failures, Errors: s.Errors, Error: runview.TextOrNull(s.Error),
	}
	if s.CatchupWindow > 0 {
		j.CatchupWindowMs = new(int64(s.CatchupWindow))
	}
	if b := s.Backfill; b != nil {
		j.Backfill = &jsonBackfill{b.Of, runview.TimeOrNull(b.From), runview.TimeOrNull(b.Until), b.Reprocess, b.NewestFirst, runview.TimeOrNull(b.DecidedAt)}
	}
	if s.Last.Outcome != "" {
		j.Last = &jsonLast{runview.TimeOrNull(s.Last.LogicalAt), s.Last.Outcome, runview.RunOrNull(s.Last.Run), runview.TextOrNull(s.Last.Reason)}
	}
	return j
}

func (e *env) schedulesAnswer(schedules []queue.Schedule) answer {
	paint, now := e.stdoutPaint(), time.Now()
	object := []jsonSchedule{}
	a := answer{lines: []any{}, ids: []string{}}
	t := term.Table{Head: paint.head("DAG", "NAME", "TIMING", "ZONE", "NEXT", "LAST", "STATE")}
	for i := range schedules {
		s := &schedules[i]
		j := scheduleJSON(s)
		object = append(object, j)
		a.lines = append(a.lines, j)
		a.ids = append(a.ids, scheduleID(s))
		t.Rows = append(t.Rows, []string{
			s.DAG, runview.InlineText(s.Name), runview.TimingText(&s.Schedule), s.Timezone, paint.next(s, now), paint.lastFire(&s.Last), paint.scheduleState(s),
		})
	}
	a.object = object
	if len(schedules) > 0 {
		a.text = e.fitted(t.String())
	}
	return a
}

// scheduleID returns the DAG and the name of a schedule, quoted for a shell, as commands take them.
func scheduleID(s *queue.Schedule) string {
	return runview.ShellWord(s.DAG) + " " + runview.ShellWord(s.Name)
}

// next returns the next fire time as the text of a cell, like 2026-11-28 03:30 in 14h07m. For a schedule that is held back it says
// since when, and a dash if nothing will fire.
func (p painter) next(s *queue.Schedule, now time.Time) string {
	switch {
	case s.Removed:
		return p.Dim("–")
	case !s.HeldFrom.IsZero():
		return p.Warn(runview.WaitsSince(s))
	case s.NextAt.IsZero():
		return p.Dim("–")
	}
	return runview.WallTime(s.NextAt, s.Timezone) + p.Dim(" "+runview.FromNow(s.NextAt, now))
}

func (p painter) lastFire(f *queue.Fire) string {
	switch {
	case f.Outcome == "":
		return p.Dim("–")
	case f.Run != 0:
		return p.outcome(f.Outcome) + p.Dim(fmt.Sprintf(" run %d", f.Run))
	}
	return p.outcome(f.Outcome)
}

func (p painter) outcome(outcome string) string {
	switch outcome {
	case "fired":
		return p.Good(outcome)
	case "refused":
		return p.Bad(outcome)
	}
	return p.Warn(outcome)
}

// scheduleState returns the text of a cell: that a schedule is active, or why it does not fire. It adds the owner if the schedule
// is not from a file.
func (p painter) scheduleState(s *queue.Schedule) string {
	state := p.Good("active")
	switch runview.ScheduleState(s) {
	case "removed":
		state = p.Warn(runview.DAGRemoved)
	case "paused":
		state = p.Warn("paused") + p.Dim(" by "+runview.InlineText(s.PausedBy))
		if s.PauseNote != "" {
			state += p.Dim(": " + runview.InlineText(s.PauseNote))
		}
	case "failed":
		state = p.Bad(fmt.Sprintf("failed %s: ", runview.Count(s.Errors, "time"))) + runview.InlineText(s.Error)
	case "over":
		state = p.Dim("over")
	case "refused":
		state = p.Bad("refused: ") + runview.InlineText(s.Last.Reason)
	}
	if s.Owner != "" {
		state += p.Dim("  of " + runview.InlineText(s.Owner))
	}
	return state
}

// scheduleUsage is how a user names a schedule in a command.
const scheduleUsage = "DAG [NAME]"

const scheduleAbout = `You may leave out NAME if the DAG has one schedule. If several users have a schedule of this name, give --owner; ''
is the owner of schedules of DAG files.`

const namesInHint = 5 // schedules that a hint lists

func ownerFlag() cli.Flag {
	return &cli.StringFlag{Name: "owner", Usage: "take the schedule of this `USER`; '' for a schedule of the DAG's file"}
}

// scheduleArg is a schedule as a user names it in a command.
type scheduleArg struct {
	dag, name string
	owner     *string // "": the DAG's file; nil: any owner
	backfill  bool    // only backfills are meant
}

// means reports whether s can be the schedule that the user means. For a command that is about backfills it must be a backfill. For
// any other command a backfill counts only if the user gave its name.
func (a *scheduleArg) means(s *queue.Schedule) bool {
	if s.Backfill == nil {
		return !a.backfill
	}
	return a.backfill || a.name != ""
}

// noun returns "backfill" for a command that is about backfills, otherwise "schedule".
func (a *scheduleArg) noun() string {
	if a.backfill {
		return "backfill"
	}
	return "schedule"
}

func (e *env) oneSchedule(c *cli.Context) (a scheduleArg, err error) {
	args := c.Args().Slice()
	if len(args) < 1 || len(args) > 2 {
		return a, &usageError{
			msg:  fmt.Sprintf("%s needs a DAG and the name of a schedule, got %d arguments", strings.TrimPrefix(e.command, program+" "), len(args)),
			hint: "`oarlock schedules` lists the schedules",
		}
	}
	a.dag = args[0]
	if len(args) == 2 {
		a.name = args[1]
	}
	a.owner = ownerGiven(c)
	return a, nil
}

// ownerGiven returns the value of --owner, or nil if the flag was not given.
func ownerGiven(c *cli.Context) *string {
	if !c.IsSet("owner") {
		return nil
	}
	return new(c.String("owner"))
}

func (a *scheduleArg) filter() queue.ScheduleFilter {
	f := queue.ScheduleFilter{DAG: a.dag, Name: a.name, Limit: queue.MaxPage}
	if a.owner != nil {
		f.Owner, f.OfFile = *a.owner, *a.owner == ""
	}
	return f
}

// find returns the only schedule that the arguments name. If there is none, or more than one, its error tells the user how to name
// one.
func (a *scheduleArg) find(ctx context.Context, store *queue.Store) (*queue.Schedule, error) {
	found, err := store.Schedules(ctx, a.filter())
	found = slices.DeleteFunc(found, func(s queue.Schedule) bool { return !a.means(&s) })
	switch {
	case err != nil:
		return nil, err
	case len(found) == 0:
		return nil, a.missing(ctx, store)
	case len(found) == 1:
		return &found[0], nil
	case slices.ContainsFunc(found, func(s queue.Schedule) bool { return s.Name != found[0].Name }):
		return nil, &usageError{msg: fmt.Sprintf("dag %s has %s", a.dag, atLeast(len(found), a.noun())), hint: "name a schedule: " + someNames(found)}
	}
	return nil, &usageError{
		msg:  fmt.Sprintf("dag %s has %s called %s", a.dag, atLeast(len(found), "schedule"), runview.InlineText(found[0].Name)),
		hint: "add " + someOwners(found),
	}
}

// findPast returns the schedule that find finds. It also finds a backfill that is over, by its name NAME#N: then it returns the
// schedule NAME with the name and the number of the backfill, which is enough to read the times.
func (a *scheduleArg) findPast(ctx context.Context, store *queue.Store) (*queue.Schedule, error) {
	s, err := a.find(ctx, store)
	hash := strings.LastIndex(a.name, "#")
	if err == nil || hash < 0 || diagnose(ctx, err).kind != notFound {
		return s, err
	}
	of := scheduleArg{dag: a.dag, name: a.name[:hash], owner: a.owner}
	s, gone := of.find(ctx, store)
	if gone != nil {
		return nil, err
	}
	if s.ID, gone = strconv.ParseInt(a.name[hash+1:], 10, 64); gone != nil {
		return nil, err
	}
	s.Name, s.NextAt = a.name, time.Time{}
	return s, nil
}

// missing returns the error for a schedule that does not exist. Its hint names a schedule of the DAG that the user may have meant,
// or the schedules of the DAG, or how to list schedules.
func (a *scheduleArg) missing(ctx context.Context, store *queue.Store) error {
	msg, hint := "dag "+a.dag+" has no "+a.noun(), "`oarlock schedules` lists the schedules that you may see"
	if a.name != "" {
		msg += " " + runview.InlineText(a.name)
	}
	if a.owner != nil {
		msg += " of " + cmp.Or(runview.InlineText(*a.owner), "its file")
	}
	others, err := store.Schedules(ctx, queue.ScheduleFilter{DAG: a.dag, Limit: queue.MaxPage})
	if err != nil {
		return err
	}
	others = slices.DeleteFunc(others, func(s queue.Schedule) bool { return (s.Backfill != nil) != a.backfill })
	var names []string
	for i := range others {
		names = append(names, others[i].Name)
	}
	switch {
	case len(others) > 0 && slices.Contains(names, a.name):
		hint = "there is a schedule of this name of " + runview.OwnerWord(&others[slices.Index(names, a.name)])
	case len(others) > 0:
		hint = cmp.Or(config.DidYouMean(a.name, names), "the DAG has "+someNames(others))
	default:
		_, err := store.GetDAG(ctx, a.dag, 0)
		if errors.Is(err, queue.ErrNotFound) {
			return orNoDAG(ctx, store, a.dag, err)
		}
	}
	return &failure{kind: notFound, err: errors.New(msg), hint: hint}
}

// atLeast returns a number with its noun. A full page means that there may be more, and the text says so.
func atLeast(n int, noun string) string {
	if n == queue.MaxPage {
		return fmt.Sprintf("%d or more %ss", n, noun)
	}
	return runview.Count(n, noun)
}

func someNames(schedules []queue.Schedule) string {
	var names []string
	for i := range schedules {
		if word := runview.ShellWord(schedules[i].Name); !slices.Contains(names, word) {
			names = append(names, word)
		}
	}
	return some(names)
}

func someOwners(schedules []queue.Schedule) string {
	var flags []string
	for i := range schedules {
		if s := &schedules[i]; s.Owner == "" {
			flags = append(flags, "--owner '' for the DAG file's")
		} else {
			flags = append(flags, "--owner "+runview.ShellWord(s.Owner))
		}
	}
	return some(flags)
}

func some(words []string) string {
	if more := len(words) - namesInHint; more > 0 {
		return strings.Join(words[:namesInHint], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return config.OrList(words)
}

// dagRemovedCode is the database's SQLSTATE for an operation that a removed DAG does not allow.
const dagRemovedCode = "OA002"

// orNotYours replaces a "not found" error about a schedule that the user can read: the new error names the owner, since only
// administrators steer other users' schedules. It returns any other error unchanged, also the one about a removed DAG.
func orNotYours(s *queue.Schedule, err error) error {
	refusal, ok := errors.AsType[*queue.Error](err)
	if !errors.Is(err, queue.ErrNotFound) || ok && refusal.Code == dagRemovedCode {
		return err
	}
	return &failure{
		kind: notFound, err: fmt.Errorf("schedule %s of dag %s belongs to %s: you may steer only your own schedules", runview.InlineText(s.Name), s.DAG, runview.OwnerWord(s)),
		hint: grantHint(toAdmin),
	}
}
