package web

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const backfillShown = 200 // fire times that a preview lists

// backfillForm is the form for a backfill. The user first names a span of time and sees what the backfill would do with each fire
// time in it, and then confirms.
type backfillForm struct {
	scheduleRow

	From, Until, Reprocess string // as the user typed them
	Newest                 string // "": the oldest fire time comes first
	AtOnce, Params         string
	Words                  []string
	Problem                *refusal
	Plan                   *backfillPlan // nil: no span was given yet, or it is wrong
}

// backfillPlan is the preview of a backfill.
type backfillPlan struct {
	From, Until    time.Time
	Times          []plannedTime
	Fires, Skipped int    // counts over Times
	More           bool   // there are more fire times than Times lists
	Line           string // the command that makes the same backfill; "": there is none
}

// plannedTime is a fire time with the outcome that a backfill would give it.
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

// span parses the fields that choose fire times: from, until, reprocess and newest first. It refuses a field that is missing or
// wrong, and an until that is not after from. The result has neither AtOnce nor Params.
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
		return nil, badFilter("reprocess must be missing, failed or all, not %q", f.Reprocess)
	}
	return b, nil
}

// backfill parses all fields: the fields of span, how many runs at once, and params. It refuses a wrong field, but leaves it to the
// database to refuse more than 1000 at once.
func (f *backfillForm) backfill() (*queue.Backfill, error) {
	b, err := f.span()
	if err != nil {
		return nil, err
	}
	if b.AtOnce, err = strconv.Atoi(f.AtOnce); err != nil || b.AtOnce < 1 {
		return nil, badFilter("at once: must be a number from 1 to 1000, not %q", f.AtOnce)
	}
	if b.Params, err = readObject(f.Params); err != nil {
		return nil, badFilter(`params: %v: write {"day": "2026-11-20"}`, err)
	}
	return b, nil
}

// plan sets f.Plan to the preview, if span finds no wrong field. It sets f.Problem to an error that the user can correct, or to
// nil, and returns any other error.
func (s *server) plan(r *http.Request, f *backfillForm) error {
	err := s.preview(r.Context(), f)
	if f.Problem = correctable(err); f.Problem != nil {
		err = nil
	}
	return err
}

// preview sets f.Plan if span finds no wrong field, and the command of the plan if no other field is wrong either. It returns the
// error for a wrong field.
func (s *server) preview(ctx context.Context, f *backfillForm) error {
	b, err := f.span()
	if err != nil {
		return err
	}
	times, err := s.store.BackfillTimes(ctx, b, backfillShown+1)
	if err != nil {
		return err
	}
	f.Plan = f.planOf(b, times)
	if b, err = f.backfill(); err != nil {
		return err
	}
	spec, err := s.currentSpec(ctx, f.DAG)
	if err != nil {
		return err
	}
	f.Plan.Line = f.line(b, spec)
	return nil
}

func (f *backfillForm) planOf(b *queue.Backfill, times []queue.BackfillTime) *backfillPlan {
	p := &backfillPlan{From: b.From, Until: b.Until, More: len(times) > backfillShown}
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

// line returns the command that makes the backfill b of the form. It leaves out flags that would have their default. It returns ""
// if a param is null, because the command line cannot say so. spec has the types of the params; nil: the login cannot read them.
func (f *backfillForm) line(b *queue.Backfill, spec *dagspec.Spec) string {
	params := paramTexts(json.RawMessage(runview.CompactJSON(b.Params)), spec)
	if len(params) < len(b.Params) {
		return ""
	}
	line := f.Command("backfill") + " --from " + runview.ShellWord(f.From) + " --until " + runview.ShellWord(f.Until)
	if f.Reprocess != runview.ReprocessWords[0] {
		line += " --reprocess " + runview.ShellWord(f.Reprocess)
	}
	if f.Newest != "" {
		line += " --newest-first"
	}
	if b.AtOnce != 1 {
		line += " --at-once " + strconv.Itoa(b.AtOnce)
	}
	return line + runview.ParamFlags(params)
}

// backfilled reads the schedule that the request would backfill. It refuses a schedule that is itself a backfill, or that the login
// must not steer.
func (s *server) backfilled(r *http.Request) (*queue.Schedule, error) {
	of, err := s.steered(r)
	if err == nil && of.Backfill != nil {
		return nil, &refusal{status: http.StatusConflict, message: runview.InlineText(of.Name) + " is a backfill, not a schedule.", hint: "Make a backfill of its schedule."}
	}
	return of, err
}

// backfillPage shows the form for a span of time, with the preview of the backfill once the user has given from or until.
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

// makeBackfill makes a backfill and redirects to its page. If the user can correct the error, it shows the form and the preview
// again, with the error.
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
