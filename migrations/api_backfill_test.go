package migrations_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/oarlock-dev/oarlock/sql"
)

// past puts a schedule that has decided a number of hours, and returns the first of its times. The last was half an hour ago.
func (b bundle) past(t *testing.T, name string, hours int, more string) time.Time {
	t.Helper()
	must(t, b.conn, fmt.Sprintf(`SELECT oarlock.put_schedule('nightly', $1, every => '1 hour', start_at => now() - $2 * interval '1 hour' + interval '30 minutes'%s)`, more), name, hours)
	return get[time.Time](t, b.conn, "SELECT (timing).start_at FROM oarlock.schedules WHERE name = $1", name)
}

// fill makes a backfill of a number of hours.
func (b bundle) fill(t *testing.T, name string, first time.Time, hours int, more string) int64 {
	t.Helper()
	return get[int64](t, b.conn, fmt.Sprintf("SELECT oarlock.backfill('nightly', $1, $2, $3%s)", more), name, first, first.Add(time.Duration(hours)*time.Hour))
}

// runAt makes a run of a schedule for one of its hours. An empty state leaves the run unfinished.
func (b bundle) runAt(t *testing.T, name string, at time.Time, state string) int64 {
	t.Helper()
	run := get[int64](t, b.conn, "SELECT oarlock.trigger_schedule('nightly', $1, $2)", name, at)
	if state != "" {
		b.claim(t, run)
		b.leave(t, run, state)
	}
	return run
}

// hours returns the times of the runs that a backfill made, as hours after the first time, in the order in which it made them.
func (b bundle) hours(t *testing.T, id int64, first time.Time) string {
	t.Helper()
	return strings.Join(b.list(t, fmt.Sprintf("SELECT round(extract(epoch FROM logical_at - timestamptz '%s') / 3600)::text FROM oarlock.runs WHERE schedule_id = %d ORDER BY run_id",
		first.Format(time.RFC3339Nano), id)), " ")
}

// endOldest ends the oldest run of a schedule that is not over, and attends to that.
func (b bundle) endOldest(t *testing.T, id int64, state string) {
	t.Helper()
	run := get[int64](t, b.conn, "SELECT min(run_id) FROM oarlock.runs WHERE schedule_id = $1 AND finished_at IS NULL", id)
	b.claim(t, run)
	b.leave(t, run, state)
	attend(t, b.conn)
	attend(t, b.conn) // the items that the end woke
}

// wakeAll makes all of the agenda due.
func (b bundle) wakeAll(t *testing.T) {
	t.Helper()
	must(t, b.conn, "UPDATE oarlock.agenda SET at = now() - interval '1 second'")
}

func (b bundle) isOver(t *testing.T, id int64) bool {
	t.Helper()
	return get[bool](t, b.conn, "SELECT ended_at IS NOT NULL AND NOT EXISTS (SELECT FROM oarlock.agenda WHERE kind = 'schedule' AND id = $1) FROM oarlock.schedules WHERE schedule_id = $1", id)
}

func TestBackfill_ReprocessSaysWhichTimesFire(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	for reprocess, want := range map[string]string{
		"missing": "fired, fired, skipped, fired, skipped, skipped, fired",
		"failed":  "skipped, fired, skipped, fired, skipped, skipped, fired",
		"all":     "fired, fired, fired, fired, fired, fired, fired",
	} {
		first := b.past(t, reprocess, 7, "")
		var runs []int64
		for n, state := range []string{"none", "failed", "succeeded", "canceled", "", "failed", "failed"} {
			if state != "none" {
				runs = append(runs, b.runAt(t, reprocess, first.Add(time.Duration(n)*time.Hour), state))
			}
		}
		again := get[int64](t, b.conn, "SELECT oarlock.rerun($1)", runs[4]) // a repeat of the run counts as a run of this time too
		b.claim(t, again)
		b.leave(t, again, "succeeded")
		const would = "SELECT string_agg(CASE outcome WHEN 'fires' THEN 'fired' ELSE outcome END, ', ') FROM oarlock.backfill_times('nightly', $1, $2, $3, reprocess => $1)"
		if got := get[string](t, b.conn, would, reprocess, first, first.Add(7*time.Hour)); got != want {
			t.Errorf("%s would be %s, want %s", reprocess, got, want)
		}
		id := b.fill(t, reprocess, first, 7, fmt.Sprintf(", reprocess => '%s', at_once => 9", reprocess))
		attend(t, b.conn)
		if got := b.decided(t, id); got != want {
			t.Errorf("%s: %s, want %s", reprocess, got, want)
		}
		if reprocess == "missing" {
			want := []string{fmt.Sprintf("run %d succeeded", runs[1]), fmt.Sprintf("run %d is not over", runs[3]), fmt.Sprintf("run %d succeeded", again)}
			got := b.list(t, fmt.Sprintf("SELECT reason FROM oarlock.schedule_fires('nightly', 'missing#%d') WHERE outcome = 'skipped' AND strpos(reason, run::text) > 0 ORDER BY logical_at", id))
			if !slices.Equal(got, want) {
				t.Errorf("reasons are %q, want %q", got, want)
			}
			if got := b.list(t, fmt.Sprintf("SELECT reason FROM oarlock.backfill_times('nightly', 'missing', '%s', now()) WHERE outcome = 'skipped' AND run IS NOT NULL LIMIT 1", first.Format(time.RFC3339Nano))); !strings.HasSuffix(got[0], "is not over") {
				t.Errorf("then the first would be spared because %q", got)
			}
		}
	}
}

func TestBackfill_OverWhatSucceededBreaksNothing(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	first := b.past(t, "s", 3, "")
	b.runAt(t, "s", first, "succeeded")
	b.runAt(t, "s", first.Add(time.Hour), "failed")
	id := b.fill(t, "s", first, 3, ", at_once => 3")
	attend(t, b.conn)
	if got := b.decided(t, id); got != "skipped, fired, fired" {
		t.Fatalf("decided %s", got)
	}
	if broken := b.list(t, "SELECT x::text FROM ("+sql.Named("invariants/s11_fired_amiss")+") x"); len(broken) > 0 {
		t.Errorf("S11: %v", broken)
	}
}

// At most at_once of its runs are unfinished, in the order that was asked for, and the backfill is over when its last run is.
func TestBackfill_FiresInTurn(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, strings.Replace(nightlyDAG, `"steps"`, `"priority": 5, "steps"`, 1))
	for newestFirst, want := range map[bool]string{false: "0 1 2 3 4", true: "4 3 2 1 0"} {
		name := fmt.Sprint("s", newestFirst)
		first := b.past(t, name, 6, `, params => '{"n": 1}', labels => '{"a": "b"}'`)
		id := b.fill(t, name, first, 5, fmt.Sprintf(`, newest_first => %v, at_once => 2, params => '{"n": 2}'`, newestFirst))
		attend(t, b.conn)
		words := strings.Fields(want)
		for n := range 6 {
			if got, want := b.hours(t, id, first), strings.Join(words[:min(n+2, 5)], " "); got != want {
				t.Errorf("newest first %v, %d are over: made are %s, want %s", newestFirst, n, got, want)
			}
			if over := b.isOver(t, id); over != (n == 5) {
				t.Errorf("newest first %v: over is %v when %d of 5 runs are", newestFirst, over, n)
			}
			if n < 5 {
				b.endOldest(t, id, "succeeded")
			}
		}
		const shown = `SELECT concat_ws(' ', r.trigger, r.schedule, r.params, r.labels, l.priority, r.logical_at - r.previous_at)
			FROM oarlock.runs r JOIN oarlock.lanes l USING (lane_id) WHERE r.schedule_id = $1 ORDER BY r.logical_at DESC LIMIT 1`
		if got, want := get[string](t, b.conn, shown, id), "backfill "+name+` {"n": 2} {"a": "b"} -5 01:00:00`; got != want {
			t.Errorf("a run is %s, want %s", got, want)
		}
		if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.schedule_fires('nightly', $1)", fmt.Sprintf("%s#%d", name, id)); n != 5 {
			t.Errorf("%d of its times are shown when it is over", n)
		}
	}
}

func TestBackfill_SaysWhatCameOfItWhenItIsOver(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	first := b.past(t, "s", 3, "")
	b.runAt(t, "s", first, "succeeded")
	id := b.fill(t, "s", first, 3, "")
	attend(t, b.conn)
	b.put(t, strings.Replace(nightlyDAG, `"maximum": 5`, `"required": true`, 1)) // the coming times are refused
	run := get[int64](t, b.conn, "SELECT max(run_id) FROM oarlock.runs WHERE schedule_id = $1", id)
	b.claim(t, run)
	b.leave(t, run, "failed")
	must(t, b.conn, "SELECT oarlock.attend('-infinity', 1)")
	b.wakeAll(t)
	got := get[string](t, b.conn, "SELECT concat_ws(' ', kind, dag, schedule, outcome, message) FROM oarlock.attend('-infinity', 32) WHERE outcome = 'ended'")
	if want := fmt.Sprintf("schedule nightly s#%d ended 1 fired, 1 skipped, 1 refused", id); got != want {
		t.Errorf("said %q, want %q", got, want)
	}
}

func TestBackfill_PausesResumesAndIsCanceled(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	first := b.past(t, "s", 6, ", pause_on_failure => 2")
	must(t, b.conn, "SELECT oarlock.pause_schedule('nightly', 's')") // which does not concern the backfill
	id := b.fill(t, "s", first, 6, "")
	name := fmt.Sprintf("s#%d", id)
	attend(t, b.conn)
	must(t, b.conn, "SELECT oarlock.pause_schedule('nightly', $1)", name)
	b.endOldest(t, id, "succeeded")
	if got := b.hours(t, id, first); got != "0" {
		t.Errorf("paused, it made %s", got)
	}
	for _, catchUp := range []bool{false, true} {
		must(t, b.conn, "SELECT oarlock.pause_schedule('nightly', $1)", name)
		must(t, b.conn, "SELECT oarlock.resume_schedule('nightly', $1, $2)", name, catchUp)
		attend(t, b.conn)
		if got := b.hours(t, id, first); got != "0 1" {
			t.Errorf("resumed with catch_up %v, it made %s", catchUp, got)
		}
	}
	b.endOldest(t, id, "failed")
	b.endOldest(t, id, "failed")
	if got := get[string](t, b.conn, "SELECT concat_ws(' ', paused_by, failures, next_at) FROM oarlock.schedule_list() WHERE id = $1", id); got != "oarlock 2" {
		t.Errorf("after two failures: %q", got)
	}
	must(t, b.conn, "SELECT oarlock.resume_schedule('nightly', $1)", name)
	attend(t, b.conn)
	must(t, b.conn, "SELECT oarlock.drop_schedule('nightly', $1)", name)
	b.endOldest(t, id, "succeeded")
	if got := b.hours(t, id, first); got != "0 1 2 3" || !b.isOver(t, id) {
		t.Errorf("canceled, it made %s, and is over: %v", got, b.isOver(t, id))
	}
	if got := b.list(t, "SELECT name FROM oarlock.schedule_list()"); !slices.Equal(got, []string{"s"}) {
		t.Errorf("left are %v", got)
	}
}

// The schedule fires a time in a transaction that is still open. A backfill up to now cannot see that run.
func TestBackfill_BesideItsScheduleEachTimeFiresOnce(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	live := b.hourly(t, "s", 1, ", catchup => true")
	first := get[time.Time](t, b.conn, "SELECT (timing).start_at FROM oarlock.schedules WHERE schedule_id = $1", live)
	id := b.fill(t, "s", first, 1, "")
	if got := get[string](t, b.conn, "SELECT string_agg(concat_ws(' ', outcome, reason), ', ') FROM oarlock.backfill_times('nightly', 's', $1, now())", first); got != "fires once the schedule has decided it" {
		t.Errorf("it would be: %s", got)
	}
	must(t, b.conn, "UPDATE oarlock.agenda SET at = 'infinity' WHERE id = $1", id)
	tx, err := connect(t, b.db.URL).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	attend(t, tx)
	must(t, b.conn, "UPDATE oarlock.agenda SET at = now(), held_from = NULL WHERE id = $1", id)
	attend(t, b.conn)
	if got := b.decided(t, id); got != "" {
		t.Errorf("beside its schedule it is %s", got)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wakeAll(t)
	attend(t, b.conn)
	if got := b.decided(t, live) + ", " + b.decided(t, id); got != "fired, skipped" {
		t.Errorf("the schedule, then the backfill: %s", got)
	}
}

// So does another backfill of the same times.
func TestBackfill_BesideAnotherEachTimeFiresOnce(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	first := b.past(t, "s", 1, "")
	one, two := b.fill(t, "s", first, 1, ""), b.fill(t, "s", first, 1, "")
	must(t, b.conn, "UPDATE oarlock.agenda SET at = 'infinity' WHERE id = $1", two)
	tx, err := connect(t, b.db.URL).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	attend(t, tx)
	must(t, b.conn, "UPDATE oarlock.agenda SET at = now() WHERE id = $1", two)
	attend(t, b.conn)
	if got := b.decided(t, two); got != "" {
		t.Errorf("beside the first, the second is %s", got)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.wakeAll(t)
	attend(t, b.conn)
	if got := b.decided(t, one) + ", " + b.decided(t, two); got != "fired, skipped" {
		t.Errorf("decided %s", got)
	}
}

// A time that is still to come fires when the schedule itself has decided it.
func TestBackfill_WaitsForWhatIsStillToCome(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	first := b.past(t, "s", 1, "")
	id := b.fill(t, "s", first, 2, ", at_once => 9")
	attend(t, b.conn)
	if got := b.decided(t, id); got != "fired" {
		t.Errorf("before: %s", got)
	}
	b.wakeAll(t)
	attend(t, b.conn)
	must(t, b.conn, "UPDATE oarlock.schedules SET decided_at = $1 WHERE name = 's'", first.Add(time.Hour)) // the schedule has skipped it
	b.wakeAll(t)
	attend(t, b.conn)
	if got := b.decided(t, id); got != "fired, fired" {
		t.Errorf("after: %s", got)
	}
}

// Times that are due while a schedule is paused stay undecided until it is resumed. A backfill may decide them before.
func TestBackfill_FillsAPause(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	first := b.past(t, "s", 3, "")
	must(t, b.conn, "SELECT oarlock.pause_schedule('nightly', 's')")
	must(t, b.conn, "UPDATE oarlock.schedules SET decided_at = $1 WHERE name = 's'", first) // two hours of the pause are over
	id := b.fill(t, "s", first, 4, ", at_once => 9")
	if got := get[string](t, b.conn, "SELECT string_agg(reason, ', ') FROM oarlock.backfill_times('nightly', 's', $1, $2)", first, first.Add(4*time.Hour)); got != ", , , once the schedule has decided it" {
		t.Errorf("said before %s", got)
	}
	attend(t, b.conn)
	if got := b.decided(t, id); got != "fired, fired, fired" { // the fourth is still to come
		t.Errorf("paused: %s", got)
	}
}

func TestBackfill_GoesOnWhenItsScheduleIsEditedAndEndsWithIt(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	first := b.past(t, "s", 6, "")
	id := b.fill(t, "s", first, 6, "")
	attend(t, b.conn)
	must(t, b.conn, `SELECT oarlock.put_schedules('[{"name": "s", "cron": "@yearly", "params": {"n": 4}}]', 'nightly')`)
	b.endOldest(t, id, "succeeded")
	if got := get[string](t, b.conn, "SELECT string_agg(params::text, ' ') FROM oarlock.runs WHERE schedule_id = $1", id); got != "{} {}" {
		t.Errorf("runs after an edit: %s", got)
	}
	must(t, b.conn, "SELECT oarlock.set_dag('nightly', removed => true)")
	b.endOldest(t, id, "succeeded")
	must(t, b.conn, "SELECT oarlock.set_dag('nightly', removed => false)")
	attend(t, b.conn)
	if got := b.hours(t, id, first); got != "0 1 2" {
		t.Errorf("after the DAG was gone for a while: %s", got)
	}
	must(t, b.conn, "SELECT oarlock.drop_schedule('nightly', 's')")
	if !b.isOver(t, id) || get[int](t, b.conn, "SELECT count(*) FROM oarlock.runs WHERE finished_at IS NULL") != 1 {
		t.Error("dropped, it does not leave its run alone")
	}

	file := `{"name": "filed", "steps": [{"id": "a", "run": "true"}], "schedule": [{"name": "x", "every": "1h"}]}`
	b.put(t, file)
	filed := get[int64](t, b.conn, "SELECT oarlock.backfill('filed', 'x', now() - interval '9 hours', now())")
	b.put(t, strings.Replace(file, "1h", "2h", 1))
	if b.isOver(t, filed) {
		t.Error("a file that is applied again ends it")
	}
	b.put(t, strings.Replace(file, "x", "y", 1))
	if !b.isOver(t, filed) {
		t.Error("it goes on when its schedule is gone from the file")
	}
	filed = get[int64](t, b.conn, "SELECT oarlock.backfill('filed', 'y', now() - interval '9 hours', now())")
	must(t, b.conn, "SELECT oarlock.drop_schedule('filed', $1)", fmt.Sprintf("y#%d", filed))
	if !b.isOver(t, filed) || len(b.list(t, "SELECT name FROM oarlock.schedule_list('filed')")) != 1 {
		t.Error("of a file's schedule it cannot be canceled alone")
	}
}

// It waits as long as the queue is full, whereas a live time is refused.
func TestBackfill_WaitsForRoomInTheQueue(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	first := b.past(t, "s", 2, "")
	must(t, b.conn, "SELECT oarlock.set_queue('default', max_queued => 1)")
	id := b.fill(t, "s", first, 2, ", at_once => 2")
	attend(t, b.conn)
	must(t, b.conn, "UPDATE oarlock.agenda SET at = now(), held_from = now() - interval '1 day' WHERE id = $1", id)
	attend(t, b.conn)
	if got := b.decided(t, id); got != "fired" {
		t.Errorf("with a full queue: %s", got)
	}
	must(t, b.conn, "SELECT oarlock.set_queue('default', max_queued => 0)")
	b.wakeAll(t)
	attend(t, b.conn)
	if got := b.decided(t, id); got != "fired, fired" {
		t.Errorf("with room: %s", got)
	}
}

func TestBackfill_BadInputSaysWhatToType(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	b.put(t, nightlyDAG)
	app := b.user(t, "app", "oarlock_submit")
	must(t, b.conn, "SELECT oarlock.put_schedule('nightly', 'theirs', every => '1s')")
	must(t, app, "SELECT oarlock.put_schedule('nightly', 's', every => '10s', end_at => '2027-01-01Z')")
	must(t, app, "SELECT oarlock.put_schedule('nightly', 'rare', cron => '*/10 0 * * *')")
	must(t, app, "SELECT oarlock.put_schedule('nightly', 'newyear', cron => '* * 1 1 *')") // counted as every minute, it would have too many times
	must(t, app, "SELECT oarlock.put_schedule('nightly', 'once', at => '2020-01-01Z')")
	fill := get[int64](t, app, "SELECT oarlock.backfill('nightly', 's', '2026-01-01Z', '2026-01-02Z')")
	for args, code := range map[string]string{
		"'nightly', 's', '2026-01-02Z', '2026-01-01Z'":                                           "OA013",
		"'nightly', 's', '2026-01-01Z', '2026-01-01Z'":                                           "OA013",
		"'nightly', 's', '-infinity', '2026-01-01Z'":                                             "OA013",
		"'nightly', 's', '2026-01-01Z', 'infinity'":                                              "OA013",
		"'nightly', 's', NULL, '2026-01-01Z'":                                                    "OA013",
		"'nightly', 's', '2026-01-01Z', NULL":                                                    "OA013",
		"'nightly', 's', '4000-01-01Z BC', '2026-01-01Z'":                                        "OA013",
		"'nightly', 's', '2026-01-01T00:00:01Z', '2026-01-01T00:00:02Z'":                         "OA013", // no time
		"'nightly', 's', '2027-01-01Z', '2028-01-01Z'":                                           "OA013", // none either
		"'nightly', 's', '2026-01-01Z', '2026-01-02Z', reprocess => 'some'":                      "OA013",
		fmt.Sprintf("'nightly', 's#%d', '2026-01-01Z', '2026-01-02Z'", fill):                     "OA013",
		"'nightly', 's', '2026-01-01Z', timestamptz '2026-01-01Z' + interval '1000001 s'":        "OA012",
		"'nightly', 's', '2026-01-01Z', timestamptz '2026-01-01Z' + interval '1000000 s'":        "",
		"'nightly', 's', '2026-12-31Z', '2099-01-01Z'":                                           "", // the schedule has an end
		"'nightly', 'newyear', '2026-01-01Z', '2026-04-10Z'":                                     "",
		"'nightly', 'rare', '2020-01-01Z', '2023-01-01Z'":                                        "",
		"'nightly', 'once', '2019-01-01Z', '2030-01-01Z'":                                        "",
		"'nightly', 'theirs', '2026-01-01Z', '2026-01-02Z'":                                      "OA016",
		"'nightly', 'none', '2026-01-01Z', '2026-01-02Z'":                                        "OA016",
		"'nightly', 's', '2026-01-01Z', '2026-01-02Z', newest_first => true, reprocess => 'all'": "",
		"'nightly', 's', '2026-01-01Z', '2026-01-02Z', newest_first => NULL, reprocess => NULL":  "",
		"'nightly', 's', '2026-01-01Z', '2026-01-02Z', owner => (SELECT session_user::text)":     "",
		"'nightly', 's', '2026-01-01Z', '2026-01-02Z', owner => 'somebody'":                      "OA016",
	} {
		wantCode(t, app, code, fmt.Sprintf("SELECT oarlock.backfill(%s)", args))
		wantCode(t, app, code, fmt.Sprintf("SELECT oarlock.backfill_times(%s, rows => 1)", args))
	}
	for args, code := range map[string]string{
		"at_once => 0": "OA013", "at_once => 1001": "OA013", "at_once => 1000": "", `params => '{"n": 6}'`: "OA003", `params => '{"m": 1}'`: "OA003", `params => '[]'`: "OA013",
	} {
		wantCode(t, app, code, fmt.Sprintf("SELECT oarlock.backfill('nightly', 's', '2026-01-01Z', '2026-01-02Z', %s)", args))
	}
	for _, rows := range []string{"0", "1001"} {
		wantCode(t, app, "OA013", fmt.Sprintf("SELECT oarlock.backfill_times('nightly', 's', '2026-01-01Z', '2026-01-02Z', rows => %s)", rows))
	}
	wantCode(t, app, "OA013", "SELECT oarlock.put_schedule('nightly', 'x#1', every => '1h')")
	wantCode(t, app, "", "SELECT oarlock.put_schedule('nightly', '#1 x', every => '1h')")
	long := strings.Repeat("x", 100)
	must(t, app, "SELECT oarlock.put_schedule('nightly', $1, every => '1h')", long)
	must(t, app, "SELECT oarlock.backfill('nightly', $1, '2026-01-01Z', '2026-01-02Z')", long)
	if got := b.list(t, "SELECT DISTINCT owner FROM oarlock.schedules WHERE backfill_of IS NOT NULL"); !slices.Equal(got, []string{get[string](t, app, "SELECT session_user")}) {
		t.Errorf("backfills are of %v", got)
	}
}

func TestBackfill_SeveralAttendersDecideEachTimeOnce(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	const times = 300
	first := b.past(t, "s", times, "")
	one := b.fill(t, "s", first, times, ", at_once => 1000")
	two := b.fill(t, "s", first, times, ", at_once => 1000, newest_first => true")
	const left = "SELECT count(*) FROM oarlock.schedules s WHERE s.backfill_of IS NOT NULL AND oarlock.coming_of(s) IS NOT NULL"
	const wait = "SELECT FROM oarlock.schedules WHERE backfill_of IS NULL FOR SHARE" // waits for the session that attends now
	const hurry = "UPDATE oarlock.agenda SET at = now() WHERE id IN (SELECT id FROM oarlock.agenda WHERE at > now() FOR UPDATE SKIP LOCKED)"
	done := make(chan error, 4)
	for range cap(done) {
		conn := connect(t, b.db.URL)
		go func() {
			n, err := 1, error(nil)
			for i := 0; i < 10*times && n > 0 && err == nil; i++ {
				_, err = conn.Exec(t.Context(), "SELECT oarlock.attend('-infinity', 4)")
				if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == "55P03" {
					err = nil // SKIP LOCKED waits where a row was changed since, and is locked again; workers come again, too
				}
				for _, statement := range []string{wait, hurry} {
					if err == nil {
						_, err = conn.Exec(t.Context(), statement)
					}
				}
				if err == nil {
					err = conn.QueryRow(t.Context(), left).Scan(&n)
				}
			}
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.runs WHERE trigger = 'backfill'"); n != times {
		t.Errorf("%d runs, want %d", n, times)
	}
	const decided = "SELECT count(*) FROM oarlock.fires WHERE schedule_id IN ($1, $2) AND outcome = $3"
	for _, outcome := range []string{"fired", "skipped"} {
		if n := get[int](t, b.conn, decided, one, two, outcome); n != times {
			t.Errorf("%d times are %s, want %d", n, outcome, times)
		}
	}
}
