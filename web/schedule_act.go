package web

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

// steered reads the schedule that the path names. It refuses a login that is not allowed to steer it.
func (s *server) steered(r *http.Request) (*queue.Schedule, error) {
	found, err := s.findSchedule(r.Context(), scheduleKeyOf(r))
	if err != nil {
		return nil, err
	}
	rights, err := s.readRights(r.Context())
	if err == nil && !rights.Steers(found.Owner) {
		return nil, &refusal{
			status: http.StatusForbidden, message: "Schedule " + runview.InlineText(found.Name) + " of DAG " + found.DAG + " belongs to " + runview.OwnerWord(found) + ": this login steers only its own schedules.",
			hint: "Have an administrator grant oarlock_admin to this login; a server with --read-only steers no schedules.",
		}
	}
	return found, err
}

// correctable returns the problem to show in the form, if the user can correct err there: a refusal with status 400, or one by
// Oarlock's SQL. It returns nil for all other errors, for a missing right or object, and for nil.
func correctable(err error) *refusal {
	if known, ok := errors.AsType[*refusal](err); ok && known.status == http.StatusBadRequest {
		return known
	}
	said, ok := errors.AsType[*queue.Error](err)
	if !ok || denied[said.Code] || !strings.HasPrefix(said.Code, ownCode) || errors.Is(err, queue.ErrNotFound) {
		return nil
	}
	return &refusal{status: http.StatusUnprocessableEntity, message: runview.InlineText(said.Message), hint: runview.InlineText(said.Hint)}
}

// backTo returns the redirect to the page of a schedule, or err if that is not nil. An action returns both results.
func backTo(of *queue.Schedule, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	row := scheduleRow{Schedule: of}
	to, err := row.Path("")
	return answer{To: to}, err
}

func (s *server) pauseSchedule(r *http.Request) (answer, error) {
	of, err := s.steered(r)
	if err != nil {
		return answer{}, err
	}
	return backTo(of, s.store.PauseSchedule(r.Context(), of.Key(), r.PostForm.Get("note")))
}

func (s *server) resumeSchedule(r *http.Request) (answer, error) {
	of, err := s.steered(r)
	if err != nil {
		return answer{}, err
	}
	_, err = s.store.ResumeSchedule(r.Context(), of.Key(), r.PostForm.Get("catch_up") != "")
	return backTo(of, err)
}

// scheduleForm is the page that asks for confirmation before an action that one click cannot undo.
type scheduleForm struct {
	scheduleRow

	Verb    string // last part of the form's path: trigger or drop
	Title   string
	At      string // fire time of the run to start, as the user typed it; "": now
	Line    string // the command with the same effect
	Problem *refusal
}

func (f *scheduleForm) page() page {
	return page{Title: f.Title, Nav: "schedules", Crumbs: scheduleCrumbs(f.Schedule, f.Title), Data: f}
}

func triggerForm(of *queue.Schedule, at string) *scheduleForm {
	f := &scheduleForm{scheduleRow: scheduleRowOf(of, time.Now()), Verb: "trigger", Title: "Trigger now", At: at}
	f.Line = f.Command("schedules trigger")
	if at != "" {
		f.Line += " --at " + runview.ShellWord(at)
	}
	return f
}

func (s *server) triggerPage(w http.ResponseWriter, r *http.Request) error {
	of, err := s.steered(r)
	if err != nil {
		return err
	}
	return s.render(w, r, "schedule_form.html", triggerForm(of, r.URL.Query().Get("at")).page())
}

// triggerSchedule starts a run of the schedule now, and redirects to the run. The field at gives the fire time that the run is for;
// empty or "now": the present time. If the user can correct the error, it shows the form again.
func (s *server) triggerSchedule(r *http.Request) (answer, error) {
	of, err := s.steered(r)
	if err != nil {
		return answer{}, err
	}
	f := triggerForm(of, strings.TrimSpace(r.PostForm.Get("at")))
	at, err := scheduleTime(runview.ReadTime, "at", strings.TrimPrefix(f.At, "now"), of.Timezone)
	if err == nil {
		var run queue.RunID
		if run, err = s.store.TriggerSchedule(r.Context(), of.Key(), at); err == nil {
			return answer{To: runPath(run)}, nil
		}
	}
	if f.Problem = correctable(err); f.Problem == nil {
		return answer{}, err
	}
	return answer{File: "schedule_form.html", Page: f.page(), Status: http.StatusUnprocessableEntity}, nil
}

// timeReader is runview.ReadTime or runview.ReadPast.
type timeReader func(text string, now time.Time, zone *time.Location) (at time.Time, ok bool, err error)

// scheduleTime parses a time of a form by read. A time without an offset is in zone, the schedule's. It returns the zero time for
// "". name is the field that a refusal names.
func scheduleTime(read timeReader, name, text, zone string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, ok, err := read(text, time.Now(), runview.KnownZone(zone))
	switch {
	case errors.Is(err, runview.ErrUnknownZone):
		return at, badFilter("%s: this server does not know the zone that %s is of: write 2026-11-20T03:00:00+01:00", name, runview.InlineText(text))
	case err == nil && !ok:
		return at, badFilter("%s: %q is no time: write 2026-11-20, 2026-11-20 06:00 or 2026-11-20T06:00:00Z", name, text)
	}
	return at, err
}

func dropForm(of *queue.Schedule) *scheduleForm {
	f := &scheduleForm{scheduleRow: scheduleRowOf(of, time.Now()), Verb: "drop", Title: "Remove schedule"}
	f.Line = f.Command("schedules rm")
	if of.Backfill != nil {
		f.Title, f.Line = "Cancel backfill", f.Command("backfill cancel")
	}
	return f
}

// dropped reads the schedule that a request is to drop. It refuses a schedule in a DAG's file, which ends only when the file no
// longer has it, and a schedule that the login is not allowed to steer.
func (s *server) dropped(r *http.Request) (*queue.Schedule, error) {
	of, err := s.steered(r)
	if err == nil && of.Backfill == nil && of.Owner == "" {
		return nil, &refusal{
			status: http.StatusConflict, message: "The file of DAG " + of.DAG + " has schedule " + runview.InlineText(of.Name) + ".",
			hint: "Delete the schedule in the file, and apply the file: `oarlock dag apply FILE`.",
		}
	}
	return of, err
}

func (s *server) dropPage(w http.ResponseWriter, r *http.Request) error {
	of, err := s.dropped(r)
	if err != nil {
		return err
	}
	return s.render(w, r, "schedule_form.html", dropForm(of).page())
}

// dropSchedule drops a schedule and redirects to the list of schedules. For a backfill, it redirects to the backfill's page, which
// shows the outcomes of its fire times.
func (s *server) dropSchedule(r *http.Request) (answer, error) {
	of, err := s.dropped(r)
	if err == nil {
		err = s.store.DropSchedule(r.Context(), of.Key())
	}
	if err != nil || of.Backfill != nil {
		return backTo(of, err)
	}
	return answer{To: "/schedules"}, nil
}
