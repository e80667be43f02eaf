package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const (
	comingShown = 10 // next fire times that a schedule's page lists
	firesShown  = 50 // past fire times that it lists, with their outcomes
)

// scheduleRoutes registers the pages of schedules and backfills.
func (s *server) scheduleRoutes(handle func(string, pageFunc), post func(string, action)) {
	const one = "/schedules/{dag}/{name}"
	handle("/schedules", s.schedules)
	handle("/live/schedules", s.liveSchedules)
	handle(one, s.schedule)
	handle("/live"+one, s.liveSchedule)
	handle(one+"/trigger", s.triggerPage)
	handle(one+"/drop", s.dropPage)
	handle(one+"/backfill", s.backfillPage)
	post(one+"/pause", s.pauseSchedule)
	post(one+"/resume", s.resumeSchedule)
	post(one+"/trigger", s.triggerSchedule)
	post(one+"/drop", s.dropSchedule)
	post(one+"/backfill", s.makeBackfill)
}

// scheduleKey names a schedule in a URL. Without an owner it means the schedule of the DAG's file; if there is none, the login's
// own; else any other of that name.
type scheduleKey struct{ DAG, Name, Owner string }

func scheduleKeyOf(r *http.Request) scheduleKey {
	return scheduleKey{DAG: r.PathValue("dag"), Name: r.PathValue("name"), Owner: r.URL.Query().Get("owner")}
}

// findSchedule reads the schedule of a key that the login can see. Of several with different owners, it returns the one that
// scheduleKey describes. If there is none, it returns a refusal with status 404.
func (s *server) findSchedule(ctx context.Context, k scheduleKey) (*queue.Schedule, error) {
	found, err := s.store.Schedules(ctx, queue.ScheduleFilter{DAG: k.DAG, Name: k.Name, Owner: k.Owner})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, &refusal{
			status: http.StatusNotFound, message: "DAG " + runview.InlineText(k.DAG) + " has no schedule " + runview.InlineText(k.Name) + ", or you lack the right to see it.",
			hint: "See the list of schedules. A schedule that was taken out of its DAG file is gone.",
		}
	}
	login := s.rights(ctx).Login
	best := slices.IndexFunc(found, func(f queue.Schedule) bool { return f.Owner == "" })
	if best < 0 {
		best = max(0, slices.IndexFunc(found, func(f queue.Schedule) bool { return f.Owner == login }))
	}
	return &found[best], nil
}

// findPast finds a schedule as findSchedule does. A backfill that is over has no row any more. For its key, findPast returns the
// base schedule with the backfill's name, and past is true: that is enough to read the outcomes of the backfill's fire times.
func (s *server) findPast(ctx context.Context, k scheduleKey) (found *queue.Schedule, past bool, err error) {
	found, err = s.findSchedule(ctx, k)
	hash := strings.LastIndex(k.Name, "#")
	if _, missing := errors.AsType[*refusal](err); !missing || hash < 0 {
		return found, false, err
	}
	if _, wrong := strconv.ParseInt(k.Name[hash+1:], 10, 64); wrong != nil {
		return nil, false, err
	}
	of := k
	of.Name = k.Name[:hash]
	base, gone := s.findSchedule(ctx, of)
	if gone != nil {
		return nil, false, err
	}
	over := queue.Schedule{Schedule: base.Schedule, DAG: base.DAG, Owner: base.Owner}
	over.Name = k.Name
	return &over, true, nil
}

// schedulePage is the content of the page of a schedule or a backfill.
type schedulePage struct {
	scheduleRow

	Past      bool // the page is about a backfill that is over
	May       bool // the login may steer it
	Facts     [][2]string
	Times     []comingTime
	Fires     []fireRow
	MoreFires bool
	Backfills []scheduleRow
}

// comingTime is a fire time in the future.
type comingTime struct {
	Wall, In string
	At       time.Time
}

// fireRow is the outcome of a fire time, or of several in a row with the same outcome.
type fireRow struct {
	*queue.Fire

	Wall, Times string
	Became      mark
}

func (s *server) schedule(w http.ResponseWriter, r *http.Request) error {
	p, err := s.readSchedule(r.Context(), scheduleKeyOf(r))
	if err != nil {
		return err
	}
	shown := page{Title: p.DAG + " " + runview.InlineText(p.Name), Nav: "schedules", Crumbs: scheduleCrumbs(p.Schedule, ""), Data: p}
	if !p.Past {
		shown.Live = "/live" + s.here(r)
	}
	return s.render(w, r, "schedule.html", shown)
}

func (s *server) liveSchedule(w http.ResponseWriter, r *http.Request) error {
	k := scheduleKeyOf(r)
	regions := []string{"schedule#head", "schedule#acts", "schedule#backfills", "schedule#fires"}
	return s.stream(w, r, s.listSource(fmt.Sprintf("schedule %q", k), "schedule.html", regions, func(ctx context.Context) (any, error) {
		return s.readSchedule(ctx, k)
	}))
}

// scheduleCrumbs returns the crumbs of a page about a schedule. about is the title of a page below the schedule's own page; "": the
// crumbs are those of the schedule's page.
func scheduleCrumbs(of *queue.Schedule, about string) []crumb {
	row := scheduleRow{Schedule: of}
	all := []crumb{{"Schedules", "/schedules"}, {of.DAG, "/schedules?" + url.Values{"dag": {of.DAG}}.Encode()}, {Name: of.Name}}
	if at, err := row.Path(""); about != "" && err == nil {
		all[2].Path = at
		all = append(all, crumb{Name: about})
	}
	return all
}

// readSchedule reads all that the page of a schedule or a backfill shows. Of a backfill that is over, it reads only the outcomes of
// its fire times.
func (s *server) readSchedule(ctx context.Context, k scheduleKey) (*schedulePage, error) {
	found, past, err := s.findPast(ctx, k)
	if err != nil {
		return nil, err
	}
	fires, err := s.store.Fires(ctx, found.Key(), time.Time{}, firesShown+1)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	p := &schedulePage{scheduleRow: scheduleRowOf(found, now), Past: past, May: !past && s.rights(ctx).Steers(found.Owner), MoreFires: len(fires) > firesShown}
	for i := range fires[:min(len(fires), firesShown)] {
		p.Fires = append(p.Fires, fireRowOf(&fires[i], found.Timezone))
	}
	if past {
		return p, nil
	}
	p.Facts = scheduleFacts(found)
	if found.Backfill == nil {
		if p.Backfills, err = s.backfillsOf(ctx, found, now); err != nil {
			return nil, err
		}
	}
	times, err := s.store.FireTimes(ctx, found.Key(), comingShown)
	for _, at := range times {
		p.Times = append(p.Times, comingTime{Wall: runview.WallTime(at, found.Timezone), In: runview.FromNow(at, now), At: at})
	}
	return p, err
}

// backfillsOf reads the backfills of a schedule that are not over, in order of their numbers. It looks among the next queue.MaxPage
// schedules of the same DAG and owner.
func (s *server) backfillsOf(ctx context.Context, of *queue.Schedule, now time.Time) (rows []scheduleRow, err error) {
	later, err := s.store.Schedules(ctx, queue.ScheduleFilter{DAG: of.DAG, Owner: of.Owner, OfFile: of.Owner == "", After: of.ID, Limit: queue.MaxPage})
	for i := range later {
		if b := later[i].Backfill; b != nil && b.Of == of.ID {
			rows = append(rows, scheduleRowOf(&later[i], now))
		}
	}
	return rows, err
}

func fireRowOf(f *queue.Fire, zone string) fireRow {
	row := fireRow{Fire: f, Wall: runview.WallTime(f.LogicalAt, zone), Times: "more than 1,000", Became: outcomeMarks[f.Outcome]}
	if f.Times > 0 {
		row.Times = num(f.Times)
	}
	if !f.Until.IsZero() {
		row.Wall += " to " + runview.WallTime(f.Until, zone)
	}
	return row
}

// scheduleFacts lists the settings of a schedule or backfill that have a value, and its counts of failed and unfinished runs. Each
// is a name and a text.
func scheduleFacts(s *queue.Schedule) (facts [][2]string) {
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, [2]string{name, runview.InlineText(value)})
		}
	}
	if b := s.Backfill; b != nil {
		add("from", runview.WallTime(b.From, s.Timezone)+" "+s.Timezone)
		add("before", runview.WallTime(b.Until, s.Timezone)+" "+s.Timezone)
		add("fires", b.Reprocess)
		if b.NewestFirst {
			add("order", "the newest time first")
		}
		add("at once", runview.Count(s.AtOnce, "run"))
	} else {
		add("fires", runview.TimingText(&s.Schedule)+" "+s.Timezone)
		add("from", s.Start)
		add("before", s.End)
		add("overlap", runview.OverlapText(s))
		add("catchup", runview.CatchupText(s))
	}
	add("except", strings.Join(s.Except, ", "))
	if s.Jitter > 0 {
		add("jitter", s.Jitter.String())
	}
	if len(s.Params) > 0 {
		add("params", runview.ParamText([]byte(runview.CompactJSON(s.Params))))
	}
	add("labels", runview.LabelText(s.Labels))
	if s.PauseOnFailure > 0 {
		add("pauses", "after "+runview.Count(s.PauseOnFailure, "failed run")+" in a row")
	}
	if s.Failures > 0 {
		add("failed in a row", runview.Count(s.Failures, "run"))
	}
	add("owner", runview.OwnerWord(s))
	if s.Unfinished > 0 {
		add("unfinished", runview.Count(s.Unfinished, "run"))
	}
	return facts
}
