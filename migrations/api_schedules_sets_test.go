package migrations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// written returns the row versions of schedules and of the agenda. Each write of a row changes its version.
func (b bundle) written(t *testing.T) string {
	t.Helper()
	return strings.Join(b.list(t, `SELECT concat_ws(' ', 'schedule', s.schedule_id, s.xmin, s.ctid) FROM oarlock.schedules s
		UNION ALL SELECT concat_ws(' ', 'agenda', a.kind, a.id, a.xmin, a.ctid) FROM oarlock.agenda a ORDER BY 1`), "\n")
}

// A file is applied from a dashboard with keep_schedules, and from a shell without: the same hash does not mean that the
// schedules are those of the file.
func TestSchedules_AFileIsAppliedAgain(t *testing.T) {
	t.Parallel()
	b := api(t)
	put := func(schedules string, keep bool) string {
		t.Helper()
		must(t, b.conn, "SELECT oarlock.put_dag($1::text::jsonb, 'source', md5($1::text), '{process}', keep_schedules => $2)",
			fmt.Sprintf(`{"name": "filed", "steps": [{"id": "a", "run": "true"}], "schedule": [%s]}`, schedules), keep)
		return strings.Join(b.list(t, "SELECT name FROM oarlock.schedule_list('filed') ORDER BY name"), ", ")
	}
	const old, other = `{"name": "gone", "every": "1h"}, {"name": "stays", "every": "1h"}`, `{"name": "new", "every": "1h"}, {"name": "stays", "every": "2h"}`
	for _, step := range []struct {
		schedules string
		keep      bool
		want      string
	}{
		{old, false, "gone, stays"},
		{other, true, "gone, stays"},
		{other, true, "gone, stays"},
		{other, false, "new, stays"},
		{old, true, "new, stays"},
		{other, false, "new, stays"},
		{"", true, "new, stays"},
		{"", false, ""},
		{other, false, "new, stays"},
	} {
		if got := put(step.schedules, step.keep); got != step.want {
			t.Errorf("put %s, to keep them %v: %s, want %s", step.schedules, step.keep, got, step.want)
		}
	}
	if got := get[string](t, b.conn, "SELECT every::text FROM oarlock.schedule_list('filed') WHERE name = 'stays'"); got != "02:00:00" {
		t.Errorf("what stays fires every %s", got)
	}
	before := b.written(t)
	put(other, false)
	put(other, true)
	if got := b.written(t); got != before {
		t.Errorf("the same again wrote:\n%s\nwas\n%s", got, before)
	}
}

// wholeSchedules have each key that a schedule has.
const wholeSchedules = `[
	{"name": "a", "cron": "30 3 * * *", "timezone": "Europe/Paris", "start": "2026-01-01T00:00:00Z", "end": "2099-01-01T00:00:00Z", "except": ["2026-12-25", "* 0-2 * * *"],
	 "params": {"n": 3}, "labels": {"tenant": "acme", "tier": "1"}, "overlap_policy": "latest", "at_once": 2, "catchup": true, "catchup_window": "1d",
	 "catchup_max": 9, "jitter": "5m", "pause_on_failure": 3},
	{"name": "b", "every": "15m"},
	{"name": "c", "at": "2099-01-01T00:00:00Z"}]`

func TestSchedules_TheSameAgainWritesNothing(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	for _, put := range []string{
		"SELECT oarlock.put_schedules('" + wholeSchedules + "', 'nightly')",
		`SELECT oarlock.put_schedule('nightly', 'one', cron => '30 3 * * *', timezone => 'Europe/Paris', params => '{"n": 3}', labels => '{"tenant": "acme"}',
			overlap_policy => 'latest', at_once => 2, catchup => true, catchup_window => '1 day', catchup_max => 9, jitter => '5 minutes', start_at => '2026-01-01Z',
			end_at => '2099-01-01Z', except_at => '{2026-12-25}', pause_on_failure => 3)`,
	} {
		must(t, b.conn, put)
		before := b.written(t)
		must(t, b.conn, put)
		if got := b.written(t); got != before {
			t.Errorf("%s\nagain wrote:\n%s\nwas\n%s", put, got, before)
		}
	}
}

func TestSchedules_WhatIsNotEnabledIsNotInTheSet(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	put := func(enabled string) string {
		return strings.Join(b.list(t, fmt.Sprintf(`SELECT name FROM oarlock.put_schedules('[{"name": "a", "every": "1h", "enabled": %s}, {"name": "b", "every": "1h"}]', 'nightly')`, enabled)), ", ")
	}
	for _, step := range []struct{ enabled, want string }{{"false", "b"}, {"true", "a, b"}, {"false", "b"}} {
		if got := put(step.enabled); got != step.want {
			t.Errorf("enabled %s: put are %s, want %s", step.enabled, got, step.want)
		}
		if got := strings.Join(b.list(t, "SELECT name FROM oarlock.schedule_list() ORDER BY name"), ", "); got != step.want {
			t.Errorf("enabled %s: there are %s, want %s", step.enabled, got, step.want)
		}
	}
}

func TestSchedules_RefuseWhatIsNoSet(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	b.put(t, nightlyDAG)
	app := b.user(t, "app", "oarlock_submit")
	must(t, app, "SELECT oarlock.put_schedule('nightly', 's', every => '1h')")
	for call, code := range map[string]string{
		`put_schedules('["x"]')`:                                                  "OA013",
		`put_schedules('[["x"]]')`:                                                "OA013",
		`put_schedules('[null]', 'nightly')`:                                      "OA013",
		`put_schedules('[5]', 'nightly')`:                                         "OA013",
		`put_schedules('[{"name": null, "every": "1h"}]', 'nightly')`:             "OA013",
		`put_schedules('[{"name": 5, "every": "1h"}]', 'nightly')`:                "OA013",
		`put_schedules('[{"name": {}, "every": "1h"}]', 'nightly')`:               "OA013",
		`put_schedules('[{"name": "x", "every": "1h"}]')`:                         "OA013",
		`put_schedules('[{"name": "x", "dag": null, "every": "1h"}]')`:            "OA013",
		`put_schedules('[{"name": "x", "dag": "no", "every": "1h"}]')`:            "OA001",
		`put_schedules('[{"name": "x", "every": "60"}]', 'nightly')`:              "OA013", // seconds, or minutes?
		`put_schedules('[{"name": "x", "every": "1h", "jitter": 5}]', 'nightly')`: "OA013",
		// values that a file may not have either
		"put_schedule('nightly', 'x', every => '1h', overlap_policy => 'allow', at_once => 2)":                 "OA013",
		"put_schedule('nightly', 'x', every => '1h', timezone => 'Europe/Paris')":                              "OA013",
		"put_schedule('nightly', 'x', at => '2099-01-01Z', timezone => 'Europe/Paris')":                        "OA013",
		"put_schedule('nightly', 'x', every => '1h', catchup_max => 5)":                                        "OA013",
		"put_schedule('nightly', 'x', every => '1h', overlap_policy => 'allow')":                               "",
		"put_schedule('nightly', 'x', every => '1h', timezone => 'UTC')":                                       "",
		"put_schedule('nightly', 'x', every => '1h', timezone => 'Europe/Paris', except_at => '{12-25}')":      "OA013", // no date
		"put_schedule('nightly', 'x', every => '1h', timezone => 'Europe/Paris', except_at => '{2026-12-25}')": "",
		"put_schedule('nightly', 'x', every => '1h', catchup => true, catchup_max => 5)":                       "",
		// a logical_at is in a year that schedules have
		"trigger_schedule('nightly', 's', '0019-12-31Z')": "OA013",
		"trigger_schedule('nightly', 's', '9900-01-01Z')": "OA013",
		"trigger_schedule('nightly', 's', '-infinity')":   "OA013",
		"schedule_list(rows => -1)":                       "OA013",
		"schedule_fires('nightly', 's', rows => -1)":      "OA013",
		"schedule_times('nightly', 's', -1)":              "OA013",
	} {
		must(t, app, "BEGIN")
		wantCode(t, app, code, "SELECT oarlock."+call)
		must(t, app, "ROLLBACK")
	}
}

func TestSchedules_ANullIsTheDefault(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	for n := range 3 {
		must(t, b.conn, "SELECT oarlock.put_schedule('nightly', $1, every => '1h')", fmt.Sprint("s", n))
		must(t, b.conn, "SELECT oarlock.trigger_schedule('nightly', 's0', now() - $1 * interval '1 day')", n)
	}
	for call, want := range map[string]int{
		"schedule_list(rows => NULL)":                    3,
		"schedule_list(after => NULL)":                   3,
		"schedule_list(rows => 2)":                       2,
		"schedule_fires('nightly', 's0', rows => NULL)":  3,
		"schedule_fires('nightly', 's0', since => NULL)": 3,
		"schedule_fires('nightly', 's0', rows => 2)":     2,
		"schedule_times('nightly', 's0', n => NULL)":     5,
		"schedule_times('nightly', 's0', n => 2)":        2,
	} {
		if got := get[int](t, b.conn, "SELECT count(*) FROM oarlock."+call); got != want {
			t.Errorf("%s has %d rows, want %d", call, got, want)
		}
	}
}

func TestSchedules_TheLastOneIsNotToCome(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	first := get[time.Time](t, b.conn, "SELECT (timing).start_at FROM oarlock.schedules WHERE schedule_id = $1", b.hourly(t, "s", 10, ""))
	attend(t, b.conn)
	const last = "SELECT concat_ws(' ', last_outcome, round(extract(epoch FROM last_at - $1) / 3600), last_run IS NOT NULL) FROM oarlock.schedule_list()"
	before := get[string](t, b.conn, last, first)
	if !strings.HasPrefix(before, "dropped ") {
		t.Fatalf("the last is %s", before)
	}
	b.runAt(t, "s", first.Add(20*time.Hour), "")
	if got := get[string](t, b.conn, last, first); got != before {
		t.Errorf("with a time to come that was triggered the last is %s, was %s", got, before)
	}
	for hours, want := range map[int][]string{0: {"fired", "dropped"}, 5: {"fired", "dropped"}, 9: {"fired", "dropped"}, 10: {"fired"}, 21: {}} {
		got := b.list(t, "SELECT outcome FROM oarlock.schedule_fires('nightly', 's', since => $1)", first.Add(time.Duration(hours)*time.Hour))
		if !slices.Equal(got, want) {
			t.Errorf("since hour %d: %v, want %v", hours, got, want)
		}
	}
}

// checkHours requires that each hour is recorded once, with its run if it was triggered, and that counts are right.
func (b bundle) checkHours(t *testing.T, what string, id int64, first time.Time, hours int, runs map[int]int64) {
	t.Helper()
	const times = `SELECT concat_ws(' ', n, count(f), max(f.run_id)) FROM generate_series(0, $3::int - 1) n
		LEFT JOIN oarlock.fires f ON f.schedule_id = $1 AND $2::timestamptz + n * interval '1 hour' BETWEEN f.logical_at AND coalesce(f.until, f.logical_at)
		GROUP BY n HAVING count(f) <> 1 OR max(f.run_id) IS DISTINCT FROM ($4::jsonb ->> n::text)::bigint ORDER BY n`
	if wrong := b.list(t, times, id, first, hours, runs); len(wrong) > 0 {
		t.Errorf("%s: hour, records and run: %v; runs are %v", what, wrong[:min(5, len(wrong))], runs)
	}
	const counts = `SELECT concat_ws(' ', f.outcome, f.count, n) FROM (SELECT outcome, count, 1 + round(extract(epoch FROM until - logical_at) / 3600) AS n FROM oarlock.fires WHERE schedule_id = $1) f
		WHERE f.count IS DISTINCT FROM CASE WHEN coalesce(f.n, 1) <= 1000 THEN coalesce(f.n, 1) END`
	if wrong := b.list(t, counts, id); len(wrong) > 0 {
		t.Errorf("%s: wrong counts %v: %s", what, wrong, b.decided(t, id))
	}
}

// A record may stand for several times, of which some are triggered later, or were before.
func TestSchedules_TriggeredTimesLeaveTheOthers(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	for name, test := range map[string]struct {
		settings string
		due      int
		hours    []int // which are triggered
	}{
		"first": {"", 10, []int{0}}, "middle": {"", 10, []int{5}}, "last": {"", 10, []int{9}}, "some": {"", 10, []int{9, 0, 4, 5, 7}}, "two": {"", 2, []int{0, 1}},
		"many": {"", 1500, []int{700}}, "skip": {", catchup => true, overlap_policy => 'skip'", 10, []int{4, 0, 9}},
		"pause": {", catchup => true", 10, []int{4, 0, 9}},
	} {
		for _, before := range []bool{false, true} {
			what := fmt.Sprintf("%s, before they are decided %v", name, before)
			id := b.hourly(t, what, test.due, test.settings)
			first := get[time.Time](t, b.conn, "SELECT (timing).start_at FROM oarlock.schedules WHERE schedule_id = $1", id)
			runs := map[int]int64{}
			trigger := func() {
				for _, hour := range test.hours {
					runs[hour] = b.runAt(t, what, first.Add(time.Duration(hour)*time.Hour), "")
				}
			}
			if name == "skip" && !before { // then the triggered run holds the others back
				must(t, b.conn, "DELETE FROM oarlock.fires WHERE run_id = $1", b.unfinished(t, id))
			}
			if name == "pause" {
				must(t, b.conn, "SELECT oarlock.pause_schedule('nightly', $1)", what)
			}
			if before {
				trigger()
			}
			if name == "pause" {
				must(t, b.conn, "SELECT oarlock.resume_schedule('nightly', $1)", what)
			}
			attend(t, b.conn)
			if !before {
				if got := b.decided(t, id); !strings.HasSuffix(got, fmt.Sprint(" ", test.due)) && test.due < 1000 {
					t.Fatalf("%s: decided %s, want one record", what, got)
				}
				trigger()
			}
			b.checkHours(t, what, id, first, test.due, runs)
		}
	}
}

// A run may be triggered for a moment that is no time of the schedule, or became one by an edit.
func TestSchedules_TriggeredAmongOthersChangeNothingElse(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	first := func(id int64) time.Time {
		return get[time.Time](t, b.conn, "SELECT (timing).start_at FROM oarlock.schedules WHERE schedule_id = $1", id)
	}
	beside := b.hourly(t, "beside", 10, "")
	attend(t, b.conn)
	b.runAt(t, "beside", first(beside).Add(2*time.Hour+15*time.Minute), "")
	run := b.runAt(t, "beside", first(beside).Add(5*time.Hour), "")
	b.checkHours(t, "beside", beside, first(beside), 10, map[int]int64{5: run})

	edited := b.hourly(t, "edited", 10, "")
	attend(t, b.conn)
	must(t, b.conn, "SELECT oarlock.put_schedule('nightly', 'edited', every => '5 hours', start_at => $1)", first(edited))
	b.runAt(t, "edited", first(edited).Add(5*time.Hour), "")
	const wrong = "SELECT concat_ws(' ', outcome, count, until - logical_at, logical_at > now()) FROM oarlock.fires WHERE schedule_id = $1 AND (count < 1 OR until < logical_at OR logical_at > now())"
	if got := b.list(t, wrong, edited); len(got) > 0 {
		t.Errorf("after an edit of the times: %q", got)
	}
	must(t, b.conn, "UPDATE oarlock.schedules SET timing.start_at = (timing).start_at - interval '1 hour', decided_at = decided_at - interval '1 hour' WHERE schedule_id = $1", edited)
	must(t, b.conn, "UPDATE oarlock.fires SET logical_at = logical_at - interval '1 hour', until = until - interval '1 hour' WHERE schedule_id = $1", edited)
	must(t, b.conn, "UPDATE oarlock.agenda SET at = now(), held_from = now() - interval '1 hour' WHERE id = $1", edited)
	attend(t, b.conn)
	if got := get[int](t, b.conn, "SELECT count(*) FROM oarlock.fires WHERE schedule_id = $1 AND logical_at > $2 AND outcome IN ('fired', 'skipped')", edited, first(edited).Add(9*time.Hour)); got != 1 {
		t.Errorf("the next time is decided %d times: %s", got, b.decided(t, edited))
	}
}
