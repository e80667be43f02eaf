package web

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/oarlock-dev/oarlock/dagrun/dagspec"
	"github.com/oarlock-dev/oarlock/queue"
)

const scheduledDAG = `
name: etl
allow: {schedules: true}
params: [{name: n, type: integer, default: 1}, {name: day, default: today}, {name: how, type: json, default: {}}]
schedule:
  - {name: nightly, cron: 30 3 * * *, timezone: Europe/Paris, params: {n: 2}}
  - {cron: '*/5 * * * *', overlap_policy: all}
steps: [{id: load, run: "true"}]
`

const nightlyPath = "/schedules/etl/nightly"

// setupSchedules has a DAG with two schedules. The pages see what a login with role sees.
func setupSchedules(t *testing.T, role string, o Options) (b *testBundle, owner *queue.Store) {
	t.Helper()
	b = setup(t, role, o)
	owner = openStore(t, b.db.URL)
	spec, err := dagspec.Parse("dag.yaml", []byte(scheduledDAG))
	if err == nil {
		_, err = owner.PutDAG(t.Context(), spec, scheduledDAG, "")
	}
	if err != nil {
		t.Fatal(err)
	}
	return b, owner
}

// follow requires a form to redirect to a page, and returns that page.
func (b *testBundle) follow(t *testing.T, w *httptest.ResponseRecorder) (to, body string) {
	t.Helper()
	to = w.Header().Get("Location")
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s\n%s", w.Code, to, plainText(w.Body.String()))
	}
	return to, b.page(t, to, http.StatusOK)
}

func wantNone(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(plainText(page), text) {
			t.Errorf("the page shows %q:\n%s", text, plainText(page))
		}
	}
}

func TestSchedules_ShowWhenAndWhy(t *testing.T) {
	t.Parallel()
	b := setup(t, "", Options{})
	wantTexts(t, b.page(t, "/schedules", http.StatusOK), "No schedule is there", "oarlock schedules put", "oarlock schedules")
	b, owner := setupSchedules(t, "", Options{})
	if err := owner.PauseSchedule(t.Context(), queue.ScheduleKey{DAG: "etl", Name: "nightly"}, "until <b>disks</b>"); err != nil {
		t.Fatal(err)
	}
	run, err := owner.TriggerSchedule(t.Context(), queue.ScheduleKey{DAG: "etl", Name: "*/5 * * * *"}, time.Now().Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	list := b.page(t, "/schedules", http.StatusOK)
	wantTexts(t, list, "etl nightly", "cron 30 3 * * * Europe/Paris", "paused", "by postgres: until <b>disks</b>", "cron */5 * * * * UTC", "Z in ", "fired #1", "2 here")
	wantMarkup(t, list, `href="/schedules/etl/%2A%2F5%20%2A%20%2A%20%2A%20%2A"`, `data-live="/live/schedules"`)
	wantTexts(t, b.page(t, "/schedules?q=NIGHT", http.StatusOK), "nightly", "1 here")
	wantTexts(t, b.page(t, "/schedules?dag=etl&q=none", http.StatusOK), "No schedule matches", "oarlock schedules --dag etl")

	five := b.page(t, "/schedules/etl/%2A%2F5%20%2A%20%2A%20%2A%20%2A", http.StatusOK)
	wantTexts(t, five, "*/5 * * * * of etl", "fires next", "all while a run is unfinished", "the DAG's file", "#1 ○ queued",
		"oarlock schedules show etl '*/5 * * * *'", "1 run", "Trigger now…", "Backfill…")
	if run != 1 || strings.Count(plainText(five), " UTC ") < comingShown {
		t.Errorf("run %d, and not %d coming times:\n%s", run, comingShown, plainText(five))
	}
	wantTexts(t, b.page(t, "/schedules/etl/none", http.StatusNotFound), "DAG etl has no schedule none")
	b.page(t, "/schedules/etl/%00%FF", http.StatusBadRequest)
}

// A stream sends single regions, rendered from the data of the page.
func TestSchedules_AreStreamed(t *testing.T) {
	t.Parallel()
	b, _ := setupSchedules(t, "", Options{})
	for path, want := range map[string][]string{
		"/live/schedules?q=night": {"nightly", "1 here"}, "/live" + nightlyPath: {"nightly of etl", "Why, for others to read", "No time was decided yet."},
	} {
		gone, leave := context.WithCancel(t.Context())
		w := &firstWrites{ResponseRecorder: httptest.NewRecorder(), want: want[len(want)-1], leave: leave}
		r := httptest.NewRequestWithContext(gone, http.MethodGet, path, http.NoBody)
		r.Host = "localhost:7070"
		b.handler.ServeHTTP(w, r)
		wantTexts(t, w.Body.String(), want...)
	}
}

// firstWrites leaves a stream once it has the wanted events, or an error instead.
type firstWrites struct {
	*httptest.ResponseRecorder

	want  string
	leave func()
}

func (w *firstWrites) Write(p []byte) (int, error) {
	n, err := w.ResponseRecorder.Write(p)
	if text := w.Body.String(); strings.Contains(text, w.want) || strings.Contains(text, "event: away") || strings.Contains(text, "event: gone") {
		w.leave()
	}
	return n, err
}

func (w *firstWrites) SetWriteDeadline(time.Time) error { return nil }

func TestSchedules_PagesFollowAnother(t *testing.T) {
	t.Parallel()
	b, owner := setupSchedules(t, "", Options{})
	for n := range schedulesShown {
		if _, _, err := owner.PutSchedule(t.Context(), "etl", dagspec.Schedule{Name: fmt.Sprint("s", n+1), Cron: "@daily"}); err != nil {
			t.Fatal(err)
		}
	}
	first := b.page(t, "/schedules?q=etl", http.StatusOK)
	wantTexts(t, first, "100 here", "More →")
	for _, link := range links(t, first) {
		if strings.Contains(link, "after=") {
			wantTexts(t, b.page(t, link, http.StatusOK), "s99", "s100", "2 here", "← First")
			return
		}
	}
	t.Error("nothing leads to the next page")
}

func TestSchedule_IsSteered(t *testing.T) {
	t.Parallel()
	b, owner := setupSchedules(t, "oarlock_admin", Options{})
	_, paused := b.follow(t, b.post(t, nightlyPath+"/pause", "note", hostileNote))
	wantTexts(t, paused, "paused", hostileShown, "Resume, and catch up", "Next times, if it is resumed")
	_, on := b.follow(t, b.post(t, nightlyPath+"/resume", "catch_up", "1"))
	wantTexts(t, on, "active", "fires next")
	wantNone(t, on, "Resume")

	wantTexts(t, b.page(t, nightlyPath+"/trigger?at=2026-11-20", http.StatusOK), "oarlock schedules trigger etl nightly --at 2026-11-20", "in Europe/Paris")
	if w := b.post(t, nightlyPath+"/trigger", onceField, "x", "at", "soon"); w.Code != http.StatusUnprocessableEntity || !strings.Contains(w.Body.String(), "is no time") {
		t.Errorf("%d %s", w.Code, plainText(w.Body.String()))
	}
	for range 2 {
		if to, _ := b.follow(t, b.post(t, nightlyPath+"/trigger", onceField, "y", "at", "")); to != "/runs/1" {
			t.Errorf("triggered twice by one form: %s", to)
		}
	}
	if to, _ := b.follow(t, b.post(t, nightlyPath+"/trigger", onceField, "z", "at", "2026-11-20T03:30")); to != "/runs/2" {
		t.Error(to)
	}
	fires, err := owner.Fires(t.Context(), queue.ScheduleKey{DAG: "etl", Name: "nightly"}, time.Time{}, 10)
	if err != nil || len(fires) != 2 || fires[1].LogicalAt.UTC().Format(time.RFC3339) != "2026-11-20T02:30:00Z" {
		t.Errorf("a time is of the schedule's zone: %+v %v", fires, err)
	}
	wantTexts(t, b.page(t, nightlyPath+"/drop", http.StatusConflict), "The file of DAG etl has schedule nightly.", "oarlock dag apply")
}

const (
	hostileNote  = "'><script>alert(1)</script> # / ? % \u202e \U0001F980"
	hostileShown = "'><script>alert(1)</script> # / ? % \ufffd \U0001F980" // a text must not change the direction of the text after it
)

func TestSchedule_OfHostileName(t *testing.T) {
	t.Parallel()
	b, owner := setupSchedules(t, "", Options{Base: "/x"})
	if _, _, err := owner.PutSchedule(t.Context(), "etl", dagspec.Schedule{Name: hostileNote, Every: 60_000}); err != nil {
		t.Fatal(err)
	}
	list := b.page(t, "/x/schedules", http.StatusOK)
	if strings.Contains(list, "<script>alert") {
		t.Error("a name became markup")
	}
	at := ""
	for _, link := range links(t, list) {
		if strings.Contains(link, "script") {
			at = link
		}
	}
	if at == "" {
		t.Fatal("nothing leads to it")
	}
	own := b.page(t, at, http.StatusOK)
	wantTexts(t, own, hostileShown, "every 1m", "user postgres", "Remove…")
	route, query, _ := strings.Cut(at, "?")
	for _, about := range []string{"/trigger", "/drop", "/backfill"} {
		wantTexts(t, b.page(t, route+about+"?"+query, http.StatusOK), hostileShown, "--owner postgres")
	}
	if to, _ := b.follow(t, b.post(t, route+"/pause?"+query, "note", "x")); to != at {
		t.Errorf("it leads to %s, not to %s", to, at)
	}
	if to, list := b.follow(t, b.post(t, route+"/drop?"+query, onceField, "x")); to != "/x/schedules" || strings.Contains(list, "script&gt;alert") {
		t.Errorf("it leads to %s", to)
	}
	b.page(t, at, http.StatusNotFound)
}

func TestSchedule_OffersWhatTheLoginMay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		role string
		o    Options
	}{{"oarlock_read", Options{}}, {"", Options{ReadOnly: true}}} {
		b, _ := setupSchedules(t, c.role, c.o)
		wantNone(t, b.page(t, nightlyPath, http.StatusOK), "Why, for others", "Trigger", "Backfill…")
		for _, about := range []string{"/trigger", "/drop", "/backfill"} {
			b.page(t, nightlyPath+about, http.StatusForbidden)
		}
		for _, verb := range []string{"/pause", "/resume", "/trigger", "/drop", "/backfill"} {
			if w := b.post(t, nightlyPath+verb); w.Code != http.StatusForbidden {
				t.Errorf("%s %s: %d", c.role, verb, w.Code)
			}
		}
	}
	b, _ := setupSchedules(t, "oarlock_submit", Options{})
	if _, _, err := b.store.PutSchedule(t.Context(), "etl", dagspec.Schedule{Name: "mine", Cron: "@daily"}); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, b.page(t, "/schedules", http.StatusOK), "mine", "1 here")
	wantTexts(t, b.page(t, "/schedules/etl/mine", http.StatusOK), "Trigger now…", "Remove…")
	b.page(t, nightlyPath, http.StatusNotFound)
	b.exec(t, "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA oarlock FROM oarlock_submit")
	for _, path := range []string{"/schedules", "/schedules/etl/mine", "/schedules/etl/mine/backfill"} {
		b.page(t, path, http.StatusForbidden)
	}
}

// The command beside the form makes the backfill that the form makes, with its params.
func TestBackfill_HasItsCommand(t *testing.T) {
	t.Parallel()
	b, _ := setupSchedules(t, "oarlock_admin", Options{})
	at := func(params, atOnce string) string {
		return nightlyPath + "/backfill?" + url.Values{"from": {"2026-10-01"}, "until": {"2026-10-05"}, "params": {params}, "at_once": {atOnce}}.Encode()
	}
	const command = "oarlock backfill etl nightly --from 2026-10-01 --until 2026-10-05"
	for params, want := range map[string]string{
		"": " --at-once 2", "{}": " --at-once 2", `{"n": 7}`: " --at-once 2 -p n=7",
		`{"n": 7, "how": {"a": [1, 2]}, "day": "the 1st"}`: ` --at-once 2 -p 'day=the 1st' -p 'how={"a":[1,2]}' -p n=7`,
		`{"day": "7", "how": "7"}`:                         ` --at-once 2 -p day=7 -p 'how="7"'`,
	} {
		if page := b.page(t, at(params, "2"), http.StatusOK); !strings.Contains(page, "<code>"+html.EscapeString(command+want)+"</code>") {
			t.Errorf("%s: not %s\n%s", params, want, plainText(page))
		}
	}
	none := b.page(t, at(`{"n": null}`, "2"), http.StatusOK) // that is for the default of the DAG
	wantTexts(t, none, "4 would fire")
	wantNone(t, none, command)
	for _, wrong := range []string{at("{", "2"), at("", "0")} {
		page := b.page(t, wrong, http.StatusBadRequest)
		wantTexts(t, page, "4 would fire")
		wantNone(t, page, command)
	}
	submit, _ := setupSchedules(t, "oarlock_submit", Options{}) // cannot read the types of params
	if _, _, err := submit.store.PutSchedule(t.Context(), "etl", dagspec.Schedule{Name: "mine", Cron: "@daily"}); err != nil {
		t.Fatal(err)
	}
	own := "/schedules/etl/mine/backfill?" + url.Values{"from": {"2d"}, "until": {"now"}, "params": {`{"n": 7, "day": "x"}`}}.Encode()
	wantTexts(t, submit.page(t, own, http.StatusOK), "--until now -p day=x -p n=7")
}

func TestBackfill_PreviewsAndIsMadeOnce(t *testing.T) {
	t.Parallel()
	b, owner := setupSchedules(t, "oarlock_admin", Options{})
	of := queue.ScheduleKey{DAG: "etl", Name: "nightly"}
	if _, err := owner.TriggerSchedule(t.Context(), of, time.Date(2026, 10, 2, 1, 30, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	at := nightlyPath + "/backfill"
	wantTexts(t, b.page(t, at, http.StatusOK), "oarlock backfill etl nightly --from 7d --until now --dry-run")
	planned := b.page(t, at+"?from=2026-10-01&until=2026-10-05T00:00&newest=1", http.StatusOK)
	wantTexts(t, planned, "Of 4 times 3 would fire, and 1 would be skipped", "2026-10-01 03:30 ○ fires", "#1",
		"oarlock backfill etl nightly --from 2026-10-01 --until 2026-10-05T00:00 --newest-first")
	for query, want := range map[string]string{
		"from=2026-10-05&until=2026-10-01": "is not after from", "from=x&until=now": `from: "x" is no time`, "from=3d": "both needed",
		"from=2026-10-01&until=2026-10-01T01:00": "has no time between", "from=3d&until=now&reprocess=some": "reprocess must be missing",
	} {
		if w := b.get(t, at+"?"+query); w.Code/100 != 4 || !strings.Contains(plainText(w.Body.String()), want) {
			t.Errorf("%s: %d, not %s\n%s", query, w.Code, want, plainText(w.Body.String()))
		}
	}
	wantTexts(t, b.page(t, "/schedules/etl/%2A%2F5%20%2A%20%2A%20%2A%20%2A/backfill?from=2d&until=now", http.StatusOK), "Of the first 200 times 200 would fire, and 0 would be skipped; there are more times")

	span := []string{onceField, "x", "from", "2026-09-30T22:00:00Z", "until", "2026-10-04T22:00:00Z", "at_once", "2"}
	for params, want := range map[string]string{"{": "the text is no JSON object", "{} {}": "something follows", `{"n": "x"}`: "n", "null": "the text is no JSON object"} {
		w := b.post(t, at, append(span, "params", params)...)
		if w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", params, w.Code)
		}
		wantTexts(t, w.Body.String(), want, "would fire")
	}
	first, made := b.follow(t, b.post(t, at, append(span, "params", `{"n": 7}`)...))
	wantTexts(t, made, "nightly#3 of etl", "goes on from", "2 runs", "n=7", "decided", "oarlock schedules show etl 'nightly#3'", "Cancel backfill…")
	if again, _ := b.follow(t, b.post(t, at, append(span, "params", `{"n": 7}`)...)); again != first || first != "/schedules/etl/nightly%233" {
		t.Errorf("%s, then %s", first, again)
	}
	wantTexts(t, b.page(t, nightlyPath, http.StatusOK), "Backfills under way", "nightly#3", "0 %")
	wantTexts(t, b.page(t, "/schedules", http.StatusOK), "nightly#3", "3 here")
	b.follow(t, b.post(t, first+"/pause", "note", "later"))
	wantTexts(t, b.page(t, first+"/drop", http.StatusOK), "Cancel backfill: nightly#3 of etl", "oarlock backfill cancel etl 'nightly#3'")
	_, over := b.follow(t, b.post(t, first+"/drop", onceField, "y"))
	wantTexts(t, over, "This backfill is over.", "oarlock schedules fires etl 'nightly#3'")
	wantNone(t, over, "Resume", "Next times", "fires next")
	b.page(t, nightlyPath+url.PathEscape("#99"), http.StatusNotFound)
}
