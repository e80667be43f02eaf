package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const backfillShown = 200 // times of a preview

// backfillForm asks for a backfill: first for its times, of which it shows what each would do, then whether to make it.
type backfillForm struct {
	scheduleRow

	From, Until, Reprocess string // as they were given
	Newest                 string // "": the oldest time first
	AtOnce, Params         string
	Words                  []string
	Problem                *refusal
	Plan                   *backfillPlan // nil: nothing was asked for, or it is wrong
}

// backfillPlan is what a backfill would do.
type backfillPlan struct {
	From, Until    time.Time
	Times          []plannedTime
	Fires, Skipped int  // of those times
	More           bool // times than are shown
	Line           string
}

// plannedTime is what a backfill would do with a time.
type plannedTime struct {
	*queue.BackfillTime

	Wall   string
	Became mark
}

func backfillFormOf(of *queue.Schedule, values url.Values) *backfillForm {
	f := &backfillForm{
		scheduleRow: scheduleRowOf(of, time.Now()), Words: runview.ReprocessWords,
		From: strings.TrimSpace(values.Get("from")), Until: strings.TrimSpace(values.Get("until")), Reprocess: values.Get("reprocess"), Newest: values.Get("newest"),
		AtOnce: strings.TrimSpace(values.Get("at_once")), Params: strings.TrimSpace(values.Get("params")),
	}
	if f.Reprocess == "" {
		f.Reprocess = runview.ReprocessWords[0]
	}
	if f.AtOnce == "" {
		f.AtOnce = "1"
	}
	return f
}

func (f *backfillForm) page() page {
	return page{Title: "Backfill", Nav: "schedules", Crumbs: scheduleCrumbs(f.Schedule, "Backfill"), Data: f}
}

// span reads which times are asked for.
func (f *backfillForm) span() (b *queue.Backfill, err error) {
	b = &queue.Backfill{Of: f.Key(), Reprocess: f.Reprocess, NewestFirst: f.Newest != ""}
	if b.From, err = scheduleTime(runview.ReadPast, "from", f.From, f.Timezone); err == nil {
		b.Until, err = scheduleTime(runview.ReadPast, "until", f.Until, f.Timezone)
	}
	switch {
	case err != nil:
		return nil, err
	case b.From.IsZero() || b.Until.IsZero():
		return nil, badFilter("from and until are both needed")
	case !b.Until.After(b.From):
		return nil, badFilter("until, %s, is not after from, %s", runview.WallTime(b.Until, f.Timezone), runview.WallTime(b.From, f.Timezone))
	case !slices.Contains(runview.ReprocessWords, f.Reprocess):
		return nil, badFilter("reprocess is missing, failed or all, not %q", f.Reprocess)
	}
	return b, nil
}

// backfill reads all of what is asked for.
func (f *backfillForm) backfill() (*queue.Backfill, error) {
	b, err := f.span()
	if err != nil {
		return nil, err
	}
	if b.AtOnce, err = strconv.Atoi(f.AtOnce); err != nil || b.AtOnce < 1 {
		return nil, badFilter("at once: it is a number from 1 to 1000, not %q", f.AtOnce)
	}
	if b.Params, err = readObject(f.Params); err != nil {
		return nil, badFilter(`params: %v: write {"day": "2026-11-20"}`, err)
	}
	return b, nil
}

// plan has the form show what would be done. An error of its own is shown, too.
func (s *server) plan(r *http.Request, f *backfillForm) error {
	b, err := f.span()
	if err == nil {
		var times []queue.BackfillTime
		if times, err = s.store.BackfillTimes(r.Context(), b, backfillShown+1); err == nil {
			f.Plan = f.planOf(b, times)
		}
	}
	if f.Problem = correctable(err); f.Problem != nil {
		err = nil
	}
	return err
}

func (f *backfillForm) planOf(b *queue.Backfill, times []queue.BackfillTime) *backfillPlan {
	p := &backfillPlan{From: b.From, Until: b.Until, More: len(times) > backfillShown, Line: f.line()}
	for i := range times[:min(len(times), backfillShown)] {
		at := &times[i]
		if at.Outcome == "fires" {
			p.Fires++
		} else {
			p.Skipped++
		}
		p.Times = append(p.Times, plannedTime{BackfillTime: at, Wall: runview.WallTime(at.LogicalAt, f.Timezone), Became: outcomeMarks[at.Outcome]})
	}
	return p
}

// line is the command that makes the backfill.
func (f *backfillForm) line() string {
	line := f.Command("backfill") + " --from " + runview.ShellWord(f.From) + " --until " + runview.ShellWord(f.Until)
	if f.Reprocess != runview.ReprocessWords[0] {
		line += " --reprocess " + runview.ShellWord(f.Reprocess)
	}
	if f.Newest != "" {
		line += " --newest-first"
	}
	if f.AtOnce != "1" {
		line += " --at-once " + runview.ShellWord(f.AtOnce)
	}
	return line
}

// backfilled reads the schedule that a request is to backfill.
func (s *server) backfilled(r *http.Request) (*queue.Schedule, error) {
	of, err := s.steered(r)
	if err == nil && of.Backfill != nil {
		return nil, &refusal{status: http.StatusConflict, message: runview.InlineText(of.Name) + " is a backfill itself.", hint: "Backfill its schedule."}
	}
	return of, err
}

// backfillPage asks which times to fire, and shows what that would do.
func (s *server) backfillPage(w http.ResponseWriter, r *http.Request) error {
	of, err := s.backfilled(r)
	if err != nil {
		return err
	}
	f := backfillFormOf(of, r.URL.Query())
	if f.From+f.Until != "" {
		if err := s.plan(r, f); err != nil {
			return err
		}
	}
	status := http.StatusOK
	if f.Problem != nil {
		status = f.Problem.status
	}
	return s.renderStatus(w, r, status, "backfill.html", f.page())
}

// makeBackfill makes a backfill and leads to its page. A form that is wrong is shown again with its preview.
func (s *server) makeBackfill(r *http.Request) (answer, error) {
	of, err := s.backfilled(r)
	if err != nil {
		return answer{}, err
	}
	f := backfillFormOf(of, r.PostForm)
	b, err := f.backfill()
	if err == nil {
		var id int64
		if id, err = s.store.Backfill(r.Context(), b); err == nil {
			made := *of
			made.Name += "#" + strconv.FormatInt(id, 10)
			return backTo(&made, nil)
		}
	}
	wrong := correctable(err)
	if wrong == nil {
		return answer{}, err
	}
	if err := s.plan(r, f); err != nil {
		return answer{}, err
	}
	f.Problem = wrong
	return answer{File: "backfill.html", Page: f.page(), Status: http.StatusUnprocessableEntity}, nil
}
