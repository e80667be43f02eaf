package migrations_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// nightlyDAG is a DAG. The tests below put its schedules by SQL.
const nightlyDAG = `{"name": "nightly", "allow": {"schedules": true}, "params": [{"name": "n", "type": "integer", "maximum": 5}], "steps": [{"id": "a", "run": "true"}]}`

// hourly puts a schedule that fires each hour. A number of its times have passed, the last half an hour ago.
func (b bundle) hourly(t *testing.T, name string, due int, more string) int64 {
	t.Helper()
	id := get[int64](t, b.conn, fmt.Sprintf(`SELECT schedule_id FROM oarlock.put_schedule('nightly', $1, every => '1 hour', start_at => now() - $2 * interval '1 hour' + interval '30 minutes'%s)`, more), name, due)
	b.decidedAt(t, id, due)
	return id
}

// decidedAt takes a schedule back to before its start.
func (b bundle) decidedAt(t *testing.T, id int64, hours int) {
	t.Helper()
	must(t, b.conn, "UPDATE oarlock.schedules SET decided_at = now() - $2 * interval '1 hour' WHERE schedule_id = $1", id, hours)
	must(t, b.conn, "SELECT oarlock.arm_schedule(s) FROM oarlock.schedules s WHERE s.schedule_id = $1", id)
}

// attend attends until there is no more to do now.
func attend(t *testing.T, db querier) {
	t.Helper()
	for get[bool](t, db, "SELECT coalesce(bool_or(kind = 'more'), false) FROM oarlock.attend('-infinity', 32)") {
	}
}

// decided returns the outcomes of the times of a schedule, the oldest first, each with the number of times that it stands for.
func (b bundle) decided(t *testing.T, id int64) string {
	t.Helper()
	return strings.Join(b.list(t, fmt.Sprintf(`SELECT outcome || coalesce(' ' || nullif(count, 1), '') FROM oarlock.fires WHERE schedule_id = %d ORDER BY logical_at`, id)), ", ")
}

// unfinished makes a run of a schedule that is not over.
func (b bundle) unfinished(t *testing.T, id int64) int64 {
	t.Helper()
	return get[int64](t, b.conn, `SELECT m.run FROM oarlock.schedules s JOIN oarlock.dags d USING (dag_id), oarlock.make_run(s, d, now() - interval '1000 days', 'manual', '') m WHERE s.schedule_id = $1`, id)
}

// policyModel returns the decisions of a policy about due times, given how many runs may be unfinished and how many are.
func policyModel(policy string, atOnce, busy, due int) (decided []string, held bool) {
	skip := func(n int) {
		switch {
		case n == 1:
			decided = append(decided, "skipped")
		case n > 1:
			decided = append(decided, fmt.Sprint("skipped ", n))
		}
	}
	for due > 0 {
		switch {
		case policy == "allow" || busy < atOnce:
			if policy == "latest" || policy == "cancel" {
				skip(due - 1)
				due = 1
			}
			decided = append(decided, "fired")
			busy++
			due--
		case policy == "skip":
			skip(due)
			due = 0
		default:
			return decided, true
		}
	}
	return decided, false
}

func TestAttend_EveryPolicyAsTheModelSays(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	for _, policy := range []string{"skip", "all", "latest", "cancel", "allow"} {
		for _, due := range []int{0, 1, 3} {
			for _, busy := range []int{0, 1} {
				for _, atOnce := range []int{1, 2} {
					if policy == "allow" && atOnce > 1 { // refused
						continue
					}
					name := fmt.Sprintf("%s, %d due, %d of %d unfinished", policy, due, busy, atOnce)
					id := b.hourly(t, name, due, fmt.Sprintf(", catchup => true, overlap_policy => '%s', at_once => %d", policy, atOnce))
					var blocks int64
					if busy > 0 {
						blocks = b.unfinished(t, id)
						must(t, b.conn, "DELETE FROM oarlock.fires WHERE run_id = $1", blocks)
					}
					attend(t, b.conn)
					want, held := policyModel(policy, atOnce, busy, due)
					if got := b.decided(t, id); got != strings.Join(want, ", ") {
						t.Errorf("%s: %s, want %s", name, got, want)
					}
					if got := get[bool](t, b.conn, "SELECT held_from IS NOT NULL FROM oarlock.agenda WHERE kind = 'schedule' AND id = $1", id); got != held {
						t.Errorf("%s: held back: %v, want %v", name, got, held)
					}
					canceled := get[int](t, b.conn, "SELECT count(*) FROM oarlock.controls WHERE run_id = $1 AND verb = 'cancel'", blocks)
					if want := policy == "cancel" && held; want != (canceled == 1) {
						t.Errorf("%s: %d cancels", name, canceled)
					}
				}
			}
		}
	}
}

func TestAttend_WhatIsHeldBackFiresWhenARunEnds(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	for policy, want := range map[string]string{"all": "fired, fired, fired", "latest": "fired, skipped, fired"} {
		id := b.hourly(t, policy, 1, fmt.Sprintf(", overlap_policy => '%s', catchup => true", policy))
		attend(t, b.conn)
		must(t, b.conn, "UPDATE oarlock.schedules SET timing.start_at = (timing).start_at - interval '2 hours', decided_at = decided_at - interval '2 hours' WHERE schedule_id = $1", id)
		must(t, b.conn, "UPDATE oarlock.fires SET logical_at = logical_at - interval '2 hours' WHERE schedule_id = $1", id)
		must(t, b.conn, "UPDATE oarlock.runs SET logical_at = logical_at - interval '2 hours' WHERE schedule_id = $1", id)
		must(t, b.conn, "SELECT oarlock.arm_schedule(s) FROM oarlock.schedules s WHERE s.schedule_id = $1", id)
		for range 3 {
			attend(t, b.conn)
			attend(t, b.conn)
			run := get[int64](t, b.conn, "SELECT coalesce(max(run_id), 0) FROM oarlock.runs WHERE schedule_id = $1 AND finished_at IS NULL", id)
			if run != 0 {
				b.claim(t, run)
				b.leave(t, run, "succeeded")
			}
		}
		if got := b.decided(t, id); got != want {
			t.Errorf("%s: %s, want %s", policy, got, want)
		}
	}
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.agenda WHERE kind = 'ended'"); n > 2 {
		t.Errorf("%d ends were not attended to", n)
	}
}

func TestAttend_WhatIsTooLateIsDropped(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	for _, test := range []struct {
		every    string
		late     time.Duration // of the newest
		due      int
		settings string
		want     string
	}{
		{"1 hour", 59 * time.Second, 1, "", "fired"},
		{"1 hour", 5 * time.Minute, 1, "", "fired"}, // short beside the hour
		{"1 hour", 11 * time.Minute, 1, "", "dropped"},
		{"10 minutes", 4 * time.Minute, 1, "", "fired"},
		{"10 minutes", 6 * time.Minute, 1, "", "dropped"},
		{"1 hour", 5 * time.Minute, 3, "", "dropped 2, fired"},
		{"1 hour", 11 * time.Minute, 72, "", "dropped 72"}, // three days
		{"1 hour", 11 * time.Minute, 3, ", catchup => true, overlap_policy => 'allow'", "fired, fired, fired"},
		{"1 hour", 11 * time.Minute, 3, ", catchup => true", "fired"}, // the others wait their turn
		{"1 hour", 11 * time.Minute, 4, ", catchup => true, overlap_policy => 'allow', catchup_window => '2 hours'", "dropped 2, fired, fired"},
		{"1 hour", 11 * time.Minute, 4, ", catchup => true, overlap_policy => 'allow', catchup_max => 3", "dropped, fired, fired, fired"},
		{"1 hour", 11 * time.Minute, 1500, ", catchup => true, overlap_policy => 'latest', catchup_max => 1000", "dropped 500, skipped 999, fired"},
	} {
		name := fmt.Sprint(test.every, test.late, test.due, test.settings)
		id := get[int64](t, b.conn, fmt.Sprintf(`SELECT schedule_id FROM oarlock.put_schedule('nightly', $1, every => $2::interval, start_at => now() - $3::interval - $4 * $2::interval%s)`, test.settings),
			name, test.every, test.late, test.due-1)
		must(t, b.conn, "UPDATE oarlock.schedules SET decided_at = (timing).start_at - interval '1 second' WHERE schedule_id = $1", id)
		must(t, b.conn, "SELECT oarlock.arm_schedule(s) FROM oarlock.schedules s WHERE s.schedule_id = $1", id)
		attend(t, b.conn)
		if got := b.decided(t, id); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		if got := get[bool](t, b.conn, "SELECT at > now() FROM oarlock.agenda WHERE kind = 'schedule' AND id = $1", id); !got {
			t.Errorf("%s: still due", name)
		}
		if !get[bool](t, b.conn, "SELECT decided_at = (SELECT max(coalesce(until, logical_at)) FROM oarlock.fires f WHERE f.schedule_id = s.schedule_id) FROM oarlock.schedules s WHERE schedule_id = $1", id) {
			t.Errorf("%s: it does not count from what was decided", name)
		}
	}
}

// Times are not late if a passing error or an overlap held them back.
func TestAttend_WhatWasHeldBackIsNotLate(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	id := b.hourly(t, "held", 1, "") // half an hour late, which is too late by itself
	must(t, b.conn, "UPDATE oarlock.agenda SET held_from = at WHERE kind = 'schedule' AND id = $1", id)
	attend(t, b.conn)
	if got := b.decided(t, id); got != "fired" {
		t.Errorf("%s, want it fired", got)
	}
}

// holdBack makes an unfinished run hold back a number of hours of its schedule, and returns that run.
func (b bundle) holdBack(t *testing.T, id int64) int64 {
	t.Helper()
	run := b.unfinished(t, id)
	must(t, b.conn, "DELETE FROM oarlock.fires WHERE run_id = $1", run)
	must(t, b.conn, "UPDATE oarlock.agenda SET held_from = at WHERE kind = 'schedule' AND id = $1", id) // otherwise the hours would be late
	attend(t, b.conn)
	if got := b.decided(t, id); got != "" || !get[bool](t, b.conn, "SELECT held_from IS NOT NULL AND next_at IS NULL FROM oarlock.schedule_list() WHERE id = $1", id) {
		t.Fatalf("decided %q, or not held back", got)
	}
	return run
}

func TestAttend_WhatIsHeldBackFiresAfterAnEdit(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	id := b.hourly(t, "s", 3, ", overlap_policy => 'all'")
	b.holdBack(t, id)
	must(t, b.conn, `SELECT oarlock.put_schedule('nightly', 's', every => '1 hour', start_at => (s.timing).start_at, overlap_policy => 'all', jitter => '1 minute')
		FROM oarlock.schedules s WHERE schedule_id = $1`, id)
	for range 3 {
		b.endOldest(t, id, "succeeded")
	}
	if got := b.decided(t, id); got != "fired, fired, fired" {
		t.Errorf("with another jitter: %s, want all fired", got)
	}
}

func TestAttend_WhatFailedIsHeldBackAgain(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	id := b.hourly(t, "s", 1, ", overlap_policy => 'all'")
	must(t, b.conn, "UPDATE oarlock.agenda SET errors = 1, error = 'x', held_from = at WHERE kind = 'schedule'")
	b.holdBack(t, id)
	if got := get[string](t, b.conn, "SELECT concat_ws(' ', errors, nullif(error, '')) FROM oarlock.agenda"); got != "0" {
		t.Errorf("put off, it still says %s", got)
	}
	b.endOldest(t, id, "succeeded")
	if got := b.decided(t, id); got != "fired" {
		t.Errorf("when the run has ended: %q, want it fired", got)
	}
}

// A time waits a minute for a full queue. A time that an overlap holds back waits without limit, as before the queue was full.
func TestAttend_WaitsForRoomAsLongAsItsPolicy(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]string{"all": "", "latest": "", "skip": "refused", "allow": "refused"} {
		b := api(t)
		b.put(t, nightlyDAG)
		id := b.hourly(t, "s", 1, fmt.Sprintf(", catchup => true, overlap_policy => '%s'", policy))
		if want == "" {
			run := b.holdBack(t, id)
			b.claim(t, run)
			b.leave(t, run, "succeeded")
		}
		must(t, b.conn, "SELECT oarlock.set_queue('default', max_queued => 1)")
		filler := enqueue(t, b.conn)
		for _, held := range []string{"0 minutes", "10 minutes", "1 day"} {
			if held != "0 minutes" {
				must(t, b.conn, "UPDATE oarlock.agenda SET at = now(), held_from = now() - $1::interval WHERE kind = 'schedule'", held)
			}
			attend(t, b.conn)
			attend(t, b.conn) // the item that the end of the run woke
			if got := b.decided(t, id); held == "0 minutes" && got != "" || held != "0 minutes" && got != want {
				t.Errorf("%s, held back for %s: %q, want %q", policy, held, got, want)
			}
		}
		must(t, b.conn, "SELECT oarlock.cancel($1)", filler)
		b.wakeAll(t)
		attend(t, b.conn)
		if got := b.decided(t, id); want == "" && got != "fired" {
			t.Errorf("%s, with room: %q, want it fired", policy, got)
		}
	}
}

// Times that are due and held back are recorded with the reason when an edit or a pause takes them away.
func TestAttend_WhatIsTakenAwayIsRecorded(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	reasons := func(id int64) string {
		return strings.Join(b.list(t, "SELECT concat_ws(' ', outcome, count, reason) FROM oarlock.fires WHERE schedule_id = $1 ORDER BY logical_at", id), ", ")
	}
	edited := b.hourly(t, "edited", 3, ", overlap_policy => 'all'")
	b.holdBack(t, edited)
	must(t, b.conn, "SELECT oarlock.put_schedule('nightly', 'edited', every => '2 hours', overlap_policy => 'all')")
	if got := reasons(edited); got != "dropped 3 the times were edited" {
		t.Errorf("edited: %s", got)
	}
	attend(t, b.conn)
	if got := reasons(edited); got != "dropped 3 the times were edited" {
		t.Errorf("later: %s", got)
	}

	paused := b.hourly(t, "paused", 3, ", overlap_policy => 'all'")
	b.holdBack(t, paused)
	must(t, b.conn, "SELECT oarlock.pause_schedule('nightly', 'paused')")
	must(t, b.conn, `UPDATE oarlock.schedules SET timing.start_at = (timing).start_at - interval '2 hours', decided_at = decided_at - interval '2 hours',
		paused_at = paused_at - interval '2 hours' WHERE schedule_id = $1`, paused) // two hours ago
	must(t, b.conn, "SELECT oarlock.resume_schedule('nightly', 'paused')")
	by := get[string](t, b.conn, "SELECT session_user")
	if got, want := reasons(paused), "skipped 3 held back when it was paused, skipped 2 paused by "+by; got != want {
		t.Errorf("resumed: %s, want %s", got, want)
	}
}

// endings are all the ways in which runs end.
func (b bundle) endings() map[string]func(t *testing.T, run int64) {
	return map[string]func(*testing.T, int64){
		"flush":  func(t *testing.T, run int64) { t.Helper(); b.claim(t, run); b.leave(t, run, "failed") },
		"cancel": func(t *testing.T, run int64) { t.Helper(); must(t, b.conn, "SELECT oarlock.cancel($1)", run) },
		"fail_run": func(t *testing.T, run int64) {
			t.Helper()
			b.claim(t, run)
			must(t, b.conn, "INSERT INTO oarlock.fences (worker_id, channel) SELECT worker_id, 'commit' FROM oarlock.runs WHERE run_id = $1", run)
			if !get[bool](t, b.conn, "SELECT oarlock.fail_run(run_id, claim_id, epoch, 'why') FROM oarlock.runs WHERE run_id = $1", run) {
				t.Error("not failed")
			}
		},
		"deadline": func(t *testing.T, run int64) {
			t.Helper()
			must(t, b.conn, "UPDATE oarlock.runs SET queue_deadline = now() - interval '1 minute' WHERE run_id = $1", run)
			if get[int](t, b.conn, "SELECT oarlock.expire_queued(10)") != 1 {
				t.Error("not expired")
			}
		},
	}
}

func TestAttend_FollowsEveryEndOnce(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	for name, end := range b.endings() {
		id := b.hourly(t, name, 0, "")
		run := b.unfinished(t, id)
		end(t, run)
		if got := b.list(t, fmt.Sprintf("SELECT concat_ws(' ', kind, n, state) FROM oarlock.agenda WHERE id = %d AND kind = 'ended'", run)); len(got) != 1 || !strings.HasPrefix(got[0], "ended 1 ") {
			t.Errorf("%s: on the agenda is %v", name, got)
		}
		attend(t, b.conn)
		if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.agenda WHERE kind = 'ended'"); n != 0 {
			t.Errorf("%s: %d ends are left", name, n)
		}
		failures := get[int](t, b.conn, "SELECT failures FROM oarlock.schedules WHERE schedule_id = $1", id)
		if want := map[string]int{"cancel": 0}; failures != 1 && name != "cancel" || failures != want[name] && name == "cancel" {
			t.Errorf("%s: %d failures", name, failures)
		}
	}
	plain := enqueue(t, b.conn)
	must(t, b.conn, "SELECT oarlock.cancel($1)", plain)
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.agenda WHERE kind = 'ended'"); n != 0 {
		t.Error("the end of a run without a schedule is on the agenda")
	}
}

func TestAttend_PausesAScheduleWhoseRunsFail(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	id := b.hourly(t, "weak", 0, ", pause_on_failure => 2")
	finish := func(n int, state string) {
		run := get[int64](t, b.conn, `SELECT m.run FROM oarlock.schedules s JOIN oarlock.dags d USING (dag_id), oarlock.make_run(s, d, now() - $2 * interval '1 day', 'manual', '') m WHERE s.schedule_id = $1`, id, n)
		b.claim(t, run)
		b.leave(t, run, state)
		attend(t, b.conn)
	}
	const paused = "SELECT concat_ws(': ', paused_by, pause_note) FROM oarlock.schedules WHERE schedule_id = $1"
	for n, state := range []string{"failed", "succeeded", "failed", "canceled"} {
		finish(n+1, state)
		if got := get[string](t, b.conn, paused, id); got != "" {
			t.Fatalf("after %s: %s", state, got)
		}
	}
	finish(5, "failed")
	if got := get[string](t, b.conn, paused, id); !strings.HasPrefix(got, "oarlock: 2 of its runs failed in a row, the last is run ") {
		t.Errorf("paused: %q", got)
	}
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.agenda"); n != 0 {
		t.Errorf("%d items on the agenda of a paused schedule", n)
	}
	must(t, b.conn, "SELECT oarlock.resume_schedule('nightly', 'weak')")
	finish(6, "failed")
	if got := get[string](t, b.conn, paused, id); got != "" {
		t.Errorf("resumed, it counts anew: %s", got)
	}
}

// One call may attend both to the end that pauses a schedule and to its due times.
func TestAttend_NothingFiresAfterAPause(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	for _, policy := range []string{"allow", "all"} {
		id := b.hourly(t, policy, 2, fmt.Sprintf(", catchup => true, overlap_policy => '%s', pause_on_failure => 1", policy))
		run := b.unfinished(t, id)
		must(t, b.conn, "DELETE FROM oarlock.fires WHERE run_id = $1", run)
		b.claim(t, run)
		b.leave(t, run, "failed")
		must(t, b.conn, "UPDATE oarlock.agenda SET at = now() - interval '1 day' WHERE kind = 'ended'")
		if got := b.list(t, "SELECT concat_ws(' ', kind, outcome) FROM oarlock.attend('-infinity', 32)"); !slices.Equal(got, []string{"ended paused"}) {
			t.Errorf("%s: one call says %q, want the pause alone", policy, got)
		}
		attend(t, b.conn)
		if got := b.decided(t, id); got != "" {
			t.Errorf("%s: %s after the pause", policy, got)
		}
		if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.agenda"); n != 0 {
			t.Errorf("%s: %d items on the agenda", policy, n)
		}
	}
}

// An application may keep its transaction open: no worker waits for it, and times that were due meanwhile fire when it ends.
func TestAttend_PassesByWhatAnApplicationHolds(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	held, other := b.hourly(t, "held", 1, ""), b.hourly(t, "other", 1, ", catchup => true")
	must(t, b.conn, "UPDATE oarlock.schedules SET timing.start_at = now() - interval '10 seconds' WHERE schedule_id = $1", held) // little enough late to fire
	b.decidedAt(t, held, 1)
	app := connect(t, b.db.URL)
	tx, err := app.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	must(t, tx, `SELECT oarlock.put_schedule('nightly', 'held', every => '1 hour', start_at => (SELECT (s.timing).start_at FROM oarlock.schedules s WHERE s.schedule_id = $1), params => '{"n": 2}')`, held)
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.attend('-infinity', 32) WHERE outcome = 'put off'"); n != 0 {
		t.Error("it waited for the application until lock_timeout")
	}
	if got := b.decided(t, held) + b.decided(t, other); got != "fired" {
		t.Errorf("decided %s, want the other fired alone", got)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	must(t, b.conn, "UPDATE oarlock.agenda SET at = now() - interval '1 second' WHERE id = $1 AND kind = 'schedule'", held) // its second has passed
	attend(t, b.conn)
	if got := b.decided(t, held); got != "fired" {
		t.Errorf("then decided %s, want it fired", got)
	}
}

// A transaction that holds a schedule makes no time late, and makes no time fire that was late before.
func TestAttend_WhatWasLateBeforeItWasHeldIsDropped(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	id := b.hourly(t, "s", 3, "")
	tx, err := connect(t, b.db.URL).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	must(t, tx, "SELECT FROM oarlock.schedules FOR NO KEY UPDATE")
	attend(t, b.conn)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := get[bool](t, b.conn, "SELECT held_from IS NOT NULL FROM oarlock.agenda WHERE id = $1", id); !got {
		t.Error("it was not held")
	}
	must(t, b.conn, "UPDATE oarlock.agenda SET at = now() - interval '1 second'")
	attend(t, b.conn)
	if got := b.decided(t, id); got != "dropped 3" {
		t.Errorf("decided %s", got)
	}
}

// While one session attends and has not committed, another attends to the rest without waiting.
func TestAttend_PassesByWhatAnotherDoes(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	for n := range 4 {
		b.hourly(t, fmt.Sprint("s", n), 1, ", catchup => true")
	}
	tx, err := connect(t, b.db.URL).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	must(t, tx, "SELECT oarlock.attend('-infinity', 2)")
	attend(t, b.conn)
	const fired = "SELECT count(*) FROM oarlock.fires WHERE outcome = 'fired'"
	if n := get[int](t, b.conn, fired); n != 2 {
		t.Errorf("%d fired beside the other, want 2", n)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := get[int](t, b.conn, fired); n != 4 {
		t.Errorf("%d fired, want 4", n)
	}
}

func TestAttend_ABadItemCostsItselfOnly(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	bad := b.hourly(t, "bad", 1, ", catchup => true")
	must(t, b.conn, "UPDATE oarlock.schedules SET timing.every_ms = 0 WHERE schedule_id = $1", bad)
	for n := range 40 {
		b.hourly(t, fmt.Sprint("good", n), 1, ", catchup => true")
	}
	attend(t, b.conn)
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.fires WHERE outcome = 'fired'"); n != 40 {
		t.Errorf("%d fired", n)
	}
	if got := b.list(t, fmt.Sprintf("SELECT concat_ws(' ', errors, error <> '', at > now() + interval '30 seconds') FROM oarlock.agenda WHERE id = %d", bad)); !slices.Equal(got, []string{"1 t t"}) {
		t.Errorf("the bad one: %v", got)
	}
	if got := get[int](t, b.conn, "SELECT errors FROM oarlock.schedule_list() WHERE name = 'bad'"); got != 1 {
		t.Errorf("the list says %d errors", got)
	}
}

func TestAttend_SeveralShareWhatIsDue(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	const schedules = 100
	for n := range schedules {
		b.hourly(t, fmt.Sprint("s", n), 1, ", catchup => true")
	}
	conns := []*pgx.Conn{connect(t, b.db.URL), connect(t, b.db.URL), connect(t, b.db.URL)}
	done := make(chan error, len(conns))
	for _, conn := range conns {
		go func() {
			var err error
			for n := 0; n < schedules && err == nil; n++ {
				_, err = conn.Exec(t.Context(), "SELECT oarlock.attend('-infinity', 4)")
			}
			done <- err
		}()
	}
	for range conns {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.runs WHERE trigger = 'schedule'"); n != schedules {
		t.Errorf("%d runs, want %d", n, schedules)
	}
}

func TestAttend_RefusesWhatMayNotRun(t *testing.T) {
	t.Parallel()
	b := apiWithRoles(t)
	b.put(t, nightlyDAG)
	app := b.user(t, "app", "oarlock_submit")
	own := get[int64](t, app, "SELECT schedule_id FROM oarlock.put_schedule('nightly', 'own', every => '1 hour', start_at => now() - interval '30 minutes', catchup => true, overlap_policy => 'skip')")
	try := func(id int64, hours int) string {
		b.decidedAt(t, id, hours)
		must(t, b.conn, "UPDATE oarlock.schedules SET timing.start_at = now() - $2 * interval '1 hour' + interval '30 minutes' WHERE schedule_id = $1", id, hours)
		must(t, b.conn, "DELETE FROM oarlock.fires WHERE schedule_id = $1", id)
		must(t, b.conn, "SELECT oarlock.arm_schedule(s) FROM oarlock.schedules s WHERE s.schedule_id = $1", id)
		attend(t, b.conn)
		return strings.Join(b.list(t, fmt.Sprintf("SELECT concat_ws(': ', outcome, nullif(reason, '')) FROM oarlock.fires WHERE schedule_id = %d", id)), ", ")
	}
	if got := try(own, 1); got != "fired" {
		t.Errorf("may: %s", got)
	}
	if got := get[string](t, b.conn, "SELECT submitted_by FROM oarlock.runs WHERE schedule_id = $1", own); got != get[string](t, app, "SELECT session_user") {
		t.Errorf("the run is %s's", got)
	}
	must(t, b.conn, "SELECT oarlock.cancel(run_id) FROM oarlock.runs WHERE schedule_id = $1", own)
	must(t, b.conn, "UPDATE oarlock.schedules SET owner = 'nobody-at-all' WHERE schedule_id = $1", own)
	if got := try(own, 1); got != "refused: role nobody-at-all may not enqueue runs" {
		t.Errorf("without the right: %s", got)
	}
	b.put(t, `{"name": "nightly", "params": [{"name": "n", "type": "integer", "required": true}], "steps": [{"id": "a", "run": "true"}]}`)
	must(t, b.conn, "UPDATE oarlock.schedules SET owner = session_user WHERE schedule_id = $1", own)
	if got := try(own, 1); got != `refused: param "n": is required` {
		t.Errorf("without a param: %s", got)
	}
	must(t, b.conn, "UPDATE oarlock.schedules SET params = '{\"n\": 1}' WHERE schedule_id = $1", own)
	must(t, b.conn, "SELECT oarlock.set_queue('default', max_queued => 1)")
	must(t, b.conn, "SELECT oarlock.enqueue('nightly', '{\"n\": 1}')")
	if got := try(own, 1); got != "" {
		t.Errorf("a full queue is waited for: %s", got)
	}
	must(t, b.conn, "UPDATE oarlock.agenda SET at = now(), held_from = now() - interval '61 seconds' WHERE id = $1", own)
	attend(t, b.conn)
	if got := b.decided(t, own); got != "refused" {
		t.Errorf("a queue that was full for a minute: %s", got)
	}
	must(t, b.conn, "SELECT oarlock.set_dag('nightly', removed => true)")
	if got := try(own, 1); got != "" {
		t.Errorf("of a removed DAG: %s", got)
	}
	if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.agenda WHERE kind = 'schedule'"); n != 0 {
		t.Errorf("%d schedules of a removed DAG are on the agenda", n)
	}
}

// A schedule that has run for years costs hardly more than a new one: some 30 buffers a fire beside those of its run.
func TestAttend_AFireReadsNoMoreAfterYears(t *testing.T) {
	t.Parallel()
	b := api(t)
	b.put(t, nightlyDAG)
	must(t, b.conn, `SELECT oarlock.put_schedule('nightly', 's' || i, every => '1 hour', catchup => true, overlap_policy => 'allow') FROM generate_series(1, 60) i`)
	// buffers returns the buffers of a fire, on average over 20. The first 20 fires warm up the plans.
	buffers := func() float64 {
		must(t, b.conn, "VACUUM ANALYZE oarlock.schedules, oarlock.agenda, oarlock.fires, oarlock.runs")
		must(t, b.conn, "UPDATE oarlock.schedules SET decided_at = decided_at - interval '1 hour'")
		must(t, b.conn, "UPDATE oarlock.agenda SET at = now()")
		attended := 0.0
		for range 2 {
			plan := get[[]map[string]any](t, b.conn, "EXPLAIN (ANALYZE, BUFFERS, FORMAT json) SELECT kind FROM oarlock.attend('-infinity', 20)")[0]["Plan"].(map[string]any)
			attended = (plan["Shared Hit Blocks"].(float64) + plan["Shared Read Blocks"].(float64)) / 20
		}
		if n := get[int](t, b.conn, "SELECT count(*) FROM oarlock.fires WHERE outcome = 'fired' AND decided_at > now() - interval '1 hour'"); n < 40 {
			t.Fatalf("%d fired", n)
		}
		return attended
	}
	young := buffers()
	must(t, b.conn, `INSERT INTO oarlock.runs (dag_id, version, lane_id, params, labels, run_at, logical_at, trigger, root_id, submitted_by, schedule_id, schedule, state, finished_at)
		SELECT d.dag_id, d.current_version, d.current_lane, '{}', '{}', now(), now() - n * interval '1 hour', 'schedule', 1, 'x', s.schedule_id, s.name, 'succeeded', now()
		  FROM oarlock.schedules s JOIN oarlock.dags d USING (dag_id), generate_series(1000, 1099) n`)
	must(t, b.conn, "INSERT INTO oarlock.fires (schedule_id, logical_at, outcome, run_id) SELECT schedule_id, logical_at, 'fired', run_id FROM oarlock.runs WHERE finished_at IS NOT NULL")
	must(t, b.conn, "UPDATE oarlock.runs SET logical_at = logical_at - interval '20 years' WHERE finished_at IS NULL")
	must(t, b.conn, "DELETE FROM oarlock.fires WHERE logical_at > now() - interval '2 days'")
	if old := buffers(); young > 50 || old > young*1.4 {
		t.Errorf("a fire with its run reads %.1f buffers, after 6,000 of them %.1f; wanted are 50, and hardly more", young, old)
	} else {
		t.Logf("%.1f, %.1f", young, old)
	}
}
