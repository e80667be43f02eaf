package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oarlock-dev/oarlock/internal/runview"
	"github.com/oarlock-dev/oarlock/queue"
)

const schedulesShown = 100 // on a page

// scheduleFilter picks schedules.
type scheduleFilter struct {
	DAG   string
	Find  string // text in the names of DAGs, schedules and owners
	After int64  // id of the last schedule of the previous page
}

// scheduleFilterOf reads a filter from the query of an address. A wrong value of after means the first page.
func scheduleFilterOf(query url.Values) scheduleFilter {
	after, err := strconv.ParseInt(query.Get("after"), 10, 64)
	if err != nil {
		after = 0 // a wrong value leads to the first page
	}
	return scheduleFilter{DAG: query.Get("dag"), Find: strings.TrimSpace(query.Get("q")), After: after}
}

// path returns the path, below the base, of the list of the schedules that match.
func (f scheduleFilter) path() (string, error) {
	return withQuery("/schedules", "dag", f.DAG, "q", f.Find, "after", f.After)
}

func (f scheduleFilter) command() string {
	if f.DAG == "" {
		return "oarlock schedules"
	}
	return "oarlock schedules --dag " + runview.ShellWord(f.DAG)
}

// picks reports whether the names of a schedule, its DAG and its owner contain Find. Upper and lower case count as equal.
func (f scheduleFilter) picks(s *queue.Schedule) bool {
	return f.Find == "" || strings.Contains(strings.ToLower(s.DAG+" "+s.Name+" "+s.Owner), strings.ToLower(f.Find))
}

// schedulesData is the content of the list of schedules.
type schedulesData struct {
	Filter  scheduleFilter
	Rows    []scheduleRow
	Next    string // path of the next page; "": this is the last
	First   string // path of the first page; "": this is the first
	Command string
}

// schedules shows one page of the schedules that match the filter in the address. They are in order of DAG and name, each followed
// by its backfills.
func (s *server) schedules(w http.ResponseWriter, r *http.Request) error {
	data, err := s.readSchedules(r.Context(), scheduleFilterOf(r.URL.Query()))
	if err != nil {
		return err
	}
	return s.render(w, r, "schedules.html", page{Title: "Schedules", Nav: "schedules", Data: data, Live: "/live" + s.here(r)})
}

func (s *server) liveSchedules(w http.ResponseWriter, r *http.Request) error {
	f := scheduleFilterOf(r.URL.Query())
	key, err := f.path()
	if err != nil {
		return err
	}
	return s.stream(w, r, s.listSource(key, "schedules.html", []string{"schedules#list"}, func(ctx context.Context) (any, error) {
		return s.readSchedules(ctx, f)
	}))
}

// readSchedules reads one page of schedules. Pages follow each other by id, and compareRows orders the rows of each. With Find, it
// searches among queue.MaxPage schedules, the most that one statement reads, and the next page goes on after them.
func (s *server) readSchedules(ctx context.Context, f scheduleFilter) (*schedulesData, error) {
	limit := schedulesShown + 1
	if f.Find != "" {
		limit = queue.MaxPage
	}
	read, err := s.store.Schedules(ctx, queue.ScheduleFilter{DAG: f.DAG, After: f.After, Limit: limit})
	if err != nil {
		return nil, err
	}
	data := &schedulesData{Filter: f, Command: f.command()}
	now, last, more := time.Now(), int64(0), len(read) == limit
	for i := range read {
		if !f.picks(&read[i]) {
			continue
		}
		if len(data.Rows) == schedulesShown {
			last, more = data.Rows[schedulesShown-1].ID, true
			break
		}
		data.Rows = append(data.Rows, scheduleRowOf(&read[i], now))
	}
	if more {
		older := f
		older.After = cmp.Or(last, read[len(read)-1].ID)
		if data.Next, err = older.path(); err != nil {
			return nil, err
		}
	}
	if f.After != 0 {
		first := f
		first.After = 0
		if data.First, err = first.path(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(data.Rows, compareRows)
	return data, nil
}

// compareRows orders rows by DAG, name and owner. The backfills of a schedule come after it.
func compareRows(a, b scheduleRow) int {
	return cmp.Or(cmp.Compare(a.DAG, b.DAG), cmp.Compare(a.Base, b.Base), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.ID, b.ID))
}

// scheduleRow is a schedule, or a backfill, in a list.
type scheduleRow struct {
	*queue.Schedule

	Base    string // name of the schedule, without the number of a backfill
	Timing  string // cron 30 3 * * *
	State   mark
	Why     string // reason why the schedule does not fire, or fires no runs
	Next    string // time until the next fire time; for a backfill, the time at which it goes on
	Outcome mark   // of the newest fire time
	Decided int    // percent of a backfill's fire times that are decided
}

// mark is a word, shown with the sign and colour of a run state.
type mark struct{ Class, Word string }

var scheduleMarks = map[string]mark{
	"active": {"succeeded", "active"}, "held": {"waiting", "held back"}, "paused": {"paused", "paused"}, "failed": {"failed", "failed"},
	"refused": {"failed", "refused"}, "over": {"skipped", "over"}, "removed": {"skipped", runview.DAGRemoved},
}

var outcomeMarks = map[string]mark{
	"fired": {"succeeded", "fired"}, "fires": {"ready", "fires"}, "skipped": {"skipped", "skipped"}, "dropped": {"canceled", "dropped"}, "refused": {"failed", "refused"},
}

func scheduleRowOf(s *queue.Schedule, now time.Time) scheduleRow {
	row := scheduleRow{Schedule: s, Base: s.Name, Timing: runview.TimingText(&s.Schedule), Outcome: outcomeMarks[s.Last.Outcome]}
	state := runview.ScheduleState(s)
	switch state {
	case "paused":
		row.Why = "by " + runview.InlineText(s.PausedBy)
		if s.PauseNote != "" {
			row.Why += ": " + runview.InlineText(s.PauseNote)
		}
	case "failed":
		row.Why = runview.Count(s.Errors, "time") + ": " + runview.InlineText(s.Error)
	case "refused":
		row.Why = runview.InlineText(s.Last.Reason)
	}
	if !s.HeldFrom.IsZero() && (state == "active" || state == "refused") {
		state, row.Why = "held", runview.FiresNext(s, now)
	}
	row.State = scheduleMarks[state]
	if s.Backfill != nil {
		row.Base, row.Decided = s.Name[:max(0, strings.LastIndex(s.Name, "#"))], int(100*runview.DecidedShare(s.Backfill))
		row.Next = runview.GoesOnFrom(s)
	} else if !s.NextAt.IsZero() {
		row.Next = runview.FromNow(s.NextAt, now)
	}
	return row
}

// Path returns the path of the schedule's page if about is "", or else of the page about below it, such as /drop.
func (r scheduleRow) Path(about string) (string, error) {
	return withQuery("/schedules/"+url.PathEscape(r.DAG)+"/"+url.PathEscape(r.Name)+about, "owner", r.Owner)
}

// Command returns an oarlock command about the schedule. verb is the part between oarlock and the names, such as "schedules
// trigger".
func (r scheduleRow) Command(verb string) string {
	line := "oarlock " + verb + " " + runview.ShellWord(r.DAG) + " " + runview.ShellWord(r.Name)
	if r.Owner != "" {
		line += " --owner " + runview.ShellWord(r.Owner)
	}
	return line
}
