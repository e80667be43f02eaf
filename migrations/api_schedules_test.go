package migrations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// fired counts the times that fired.
func (b bundle) fired(t *testing.T) int {
	t.Helper()
	attend(t, b.conn)
	return get[int](t, b.conn, "SELECT count(*) FROM oarlock.runs")
}

// Applying a file, putting a schedule or resuming one fires nothing, however long ago the schedule begins and whatever its
// catchup is.
func TestSchedules_NothingFiresByPuttingThem(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, `{"name": "filed", "steps": [{"id": "a", "run": "true"}], "schedule": [
		{"name": "x", "every": "1h", "start": "2026-01-01T00:00:00Z", "catchup": true, "overlap_policy": "allow"}, {"cron": "* * * * *", "catchup": true},
		{"name": "past", "at": "2020-01-01T00:00:00Z", "catchup": true}, {"name": "off", "every": "1s", "enabled": false}]}`)
	b.put(t, nightlyDAG)
	must(t, b.conn, "SELECT oarlock.put_schedule('nightly', 'y', every => '1 hour', start_at => '2026-01-01Z', catchup => true)")
	must(t, b.conn, "SELECT oarlock.pause_schedule('nightly', 'y')")
	must(t, b.conn, "UPDATE oarlock.schedules SET decided_at = now() - interval '10 hours', paused_at = now() - interval '10 hours' WHERE name = 'y'")
	if got := get[time.Time](t, b.conn, "SELECT next_at FROM oarlock.resume_schedule('nightly', 'y')"); time.Until(got) < 0 {
		t.Errorf("resumed, it is next at %v", got)
	}
	if n := b.fired(t); n != 0 {
		t.Errorf("%d runs", n)
	}
	want := []string{"* * * * * next", "past never", "x next", "y next"}
	if got := b.list(t, "SELECT name || CASE WHEN next_at IS NULL THEN ' never' ELSE ' next' END FROM oarlock.schedule_list() ORDER BY name"); !slices.Equal(got, want) {
		t.Errorf("schedules: %q, want %q", got, want)
	}
	if got := b.list(t, "SELECT concat_ws(' ', outcome, times, reason) FROM oarlock.schedule_fires('nightly', 'y')"); len(got) != 1 || !strings.HasPrefix(got[0], "skipped 10 paused by ") {
		t.Errorf("the pause: %q", got)
	}
}

func TestSchedules_ResumedToCatchUpFollowTheirOwnRules(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	for name, want := range map[string]string{", catchup => true, overlap_policy => 'allow'": "fired, fired, fired", "": "dropped 3"} {
		id := b.hourly(t, "s"+name, 3, name)
		must(t, b.conn, "SELECT oarlock.pause_schedule('nightly', $1)", "s"+name)
		must(t, b.conn, "SELECT oarlock.resume_schedule('nightly', $1, catch_up => true)", "s"+name)
		attend(t, b.conn)
		if got := b.decided(t, id); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// Only a change of the times moves the next time. The same file again, and any other edit, leave it.
func TestSchedules_EditsMoveNothingButTheTimesThatTheyChange(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	id := b.hourly(t, "s", 3, ", catchup => true")
	const shown = "SELECT concat_ws(' ', s.decided_at, a.at, s.params) FROM oarlock.schedules s JOIN oarlock.agenda a ON a.kind = 'schedule' AND a.id = s.schedule_id WHERE s.schedule_id = $1"
	before := get[string](t, b.conn, shown, id)
	start := get[time.Time](t, b.conn, "SELECT (timing).start_at FROM oarlock.schedules WHERE schedule_id = $1", id)
	put := "SELECT schedule_id FROM oarlock.put_schedule('nightly', 's', every => $1, start_at => $2, catchup => true, params => $3)"
	if again := get[int64](t, b.conn, put, "1 hour", start, "{}"); again != id {
		t.Errorf("put again it is %d, not %d", again, id)
	}
	if got := get[string](t, b.conn, shown, id); got != before {
		t.Errorf("put again: %s, was %s", got, before)
	}
	must(t, b.conn, put, "1 hour", start, `{"n": 3}`)
	if got := get[string](t, b.conn, shown, id); got != strings.Replace(before, "{}", `{"n": 3}`, 1) {
		t.Errorf("with other params: %s, was %s", got, before)
	}
	must(t, b.conn, put, "2 hours", start, `{"n": 3}`)
	if !get[bool](t, b.conn, "SELECT at > now() AND decided_at > now() - interval '1 minute' FROM oarlock.schedules s JOIN oarlock.agenda a ON a.id = s.schedule_id WHERE schedule_id = $1", id) {
		t.Error("other times do not count from now on")
	}
}

func TestSchedules_OfAFileFollowIt(t *testing.T) {
	t.Parallel()
	b := api(t)
	file := func(schedules string) {
		b.put(t, fmt.Sprintf(`{"name": "filed", "steps": [{"id": "a", "run": "true"}], "schedule": [%s]}`, schedules))
	}
	names := func() string {
		return strings.Join(b.list(t, "SELECT name || coalesce(' of ' || schedule_owner, '') FROM oarlock.schedule_list() ORDER BY name"), ", ")
	}
	file(`{"name": "x", "every": "1h"}, {"name": "y", "every": "15m"}`)
	id := get[int64](t, b.conn, "SELECT id FROM oarlock.schedule_list() WHERE name = 'x'")
	must(t, b.conn, "SELECT oarlock.put_schedule('filed', 'x', every => '1 hour')") // an administrator's own
	file(`{"name": "x", "every": "2h"}`)
	if got := names(); got != "x, x of "+get[string](t, b.conn, "SELECT session_user") {
		t.Errorf("schedules: %s", got)
	}
	if got := get[int64](t, b.conn, "SELECT id FROM oarlock.schedule_list() WHERE name = 'x' AND schedule_owner IS NULL"); got != id {
		t.Error("an edit made another schedule of it")
	}
	must(t, b.conn, "SELECT oarlock.set_dag('filed', removed => true)")
	if n := get[int](t, b.conn, "SELECT count(next_at) FROM oarlock.schedule_list()"); n != 0 {
		t.Errorf("%d schedules of a removed DAG fire next", n)
	}
	must(t, b.conn, "SELECT oarlock.set_dag('filed', removed => false)")
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.agenda WHERE at > now()"); n != 2 {
		t.Errorf("%d items on the agenda of a DAG that is back", n)
	}
	must(t, b.conn, "SELECT oarlock.set_dag('filed', removed => true)")
	b.put(t, `{"name": "filed", "steps": [{"id": "other", "run": "true"}], "schedule": [{"name": "x", "every": "2h"}]}`)
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.agenda WHERE at > now()"); n != 2 {
		t.Errorf("%d items on the agenda of a DAG that is back as another version", n)
	}
	must(t, b.conn, "SELECT oarlock.drop_schedule('filed', 'x')") // the schedule of the user comes before that in the file
	wantCode(t, b.conn, "OA013", "SELECT oarlock.drop_schedule('filed', 'x')")
	file("")
	if got := names(); got != "" {
		t.Errorf("left: %s", got)
	}
}

func TestSchedules_AWholeSetIsExactlyThat(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	b.put(t, nightlyDAG)
	b.put(t, strings.Replace(nightlyDAG, "nightly", "other", 1))
	app := b.user(t, "app", "oarlock_submit")
	names := func() string {
		return strings.Join(b.list(t, "SELECT dag_name || '/' || name FROM oarlock.schedule_list() ORDER BY 1"), " ")
	}
	must(t, b.conn, "SELECT oarlock.put_schedule('nightly', 'mine', every => '1h')")
	must(t, app, `SELECT oarlock.put_schedules('[{"dag": "nightly", "name": "a", "cron": "30 3 * * *"}, {"dag": "other", "name": "b", "every": "15m"}]')`)
	if got := names(); got != "nightly/a nightly/mine other/b" {
		t.Errorf("schedules: %s", got)
	}
	kept := get[int64](t, b.conn, "SELECT id FROM oarlock.schedule_list() WHERE name = 'a'")
	must(t, app, `SELECT oarlock.put_schedules('[{"name": "a", "cron": "30 3 * * *"}, {"name": "c", "cron": "@daily"}]', 'nightly')`)
	if got := names(); got != "nightly/a nightly/c nightly/mine other/b" {
		t.Errorf("schedules: %s", got)
	}
	if got := get[int64](t, b.conn, "SELECT id FROM oarlock.schedule_list() WHERE name = 'a'"); got != kept {
		t.Error("what stayed is another one")
	}
	must(t, app, "BEGIN")
	must(t, app, "SELECT oarlock.drop_schedule('nightly', 'a')")
	must(t, app, "SELECT oarlock.put_schedule('nightly', 'a', every => '1h')")
	must(t, app, "COMMIT")
	must(t, app, "SELECT oarlock.put_schedules('[]')")
	if got := names(); got != "nightly/mine" {
		t.Errorf("schedules: %s", got)
	}
}

func TestSchedules_BadInputSaysWhatToType(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	b.put(t, nightlyDAG)
	b.put(t, `{"name": "closed", "steps": [{"id": "a", "run": "true"}]}`)
	app := b.user(t, "app", "oarlock_submit")
	for args, code := range map[string]string{
		"'nightly', 'x', cron => '30 3 * *'":                 "OA013",
		"'nightly', 'x', cron => '30 25 * * *'":              "OA013",
		"'nightly', 'x', cron => '0 0 30 2 *'":               "OA013",
		"'nightly', 'x', cron => '* * * * *', every => '1h'": "OA013",
		"'nightly', 'x'":                                                                    "OA013",
		"'nightly', NULL, every => '1h'":                                                    "OA013",
		"'nightly', '', every => '1h'":                                                      "OA013",
		"'nightly', repeat('x', 101), every => '1h'":                                        "OA013",
		"'nightly', 'x', cron => '* * * * *', timezone => 'Europe/Pariss'":                  "OA013",
		"'nightly', 'x', every => '1h', overlap_policy => 'never'":                          "OA013",
		"'nightly', 'x', every => '1h', at_once => 0":                                       "OA013",
		"'nightly', 'x', every => '1h', catchup_window => '1d'":                             "OA013",
		"'nightly', 'x', every => '1h', catchup => true, catchup_window => '-1d'":           "OA013",
		"'nightly', 'x', every => '1h', catchup => true, catchup_max => 1001":               "OA013",
		"'nightly', 'x', every => '10m', jitter => '10m'":                                   "OA013",
		"'nightly', 'x', cron => '*/5 * * * *', jitter => '5m'":                             "OA013",
		"'nightly', 'x', every => '1d', jitter => '61m'":                                    "OA013",
		"'nightly', 'x', every => '9s'":                                                     "OA013",
		"'nightly', 'x', every => '1 month'":                                                "OA013",
		"'nightly', 'x', every => '1h', start_at => '2026-02-01Z', end_at => '2026-01-01Z'": "OA013",
		"'nightly', 'x', every => '1h', except_at => '{christmas}'":                         "OA013",
		"'nightly', 'x', every => '1h', pause_on_failure => -1":                             "OA013",
		"'nightly', 'x', every => '1h', labels => '{\"a\": 1}'":                             "OA013",
		"'nightly', 'x', every => '1h', params => '{\"n\": 6}'":                             "OA003",
		"'nightly', 'x', every => '1h', params => '{\"m\": 6}'":                             "OA003",
		"'nowhere', 'x', every => '1h'":                                                     "OA001",
		"'closed', 'x', every => '1h'":                                                      "OA005",
		"'nightly', 'x', every => '10s', jitter => '9s', at_once => 1000, pause_on_failure => 3, except_at => '{2026-12-25, * * * * 0}'": "",
	} {
		wantCode(t, app, code, fmt.Sprintf("SELECT oarlock.put_schedule(%s)", args))
	}
	for _, set := range []string{
		`'{}'`, `NULL`, `'[{"cron": "@daily"}]', 'nightly'`, `'[{"name": "x", "cron": "@daily", "dag": "other"}]', 'nightly'`,
		`'[{"name": "x", "cron": "@daily"}, {"name": "x", "cron": "@daily"}]', 'nightly'`, `'[{"name": "x", "every": "soon"}]', 'nightly'`,
		`'[{"name": "x", "every": "1h", "colour": "red"}]', 'nightly'`, `'[{"name": "x", "every": "1h", "start": "then"}]', 'nightly'`,
	} {
		wantCode(t, app, "OA013", fmt.Sprintf("SELECT oarlock.put_schedules(%s)", set))
	}
	must(t, b.conn, "SELECT oarlock.put_schedule('nightly', 'theirs', every => '1s')")
	for _, call := range []string{
		"drop_schedule('nightly', 'theirs')", "pause_schedule('nightly', 'theirs')", "resume_schedule('nightly', 'none')",
		"trigger_schedule('nightly', 'theirs')", "schedule_fires('nightly', 'theirs')", "schedule_times('nightly', 'theirs')",
	} {
		wantCode(t, app, "OA016", "SELECT oarlock."+call)
	}
	wantCode(t, app, "OA013", "SELECT oarlock.trigger_schedule('nightly', 'x', 'infinity')")
	wantCode(t, app, "OA013", "SELECT oarlock.schedule_times('nightly', 'x', 0)")
	if n := get[int](t, app, "SELECT count(*) FROM oarlock.schedule_list()"); n != 1 {
		t.Errorf("the submitter sees %d schedules, want its own", n)
	}
}

func TestSchedules_TriggeredTimesFireOnce(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	id := b.hourly(t, "s", 2, ", catchup => true, overlap_policy => 'allow'")
	must(t, b.conn, "SELECT oarlock.pause_schedule('nightly', 's')") // which holds no user back
	first := get[time.Time](t, b.conn, "SELECT (timing).start_at FROM oarlock.schedules WHERE schedule_id = $1", id)
	const trigger = "SELECT oarlock.trigger_schedule('nightly', 's', $1)"
	run := get[int64](t, b.conn, trigger, first)
	if again := get[int64](t, b.conn, trigger, first); again != run {
		t.Errorf("triggered again it is run %d, not %d", again, run)
	}
	must(t, b.conn, "SELECT oarlock.resume_schedule('nightly', 's', catch_up => true)")
	attend(t, b.conn)
	if got := b.decided(t, id); got != "fired, fired" {
		t.Errorf("decided %s", got)
	}
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.runs"); n != 2 {
		t.Errorf("%d runs, want 2", n)
	}
	must(t, b.conn, "SELECT oarlock.cancel($1)", run)
	rerun := get[int64](t, b.conn, "SELECT oarlock.rerun($1)", run)
	if got := get[string](t, b.conn, "SELECT concat_ws(' ', schedule, schedule_id = $2, logical_at = $3) FROM oarlock.runs WHERE run_id = $1", rerun, id, first); got != "s t t" {
		t.Errorf("a run that repeats it: %s", got)
	}
}
