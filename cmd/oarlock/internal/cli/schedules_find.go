package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/oarlock-dev/oarlock/cmd/oarlock/internal/config"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// scheduleUsage is how a user names a schedule in a command.
const scheduleUsage = "DAG [NAME]"

const scheduleAbout = `NAME may be left out where the DAG has one schedule. --owner says whose it is, where several have one of this name; ''
is the DAG file's.`

const namesInHint = 5 // schedules that a hint lists

func ownerFlag() cli.Flag {
	return &cli.StringFlag{Name: "owner", Usage: "the schedule of this `USER`; '' for that of the DAG's file"}
}

// scheduleArg is a schedule as a user names it in a command.
type scheduleArg struct {
	dag, name string
	owner     *string // "": the DAG's file; nil: any owner
	backfill  bool    // only backfills are meant
}

// means reports whether s is a schedule of the kind that a names. A backfill counts only if it is named, or if the command
// is about backfills.
func (a *scheduleArg) means(s *queue.Schedule) bool {
	if s.Backfill == nil {
		return !a.backfill
	}
	return a.backfill || a.name != ""
}

// noun returns the word for the kind that a names.
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
			hint: "`oarlock schedules` lists them",
		}
	}
	a.dag = args[0]
	if len(args) == 2 {
		a.name = args[1]
	}
	a.owner = ownerGiven(c)
	return a, nil
}

// ownerGiven returns the value of --owner; nil: the flag was not given.
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

// find reads the one schedule that a names.
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
		return nil, &usageError{msg: fmt.Sprintf("dag %s has %s", a.dag, atLeast(len(found), a.noun())), hint: "name one: " + someNames(found)}
	}
	return nil, &usageError{
		msg:  fmt.Sprintf("dag %s has %s called %s", a.dag, atLeast(len(found), "schedule"), runview.InlineText(found[0].Name)),
		hint: "add " + someOwners(found),
	}
}

// findPast also finds a backfill that is over. It returns its schedule with the name and the number of the backfill, which
// is enough to read the times.
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

// missing returns the error for a schedule that does not exist, with a name that may have been meant.
func (a *scheduleArg) missing(ctx context.Context, store *queue.Store) error {
	msg, hint := "dag "+a.dag+" has no "+a.noun(), "`oarlock schedules` lists those that you may see"
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
		hint = "there is that of " + runview.OwnerWord(&others[slices.Index(names, a.name)])
	case len(others) > 0:
		hint = cmp.Or(config.DidYouMean(a.name, names), "it has "+someNames(others))
	default:
		_, err := store.GetDAG(ctx, a.dag, 0)
		if errors.Is(err, queue.ErrNotFound) {
			return orNoDAG(ctx, store, a.dag, err)
		}
	}
	return &failure{kind: notFound, err: errors.New(msg), hint: hint}
}

// atLeast writes a number of schedules; a full page means that there may be more.
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

// orNotYours explains why a schedule that the user can read cannot be steered: only administrators steer other users'
// schedules. It returns any other error unchanged.
func orNotYours(s *queue.Schedule, err error) error {
	refusal, ok := errors.AsType[*queue.Error](err)
	if !errors.Is(err, queue.ErrNotFound) || ok && refusal.Code == dagRemovedCode {
		return err
	}
	return &failure{
		kind: notFound, err: fmt.Errorf("schedule %s of dag %s is that of %s: you may steer only your own", runview.InlineText(s.Name), s.DAG, runview.OwnerWord(s)),
		hint: grantHint(toAdmin),
	}
}
